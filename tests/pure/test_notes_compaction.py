"""What a client keeps of its history when the notes stand for the rest (extraction.md §7)."""

from __future__ import annotations

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from notes_support import BUDGETS, blank, written
from oncue.notes.compaction import Tail, boundary, compaction_view, cut_notes, safe_cuts
from oncue.notes.document import parse, view
from oncue.notes_ports import NoteBudgets, NotesView
from oncue_protocol import Message, ToolCall, ToolResult

NOTES = view(written(Now="n", Log="- a"), "r", BUDGETS)


def user(id_: str) -> Message:
    return Message(id=id_, role="user", text="words")


def asks(id_: str, *calls: str) -> Message:
    return Message(
        id=id_, role="assistant", tool_calls=tuple(ToolCall(id=c, name="bash") for c in calls)
    )


def tells(id_: str, *calls: str) -> Message:
    results = tuple(ToolResult(call_id=c, text="done") for c in calls)
    return Message(id=id_, role="tool", tool_results=results)


def said(id_: str) -> Message:
    return Message(id=id_, role="assistant", text="done")


def turns(count: int) -> list[Message]:
    found = []
    for n in range(count):
        found += [user(f"u{n}"), asks(f"a{n}", f"c{n}"), tells(f"t{n}", f"c{n}"), said(f"s{n}")]
    return found


def keep(  # type: ignore[no-untyped-def]
    messages, last=None, through=None, size=1_000, notes: NotesView = NOTES, **more
):
    return compaction_view(
        notes,
        messages,
        last_summarized=last,
        processed_through=through,
        size_of=lambda _: size,
        budgets=BUDGETS,
        **more,
    )


def test_7_why_a_client_has_to_compact_by_itself() -> None:
    messages = turns(3)
    template = view(blank(), "r", BUDGETS)
    missing = attrs.evolve(NOTES, revision=None)
    assert keep(messages, "s0", notes=missing).fallback_reason == "noNotes"
    assert keep(messages, "s0", notes=template).fallback_reason == "notesAreTemplate"
    assert keep(messages, "gone").fallback_reason == "boundaryUnknown"
    assert keep(messages, None, "gone").fallback_reason == "boundaryUnknown"
    assert keep(messages).fallback_reason == "nothingSummarised"
    assert keep(messages, "s0").fallback_reason is None


def test_7_at_least_ten_thousand_tokens_and_five_texts_are_kept() -> None:
    messages = turns(20)
    assert keep(messages, "s19").keep_from_message_id == "a17"  # and t17's call
    assert keep(messages, "s19", size=4_000).keep_from_message_id == "s17"  # 5 texts
    assert keep(messages, "s19", size=100).keep_from_message_id == "u0"


def test_7_extending_stops_at_forty_thousand_tokens() -> None:
    messages = turns(20)
    assert keep(messages, "s19", size=15_000).keep_from_message_id == "a19"
    assert keep(messages, "s0", size=15_000).keep_from_message_id == "u1"  # never summarised: kept
    view_ = keep(messages, "s19", tail=Tail(0, 40_000, 0))
    assert view_.keep_from_message_id is None and view_.notes is not None


def test_7_no_result_loses_its_call() -> None:
    messages = turns(3)
    assert keep(messages, "t2", tail=Tail(0, 40_000, 0)).keep_from_message_id == "s2"
    assert keep(messages, "a2", tail=Tail(0, 40_000, 0)).keep_from_message_id == "a2"
    running = [*turns(2), asks("a", "c")]
    assert keep(running, "a", tail=Tail(0, 40_000, 0)).keep_from_message_id == "a"


def test_7_without_a_last_summarised_message_the_last_safe_one_before_counts() -> None:
    messages = [user("u"), asks("a", "c", "d"), tells("t", "c"), tells("v", "d"), said("s")]
    known = lambda _: False  # noqa: E731
    assert boundary(messages, None, "s", known) == 5
    assert boundary(messages, None, "v", known) == 4
    assert boundary(messages, None, "t", known) == boundary(messages, None, "a", known) == 1
    assert boundary(messages, None, "u", known) == 1


def test_7_what_is_held_no_longer_lies_before_what_is() -> None:
    found = keep(turns(3), "before", is_known=lambda id_: id_ == "before")
    assert found.keep_from_message_id == "u0"


def test_X21_notes_are_cut_a_section_visibly() -> None:
    long = "\n".join(f"- line {n}" for n in range(500))
    text = cut_notes(written(Now="n", Log=long, Task="t").text, NoteBudgets(100, 12_000))
    found = parse(text).contents()
    assert found["Log"].startswith("_(") and found["Log"].endswith("- line 499")
    assert (found["Now"], found["Task"]) == ("n", "t")


message = st.one_of(
    st.builds(lambda: ("user", ())),
    st.builds(lambda calls: ("asks", calls), st.lists(st.integers(0, 5), max_size=3)),
    st.builds(lambda calls: ("tells", calls), st.lists(st.integers(0, 5), max_size=3)),
)


@given(st.lists(message, max_size=14), st.data())
@settings(max_examples=300, deadline=None)
def test_7_wherever_it_is_cut_calls_and_results_stay_together(  # type: ignore[no-untyped-def]
    plan, data: st.DataObject
) -> None:
    messages = []
    for number, (kind, calls) in enumerate(plan):
        names = [f"c{call}" for call in calls]
        make = {"user": lambda i: user(i), "asks": asks, "tells": tells}[kind]
        messages.append(make(f"m{number}", *names) if kind != "user" else user(f"m{number}"))
    for at in safe_cuts(messages):
        before = {call.id for m in messages[:at] for call in m.tool_calls}
        answered = {r.call_id for m in messages[:at] for r in m.tool_results}
        after = {r.call_id for m in messages[at:] for r in m.tool_results}
        assert before <= answered
        assert not before & after
    if messages:
        last = data.draw(st.sampled_from(messages)).id
        found = keep(messages, last)
        assert found.fallback_reason is None
        ids = [m.id for m in messages]
        start = ids.index(found.keep_from_message_id) if found.keep_from_message_id else len(ids)
        assert start in safe_cuts(messages)
        assert start <= ids.index(last) + 1
