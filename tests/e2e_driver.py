"""A client of raw frames for end-to-end tests: spawns the daemon, sends bytes, reads frames.

    with Daemon() as daemon:
        daemon.initialize()
        answer = daemon.request("daemon/status")
        assert daemon.shutdown() == 0

It is strict where the daemon must be: every byte of stdout has to belong to a frame of the one
envelope that the daemon may send. Each daemon gets folders of its own, removed at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
DAEMON = [sys.executable, "-m", "oncue", "serve", "--stdio"]
"""The real one."""
TEST_DAEMON = [sys.executable, str(TESTS / "testdaemon.py"), "serve", "--stdio"]
"""The real one with `test/…` handlers (tests/testdaemon.py)."""
TIMEOUT = 20.0
"""Generous: it only bounds tests that fail."""


def frame(message: Any) -> bytes:
    """A message (or a body's bytes) as a frame."""
    if not isinstance(message, bytes):
        message = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)


def request(msg_id: Any, method: str, params: Any = ...) -> dict[str, Any]:
    """A request; `params` is left out unless given."""
    message = {"jsonrpc": "2.0", "id": msg_id, "method": method}
    return message if params is ... else {**message, "params": params}


def notification(method: str, params: Any = ...) -> dict[str, Any]:
    """A notification; `params` is left out unless given."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is ... else {**message, "params": params}


class BadFrameError(AssertionError):
    """The daemon wrote something that is no frame of ours."""


class Daemon:
    """A daemon process and the client's ends of its pipes.

    `stdin`, `stdout`, `stderr`: what Popen takes; with the defaults frames are read by a thread
    (`reads=False`: only after `start_reading()`), and stderr is collected in `log`.
    """

    def __init__(
        self,
        command: Iterable[str] = DAEMON,
        *,
        arguments: Iterable[str] = (),
        env: dict[str, str | None] | None = None,
        reads: bool = True,
        stdin: Any = subprocess.PIPE,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        preexec_fn: Callable[[], None] | None = None,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="oncue-test-"))
        self.frames: queue.Queue[dict[str, Any] | Exception | None] = queue.Queue()
        self.raw: list[bytes] = []
        """Bodies as they came."""
        self.stray = b""
        """What stdout ended with after its last whole frame."""
        self.notifications: list[dict[str, Any]] = []
        """Set aside by `response`."""
        self._kept: dict[Any, dict[str, Any]] = {}
        self._log: list[bytes] = []
        self._ids = 0
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=self.environment(env or {}),
            bufsize=0,
            preexec_fn=preexec_fn,
        )
        self._threads: list[threading.Thread] = []
        if stderr is subprocess.PIPE:
            self._start(self._read_stderr)
        self._reading = False
        if reads and stdout is subprocess.PIPE:
            self.start_reading()

    def environment(self, extra: dict[str, str | None]) -> dict[str, str]:
        """This process's environment with folders of its own; None removes a variable."""
        folders = {
            f"ONCUE_{name}_DIR": str(self.home / name.lower())
            for name in ("CONFIG", "DATA", "STATE", "RUNTIME")
        }
        given = {**os.environ, "HOME": str(self.home), **folders, **extra}
        return {name: value for name, value in given.items() if value is not None}

    # Writing

    def write(self, data: bytes) -> None:
        """Send bytes as they are, in one write where the pipe takes them."""
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, *messages: Any) -> None:
        """Send messages, all in one write."""
        self.write(b"".join(map(frame, messages)))

    def close_stdin(self) -> None:
        """End of input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    # Reading

    def receive(self, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The next message, whatever it is."""
        message = self.frames.get(timeout=timeout)
        if message is None:
            raise EOFError(f"stdout ended; log:\n{self.log}")
        if isinstance(message, Exception):
            raise message
        return message

    def response(self, msg_id: Any, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The response to a request; other responses are kept, notifications set aside."""
        key = _key(msg_id)
        while key not in self._kept:
            message = self.receive(timeout)
            if "method" in message:
                self.notifications.append(message)
            else:
                self._kept[_key(message["id"])] = message
        return self._kept.pop(key)

    def rest(self, timeout: float = TIMEOUT) -> list[dict[str, Any]]:
        """Everything up to the end of stdout."""
        found = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(self.receive(timeout))
        return found

    # Conversations

    def request(self, method: str, params: Any = ..., timeout: float = TIMEOUT) -> dict[str, Any]:
        """Send a request and return its response."""
        self._ids += 1
        msg_id = f"driver-{self._ids}"
        self.send(request(msg_id, method, params))
        return self.response(msg_id, timeout)

    def result(self, method: str, params: Any = ..., timeout: float = TIMEOUT) -> Any:
        """The result of a request that must succeed."""
        answer = self.request(method, params, timeout)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, params: Any = ..., timeout: float = TIMEOUT) -> dict[str, Any]:
        """The error of a request that must fail."""
        answer = self.request(method, params, timeout)
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    def notify(self, method: str, params: Any = ...) -> None:
        """Send a notification."""
        self.send(notification(method, params))

    def initialize(self, options: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """`initialize` (`options`: `initializationOptions.oncue`) and `initialized`; the result."""
        if options is not None:
            params["initializationOptions"] = {"oncue": options}
        answer: dict[str, Any] = self.result("initialize", params)
        self.notify("initialized", {})
        return answer

    def shutdown(self) -> int:
        """`shutdown` and `exit`; the exit code."""
        assert self.request("shutdown")["result"] is None
        self.notify("exit")
        return self.wait()

    # The process

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Exit code, once the process has ended."""
        return self.process.wait(timeout)

    @property
    def log(self) -> str:
        """What came on stderr up to now."""
        return b"".join(self._log).decode("utf-8", "replace")

    def log_records(self) -> list[dict[str, Any]]:
        """The log once the process has ended, parsed: every line must be JSON."""
        self.process.wait(TIMEOUT)
        for thread in self._threads:
            thread.join(TIMEOUT)
        return [json.loads(line) for line in self.log.splitlines()]

    def start_reading(self) -> None:
        """Begin to read stdout."""
        if not self._reading:
            self._reading = True
            self._start(self._read_stdout)

    def close(self) -> None:
        """Kill what is left, and remove the folders."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(TIMEOUT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := self.process.stderr.read(65536):
            self._log.append(data)

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        buffer = b""
        try:
            while data := self.process.stdout.read(1 << 20):
                buffer = self._cut(buffer + data)
        except Exception as error:
            self.frames.put(error)
        self.stray = buffer
        self.frames.put(None)

    def _cut(self, buffer: bytes) -> bytes:
        while True:
            head, separator, rest = buffer.partition(b"\r\n\r\n")
            if not separator:
                if not b"Content-Length: ".startswith(buffer[:16]) or len(buffer) > 64:
                    raise BadFrameError(repr(buffer[:200]))
                return buffer
            name, _, digits = head.partition(b" ")
            if name != b"Content-Length:" or not digits.isdigit():
                raise BadFrameError(repr(head[:200]))
            if len(rest) < int(digits):
                return buffer
            body, buffer = rest[: int(digits)], rest[int(digits) :]
            self.raw.append(body)
            message = json.loads(body.decode("utf-8", "strict"))
            extra = set(message) - {"jsonrpc", "id", "method", "params", "result", "error"}
            both = "result" in message and "error" in message
            if message.get("jsonrpc") != "2.0" or extra or both:
                raise BadFrameError(repr(body[:200]))
            self.frames.put(message)


def _key(msg_id: Any) -> tuple[str, Any]:
    """1, 1.0, True and "1" are different ids."""
    return type(msg_id).__name__, msg_id
