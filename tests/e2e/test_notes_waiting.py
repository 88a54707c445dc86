"""Waiting, progress, compaction, and a conversation that goes on meanwhile (X15, X17, §7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e_notes import (
    EXTRACTION,
    MODEL,
    NOTHING,
    OPTIONS,
    Noted,
    assistant,
    edit,
    noted,
    tool,
    user,
)
from e2e_talk import Json, Talk

WORDS = "The quick brown fox jumps over the lazy dog while it rains in the valley. "


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    """A daemon with memories, and a client that lends its model."""
    with Talk() as talk:
        talk.initialize(OPTIONS)
        talk.remember(talk.home / "workspace")
        yield talk
        assert talk.shutdown() == 0


def model_with(**extraction: Any) -> Json:
    """Settings with a played model and these limits."""
    return {**MODEL, "extraction": {**EXTRACTION, "extractor": "model", **extraction}}


def running(chat: Noted) -> Json:
    """Begin a run; the question of its model, unanswered."""
    chat.say(user("u1"), assistant("a1", 12_000))
    return chat.talk.ask()


def test_X15_wait_without_a_run_is_idle(talk: Talk) -> None:
    with noted(talk) as chat:
        assert chat.call("memory/wait", waitMs=15_000)["outcome"] == "idle"
        assert chat.call("memory/wait")["outcome"] == "idle"


def test_X15_waits_are_bounded_and_end_with_the_run(talk: Talk) -> None:
    with noted(talk, model_with(extractionWaitTimeoutMs=100)) as chat:
        question = running(chat)
        assert chat.call("memory/wait")["outcome"] == "stillRunning"
        assert chat.call("memory/wait", waitMs=1)["outcome"] == "stillRunning"
        assert chat.extract(wait_ms=1)["outcome"] == "stillRunning"
        view = chat.call("notes/compactionView")  # waits as long, then goes on with what there is
        assert view == {"fallbackReason": "noNotes"}
        chat.answer(question, text=NOTHING)
        assert chat.run_ended()["outcome"] == "settled"


def test_X15_one_end_wakes_every_waiter(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        question = running(chat)
        for n in range(8):
            params = {"sessionId": chat.id, "waitMs": 15_000}
            talk.send({"jsonrpc": "2.0", "id": f"w{n}", "method": "memory/wait", "params": params})
        chat.answer(question, text=NOTHING)
        outcomes = {talk.response(f"w{n}")["result"]["outcome"] for n in range(8)}
        assert outcomes == {"settled"}
        chat.run_ended()


def test_X13_X15_a_stale_run_is_not_waited_for(talk: Talk) -> None:
    with noted(talk, model_with(extractionStaleThresholdMs=1_000)) as chat:
        question = running(chat)
        assert chat.call("memory/wait", waitMs=15_000)["outcome"] == "stale"
        assert chat.extract("compaction", wait_ms=15_000)["outcome"] == "stale"
        chat.answer(question, text=NOTHING)
        chat.run_ended()


def test_X15_a_cancelled_wait_leaves_the_run_alone(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        question = running(chat)
        params = {"sessionId": chat.id, "trigger": "manual", "waitMs": 15_000}
        talk.send({"jsonrpc": "2.0", "id": "gone", "method": "memory/extract", "params": params})
        talk.notify("$/cancelRequest", {"id": "gone"})
        assert talk.response("gone")["error"]["code"] == -32800
        assert chat.extraction()["state"] == "running"
        chat.answer(question, edit("Now", "Still here."))
        chat.answer(talk.ask(), text="Done.")
        assert chat.run_ended()["outcome"] == "settled"


def test_X15_close_waits_as_long_as_it_is_told_then_cancels(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        question = running(chat)
        chat.call("session/close", waitMs=1)
        assert chat.run_ended()["outcome"] == "cancelled"
        talk.stopped(question)
        chat.call("session/open", workspace=str(talk.home / "workspace"))
        assert chat.extract()["decision"] == "started"
        question = talk.ask()
        msg = {"sessionId": chat.id, "waitMs": 15_000}
        talk.send({"jsonrpc": "2.0", "id": "bye", "method": "session/close", "params": msg})
        chat.answer(question, text=NOTHING)
        assert talk.response("bye")["result"] is None
        assert chat.run_ended()["outcome"] == "settled"
        chat.call("session/open", workspace=str(talk.home / "workspace"))


@pytest.mark.parametrize("outcome", ["settled", "failed", "cancelled"])
def test_X18_progress_begins_and_ends_once_under_the_token(talk: Talk, outcome: str) -> None:
    with noted(talk, MODEL) as chat:
        chat.say(user("u1"), assistant("a1", 300))
        answer = chat.extract(work_done_token="token-1")
        assert answer["decision"] == "started"
        assert talk.expect("$/progress", token="token-1")["params"]["value"]["kind"] == "begin"
        question = talk.ask()
        assert chat.extract(work_done_token=7)["decision"] == "joined"
        assert talk.expect("$/progress", token=7)["params"]["value"]["kind"] == "begin"
        if outcome == "settled":
            chat.answer(question, text=NOTHING)
        elif outcome == "failed":
            talk.fail(question)
        else:
            chat.call("memory/cancelExtraction")
        assert chat.run_ended()["outcome"] == outcome
        for token in ("token-1", 7):
            assert talk.expect("$/progress", token=token)["params"]["value"]["kind"] == "end"
        assert talk.seen("$/progress") == []


def test_progress_of_an_armed_run_begins_when_it_runs(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 300, "c1"))
        assert chat.extract(work_done_token="armed")["decision"] == "armed"
        chat.say(tool("t1", "c1"))
        chat.run_ended()
        kinds = [talk.expect("$/progress")["params"]["value"]["kind"] for _ in range(2)]
        assert kinds == ["begin", "end"]


def test_no_progress_where_nothing_runs(talk: Talk) -> None:
    with noted(talk) as chat:
        assert chat.extract(work_done_token="idle")["decision"] == "skipped"
        assert talk.seen("$/progress") == []


def test_X17_recall_answers_while_a_run_goes_on(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        question = running(chat)
        talk.configure(model={"provider": "none"})  # recall ranks; the run keeps its question
        for n in range(20):
            chat.start("when may I deploy to production?", turn_id=f"t{n}", wait_ms=2_000)
            chat.poll()
            chat.end(turn_id=f"t{n}")
            assert chat.extraction()["state"] == "running"
        assert chat.call("notes/read")["isTemplate"]
        chat.answer(question, edit("Now", "Meanwhile twenty turns went by."))
        talk.configure(**MODEL)
        chat.talk.until(lambda: chat.extraction()["state"] != "running" or has_question(talk))
        if has_question(talk):
            chat.answer(talk.ask(), text="Done.")
        assert chat.run_ended()["outcome"] == "settled"


def has_question(talk: Talk) -> bool:
    """Whether the model was asked something that is not answered."""
    return any(one["method"] == "model/generate" for one in talk.notifications)


def long_history(chat: Noted) -> list[Json]:
    """40 steps of about 1,600 tokens, half of them with two calls; told, and notes made of all."""
    told: list[Json] = []
    for n in range(40):
        step = [user(f"u{n}", f"Step {n}. {WORDS * 40}")]
        if n % 2:
            calls = (f"c{n}-1", f"c{n}-2")
            step.append(assistant(f"a{n}", None, *calls, text=WORDS * 40))
            step += [tool(f"t{n}-{k}", call, text=WORDS * 10) for k, call in enumerate(calls)]
        else:
            step.append(assistant(f"a{n}", None, text=WORDS * 40))
        told += step
        chat.say(*step)
    chat.end()
    chat.extract("compaction", wait_ms=15_000)
    return told


def check_tail(told: list[Json], first: str) -> list[Json]:
    """What is kept: no result without its call."""
    start = next(n for n, message in enumerate(told) if message["id"] == first)
    kept = told[start:]
    calls = {call["id"] for message in kept for call in message.get("toolCalls", ())}
    results = {r["callId"] for message in kept for r in message.get("toolResults", ())}
    assert results <= calls
    return kept


def test_compaction_view_keeps_a_tail_and_no_result_loses_its_call(talk: Talk) -> None:
    with noted(talk) as chat:
        told = long_history(chat)
        assert chat.notes()["lagMessages"] == 0
        view = chat.call("notes/compactionView")
        assert "fallbackReason" not in view
        assert view["notes"].startswith("# Title\n")
        kept = check_tail(told, view["keepFromMessageId"])
        assert 5 <= len(kept) < len(told) // 2
        sizes = set()
        for tokens in range(100, 12_000, 700):
            limits = {"minTailTokens": tokens, "minTailTextMessages": 0, "maxTailTokens": 12_000}
            view = chat.call("notes/compactionView", **limits)
            sizes.add(len(check_tail(told, view["keepFromMessageId"])))
        assert len(sizes) > 5
        tight = {"minTailTokens": 0, "minTailTextMessages": 0}
        tail = chat.call("notes/compactionView", **tight)
        assert "fallbackReason" not in tail
        more = [user("v1", "one thing more"), assistant("b1", None)]
        chat.say(*more)
        assert chat.notes()["lagMessages"] == 2
        view = chat.call("notes/compactionView", **tight)
        assert view["keepFromMessageId"] == "v1"  # what the notes do not know of stays
        while chat.extraction()["state"] == "running":
            chat.call("memory/wait")


def test_compaction_view_of_a_snapshot_that_ends_in_a_call(talk: Talk) -> None:
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000, "c1", "c2", "c3"), tool("t1", "c1", "c2"))
        chat.say(tool("t2", "c3"))
        chat.run_ended()
        read = chat.notes()
        assert "lastSummarizedMessageId" not in read and read["lagMessages"] == 0
        chat.say(assistant("a2", 12_100))
        limits = {"minTailTokens": 0, "minTailTextMessages": 0}
        view = chat.call("notes/compactionView", **limits)
        assert view["keepFromMessageId"] in ("a1", "a2")
        told = [assistant("a1", None, "c1", "c2", "c3"), tool("t1", "c1", "c2", "c3")]
        check_tail([*told, assistant("a2")], view["keepFromMessageId"])


def test_compaction_view_says_why_there_is_none(talk: Talk) -> None:
    with noted(talk, MODEL) as chat:
        assert chat.call("notes/compactionView") == {"fallbackReason": "noNotes"}
        question = running(chat)
        chat.answer(question, text=NOTHING)
        chat.run_ended()
        # A success that wrote nothing: there is still nothing that could stand for the history.
        assert chat.call("notes/compactionView")["fallbackReason"] in (
            "noNotes",
            "notesAreTemplate",
        )
    with noted(talk) as chat:
        chat.say(user("u1"), assistant("a1", 12_000))
        chat.run_ended()
        chat.tell("transcript/didReset", reason="rewound")
        chat.say(user("x1"), assistant("y1", 500))
        view = chat.call("notes/compactionView")
        assert view["fallbackReason"] in ("boundaryUnknown", "nothingSummarised")
