"""The daemon's process and its three pipes: bytes in and out, stderr, a bounded end.

Reading never depends on writing: frames wait in an outbox that a task of its own empties, so that
a huge frame towards a daemon that is itself writing cannot put both to sleep (bugs.md D25).
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Literal

import trio

from oncue_protocol.framing import Body, FrameReader, FramingError, encode

from .errors import ConnectionLost, DaemonNotStarted

Stderr = Literal["inherit", "collect", "discard"] | Callable[[str], object] | IO[bytes]
"""Where the daemon's stderr goes: our own stderr, the last lines for error messages alone
(default), nowhere, a function called with each line, or an open file."""

Tap = Callable[[Literal["send", "receive"], bytes], object]
"""Sees bytes as they pass, in both directions; must not block."""

HIGH_WATER_BYTES = 1 << 20
"""Senders that may wait do so above this: a client should not buffer a whole transcript."""
STDERR_LINES = 20
"""Kept for error messages: enough for a traceback's end, too few to leak a log."""
STDERR_LINE_CHARACTERS = 4096
"""The daemon's own records are no longer (wire.md §2)."""
LAST_WORDS_S = 1.0
"""After the daemon closed a pipe, so long its exit code and last stderr lines are waited for."""


class Transport:
    """One daemon process. Made by `start`; `run` must run as a task until `close` has ended."""

    def __init__(self, process: trio.Process, *, stderr: Stderr, tap: Tap | None) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the daemon's process needs pipes for stdin and stdout")
        self.process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self.stderr_lines: deque[str] = deque(maxlen=STDERR_LINES)
        self.lost: ConnectionLost | None = None
        """Set once, when nothing more can be sent or received; `lost_event` tells it."""
        self.lost_event = trio.Event()
        self._stderr = stderr
        self._tap = tap
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0
        self._wake_writer = trio.Event()
        self._progress = trio.lowlevel.ParkingLot()
        self._input_closed = False
        self._frames_done = trio.Event()
        self._stderr_done = trio.Event()
        if process.stderr is None:
            self._stderr_done.set()

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Stderr = "collect",
        tap: Tap | None = None,
    ) -> Transport:
        """Run `command` with pipes. `DaemonNotStarted` where the system refuses.

        The daemon gets a process group of its own: Ctrl-C in the terminal is the client's to
        handle, and would otherwise kill the daemon before it can be shut down in order.
        """
        target: int | IO[bytes] | None = subprocess.PIPE
        if stderr == "inherit":
            target = None
        elif stderr == "discard":
            target = subprocess.DEVNULL
        elif not callable(stderr) and not isinstance(stderr, str):
            target = stderr
        try:
            process = await trio.lowlevel.open_process(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=target,
                cwd=cwd,
                env=None if env is None else dict(env),
                process_group=None if os.name == "nt" else 0,
            )
        except OSError as error:
            raise DaemonNotStarted(
                f"cannot start the daemon with {' '.join(command)!r}: {error}; is oncue "
                "installed, and does ONCUE_COMMAND (or `command`) name its program?"
            ) from error
        return cls(process, stderr=stderr, tap=tap)

    # Sending

    def put_nowait(self, body: bytes) -> None:
        """Queue one frame; never waits, drops it silently when the connection is lost."""
        self.put_raw_nowait(encode(body))

    def put_raw_nowait(self, data: bytes) -> None:
        """Queue bytes as they are (the test client sends broken frames on purpose)."""
        if self.lost is not None or self._input_closed:
            return
        self._outbox.append(data)
        self._outbox_bytes += len(data)
        self._wake_writer.set()

    async def wait_room(self) -> None:
        """Wait until the outbox is below its high-water mark, or the connection is lost. In a
        scope that is cancelled already nothing is sent at all."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._outbox_bytes > HIGH_WATER_BYTES and self.lost is None:
            await self._progress.park()

    async def wait_flushed(self) -> None:
        """Wait until everything queued is in the pipe, or the connection is lost."""
        while self._outbox_bytes and self.lost is None:
            await self._progress.park()

    async def close_input(self) -> None:
        """End of file for the daemon, after what is queued."""
        self._input_closed = True
        await self.wait_flushed()
        await self._stdin.aclose()

    # Receiving

    async def read(self, on_frame: Callable[[Body], object]) -> None:
        """Hand over the bodies of the daemon's frames until there are no more; never raises:
        `lost` says why."""
        reader = FrameReader()
        reason = "it closed its output"
        while True:
            try:
                data = bytes(await self._stdout.receive_some())
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
            if not data:
                break
            if self._tap is not None:
                self._tap("receive", data)
            broken = None
            for item in reader.feed(data):
                if isinstance(item, FramingError):
                    broken = item
                    break
                on_frame(item)
            if broken is not None:
                reason = f"it wrote something that is no frame: {broken}"
                break
        self._frames_done.set()
        await self.lose(reason)

    # Life

    async def run(self) -> None:
        """Write, read stderr, watch the process. Cancel it when `close` has ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._read_stderr)

    async def lose(self, reason: str) -> None:
        """Nothing more will come: gather exit code and last words for at most a second or so,
        then set `lost` and wake whoever waits."""
        if self.lost is not None:
            return
        with trio.move_on_after(LAST_WORDS_S):
            await self.process.wait()
            await self._frames_done.wait()  # it may have answered before it ended
            await self._stderr_done.wait()
        if self.lost_event.is_set():
            return  # another task was faster
        if self.process.returncode is not None and reason.startswith("it closed"):
            reason = "its process ended"
        self.lost = ConnectionLost(
            reason, exit_code=self.process.returncode, stderr_lines=tuple(self.stderr_lines)
        )
        self._outbox.clear()
        self._outbox_bytes = 0
        self.lost_event.set()
        self._wake_writer.set()
        self._progress.unpark_all()

    async def close(self, *, grace_s: float) -> None:
        """End the process: end of file, then after `grace_s` SIGTERM, then SIGKILL; at most
        about three times `grace_s`. It is always reaped. Call it shielded."""
        try:
            with trio.move_on_after(grace_s):
                await self.close_input()
                await self.process.wait()
            if self.process.returncode is None:
                self.process.terminate()
                with trio.move_on_after(grace_s):
                    await self.process.wait()
        finally:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.wait()
        with trio.move_on_after(min(grace_s, LAST_WORDS_S)):
            await self._stderr_done.wait()  # a grandchild may hold the pipe: hence the bound
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                await stream.aclose()

    async def _write(self) -> None:
        while True:
            while not self._outbox:
                self._wake_writer = trio.Event()
                await self._wake_writer.wait()
                if self.lost is not None:
                    return
            data = self._outbox.popleft()
            if self._outbox and len(data) < 1 << 16:  # small frames travel together
                parts = [data]
                size = len(data)
                while self._outbox and size < 1 << 16:
                    parts.append(self._outbox.popleft())
                    size += len(parts[-1])
                data = b"".join(parts)
            if self._tap is not None:
                self._tap("send", data)
            try:
                await self._stdin.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await self.lose("it closed its input")
                return
            self._outbox_bytes -= min(len(data), self._outbox_bytes)
            self._progress.unpark_all()  # they look again for themselves

    async def _watch(self) -> None:
        """A grandchild may keep the pipes open after the daemon died: no end of file then."""
        await self.process.wait()
        await self.lose("its process ended")

    async def _read_stderr(self) -> None:
        stream = self.process.stderr
        rest = b""
        try:
            while stream is not None and (data := bytes(await stream.receive_some())):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._stderr_line(line)
                if len(rest) > STDERR_LINE_CHARACTERS * 4:
                    self._stderr_line(rest)
                    rest = b""
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if rest:
                self._stderr_line(rest)
            self._stderr_done.set()

    def _stderr_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")[:STDERR_LINE_CHARACTERS]
        self.stderr_lines.append(text)
        if callable(self._stderr):
            self._stderr(text)
