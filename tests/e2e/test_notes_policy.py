"""When notes are written: thresholds, pauses, open tool calls, triggers (X1-X11, X18)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e_notes import (
    MODEL,
    NOTHING,
    OPTIONS,
    SECTIONS,
    assistant,
    edit,
    noted,
    tool,
    user,
)
from e2e_talk import Talk


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    """A daemon, and a client that lends its model."""
    with Talk() as talk:
        talk.initialize(OPTIONS)
        yield talk
        assert talk.shutdown() == 0


def test_X1_below_the_first_threshold_nothing_is_written(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 9_990))
        assert chat.decision() == ("skipped", "belowInitThreshold")
        assert chat.extraction()["counters"]["initialised"] is False
        read = chat.notes()
        assert read["isTemplate"] and read["lagMessages"] == 2
        assert chat.started_reasons() == []


def test_X1_X4_X18_a_pause_above_the_thresholds_writes_notes_once(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000, text="Mended: the token's expiry was wrong."))
        ended = chat.run_ended()
        assert ended["outcome"] == "settled" and ended["notesRevision"]
        read = chat.notes()
        assert not read["isTemplate"] and read["revision"] == ended["notesRevision"]
        assert [section["title"] for section in read["sections"]] == SECTIONS
        assert read["lastSummarizedMessageId"] == "a1" and read["lagMessages"] == 0
        assert "app/auth.py" in read["text"]
        status = chat.extraction()
        assert (status["state"], status["lastOutcome"]) == ("idle", "settled")
        assert status["counters"]["tokensAtLastExtraction"] == 12_000
        assert chat.started_reasons() == ["naturalPause"]
        chat.end()
        assert chat.decision() == ("skipped", "belowUpdateThreshold")


def test_X2_tool_calls_alone_never_trigger(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000))
        chat.run_ended()
        for turn in range(6):
            calls = [f"c{turn}-{n}" for n in range(3)]
            chat.say(assistant(f"b{turn}", 12_100 + turn, *calls), tool(f"t{turn}", *calls))
            assert chat.decision() == ("skipped", "belowUpdateThreshold")
        assert chat.extraction()["counters"]["toolCallsSince"] == 18
        assert chat.started_reasons() == ["naturalPause"]


def test_X3_X4_one_call_and_no_pause_waits_and_the_pause_starts(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000, "c1"), tool("t1", "c1"))
        assert chat.decision() == ("skipped", "waitingForPause")
        chat.say(assistant("a2", 12_100))
        assert chat.run_ended()["outcome"] == "settled"
        assert chat.started_reasons() == ["naturalPause"]


def test_X3_X4_three_calls_start_without_a_pause(talk: Talk) -> None:
    with noted(talk) as chat:
        for n in range(2):
            chat.say(assistant(f"a{n}", 4_000, f"c{n}"), tool(f"t{n}", f"c{n}"))
        chat.say(assistant("a3", 12_000, "c3"), tool("t3", "c3"))
        assert chat.run_ended()["outcome"] == "settled"
        assert chat.started_reasons() == ["toolCallThreshold"]
        # Its last answer asks for a tool: history is not cut between the call and its result.
        assert "lastSummarizedMessageId" not in chat.notes()


def test_X5_armed_while_a_call_is_open_and_started_by_the_last_result(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000, "c1", "c2", "c3"))
        assert chat.decision() == ("armed", "toolCallThreshold")
        chat.say(tool("t1", "c2"))
        assert chat.extraction()["state"] == "armed"
        chat.say(user("u2", "and be quick"))  # steering opens no turn
        assert chat.extraction()["state"] == "armed"
        assert chat.call("memory/wait")["outcome"] == "idle"
        chat.say(tool("t2", "c1", "c3"))
        assert chat.run_ended()["outcome"] == "settled"


@pytest.mark.parametrize("opening", ["turn", "end"])
def test_X5_what_is_armed_starts_with_the_next_turn_or_the_end_of_this(
    talk: Talk, opening: str
) -> None:
    with noted(talk) as chat:
        chat.start("first", turn_id="turn-1")
        chat.say(user("u1"), assistant("a1", 12_000, "c1", "c2", "c3"), tool("t1", "c1"))
        assert chat.extraction()["state"] == "armed"
        if opening == "turn":
            chat.start("second", turn_id="turn-2")
        else:
            chat.end("aborted")
        assert chat.run_ended()["outcome"] == "settled"


def test_X5_a_snapshot_holds_call_and_result_together(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        chat.say(user("u1"), assistant("a1", 500, "first"), tool("t1", "first"))
        chat.say(assistant("a2", 600, "parallel-1", "parallel-2"), tool("t2", "parallel-2"))
        answer = chat.extract()
        assert (answer["decision"], answer["reason"]) == ("armed", "manual")
        chat.say(tool("t3", "parallel-1"))
        question = talk.ask()
        shown = "\n".join(message["text"] for message in question["params"]["messages"])
        for call in ("first", "parallel-1", "parallel-2"):
            assert f"pytest {call}" in shown and f"1 passed ({call})" in shown
        assert [one["name"] for one in question["params"]["tools"]] == ["edit"]
        chat.answer(question, text=NOTHING)
        assert chat.run_ended()["outcome"] == "settled"


def test_X6_manual_ignores_the_thresholds(talk: Talk) -> None:
    with noted(talk) as chat:
        assert chat.extract()["decision"] == "skipped"  # nothing at all to write of
        chat.say(user("u1"), assistant("a1", 200))
        assert chat.extract("auto")["reason"] == "belowInitThreshold"
        answer = chat.extract(wait_ms=15_000)
        assert (answer["decision"], answer["reason"]) == ("started", "manual")
        assert answer["outcome"] == "settled"
        assert chat.run_ended()["runId"] == answer["runId"]
        assert not chat.notes()["isTemplate"]


@pytest.mark.parametrize("trigger", ["compaction", "close"])
def test_X6_compaction_and_close_run_if_anything_is_unsummarised(talk: Talk, trigger: str) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 200))
        assert chat.extract(trigger, wait_ms=15_000)["outcome"] == "settled"
        again = chat.extract(trigger, wait_ms=15_000)
        assert (again["decision"], again["reason"]) == ("skipped", "nothingNew")
        chat.run_ended()


def test_X7_disabled_says_so(talk: Talk) -> None:
    with noted(talk, {"extraction": {"enabled": False}}) as chat:
        chat.say(user("u1"), assistant("a1", 50_000))
        assert chat.decision() == ("skipped", "disabled")
        assert chat.extract()["reason"] == "disabled"


def test_X11_a_request_during_a_run_joins_it_and_one_trailing_run_follows(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        chat.say(user("u1"), assistant("a1", 200))
        first = chat.extract()
        question = talk.ask()
        joined = [chat.extract() for _ in range(5)]
        assert {one["decision"] for one in joined} == {"joined"}
        assert {one["runId"] for one in joined} == {first["runId"]}
        chat.say(user("u2"), assistant("a2", 30_000))
        chat.answer(question, text=NOTHING)
        assert chat.run_ended(runId=first["runId"])["reason"] == "nothingToAdd"
        chat.model_writes(edit("Now", "The trailing run was here."))
        assert chat.run_ended()["runId"] != first["runId"]
        assert "The trailing run was here." in chat.section("Now")
        assert len(chat.started_reasons()) == 2


def test_X8_cleared_archives_the_notes_and_zeroes_the_counters(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1", "remember the heliotrope"), assistant("a1", 12_000))
        chat.run_ended()
        assert "heliotrope" in chat.notes()["text"]
        chat.tell("transcript/didReset", reason="cleared")
        counters = chat.extraction()["counters"]
        assert counters == {
            "contextTokens": 0,
            "tokensAtLastExtraction": 0,
            "toolCallsSince": 0,
            "initialised": False,
        }
        talk.until(lambda: chat.notes()["isTemplate"])
        kept = [path for path in (talk.home / "data").rglob("*.md") if "notes" in path.parts]
        assert any("heliotrope" in path.read_text() for path in kept)
        chat.say(user("v1", "now the verbena"), assistant("b1", 12_000))
        chat.run_ended()
        text = chat.notes()["text"]
        assert "verbena" in text and "heliotrope" not in text


def test_X8_rewound_drops_what_was_rewound_and_goes_on(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000))
        chat.run_ended()
        chat.tell("transcript/didReset", reason="rewound")
        chat.say(user("u1"), user("u2", "another way: the lupin"), assistant("b1", 3_000))
        assert not chat.notes()["isTemplate"]
        assert chat.extraction()["counters"]["initialised"] is True
        chat.say(user("u3"), assistant("b2", 30_000))
        assert chat.run_ended()["outcome"] == "settled"
        assert "lupin" in chat.notes()["text"]


@pytest.mark.parametrize("reason", ["cleared", "rewound"])
def test_X8_a_reset_voids_the_run_that_goes_on(talk: Talk, reason: str) -> None:
    with noted(talk, MODEL) as chat:
        chat.say(user("u1"), assistant("a1", 12_000))
        question = talk.ask()
        chat.tell("transcript/didReset", reason=reason)
        ended = chat.run_ended()
        assert (ended["outcome"], ended["reason"]) == ("cancelled", "reset")
        talk.stopped(question)
        chat.answer(question, edit("Now", "Too late."))
        assert "Too late." not in chat.notes()["text"]


def test_X8_growth_counts_from_the_size_after_a_compaction(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 90_000))
        chat.run_ended()
        chat.tell("transcript/willCompact")
        chat.tell("transcript/didCompact", keptFromMessageId="a1", contextTokens=8_000)
        assert chat.extraction()["counters"]["tokensAtLastExtraction"] == 8_000
        chat.say(user("u2"), assistant("a2", 12_900))
        assert chat.decision() == ("skipped", "belowUpdateThreshold")
        chat.say(user("u3"), assistant("a3", 13_000))
        assert chat.run_ended()["outcome"] == "settled"


def test_X9_a_failed_run_moves_nothing_and_the_next_one_gets_all(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        chat.say(user("u1", "about the gentian"), assistant("a1", 12_000))
        talk.fail(talk.ask())
        assert chat.run_ended()["outcome"] == "failed"
        assert chat.extraction()["counters"]["tokensAtLastExtraction"] == 0
        assert chat.notes()["isTemplate"] and chat.notes()["lagMessages"] == 2
        chat.say(user("u2"), assistant("a2", 12_500))
        assert chat.decision() == ("skipped", "backingOff")
        assert chat.extract()["decision"] == "started"
        question = talk.ask()
        assert "gentian" in question["params"]["messages"][1]["text"]
        chat.answer(question, text=NOTHING)
        assert chat.run_ended()["outcome"] == "settled"


def test_X14_a_cancelled_run_is_told_and_the_next_one_runs(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        chat.say(user("u1"), assistant("a1", 12_000))
        question = talk.ask()
        assert chat.call("memory/cancelExtraction", runId="x-another")["cancelled"] is False
        assert chat.call("memory/cancelExtraction")["cancelled"] is True
        assert chat.run_ended()["outcome"] == "cancelled"
        talk.stopped(question)
        assert chat.call("memory/cancelExtraction")["cancelled"] is False
        assert chat.extract()["decision"] == "started"
        chat.model_writes(edit("Now", "Going on."))
        assert chat.run_ended()["outcome"] == "settled"
