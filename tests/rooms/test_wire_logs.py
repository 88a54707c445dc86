"""Logging: what may be in a record, and that stderr is never waited for (T10; D02)."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from oncue import logs

CANARY = "canary Zq7/4711"


@pytest.fixture
def lines() -> Iterator[Any]:
    """Configure logging onto a pipe; call to get the records."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    os.set_blocking(read_end, False)
    root = logging.getLogger()
    before = (list(root.handlers), root.level, logs._sink)
    logs.configure("debug", sink=logs.Sink(write_end, nonblocking=True), streams=False)

    def read() -> list[dict[str, Any]]:
        try:
            raw = os.read(read_end, 1 << 20)
        except BlockingIOError:
            return []
        return [orjson.loads(line) for line in raw.splitlines()]

    yield read
    structlog.reset_defaults()
    root.handlers[:], logs._sink = before[0], before[2]
    root.setLevel(before[1])
    os.close(read_end)
    os.close(write_end)


def test_T10_numbers_words_and_ids_are_kept(lines: Any) -> None:
    uuid = "d3b07384-d113-4ec6-8f0b-9e2a2f4a1c11"
    structlog.get_logger().info(
        "recall settled", session=uuid, recall="r12", state="settled", documents=3, ms=1.5, ok=True
    )
    (record,) = lines()
    assert record.pop("t").endswith("Z")
    assert record == {
        "event": "recall settled",
        "level": "info",
        "session": uuid,
        "recall": "r12",
        "state": "settled",
        "documents": 3,
        "ms": 1.5,
        "ok": True,
    }


def test_T10_an_id_chosen_by_a_client_becomes_a_hash(lines: Any) -> None:
    structlog.get_logger().info("x", session=CANARY, path="/home/me/secret plan.md")
    structlog.get_logger().info("x", session=CANARY)
    first, second = lines()
    assert first["session"] == second["session"] == logs.digest(CANARY)
    assert first["session"].startswith("#")
    assert "secret" not in str(first)


def test_T10_a_number_beyond_64_bits_is_no_reason_to_fail(lines: Any) -> None:
    structlog.get_logger().info("x", pid=2**70, low=-(2**70), top=2**63 - 1)
    (record,) = lines()
    assert (record["top"], record["pid"]) == (2**63 - 1, "<a number beyond 64 bits>")


def test_T10_strings_of_other_fields_become_lengths(lines: Any) -> None:
    structlog.get_logger().info("x", query=CANARY, title=CANARY, body=[CANARY], d={CANARY: 1})
    (record,) = lines()
    assert record["query"] == record["title"] == "<15 characters>"
    assert record["body"] == "<list>"
    assert record["d"] == "<dict>"


def test_T10_exceptions_are_class_and_place(lines: Any) -> None:
    log = structlog.get_logger()
    try:
        raise LookupError(CANARY)
    except LookupError as error:
        log.error("failed", exc_info=True)
        log.error("failed", exc_info=error)
        log.exception("failed")
        log.error("failed", error=error)
        log.error("failed", **logs.describe(ExceptionGroup("g", [error])))
    records = lines()
    assert [record["error"] for record in records] == ["LookupError"] * 5
    assert records[0]["at"].startswith("test_wire_logs.py:")
    assert CANARY not in str(records)


def test_T10_other_libraries_records_have_no_text(lines: Any) -> None:
    logging.getLogger("some.library").warning("about %s", CANARY)
    logging.getLogger("pygls.protocol").info("Sending data: %s", CANARY)
    try:
        raise ValueError(CANARY)
    except ValueError:
        logging.getLogger("some.library").exception(CANARY)
    records = lines()
    assert [record["logger"] for record in records] == ["some.library", "some.library"]
    assert records[1]["error"] == "ValueError"
    assert CANARY not in str(records)


def test_T10_prints_and_crashes_are_named_without_their_text(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", logs.Stray("stdout", 1))
    print(CANARY)
    print()
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        logs._crash(type(error), error, error.__traceback__)
    stray, crash = lines()
    assert (stray["stream"], stray["characters"]) == ("stdout", len(CANARY))
    assert crash["error"] == "ValueError"
    assert CANARY not in str((stray, crash))


@given(
    st.dictionaries(
        st.sampled_from([*sorted(logs.WORDS), *sorted(logs.IDS), "query", "text", "count"]),
        st.text(min_size=1) | st.integers() | st.floats() | st.binary() | st.lists(st.text()),
    )
)
def test_T10_redacted_records_hold_scalars_alone(values: dict[str, Any]) -> None:
    for key, value in logs.redact({"event": "x", **values}).items():
        assert isinstance(value, str | int | float | bool | None), key
        if isinstance(values.get(key), str) and " " in values[key]:
            assert values[key] not in str(value) or len(values[key]) < 3


def test_wire2_records_are_at_most_4096_bytes(lines: Any) -> None:
    structlog.get_logger().info("x" * 10_000, **{f"field{i}": i for i in range(1_000)})
    (record,) = lines()
    assert record["cut"] > 4096
    assert record["event"] == "x" * 120


def test_wire2_levels(lines: Any) -> None:
    logs.set_level("warning")
    log = structlog.get_logger()
    log.debug("no")
    log.info("no")
    log.warning("yes")
    assert [record["event"] for record in lines()] == ["yes"]
    with pytest.raises(KeyError):
        logs.set_level("loud")


def test_wire2_full_stderr_drops_counts_and_reports(lines: Any) -> None:
    log = structlog.get_logger()
    for _ in range(3_000):
        log.info("fill the pipe", text="x" * 50)
    dropped = logs.statistics().dropped
    assert dropped > 0
    lines()
    log.info("after")
    report, after = lines()
    assert (report["event"], report["count"]) == ("records dropped", dropped)
    assert after["event"] == "after"
    assert logs.statistics().written + dropped == 3_001


def test_D02_a_dead_stderr_is_given_up_for_good() -> None:
    read_end, write_end = os.pipe()
    sink = logs.Sink(write_end, nonblocking=True)
    os.close(read_end)
    for _ in range(1_000):
        sink.msg(b"{}\n")
    assert (sink.written, sink.dropped, sink.alive) == (0, 1_000, False)
    os.close(write_end)


def test_wire2_a_shared_description_is_asked_first() -> None:
    """Where stderr could not be opened anew, `poll` says whether a write would block."""
    read_end, write_end = os.pipe()
    sink = logs.Sink(write_end, nonblocking=False)
    for _ in range(200):
        sink.msg(b"x" * 1000 + b"\n")
    assert sink.written > 0
    assert sink.dropped > 0
    os.close(read_end)
    os.close(write_end)
