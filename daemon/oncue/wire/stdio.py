"""The reader: one task on one non-blocking descriptor, whatever else runs.

It hands whole bodies to the message layer and never waits for it, so that cancel, shutdown and
exit are seen while the client does not read, threads are stuck or tasks are busy.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import threading
from collections.abc import Callable
from typing import Final

import trio

from oncue_protocol.framing import Body, FrameReader, FramingError

READ_BYTES: Final = 64 << 10
"""What a pipe holds by default."""
READS_PER_CHECKPOINT: Final = 8
"""A client that sends without pause lets other tasks run this often; each checkpoint is 4 µs."""
PIPE_BYTES: Final = 1 << 20
"""A large body is fetched in pieces of this size where the kernel allows. Only while one comes:
the pages of all a user's pipes count against one limit."""
_USUAL: Final = re.compile(rb"Content-Length: ([0-9]{1,6})\r\n\r\n")
_POLL_MS: Final = 200
"""How long a body's thread may go on after its connection has ended."""

_limiter: trio.CapacityLimiter | None = None


def _large_body_limiter() -> trio.CapacityLimiter:
    """Of its own: stuck handler threads must not make the reader deaf."""
    global _limiter
    if _limiter is None:
        _limiter = trio.CapacityLimiter(16)
    return _limiter


class Reader:
    """Reads frames from `fd` until it ends.

    `on_body` gets each body, in order, and must not wait; `on_batch` is called after all bodies
    of one read, so that their answers leave in one write; `is_over` says that nothing further is
    wanted.
    """

    def __init__(
        self,
        fd: int,
        *,
        max_body: int,
        on_body: Callable[[Body], None],
        on_batch: Callable[[], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._fd = fd
        self._frames = FrameReader(max_body=max_body)
        self._max_body = max_body
        self._on_body = on_body
        self._on_batch = on_batch
        self._is_over = is_over

    async def run(self) -> FramingError | None:
        """Return None at the end of the stream (in the middle of a frame or not) or when it is
        over, and the error of a stream that cannot be read any further."""
        fd = self._fd
        reads = 0
        while True:
            try:
                data = os.read(fd, READ_BYTES)
            except BlockingIOError:
                reads = 0
                try:
                    await trio.lowlevel.wait_readable(fd)
                except (OSError, trio.ClosedResourceError):
                    return None
                continue
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return None  # EIO of a terminal that hung up, ECONNRESET: nobody is there
            if not data:
                return None
            error_found = self._deliver(self._cut(data))
            if error_found is not None or self._is_over():
                return error_found
            view = self._frames.get_buffer()
            if view is not None:
                bodies = await self._large_body(view)
                if not bodies:
                    return None
                error_found = self._deliver(bodies)
                if error_found is not None or self._is_over():
                    return error_found
            reads += 1
            if reads >= READS_PER_CHECKPOINT:
                reads = 0
                await trio.lowlevel.checkpoint()

    def _cut(self, data: bytes) -> list[Body | FramingError]:
        """What `FrameReader.feed` returns. Whole frames in the usual form, which nearly all are,
        are cut out of what was read without passing through its buffer: 0.7 µs a message."""
        if self._frames.error is not None or not self._frames.is_idle:
            return self._frames.feed(data)
        items: list[Body | FramingError] = []
        start = 0
        while (head := _USUAL.match(data, start)) is not None:
            body = head.end()
            end = body + int(head[1])
            if end > len(data) or end - body > self._max_body:
                break
            items.append(data[body:end])
            start = end
        if start < len(data):
            items += self._frames.feed(data[start:])
        return items

    def _deliver(self, items: list[Body | FramingError]) -> FramingError | None:
        for item in items:
            if isinstance(item, FramingError):
                self._on_batch()
                return item
            self._on_body(item)
            if self._is_over():
                break
        self._on_batch()
        return None

    async def _large_body(self, view: memoryview) -> list[Body | FramingError]:
        """The rest of a large body, read by one hop to a thread; empty at the end of the stream."""
        stop = threading.Event()
        before = _grow(self._fd)
        try:
            count = await trio.to_thread.run_sync(
                _fill, self._fd, view, stop, abandon_on_cancel=True, limiter=_large_body_limiter()
            )
        finally:
            stop.set()
            _shrink(self._fd, before)
        missing = len(view)
        view.release()
        items = self._frames.received(count)
        return items if count == missing else []


def _fill(fd: int, view: memoryview, stop: threading.Event) -> int:
    """Read until `view` is full, the stream ends, or nobody waits any more (in a thread)."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    filled = 0
    while filled < len(view) and not stop.is_set():
        try:
            count = os.readv(fd, [view[filled:]])
        except BlockingIOError:
            poll.poll(_POLL_MS)
            continue
        except OSError:
            break
        if not count:
            break
        filled += count
    return filled


def _grow(fd: int) -> int:
    """Make a pipe larger; returns its size before, 0 where nothing was done."""
    with contextlib.suppress(OSError, AttributeError):
        before = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
        if before < PIPE_BYTES:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            return before
    return 0


def _shrink(fd: int, before: int) -> None:
    if before:
        # EBUSY while more than that is in it: then it stays large.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, before)
