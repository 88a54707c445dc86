"""The outbox: frames on their way to a client that may read slowly, or never.

Nothing that produces a frame ever waits. `put` keeps the frame, `flush` writes what the kernel
takes at once, and one task, `drain`, waits for the client when the kernel takes no more. Two
bounds end a connection that does not read: 32 MiB of frames, and 60 s without one byte taken.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable

import trio

MAX_BYTES = 32 << 20
"""A client this far behind is not reading; 100 such clients still fit in memory."""
HIGH_WATER = 1 << 20
"""Above this the connection is congested: requests wait, unexecuted. One full page of results."""
LOW_WATER = 256 << 10
"""Below this they go on: low enough that congestion does not flicker, high enough to keep the
pipe full meanwhile."""
STALL_S = 60.0
"""An editor that does not read for a minute hangs or is gone."""
_JOIN_BYTES = 256 << 10
"""Frames are joined into one write up to this; a longer frame is written as it is, uncopied."""


class Outbox:
    """Bounded queue of frames in front of one non-blocking descriptor.

    `on_drained` is called (from `drain`) when a congested outbox is below `LOW_WATER` again.
    """

    __slots__ = (
        "_blocked",
        "_emptied",
        "_fd",
        "_queue",
        "_waiting",
        "_wake",
        "bytes_written",
        "closed",
        "max_bytes",
        "on_drained",
        "size",
    )

    def __init__(self, fd: int, *, max_bytes: int = MAX_BYTES) -> None:
        self._fd = fd
        self._queue: deque[bytes | memoryview] = deque()
        self._blocked = False
        self._wake = trio.Event()
        self._waiting = trio.CancelScope()
        self._emptied: trio.Event | None = None
        self.on_drained: Callable[[], None] | None = None
        self.max_bytes = max_bytes
        self.size = 0
        """Bytes accepted and not yet taken by the kernel."""
        self.bytes_written = 0
        self.closed: str | None = None
        """Why nothing can be sent any more (`overflow`, `stalled`, `broken`), else None."""

    @property
    def is_blocked(self) -> bool:
        """The kernel took no more at the last write."""
        return self._blocked

    def put(self, frame: bytes) -> None:
        """Accept a whole frame; it is written by the next `flush`. Never waits. After the
        outbox was closed frames are dropped: nobody is there to read them."""
        if self.closed is not None:
            return
        size = self.size + len(frame)
        if size > self.max_bytes:
            self.close("overflow")
            return
        self.size = size
        self._queue.append(frame)

    def flush(self) -> None:
        """Write as much as the kernel takes now. Never waits; while it is blocked, `drain`
        writes."""
        if self._queue and not self._blocked:
            self._write()

    def _write(self) -> None:
        queue = self._queue
        while queue:
            chunk = self._chunk()
            try:
                written = os.write(self._fd, chunk)
            except BlockingIOError:
                written = 0
            except InterruptedError:
                continue
            except OSError as error:
                # EPIPE, ECONNRESET: the reader is gone. EBADF, EIO: so is the descriptor.
                self.close("broken" if error.errno != errno.ENOSPC else "full")
                return
            self.size -= written
            self.bytes_written += written
            if written == len(chunk):
                queue.popleft()
                continue
            queue[0] = memoryview(chunk)[written:] if written else chunk
            self._blocked = True
            self._wake.set()
            return
        if self._emptied is not None:
            self._emptied.set()

    def _chunk(self) -> bytes | memoryview:
        """The next piece to write, small frames joined; it is also left at the queue's head."""
        queue = self._queue
        first = queue[0]
        if len(queue) == 1 or len(first) >= _JOIN_BYTES:
            return first
        if self.size <= _JOIN_BYTES:
            joined = b"".join(queue)
            queue.clear()
        else:
            parts: list[bytes | memoryview] = []
            total = 0
            while queue and (not parts or total + len(queue[0]) <= _JOIN_BYTES):
                total += len(queue[0])
                parts.append(queue.popleft())
            joined = b"".join(parts)
        queue.appendleft(joined)
        return joined

    def close(self, why: str) -> None:
        """Give up: drop what is queued and end `drain`."""
        if self.closed is None:
            self.closed = why
            self._queue.clear()
            self.size = 0
            self._wake.set()
            self._waiting.cancel()
            if self._emptied is not None:
                self._emptied.set()

    async def drain(self) -> str:
        """Write whenever the client has read, until the outbox is closed; returns why.

        Runs as one task a connection. A client that takes no byte for `STALL_S` seconds while
        something is queued closes the outbox.
        """
        while self.closed is None:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._blocked and self.closed is None:
                with trio.move_on_after(STALL_S) as self._waiting:
                    await trio.lowlevel.wait_writable(self._fd)
                if self._waiting.cancelled_caught:
                    self.close("stalled")  # unless it is closed already
                    break
                self._blocked = False
                self._write()
                if self.size <= LOW_WATER and self.on_drained is not None:
                    self.on_drained()
        return self.closed

    async def wait_empty(self, seconds: float) -> bool:
        """Wait, while `drain` runs, until the kernel has taken everything, at most so long; says
        whether it has."""
        with trio.move_on_after(seconds):
            while self._queue and self.closed is None:
                self._emptied = trio.Event()
                await self._emptied.wait()
        return not self._queue and self.closed is None
