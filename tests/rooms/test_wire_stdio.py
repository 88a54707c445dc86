"""The reader: its short cut agrees with the frame reader, and it ends where the stream ends."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from oncue.wire import stdio
from oncue.wire.stdio import Reader
from oncue_protocol.framing import FrameReader, FramingError


def reader(fd: int, bodies: list[bytes], max_body: int = 1 << 26, stop: Any = None) -> Reader:
    return Reader(
        fd,
        max_body=max_body,
        on_body=lambda body: bodies.append(bytes(body)),
        on_batch=lambda: None,
        is_over=lambda: stop is not None and stop in bodies,
    )


HEADS = [
    b"Content-Length: %d\r\n\r\n",
    b"Content-Length: %d\r\n\r\n",
    b"content-length:%d\n\n",
    b"\r\n\r\nContent-Length: %d\r\n\r\n",
    b"Content-Type: x\r\nContent-Length: %d\r\n\r\n",
    b"Content-Length: %d \r\n\r\n",
]
pieces = st.one_of(
    st.tuples(st.sampled_from(HEADS), st.binary(max_size=40)).map(
        lambda p: p[0] % len(p[1]) + p[1]
    ),
    st.sampled_from(
        [b"\r\n", b"Content-Length: 5\r\n\r\nab", b"garbage\n", b"Content-Length: 70\r\n\r\n"]
    ),
)


def kinds(items: list[Any]) -> list[Any]:
    return [i.reason if isinstance(i, FramingError) else bytes(i) for i in items]


@given(st.lists(pieces, max_size=12), st.lists(st.integers(1, 60), min_size=1))
def test_D21_the_short_cut_agrees_with_the_frame_reader(
    parts: list[bytes], cuts: list[int]
) -> None:
    stream, plain, quick = b"".join(parts), FrameReader(max_body=64), reader(-1, [], 64)
    expected: list[Any] = []
    found: list[Any] = []
    start = turn = 0
    while start < len(stream):
        end = start + cuts[turn % len(cuts)]
        expected += plain.feed(stream[start:end])
        found += quick._cut(stream[start:end])
        start, turn = end, turn + 1
    assert kinds(found) == kinds(expected)


async def through(data: bytes, **options: Any) -> tuple[list[bytes], FramingError | None]:
    """Read all of `data` from a pipe."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    bodies: list[bytes] = []
    error: list[FramingError | None] = []

    async def run() -> None:
        error.append(await reader(read_end, bodies, **options).run())

    def write() -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(write_end, view) :]
        except BrokenPipeError:
            pass
        os.close(write_end)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, write)
        await run()
        os.close(read_end)
    return bodies, error[0]


def framed(*bodies: bytes) -> bytes:
    return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)


@pytest.mark.parametrize("size", [0, 1, 65_536, 131_071, 131_072, 131_073, 262_144, 3_000_000])
async def test_wire5_bodies_of_every_size_between_small_ones(size: int) -> None:
    bodies = [b"before", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"after"]
    assert await through(framed(*bodies)) == (bodies, None)


@pytest.mark.parametrize("cut", [1, 10, 30, 100_000, 1_000_000, 2_999_999])
async def test_D01_the_stream_may_end_anywhere(cut: int) -> None:
    assert await through(framed(b"x" * 3_000_000)[:cut]) == ([], None)


async def test_wire2_the_cap_holds_for_the_short_cut_too() -> None:
    bodies, error = await through(framed(b"a" * 100, b"b" * 101), max_body=100)
    assert bodies == [b"a" * 100]
    assert error is not None
    assert error.reason == "bodyTooLong"


async def test_wire3_nothing_is_delivered_after_the_end() -> None:
    bodies, _ = await through(framed(b"one", b"exit", b"two"), stop=b"exit")
    assert bodies == [b"one", b"exit"]


async def test_wire5_others_run_while_a_client_sends_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A checkpoint every 8 reads."""
    chunk = framed(b"x" * 100)
    reads: list[int] = []

    def endless(fd: int, size: int) -> bytes:
        reads.append(size)
        return chunk

    monkeypatch.setattr(stdio.os, "read", endless)
    turns: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader(-1, []).run)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
            turns.append(len(reads))
        nursery.cancel_scope.cancel()
    # Twice: trio runs the tasks of one turn in any order.
    steps = [after - before for before, after in itertools.pairwise(turns)]
    assert max(steps) <= 2 * stdio.READS_PER_CHECKPOINT


@pytest.mark.parametrize("number", [5, 9, 104])
async def test_D02_read_errors_are_the_end(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(fd: int, size: int) -> bytes:
        raise OSError(number, "x")

    monkeypatch.setattr(stdio.os, "read", fail)
    assert await reader(-1, []).run() is None


async def test_wire5_a_large_body_ends_with_its_connection() -> None:
    """The thread that fetches it stops by itself."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.write(write_end, b"Content-Length: 1000000\r\n\r\n" + b"x" * 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader(read_end, []).run)
        await trio.testing.wait_all_tasks_blocked(0.05)
        with trio.fail_after(5):
            nursery.cancel_scope.cancel()
    os.close(write_end)  # wakes the thread's poll, which finds that nobody waits
    limiter = stdio._large_body_limiter()
    with trio.fail_after(5):
        while limiter.borrowed_tokens:
            await trio.lowlevel.checkpoint()
    os.close(read_end)
