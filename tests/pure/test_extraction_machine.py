"""States of extraction: every move in every state (X5, X11-X15, X18, D68)."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from oncue.extraction.events import CancelRun, RunEnded, RunStarted, StartRun
from oncue.extraction.machine import (
    BACK_OFF_S,
    MAX_BACK_OFF_S,
    REMEMBERED,
    RUN_DEADLINE_S,
    TRANSITIONS,
    Machine,
    Move,
)
from oncue.extraction.policy import Verdicted
from oncue_protocol.extraction import ExtractionState

RUN: Any = Verdicted("run", "naturalPause")
ARM: Any = Verdicted("arm", "toolCallThreshold")
SKIP: Any = Verdicted("skip", "nothingNew")


def ended(run_id: str, outcome: Any = "settled", reason: str | None = None) -> RunEnded:
    return RunEnded(run_id, outcome, reason, 0)


def machine(state: ExtractionState) -> Machine:
    made = Machine()
    if state == "armed":
        made.request("auto", ARM, new_id="x", now=10.0)
    elif state == "running":
        made.request("auto", RUN, new_id="x", now=10.0)
    assert made.state == state
    return made


def test_every_move_of_the_table_and_no_other() -> None:
    moves = get_args(Move)
    for state in get_args(ExtractionState):
        for move in moves:
            made = machine(state)
            moved = made._move(move)
            assert moved == (move in TRANSITIONS[state])
            assert made.state == (TRANSITIONS[state][move] if moved else state)


def test_X11_a_positive_decision_starts_one_run() -> None:
    made = Machine()
    answer, out = made.request("auto", RUN, new_id="x1", now=10.0)
    assert (answer.decision, answer.reason, answer.run_id) == ("started", "naturalPause", "x1")
    assert out == [
        RunStarted("x1", "auto", "naturalPause"),
        StartRun("x1", "auto", "naturalPause", 10.0 + RUN_DEADLINE_S),
    ]
    assert (made.state, made.run_id) == ("running", "x1")


@pytest.mark.parametrize("state", ["idle", "armed", "running"])
def test_a_negative_decision_changes_nothing(state: Any) -> None:
    made = machine(state)
    answer, out = made.request("manual", SKIP, new_id="y", now=11.0)
    assert (answer.decision, answer.reason, answer.run_id, out) == (
        "skipped",
        "nothingNew",
        None,
        [],
    )
    assert made.state == state


def test_X5_armed_becomes_a_run_at_the_safe_point_under_its_id() -> None:
    made = Machine()
    answer, out = made.request("auto", ARM, new_id="x1", now=10.0)
    assert (answer.decision, answer.run_id, out) == ("armed", "x1", [])
    again, out = made.request("manual", Verdicted("arm", "manual"), new_id="x2", now=11.0)
    assert (again.decision, again.run_id, out) == ("armed", "x1", [])
    out = made.safe_point(12.0)
    assert out == [
        RunStarted("x1", "manual", "manual"),
        StartRun("x1", "manual", "manual", 12.0 + RUN_DEADLINE_S),
    ]
    assert made.safe_point(13.0) == []


def test_X5_a_request_at_a_safe_point_starts_what_is_armed() -> None:
    made = machine("armed")
    answer, out = made.request("compaction", Verdicted("run", "compaction"), new_id="y", now=11.0)
    assert (answer.decision, answer.run_id) == ("started", "x")
    assert [type(one) for one in out] == [RunStarted, StartRun]


@pytest.mark.parametrize("verdict", [RUN, ARM])
def test_X11_a_request_during_a_run_joins_it_and_asks_for_one_trailing_look(verdict: Any) -> None:
    made = machine("running")
    for trigger in ("auto", "manual", "auto"):
        answer, out = made.request(trigger, verdict, new_id="y", now=11.0)
        assert (answer.decision, answer.run_id, out) == ("joined", "x", [])
    trailing, out = made.ended(ended("x"), 12.0)
    assert trailing == "manual"
    assert [type(one) for one in out] == [RunEnded]
    assert made.state == "idle"
    # One trailing run at most: it has joined nothing yet.
    made.request("auto", RUN, new_id="y", now=12.0)
    assert made.ended(ended("y"), 13.0)[0] is None


def test_X11_a_run_that_nobody_joined_has_no_trailing_look() -> None:
    assert machine("running").ended(ended("x"), 12.0)[0] is None


def test_D68_a_failed_run_is_followed_by_an_automatic_look_only() -> None:
    made = machine("running")
    made.request("manual", RUN, new_id="y", now=11.0)
    assert made.ended(ended("x", "failed", "503"), 12.0)[0] == "auto"
    assert made.backing_off(12.0)


@pytest.mark.parametrize("outcome", ["settled", "failed", "stale"])
def test_X18_exactly_one_end_and_late_reports_are_dropped(outcome: Any) -> None:
    made = machine("running")
    _, out = made.ended(ended("x", outcome, "why"), 11.5)
    assert out == [RunEnded("x", outcome, "why", 1_500)]
    assert made.ended(ended("x", outcome), 12.0) == (None, [])
    assert made.ended(ended("stranger"), 12.0) == (None, [])
    assert made.last_outcome == outcome
    assert made.outcome("x") == outcome
    seen = made.statistics()
    assert (seen.started, seen.ended, seen.late) == (1, 1, 2)


def test_X14_cancelling_a_run_ends_it_at_once() -> None:
    made = machine("running")
    assert made.cancel("other", "reset", 11.0) == (False, [])
    assert made.cancel(None, "reset", 11.0) == (
        True,
        [CancelRun("x"), RunEnded("x", "cancelled", "reset", 1_000)],
    )
    assert made.state == "idle"
    assert made.ended(ended("x"), 12.0) == (None, [])
    assert made.cancel(None, "reset", 13.0) == (False, [])
    answer, _ = made.request("auto", RUN, new_id="y", now=14.0)
    assert answer.decision == "started"


def test_X18_what_was_only_armed_has_no_end_to_tell() -> None:
    made = machine("armed")
    assert made.cancel("x", "client", 11.0) == (True, [])
    assert made.state == "idle"
    assert made.safe_point(12.0) == []
    assert made.outcome("x") == "cancelled"


def test_X13_stale_is_counted_from_the_start() -> None:
    assert machine("idle").stale_at(60.0) is None
    assert machine("armed").stale_at(60.0) is None
    assert machine("running").stale_at(60.0) == 70.0


def test_D68_back_off_doubles_to_its_cap_and_ends_with_a_success() -> None:
    made = Machine()
    now, pauses = 0.0, []
    for number in range(12):
        made.request("manual", RUN, new_id=f"x{number}", now=now)
        made.ended(ended(f"x{number}", "failed"), now)
        pause = next(p for p in range(1, 2_000) if not made.backing_off(now + p))
        pauses.append(pause)
        now += pause
    assert pauses[:4] == [BACK_OFF_S, 2 * BACK_OFF_S, 4 * BACK_OFF_S, 8 * BACK_OFF_S]
    assert pauses[-1] == MAX_BACK_OFF_S
    made.request("manual", RUN, new_id="last", now=now)
    made.ended(ended("last", "settled"), now)
    assert not made.backing_off(now)


@pytest.mark.parametrize("outcome", ["stale", "cancelled"])
def test_D68_a_run_that_was_taken_from_us_is_no_failure(outcome: Any) -> None:
    made = machine("running")
    made.ended(ended("x", outcome), 11.0)
    assert not made.backing_off(11.0)


def test_outcomes_are_remembered_within_bounds() -> None:
    made = Machine()
    for number in range(REMEMBERED + 5):
        made.request("manual", RUN, new_id=f"x{number}", now=0.0)
        made.ended(ended(f"x{number}"), 0.0)
    assert made.outcome("x0") is None
    assert made.outcome("x5") == "settled"
