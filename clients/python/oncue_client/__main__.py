"""The stdio test client: `python -m oncue_client` sends requests from the command line to a
daemon and prints every frame in both directions."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import trio

from oncue_protocol import MethodNotFound, OncueError

from ._rpc import Rpc
from ._script import ScriptError, Step, contains, fill_in, raw_bytes, step_of_line, steps_of_words
from ._transport import Transport
from .command import daemon_command
from .errors import ClientError

Direction = Literal["send", "receive"]
ARROWS = {"send": "→", "receive": "←"}
NOTIFICATIONS = ["recall/settled", "recall/ended", "memory/didChange", "memory/extractionEnded"]

EPILOG = """
steps, done in order:
  request METHOD [JSON]  send a request, wait for its answer
  send METHOD [JSON]     send a request, go on at once
  notify METHOD [JSON]   send a notification
  cancel N               $/cancelRequest for the Nth request of this run
  wait [N]               wait for the answer to request N (without N: to all)
  expect METHOD [JSON]   wait for a notification that contains JSON
  expect result JSON     the newest answer is a result that contains JSON
  expect error [CODE]    the newest answer is an error (code or name): no failure then
  serve METHOD JSON      from now on answer the daemon's requests METHOD with result JSON
  sleep MS               wait
  raw TEXT               bytes as they are, \\r \\n \\t \\xNN are escapes: broken frames
  -                      read such steps from stdin, one a line; JSON needs no quotes there

A string "$N.member" in JSON stands for that part of request N's result, "$last.member" for the
newest one's. Requests count from 1; initialize and shutdown are not counted.

examples:
  python -m oncue_client request daemon/status
  python -m oncue_client \\
      request session/open '{"workspace": "."}' \\
      request recall/start '{"sessionId": "$1.sessionId", "query": "release?", "waitMs": 100}' \\
      expect result '{"state": "consumed"}'
  python -m oncue_client --json send memory/search '{"query": "x"}' cancel 1 wait 1
  python -m oncue_client --no-lifecycle request daemon/status expect error -32002
  python -m oncue_client --command "oncue serve --stdio" - < steps.txt
  python -m oncue_client --raw --no-lifecycle raw 'Content-Length: x\\r\\n\\r\\n' sleep 200

exit code: 0 all went well; 1 a request failed, or something expected did not come;
2 the command line is wrong; 3 the daemon could not be started, or was lost.
"""


class StepFailed(Exception):  # noqa: N818 - an outcome, not a mistake in the program
    """A step did not do what it should; printed, the run goes on, the exit code is 1."""


class Screen:
    """Prints frames as they pass."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._json: bool = options.json
        self._raw: bool = options.raw
        self._quiet: bool = options.quiet
        self._cut: int = options.cut
        self._pretty: bool = options.pretty
        self._start = trio.current_time()
        self._methods: dict[tuple[str, Any], str] = {}

    def frame(self, direction: Direction, body: bytes | bytearray) -> None:
        """One frame's body, parsed."""
        if self._raw or self._quiet:
            return
        try:
            message = json.loads(body)
        except ValueError:
            message = body.decode("utf-8", "backslashreplace")
        if self._json:
            self._record(direction, frame=message)
        else:
            kind, content = self._describe(direction, message)
            text = json.dumps(
                content, ensure_ascii=False, indent=2 if self._pretty else None, sort_keys=False
            )
            if self._cut and len(text) > self._cut:
                text = f"{text[: self._cut]}… ({len(text)} characters)"
            self._line(f"{ARROWS[direction]} {self._ms():>9.1f} ms  {kind}  {text}")

    def data(self, direction: Direction, data: bytes) -> None:
        """Bytes as they are in the pipe."""
        if not self._raw or self._quiet:
            return
        text = data.decode("utf-8", "backslashreplace")
        if self._json:
            self._record(direction, raw=text)
        else:
            shown = text.replace("\r\n", "\\r\\n\n").replace("\x1b", "\\x1b")
            self._line(f"{ARROWS[direction]} {self._ms():>9.1f} ms  {len(data)} bytes\n{shown}")

    def note(self, text: str) -> None:
        """What is not a frame: to stderr, so that stdout holds frames alone."""
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def _describe(self, direction: Direction, message: Any) -> tuple[str, Any]:
        if not isinstance(message, dict):
            return "not JSON-RPC", message
        other = "receive" if direction == "send" else "send"
        method, request_id = message.get("method"), message.get("id")
        if isinstance(method, str) and "id" in message:
            self._methods[direction, str(request_id)] = method
            return f"request {request_id} {method}", message.get("params")
        if isinstance(method, str):
            return f"notify {method}", message.get("params")
        of = self._methods.get((other, str(request_id)), "?")
        if "error" in message:
            return f"ERROR {request_id} {of}", message["error"]
        return f"result {request_id} {of}", message.get("result")

    def _record(self, direction: Direction, **what: Any) -> None:
        record = {"ms": round(self._ms(), 3), "direction": direction, **what}
        self._line(json.dumps(record, ensure_ascii=False))

    def _ms(self) -> float:
        return (trio.current_time() - self._start) * 1000

    def _line(self, text: str) -> None:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()


class Run:
    """One run of the test client against one daemon."""

    def __init__(self, transport: Transport, screen: Screen, options: argparse.Namespace) -> None:
        self.failures = 0
        self._screen = screen
        self._timeout: float = options.timeout or float("inf")
        self._transport = transport
        self._ids: dict[int, int] = {}
        self._count = 0
        self._results: dict[int, Any] = {}
        self._errors: dict[int, OncueError] = {}
        self._excused: set[int] = set()
        self._newest = 0
        self._waiting: dict[int, trio.Event] = {}
        self._arrived: deque[tuple[str, Any]] = deque(maxlen=10_000)
        self._arrival = trio.Event()
        self._canned: dict[str, Any] = {}
        self.rpc = Rpc(
            transport,
            on_notification=self._notified,
            on_request=self._requested,
            trace=screen.frame,
        )

    async def do(self, step: Step, nursery: trio.Nursery) -> None:
        """Do one step; a `StepFailed` or `ScriptError` is printed and counted."""
        try:
            with self._bounded(step):
                await self._do(step, nursery)
        except (StepFailed, ScriptError) as error:
            self.failures += 1
            self._screen.note(f"✗ {error}")

    def verdict(self) -> int:
        """Failures: of steps, and of requests whose error nobody expected."""
        return self.failures + len(self._errors.keys() - self._excused)

    async def _do(self, step: Step, nursery: trio.Nursery) -> None:
        if step.verb in ("request", "send"):
            self._count += 1
            number, params = self._count, fill_in(step.value, self._results, self._newest)
            self._waiting[number] = trio.Event()
            await nursery.start(self._request, number, step.name, params)
            if step.verb == "request":
                await self._waiting[number].wait()
        elif step.verb == "notify":
            params = fill_in(step.value, self._results, self._newest)
            await self.rpc.notify(step.name, params)
        elif step.verb == "cancel":
            self.rpc.notify_nowait("$/cancelRequest", {"id": self._ids.get(step.number, 0)})
        elif step.verb == "wait":
            for number in [step.number] if step.number else list(self._waiting):
                if number not in self._waiting:
                    raise StepFailed(f"wait {number}: there is no request {number}")
                await self._waiting[number].wait()
        elif step.verb == "sleep":
            await trio.sleep(step.number / 1000)
        elif step.verb == "raw":
            self._transport.put_raw_nowait(raw_bytes(step.name))
        elif step.verb == "serve":
            self._canned[step.name] = step.value
        else:
            await self._expect(step)

    async def _expect(self, step: Step) -> None:
        newest = self._newest
        wanted = fill_in(step.value, self._results, newest)
        if step.name == "result":
            if newest not in self._results:
                raise StepFailed(
                    f"expect result: the newest answer is {self._errors.get(newest)!r}"
                )
            if not contains(self._results[newest], wanted):
                raise StepFailed(
                    f"expect result: {self._results[newest]!r} does not contain {wanted!r}"
                )
        elif step.name == "error":
            error = self._errors.get(newest)
            if error is None:
                raise StepFailed("expect error: the newest answer is a result")
            self._excused.add(newest)
            if step.given and wanted not in (str(error.code), error.name):
                raise StepFailed(f"expect error {wanted}: it is {error.code} {error.name}")
        else:
            while not self._take(step.name, wanted, step.given):
                await self._arrival.wait()

    def _take(self, method: str, wanted: Any, given: bool) -> bool:
        for place, (name, params) in enumerate(self._arrived):
            if name == method and (not given or contains(params, wanted)):
                del self._arrived[place]
                return True
        return False

    async def _request(
        self, number: int, method: str, params: Any, *, task_status: trio.TaskStatus[None]
    ) -> None:
        def sent(request_id: int) -> None:
            self._ids[number] = request_id
            task_status.started()

        try:
            self._results[number] = await self.rpc.request(method, params, sent=sent)
        except OncueError as error:
            self._errors[number] = error
        except ClientError:
            self.failures += 1
            if number not in self._ids:
                task_status.started()
        self._newest = number
        self._waiting[number].set()

    def _notified(self, method: str, params: Any) -> None:
        self._arrived.append((method, params))
        self._arrival.set()
        self._arrival = trio.Event()

    async def _requested(self, method: str, params: Any) -> Any:
        self._notified(method, params)
        if method not in self._canned:
            raise MethodNotFound(f"this test client was not told to serve {method}")
        await trio.lowlevel.checkpoint()
        return self._canned[method]

    @contextmanager
    def _bounded(self, step: Step) -> Iterator[None]:
        seconds = float("inf") if step.verb == "sleep" else self._timeout
        with trio.move_on_after(seconds) as limit:
            yield
        if limit.cancelled_caught:
            raise StepFailed(
                f"{step.verb} {step.name or step.number}: nothing came within {seconds:g} s"
            )


async def lines_of_stdin() -> Any:
    """Lines as they come, so that one can type; ends with the input."""
    while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        yield line


async def main_task(options: argparse.Namespace, steps: Sequence[Step | None]) -> int:
    """Start the daemon, do the steps (None: those on stdin), end it; the exit code."""
    screen = Screen(options)
    command = daemon_command(options.command)
    transport = await Transport.start(
        command,
        cwd=options.cwd,
        stderr=(lambda line: screen.note(f"! {line}")) if options.stderr else "collect",
        tap=screen.data,
    )
    run = Run(transport, screen, options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.run)
        nursery.start_soon(run.rpc.run)
        try:
            if not options.no_lifecycle:
                await _initialize(run.rpc, options)
            for step in steps:
                if step is not None:
                    await run.do(step, nursery)
                    continue
                async for line in lines_of_stdin():
                    try:
                        read = step_of_line(line)
                    except ScriptError as error:
                        run.failures += 1
                        screen.note(f"✗ {error}")
                        continue
                    if read is not None:
                        await run.do(read, nursery)
            lost = transport.lost
            if lost is None and not options.no_lifecycle:
                with trio.move_on_after(options.grace):
                    await run.rpc.request("shutdown")
                run.rpc.notify_nowait("exit")
        finally:
            lost = transport.lost
            with trio.CancelScope(shield=True):
                await transport.close(grace_s=options.grace)
            nursery.cancel_scope.cancel()
    ended = transport.process.returncode
    if options.trace:
        screen.note(f"daemon: exit code {ended}")
    if lost is not None:
        screen.note(f"✗ {lost}")
        return 3
    return 1 if run.verdict() else 0


async def _initialize(rpc: Rpc, options: argparse.Namespace) -> None:
    params = {
        "processId": os.getpid(),
        "clientInfo": {"name": "oncue_client test client"},
        "capabilities": {},
        "initializationOptions": {"oncue": {"notifications": NOTIFICATIONS, **options.options}},
    }
    with trio.fail_after(options.timeout or float("inf")):
        await rpc.request("initialize", params)
    rpc.notify_nowait("initialized", {})


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m oncue_client",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("steps", nargs=argparse.REMAINDER, help="what to do, see below")
    made.add_argument(
        "--command", help="the daemon's command (default: ONCUE_COMMAND, else the oncue here)"
    )
    made.add_argument("--cwd", help="the daemon's working folder")
    made.add_argument(
        "--options", type=json.loads, default={}, help="JSON: initializationOptions.oncue"
    )
    made.add_argument(
        "--no-lifecycle", action="store_true", help="no initialize, no shutdown by itself"
    )
    made.add_argument("--raw", action="store_true", help="show bytes with headers, not frames")
    made.add_argument("--json", action="store_true", help="one JSON object a line, for machines")
    made.add_argument("--pretty", action="store_true", help="indent the frames")
    made.add_argument("--cut", type=int, default=0, metavar="N", help="cut frames at N characters")
    made.add_argument("--quiet", action="store_true", help="print no frames")
    made.add_argument(
        "--trace", action="store_true", help="also the daemon's stderr and its exit code"
    )
    made.add_argument("--stderr", action="store_true", help="also the daemon's stderr")
    made.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="of each step (30; 0: none)"
    )
    made.add_argument(
        "--grace", type=float, default=2.0, metavar="S", help="of each step of the end (2)"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    options.stderr = options.stderr or options.trace
    if not options.steps:
        made.error("nothing to do: give steps, for example: request daemon/status")
    steps: list[Step | None] = []
    try:
        words = list(options.steps)
        while "-" in words:
            place = words.index("-")
            steps += [*steps_of_words(words[:place]), None]
            words = words[place + 1 :]
        steps += steps_of_words(words)
    except ScriptError as error:
        made.error(str(error))
    code = 3
    try:
        code = trio.run(main_task, options, steps)
    except* (ClientError, OncueError, trio.TooSlowError) as group:
        for leaf in _leaves(group):
            text = "no answer to initialize" if isinstance(leaf, trio.TooSlowError) else leaf
            sys.stderr.write(f"✗ {text}\n")
    except* KeyboardInterrupt:
        code = 130
    return code


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


if __name__ == "__main__":
    raise SystemExit(main())
