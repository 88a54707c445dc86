"""The truth table of extraction.md §1: every row, every combination, each with its reason."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from oncue.extraction.policy import Situation, Verdicted, decide
from oncue_protocol import ExtractionCounters, ExtractionThresholds

THRESHOLDS = ExtractionThresholds(
    minimum_message_tokens_to_init=10_000,
    minimum_tokens_between_update=5_000,
    tool_calls_between_updates=3,
)


def situation(
    *,
    initialised: bool = True,
    grown: int = 5_000,
    tool_calls: int = 0,
    pauses: bool = True,
    trigger: Any = "auto",
    **more: Any,
) -> Situation:
    values: dict[str, Any] = {"in_tool_call": False, "unsummarised": True, **more}
    return Situation(
        trigger=trigger,
        counters=ExtractionCounters(
            context_tokens=20_000 + grown,
            tokens_at_last_extraction=20_000,
            tool_calls_since=tool_calls,
            initialised=initialised,
        ),
        thresholds=THRESHOLDS,
        pauses=pauses,
        **values,
    )


ROWS = [
    # initialised, T, C, N → decision, reason: the table of the specification
    (False, None, None, None, "skip", "belowInitThreshold"),
    (True, False, None, None, "skip", "belowUpdateThreshold"),
    (True, True, True, None, "run", "toolCallThreshold"),
    (True, True, False, True, "run", "naturalPause"),
    (True, True, False, False, "skip", "waitingForPause"),
]


@pytest.mark.parametrize(
    ("initialised", "grown", "tool_calls", "pauses"),
    list(itertools.product([False, True], [0, 4_999, 5_000, 50_000], [0, 2, 3, 30], [False, True])),
)
def test_X1_X4_each_row_of_the_table(
    initialised: bool, grown: int, tool_calls: int, pauses: bool
) -> None:
    facts = (initialised, grown >= 5_000, tool_calls >= 3, pauses)
    (verdict, reason) = next(
        (row[4], row[5])
        for row in ROWS
        if all(want in (None, fact) for want, fact in zip(row, facts, strict=False))
    )
    found = decide(
        situation(initialised=initialised, grown=grown, tool_calls=tool_calls, pauses=pauses)
    )
    assert (found.verdict, found.reason) == (verdict, reason)


def test_X2_tool_calls_alone_never_trigger() -> None:
    assert decide(situation(grown=4_999, tool_calls=1_000)).reason == "belowUpdateThreshold"


@pytest.mark.parametrize(("tool_calls", "reason"), [(3, "toolCallThreshold"), (0, "naturalPause")])
def test_X5_a_positive_decision_in_a_tool_call_is_armed(tool_calls: int, reason: Any) -> None:
    found = decide(situation(tool_calls=tool_calls, in_tool_call=True))
    assert found == Verdicted("arm", reason)


def test_X5_a_negative_decision_stays_negative_in_a_tool_call() -> None:
    assert decide(situation(grown=0, in_tool_call=True)).verdict == "skip"
    assert decide(situation(pauses=False, in_tool_call=True)).reason == "waitingForPause"


@pytest.mark.parametrize("trigger", ["manual", "compaction", "close"])
@pytest.mark.parametrize("initialised", [False, True])
@pytest.mark.parametrize("pauses", [False, True])
@pytest.mark.parametrize("backing_off", [False, True])
def test_X6_other_triggers_ignore_the_thresholds_not_the_tool_call(
    trigger: str, initialised: bool, pauses: bool, backing_off: bool
) -> None:
    facts: dict[str, Any] = {
        "initialised": initialised,
        "grown": 0,
        "pauses": pauses,
        "backing_off": backing_off,
        "trigger": trigger,
    }
    assert decide(situation(**facts)) == Verdicted("run", trigger)  # type: ignore[arg-type]
    assert decide(situation(**facts, in_tool_call=True)) == Verdicted("arm", trigger)  # type: ignore[arg-type]
    nothing = decide(situation(**facts, unsummarised=False))
    assert nothing == Verdicted("skip", "nothingNew")


def test_X6_automatic_runs_need_something_new_too() -> None:
    assert decide(situation(unsummarised=False)) == Verdicted("skip", "nothingNew")


def test_D68_automatic_runs_back_off() -> None:
    assert decide(situation(backing_off=True)) == Verdicted("skip", "backingOff")
    # A reason that would have kept it anyway is the better reason.
    assert decide(situation(backing_off=True, grown=0)).reason == "belowUpdateThreshold"


@pytest.mark.parametrize("trigger", ["auto", "manual", "compaction", "close"])
def test_X27_private_and_disabled_sessions_never_run(trigger: str) -> None:
    assert decide(situation(trigger=trigger, enabled=False)) == Verdicted("skip", "disabled")
    assert decide(situation(trigger=trigger, private=True)) == Verdicted("skip", "private")
    both = decide(situation(trigger=trigger, private=True, enabled=False, in_tool_call=True))
    assert both == Verdicted("skip", "private")
