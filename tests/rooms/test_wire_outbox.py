"""The outbox in front of a real pipe: bounded, ordered, and ended by a client that never reads."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

from oncue.wire import outbox as module
from oncue.wire.outbox import HIGH_WATER, LOW_WATER, Outbox


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    os.set_blocking(read_end, False)
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    yield read_end, write_end
    for fd in (read_end, write_end):
        with contextlib.suppress(OSError):
            os.close(fd)


async def read_all(fd: int, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        await trio.lowlevel.wait_readable(fd)
        got += os.read(fd, 1 << 16)
    return bytes(got)


def test_wire2_put_writes_nothing_before_flush(pipe: tuple[int, int]) -> None:
    box = Outbox(pipe[1])
    box.put(b"one")
    box.put(b"two")
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 10)
    box.flush()
    assert os.read(pipe[0], 10) == b"onetwo"
    assert (box.size, box.bytes_written, box.is_blocked) == (0, 6, False)


def test_wire5_a_batch_is_one_write(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    real = os.write

    def counted(fd: int, data: Any) -> int:
        writes.append(len(data))
        return real(fd, data)

    monkeypatch.setattr(module.os, "write", counted)
    box = Outbox(pipe[1])
    for _ in range(64):
        box.put(b"x" * 40)
    box.flush()
    assert writes == [64 * 40]


async def test_D25_whatever_the_kernel_refuses_is_written_later_in_order(
    pipe: tuple[int, int],
) -> None:
    box = Outbox(pipe[1])
    frames = [bytes([65 + i % 26]) * (1 + (i * 7919) % 30_000) for i in range(200)]
    wanted = b"".join(frames)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        for frame in frames:
            box.put(frame)
            box.flush()
        assert box.is_blocked
        assert box.size == len(wanted) - box.bytes_written
        assert await read_all(pipe[0], len(wanted)) == wanted
        assert await box.wait_empty(1)
        nursery.cancel_scope.cancel()
    assert box.size == 0


def test_wire2_bound(pipe: tuple[int, int]) -> None:
    box = Outbox(pipe[1], max_bytes=100)
    box.put(b"x" * 100)
    assert box.closed is None
    box.put(b"y")
    assert box.closed == "overflow"
    assert box.size == 0
    box.put(b"z")
    box.flush()
    assert box.size == 0


async def test_wire2_no_progress_for_a_minute_closes(
    pipe: tuple[int, int], autojump_clock: trio.testing.MockClock
) -> None:
    box = Outbox(pipe[1])
    box.put(b"x" * 100_000)
    box.flush()
    begun = trio.current_time()
    assert await box.drain() == "stalled"
    assert trio.current_time() - begun == pytest.approx(60, abs=1)


async def test_wire2_progress_however_slow_keeps_it_open(
    pipe: tuple[int, int], mock_clock: trio.testing.MockClock
) -> None:
    box = Outbox(pipe[1])
    box.put(b"x" * 50_000)
    box.flush()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        for _ in range(10):  # 4 KiB in 59 s
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(59)
            os.read(pipe[0], 4096)
            before = box.bytes_written
            while box.bytes_written == before:
                await trio.lowlevel.checkpoint()
        assert box.closed is None
        nursery.cancel_scope.cancel()


async def test_D02_a_reader_that_is_gone_closes(pipe: tuple[int, int]) -> None:
    box = Outbox(pipe[1])
    os.close(pipe[0])
    box.put(b"x")
    box.flush()
    assert box.closed == "broken"
    assert await box.drain() == "broken"


async def test_D25_overflow_wakes_a_drain_that_waits_for_the_client(
    pipe: tuple[int, int],
) -> None:
    box = Outbox(pipe[1], max_bytes=100_000)
    box.put(b"x" * 90_000)
    box.flush()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        await trio.testing.wait_all_tasks_blocked()
        box.put(b"x" * 90_000)
        assert box.closed == "overflow"
        with trio.fail_after(5):
            await trio.testing.wait_all_tasks_blocked()


async def test_D25_on_drained_comes_below_the_low_water(pipe: tuple[int, int]) -> None:
    box = Outbox(pipe[1])
    seen: list[int] = []
    box.on_drained = lambda: seen.append(box.size)
    total = HIGH_WATER + 1
    box.put(b"x" * total)
    box.flush()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        got = len(await read_all(pipe[0], total - LOW_WATER - 20_000))
        assert seen == []
        await read_all(pipe[0], total - got)
        assert await box.wait_empty(1)
        nursery.cancel_scope.cancel()
    assert seen
    assert max(seen) <= LOW_WATER


async def test_wire3_wait_empty_gives_up(
    pipe: tuple[int, int], autojump_clock: trio.testing.MockClock
) -> None:
    box = Outbox(pipe[1])
    box.put(b"x" * 100_000)
    box.flush()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(box.drain)
        assert not await box.wait_empty(0.4)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.EIO])
def test_D02_every_write_error_closes_and_none_escapes(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def fail(fd: int, data: Any) -> int:
        raise OSError(error, "x")

    monkeypatch.setattr(module.os, "write", fail)
    box = Outbox(pipe[1])
    box.put(b"x")
    box.flush()
    assert box.closed == "broken"
