"""A session of any size streams in bounded memory (T1; issue: 20 MB)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.transcript import files
from oncue.transcript.events import Note, Prompt, Reset
from transcript_maker import Claude, big_session, lines, text

PEAK_BYTES = 12 * 1024 * 1024
"""Chunks, one turn's records, and ids: generous against what is seen (about 3 MB at 20 MB)."""


def write(path: Path, pieces: Iterator[bytes]) -> int:
    with path.open("wb") as file:
        return sum(map(file.write, pieces))


def read_through(path: Path) -> tuple[int, int, Note]:
    """Turns, the peak of memory while reading, and the note."""
    turns = 0
    note = Note()
    tracemalloc.start()
    try:
        for event in files.read(path):
            turns += isinstance(event, Prompt)
            note = event if isinstance(event, Note) else note
        return turns, tracemalloc.get_traced_memory()[1], note
    finally:
        tracemalloc.stop()


def test_T1_twenty_megabytes_stream_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    size = write(path, big_session(20))

    turns, peak, note = read_through(path)

    assert size >= 20 * 1024 * 1024
    assert turns > 500
    assert "failed" not in note.skipped
    assert peak < PEAK_BYTES


def test_T8_a_rewind_sends_a_large_session_again_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "rewound.jsonl"
    size = write(path, big_session(10, turns_per_compaction=10**9))
    tail = Claude()
    tail.count = 10**6
    kept = tail.say("last", text("last answer"), parentUuid=None)
    tail.user("one way")
    tail.user("another way", parentUuid=kept["uuid"])
    with path.open("ab") as file:
        file.write(lines(tail.records))

    tracemalloc.start()
    try:
        resets, sent = 0, 0
        for event in files.read(path):
            resets += isinstance(event, Reset)
            sent += resets > 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert size >= 10 * 1024 * 1024
    assert resets == 1
    assert sent > 2_000
    assert peak < PEAK_BYTES


@pytest.mark.slow
def test_T1_two_hundred_megabytes_stream_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    write(path, big_session(200))

    turns, peak, _ = read_through(path)

    assert turns > 5_000
    assert peak < 5 * PEAK_BYTES, "ids: about 200 bytes for each of 210,000 records"
