"""Where history may be cut (extraction.md §7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeper_doubles import calls, results, says, user
from oncue.transcript.compaction import Cut, cut
from oncue.transcript.state import Transcript
from oncue_protocol import Message

WORDS = "some words of a message " * 40
"""About 240 tokens."""


def talk(count: int, text: str = WORDS) -> list[Message]:
    return [m for n in range(count) for m in (user(f"u{n}", text), says(f"a{n}", text=text))]


def transcript(*messages: Message) -> Transcript:
    made = Transcript(keeps_unsummarised=True)
    made.append(messages)
    return made


def where(made: Transcript, **more: Any) -> Cut:
    values: dict[str, Any] = {"last_summarized": None, "processed_through": None, **more}
    return cut(made, **values)


def test_nothing_summarised_is_a_reason_to_fall_back() -> None:
    assert where(transcript(*talk(3))) == Cut(fallback_reason="nothingSummarised")


def test_a_boundary_that_the_transcript_does_not_know() -> None:
    made = transcript(*talk(3))
    assert where(made, last_summarized="x") == Cut(fallback_reason="boundaryUnknown")
    # The better-known one does not stand in for it.
    found = where(made, last_summarized="x", processed_through="a1")
    assert found.fallback_reason == "boundaryUnknown"


def test_what_follows_is_kept_and_enough_before_it() -> None:
    made = transcript(*talk(100))
    found = where(made, last_summarized="a99")
    assert found.keep_from_message_id is not None
    position = made.position(found.keep_from_message_id)
    assert position is not None
    kept = sum(entry.tokens for entry in made.entries[position:])
    assert 10_000 <= kept <= 10_000 + made.entries[0].tokens
    assert where(made, last_summarized="a20").keep_from_message_id == "u21"


def test_at_least_five_messages_with_text() -> None:
    tools = [m for n in range(30) for m in (calls(f"c{n}", f"{n}"), results(f"r{n}", f"{n}"))]
    made = transcript(*talk(10, "hi"), *tools, user("u", "go on"))
    found = where(made, last_summarized="u", min_tokens=1)
    assert found.keep_from_message_id == "u8"


def test_it_stops_at_the_most_that_is_allowed() -> None:
    made = transcript(*talk(100))
    tokens = made.entries[0].tokens
    found = where(
        made, last_summarized="a99", max_tokens=3 * tokens, min_text_messages=50, min_tokens=0
    )
    assert found.keep_from_message_id == "a98"


def test_no_result_loses_its_call() -> None:
    made = transcript(
        *talk(10), calls("c", "1", "2"), results("r1", "1"), results("r2", "2"), says("end")
    )
    for boundary in ("c", "r1"):
        found = where(made, last_summarized=boundary, min_tokens=0, min_text_messages=0)
        assert found.keep_from_message_id == "c"
    found = where(made, last_summarized="r2", min_tokens=0, min_text_messages=0)
    assert found.keep_from_message_id == "end"


def test_processed_through_is_moved_back_to_a_safe_message() -> None:
    made = transcript(*talk(2), calls("c", "1"), user("s"), results("r", "1"), says("end"))
    found = where(made, processed_through="s", min_tokens=0, min_text_messages=0)
    assert found.keep_from_message_id == "c"


def test_what_an_earlier_compaction_dropped_is_not_kept() -> None:
    made = transcript(*talk(100))
    made.compact("u95", None)
    found = where(made, last_summarized="a98")
    assert found.keep_from_message_id == "u95"
    assert where(made, last_summarized="a20").keep_from_message_id == "u95"


def test_a_boundary_before_all_bodies_is_too_far_back() -> None:
    made = Transcript(kept_tokens=1_000)
    made.append(talk(100))
    assert where(made, last_summarized="a1").fallback_reason == "boundaryTooFarBack"
    assert where(made, last_summarized="a99").keep_from_message_id is not None


def test_nothing_to_keep_is_no_reason_to_fall_back() -> None:
    made = transcript(*talk(3))
    assert where(made, last_summarized="a2", min_tokens=0, min_text_messages=0) == Cut()


@pytest.mark.parametrize("count", [1, 2, 30])
def test_resumed_sessions_know_the_boundary_only(count: int) -> None:
    known = transcript(*talk(3)).unsummarised()
    assert known is not None
    made = Transcript(keeps_unsummarised=True)
    made.resume(known.through, known.ids, 0)
    assert where(made, last_summarized="a2") == Cut()
    made.append([user(f"v{n}", WORDS) for n in range(count)], after="a2")
    assert where(made, last_summarized="a2").keep_from_message_id == "v0"


@given(st.integers(1, 30), st.integers(0, 59), st.integers(0, 3_000), st.integers(0, 20))
def test_whatever_is_asked_pairs_are_kept_whole(
    count: int, boundary: int, min_tokens: int, texts: int
) -> None:
    messages: list[Message] = []
    for n in range(count):
        messages += [user(f"u{n}"), calls(f"c{n}", f"{n}.1", f"{n}.2"), results(f"r{n}", f"{n}.2")]
        messages += [results(f"q{n}", f"{n}.1"), says(f"a{n}")]
    made = transcript(*messages)
    chosen = messages[min(boundary, len(messages) - 1)].id
    found = where(
        made, last_summarized=chosen, min_tokens=min_tokens, min_text_messages=texts
    ).keep_from_message_id
    position = len(messages) if found is None else made.position(found)
    assert position is not None
    asked = {c.id for m in messages[position:] for c in m.tool_calls}
    assert {r.call_id for m in messages[position:] for r in m.tool_results} <= asked
    assert position <= (made.position(chosen) or 0) + 1
