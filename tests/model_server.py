"""A model endpoint on 127.0.0.1 that speaks both HTTP APIs and misbehaves on request (F12).

In a trio test:

    async with model_server([Play(text="hi"), Play(status=429)]) as server:
        server.url, server.requests

As a process, for tests that start real daemons (stops when its stdin ends):

    with ModelProcess([Play(text="hi")]) as server:
        server.url, server.requests()

A script is a list of plays, the last of which repeats, or a function of the request. With none, it
chooses the first memory, and edits the notes once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import h11
import trio
from attrs import asdict, define, field, frozen


@frozen
class Play:
    """How one request is answered."""

    text: str | None = None
    calls: Sequence[tuple[str, Any]] = ()
    """Tool calls: name and arguments."""
    status: int = 200
    headers: Sequence[tuple[str, str]] = ()
    content_type: str = "application/json"
    body: str | None = None
    """Sent as it is in place of an answer of the API."""
    repeat: int = 1
    """Times that the body is sent: for answers of many megabytes."""
    latency_s: float = 0.0
    drip_s: float = 0.0
    """Seconds between two bytes of the body."""
    cut_at: int | None = None
    """The connection ends after so many bytes of the whole response; 0: before any."""
    reset: bool = False
    """A cut ends it with RST rather than FIN."""
    never: bool = False
    """No byte is ever sent."""
    echo_headers: bool = False
    """The body repeats the request's headers, as proxies' error pages do."""


@frozen
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any
    """Parsed JSON."""

    @property
    def is_anthropic(self) -> bool:
        return self.path.split("?")[0].endswith("/messages")


Script = Sequence[Play] | Callable[[Asked], Play]


def obliging(asked: Asked) -> Play:
    """Chooses the first memory; edits Now, then ends."""
    if "tools" not in asked.body:
        return Play(text='{"ids": ["m1"]}')
    if "tool_result" in json.dumps(asked.body) or any(
        message["role"] == "tool" for message in asked.body["messages"]
    ):
        return Play(text="Done.")
    return Play(calls=[("edit", {"section": "Now", "newText": "The model server was here."})])


@define(eq=False)
class ModelServer:
    """A running server."""

    script: Script
    url: str = ""
    requests: list[Asked] = field(factory=list)
    connections: int = 0
    given_up: int = 0
    """Connections that the client closed before its answer was there."""
    left: trio.Event = field(factory=trio.Event)
    """Set when the first of them was."""

    def base_url(self, kind: str) -> str:
        """What a user would write into `model.baseUrl`."""
        return self.url if kind == "anthropic" else f"{self.url}/v1"

    def next_play(self, asked: Asked) -> Play:
        self.requests.append(asked)
        if callable(self.script):
            return self.script(asked)
        return self.script[min(len(self.requests), len(self.script)) - 1]

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        self.connections += 1
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            async with stream:
                connection = h11.Connection(h11.SERVER)
                while await self._one(stream, connection):
                    connection.start_next_cycle()

    async def _one(self, stream: trio.SocketStream, connection: h11.Connection) -> bool:
        asked = await _read(stream, connection)
        if asked is None:
            return False
        play = self.next_play(asked)
        if play.latency_s:
            await trio.sleep(play.latency_s)
        if play.never:
            while await stream.receive_some():
                pass
            self._gone()
            return False
        if play.body is None:
            body = answer(asked, play)
        else:
            body = play.body.encode("utf-8", "surrogateescape")
        if play.echo_headers:
            body += json.dumps(asked.headers).encode()
        head = connection.send(
            h11.Response(
                status_code=play.status,
                headers=[
                    ("content-type", play.content_type),
                    ("content-length", str(len(body) * play.repeat)),
                    *play.headers,
                ],
            )
        )
        assert head is not None
        if play.cut_at is not None:
            await stream.send_all((head + body)[: play.cut_at])
            if play.reset:
                stream.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SOL_SOCKET, SO_LINGER: RST
            return False
        try:
            await stream.send_all(head)
            for _ in range(play.repeat):
                if play.drip_s:
                    for byte in body:
                        await trio.sleep(play.drip_s)
                        await stream.send_all(bytes([byte]))
                else:
                    await stream.send_all(body)
                connection.send(h11.Data(body))
        except trio.BrokenResourceError:
            self._gone()
            raise
        connection.send(h11.EndOfMessage())
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    def _gone(self) -> None:
        self.given_up += 1
        self.left.set()


async def _read(stream: trio.SocketStream, connection: h11.Connection) -> Asked | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(65_536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            return Asked(head.target.decode(), headers, json.loads(bytes(body) or b"null"))
        else:
            return None


def answer(asked: Asked, play: Play) -> bytes:
    """What the API that was asked would say."""
    if play.status >= 400:
        return json.dumps({"error": {"type": "server_error", "message": "no"}}).encode()
    if asked.is_anthropic:
        content: list[dict[str, Any]] = []
        if play.text is not None:
            content.append({"type": "text", "text": play.text})
        content += [
            {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
            for number, (name, given) in enumerate(play.calls)
        ]
        return json.dumps(
            {
                "type": "message",
                "role": "assistant",
                "content": content,
                "stop_reason": "tool_use" if play.calls else "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
            }
        ).encode()
    message: dict[str, Any] = {"role": "assistant", "content": play.text}
    if play.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for number, (name, given) in enumerate(play.calls)
        ]
    return json.dumps(
        {
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": 13,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 3},
            },
        }
    ).encode()


@asynccontextmanager
async def model_server(script: Script = obliging) -> AsyncIterator[ModelServer]:
    """A server on a port of its own, for as long as the block lasts."""
    server = ModelServer(script)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


class ModelProcess:
    """The server as a process of its own, for blocking tests."""

    def __init__(self, script: Sequence[Play] | None = None) -> None:
        self._log = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115
        plays = None if script is None else [asdict(play) for play in script]
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._log.name, json.dumps(plays)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()

    def base_url(self, kind: str) -> str:
        """What a user would write into `model.baseUrl`."""
        return self.url if kind == "anthropic" else f"{self.url}/v1"

    def requests(self) -> list[Asked]:
        """What was asked so far."""
        lines = Path(self._log.name).read_text(encoding="utf-8").splitlines()
        return [Asked(**json.loads(line)) for line in lines]

    def close(self) -> None:
        """Stop it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)
        self._log.close()

    def __enter__(self) -> ModelProcess:
        return self

    def __exit__(
        self,
        cls: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


async def _main(log: str, plays: list[dict[str, Any]] | None) -> None:
    script: Script = obliging if plays is None else [Play(**play) for play in plays]
    with Path(log).open("a", encoding="utf-8") as file:

        def recorded(asked: Asked) -> Play:
            file.write(json.dumps(asdict(asked)) + "\n")
            file.flush()
            if callable(script):
                return script(asked)
            return script[min(len(server.requests), len(script)) - 1]

        async with model_server(recorded) as server:
            print(server.url, flush=True)
            while await trio.to_thread.run_sync(sys.stdin.buffer.read, 1):
                pass


if __name__ == "__main__":
    trio.run(_main, sys.argv[1], json.loads(sys.argv[2]))
