"""What an extractor gets to see of a conversation: pairs, cuts, and what was summarised before."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keeper_doubles import calls, results, says, user
from oncue.text import marker
from oncue.transcript import bodies
from oncue.transcript.state import MAX_BODIES, Transcript
from oncue_protocol import Message, ToolCall, ToolResult


def transcript(*messages: Message) -> Transcript:
    made = Transcript(keeps_unsummarised=True)
    made.append(messages)
    return made


def ids(messages: Sequence[Message]) -> list[str]:
    return [message.id for message in messages]


def assert_paired(messages: Sequence[Message]) -> None:
    asked = [call.id for message in messages for call in message.tool_calls]
    given_ = [result.call_id for message in messages for result in message.tool_results]
    assert set(asked) == set(given_)
    position = {call.id: n for n, m in enumerate(messages) for call in m.tool_calls}
    for n, message in enumerate(messages):
        for result in message.tool_results:
            assert position[result.call_id] <= n


# ---- X5, D67: calls and results are never parted ------------------------------------------------


def test_X5_a_range_ends_before_a_response_whose_call_has_no_result() -> None:
    made = transcript(user("u1"), says("a1"), user("u2"), calls("a2", "1", "2"))
    assert made.open_calls == 2
    assert ids(made.unsummarised().messages) == ["u1", "a1", "u2"]  # type: ignore[union-attr]
    made.append([results("r1", "2")])
    assert made.open_calls == 1
    assert ids(made.unsummarised().messages) == ["u1", "a1", "u2"]  # type: ignore[union-attr]
    made.append([results("r2", "1")])
    assert made.open_calls == 0
    found = made.unsummarised()
    assert found is not None
    assert ids(found.messages) == ["u1", "a1", "u2", "a2", "r1", "r2"]
    assert (found.through, found.count, found.ends_in_text) == ("r2", 6, False)


def test_X5_messages_of_one_response_belong_together() -> None:
    made = transcript(user("u1"), calls("a1", "1"), calls("a2", "2"), results("r2", "2"))
    assert made.open_calls == 1
    assert ids(made.unsummarised().messages) == ["u1"]  # type: ignore[union-attr]
    made.append([results("r1", "1")])
    assert made.open_calls == 0


def test_X5_calls_and_results_in_one_message() -> None:
    both = Message(
        id="a1",
        role="assistant",
        tool_calls=(ToolCall(id="1", name="run"), ToolCall(id="2", name="run")),
        tool_results=(ToolResult(call_id="1", text="ok"),),
    )
    made = transcript(user("u1"), both)
    assert made.open_calls == 1
    made.append([results("r", "2")])
    assert made.open_calls == 0


def test_X5_a_turn_that_ends_closes_its_calls_and_they_become_text() -> None:
    made = transcript(user("u1"), calls("a1", "1", "2"), results("r1", "1"))
    made.boundary()
    assert made.open_calls == 0
    found = made.unsummarised()
    assert found is not None
    assert_paired(found.messages)
    assert found.messages[1].text == "[asked for run; no result came]"


def test_X5_a_late_result_brings_its_call_again() -> None:
    made = transcript(user("u1"), calls("a1", "1"))
    made.boundary()
    made.summarise(made.unsummarised().through)  # type: ignore[union-attr]
    made.append([results("r1", "1"), user("u2"), says("a2")])
    found = made.unsummarised()
    assert found is not None
    assert ids(found.messages) == ["a1", "r1", "u2", "a2"]
    assert found.first_message_id == "a1"
    assert_paired(found.messages)


def test_X5_a_result_whose_call_nobody_knows_is_left_out() -> None:
    made = transcript(user("u1"), results("r1", "lost"), says("a1"))
    found = made.unsummarised()
    assert found is not None
    assert ids(found.messages) == ["u1", "r1", "a1"]
    assert_paired(found.messages)


def test_X5_the_next_response_leaves_an_unanswered_call_behind() -> None:
    made = transcript(user("u1"), calls("a1", "1"), user("steer"), says("a2"))
    assert made.open_calls == 0
    assert_paired(made.unsummarised().messages)  # type: ignore[union-attr]


def test_X5_steering_closes_nothing() -> None:
    made = transcript(user("u1"), calls("a1", "1"), user("also this"))
    assert made.open_calls == 1
    assert ids(made.unsummarised().messages) == ["u1"]  # type: ignore[union-attr]


def test_X3_a_pause_is_a_last_assistant_message_without_calls() -> None:
    made = Transcript()
    steps = [user("u1"), calls("a1", "1"), results("r1", "1"), says("a2"), user("u2")]
    steps.append(calls("a2", "2"))  # the same message has grown
    seen = []
    for message in steps:
        made.append([message])
        seen.append(made.pauses)
    assert seen == [False, False, False, True, True, False]
    assert made.open_calls == 1


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Conversations with parallel calls whose results come in any order and grouping, some never;
    steering between them; calls of one response in one message or in several."""
    messages: list[Message] = []
    number = 0
    for turn in range(draw(st.integers(1, 4))):
        messages.append(user(f"u{turn}"))
        for step in range(draw(st.integers(0, 3))):
            count = draw(st.integers(1, 4))
            names = [f"c{turn}.{step}.{n}" for n in range(count)]
            if draw(st.booleans()):
                messages.append(calls(f"a{number}", *names))
            else:
                messages += [calls(f"a{number}.{n}", name) for n, name in enumerate(names)]
            number += 1
            answered = draw(st.permutations(names))
            if draw(st.integers(0, 5)) == 0:
                answered = answered[:-1]  # the turn is aborted
            while answered:
                size = draw(st.integers(1, len(answered)))
                messages.append(results(f"r{number}", *answered[:size]))
                answered = answered[size:]
                number += 1
                if draw(st.integers(0, 6)) == 0:
                    messages.append(user(f"s{number}", "steering"))
        if draw(st.booleans()):
            messages.append(says(f"t{turn}"))
    return messages


@given(talks(), st.data())
def test_D67_every_cut_point_of_every_conversation_is_paired(
    messages: list[Message], data: st.DataObject
) -> None:
    """Runs at any point, any number of them: each range is paired, each message that needs no
    result later is worked on exactly once, in order."""
    made = Transcript(keeps_unsummarised=True)
    worked: list[str] = []
    rest = list(messages)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:size], rest[size:]
        made.append(batch)
        if data.draw(st.integers(0, 8)) == 0:
            made.boundary()
        if data.draw(st.booleans()):
            found = made.unsummarised()
            if found is not None:
                assert_paired(found.messages)
                new = [one for one in ids(found.messages) if one not in worked]
                assert new == ids(messages)[len(worked) : len(worked) + len(new)]
                worked += new
                assert made.summarise(found.through)
    made.boundary()
    found = made.unsummarised()
    if found is not None:
        assert_paired(found.messages)
        worked += [one for one in ids(found.messages) if one not in worked]
    assert worked == ids(messages)


def test_D67_every_prefix_of_a_transcript_with_parallel_calls() -> None:
    messages = [
        user("u1"),
        calls("a1", "1", "2", "3"),
        results("r1", "3"),
        user("s1", "steering"),
        results("r2", "1", "2"),
        calls("a2", "4"),
        calls("a3", "5"),
        results("r3", "5"),
        results("r4", "4"),
        says("a4"),
    ]
    ends = []
    for cut in range(1, len(messages) + 1):
        found = transcript(*messages[:cut]).unsummarised()
        assert found is not None
        assert_paired(found.messages)
        ends.append(found.through)
    assert ends == ["u1"] * 4 + ["r2"] * 4 + ["r4", "a4"]


# ---- X26, X27: what is kept ---------------------------------------------------------------------


def test_X26_injected_text_is_stripped_wherever_it_was_quoted() -> None:
    nonce = "0123456789abcdef"
    injected = f"{marker.open_line(nonce)}\nremembered\n{marker.close_line(nonce)}\n"
    message = Message(
        id="a",
        role="assistant",
        text=f"{injected}mine",
        tool_calls=(ToolCall(id="1", name="write", input={"a": [injected, {"b": injected}]}),),
        tool_results=(ToolResult(call_id="1", text=f"x{injected}" + "y" * 10_000),),
    )
    kept = bodies.kept(message)
    assert "remembered" not in repr(kept)
    assert "mine" in kept.text


def test_X27_long_texts_are_cut_in_the_middle_visibly() -> None:
    long = "".join(f"{n:06} " for n in range(10_000))
    message = Message(
        id="a",
        role="assistant",
        text=long,
        tool_calls=(ToolCall(id="1", name="write", input={"content": long, "n": 3}),),
        tool_results=(ToolResult(call_id="1", text=long),),
    )
    kept = bodies.kept(message)
    for text, limit in (
        (kept.text, bodies.MAX_TEXT),
        (kept.tool_calls[0].input["content"], bodies.MAX_INPUT),
        (kept.tool_results[0].text, bodies.MAX_RESULT),
    ):
        assert len(text) < limit + 60
        assert text.startswith("000000 000001")
        assert text.endswith("009999 ")
        assert f"[… {len(long) - limit} characters …]" in text
    assert kept.tool_calls[0].input["n"] == 3


def test_X27_an_input_of_many_values_is_cut_too() -> None:
    wide = {f"k{n}": [n] * 10 for n in range(10_000)}
    message = Message(
        id="a", role="assistant", tool_calls=(ToolCall(id="1", name="w", input=wide),)
    )
    kept = bodies.kept(message).tool_calls[0].input
    assert len(kept) <= bodies.MAX_INPUT_STRINGS + 1
    assert "more]" in repr(kept)


def test_X27_what_needs_no_cut_is_the_same_object() -> None:
    message = calls("a", "1", "2")
    assert bodies.kept(message) is message
    assert bodies.kept(says("b")).text == "done"


def test_a_cut_message_that_is_repeated_is_ignored() -> None:
    long = results("r", "1", text="x" * 50_000)
    made = transcript(user("u"), calls("a", "1"), long)
    assert made.append([long]).ignored == 1  # type: ignore[union-attr]
    assert made.append([results("r", "1", text="x" * 50_001)]).replaced == 1  # type: ignore[union-attr]


def test_X27_bodies_are_kept_until_they_are_summarised() -> None:
    made = Transcript(kept_tokens=1_000, keeps_unsummarised=True)
    for number in range(500):
        made.append([user(f"m{number}", "some words of a message, and some more of them")])
    assert len(made.entries) == 500
    made.summarise("m449")
    assert 50 < len(made.entries) < 200
    made.summarise("m499")
    assert len(made.entries) < 200
    assert made.lag_messages == made.lag_tokens == 0


def test_X27_without_notes_only_the_tail_is_kept() -> None:
    made = Transcript(kept_tokens=1_000)
    for number in range(500):
        made.append([user(f"m{number}", "some words of a message, and some more of them")])
    assert len(made.entries) < 200
    assert made.lag_messages == 500


@pytest.mark.parametrize("count", [24_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_X27_a_session_of_many_messages_stays_within_its_memory(count: int) -> None:
    """100,000 messages, none of them ever summarised (each run fails): 64 MB."""
    made = Transcript(keeps_unsummarised=True)
    tracemalloc.start()
    try:
        for number in range(count // 2):
            made.append(
                [calls(f"message-{number}", f"call-{number}"),
                 results(f"result-{number}", f"call-{number}", text=f"{number} ok " * 20)]
            )  # fmt: skip
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert made.count == count
    assert len(made.entries) <= MAX_BODIES
    assert used < 64 << 20


# ---- §5: what was summarised is known again -----------------------------------------------------

TALK = [user("u1"), calls("a1", "1"), results("r1", "1"), says("a2"), user("u2"), says("a3")]


def summarised(*messages: Message) -> tuple[str, bytes]:
    found = transcript(*messages).unsummarised()
    assert found is not None
    return found.through, found.ids


def test_resume_behind_the_summarised_prefix() -> None:
    through, known = summarised(*TALK[:4])
    made = Transcript(keeps_unsummarised=True)
    assert made.resume(through, known, 20_000)
    assert (made.last_message_id, made.lag_messages, made.context_tokens) == ("a2", 0, 20_000)
    assert made.summarised_through == "a2"
    made.append(TALK[4:], after="a2")
    assert ids(made.unsummarised().messages) == ["u2", "a3"]  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_resume_where_the_client_sends_everything_again(size: int) -> None:
    through, known = summarised(*TALK[:4])
    made = Transcript(keeps_unsummarised=True)
    assert made.resume(through, known, 20_000)
    for begin in range(0, 6, size):
        made.append(TALK[begin : begin + size])
        assert made.lag_messages == max(0, min(begin + size, 6) - 4)
        assert made.is_sent_anew == (begin + size <= 4)
    assert ids(made.unsummarised().messages) == ["u2", "a3"]  # type: ignore[union-attr]
    assert made.count == 6


def test_resume_where_the_client_begins_somewhere_in_the_middle() -> None:
    through, known = summarised(*TALK[:4])
    made = Transcript(keeps_unsummarised=True)
    assert made.resume(through, known, 0)
    made.append(TALK[2:])
    assert ids(made.unsummarised().messages) == ["u2", "a3"]  # type: ignore[union-attr]
    # Once it has gone on, a repeated message is a repeated message.
    made.append([TALK[3], TALK[4], TALK[5], user("u3")])
    assert ids(made.unsummarised().messages) == ["u2", "a3", "u3"]  # type: ignore[union-attr]


def test_resume_after_the_messages_came() -> None:
    through, known = summarised(*TALK[:4])
    made = transcript(*TALK[:2])
    assert made.resume(through, known, 0)
    assert made.lag_messages == 0
    made.append(TALK[2:])
    assert ids(made.unsummarised().messages) == ["u2", "a3"]  # type: ignore[union-attr]
    assert not made.resume(through, known, 0)  # nothing that we did not know


def test_resume_another_conversation_is_not_taken_over() -> None:
    through, known = summarised(*TALK[:4])
    made = transcript(user("other"))
    assert not made.resume(through, known, 0)
    assert made.lag_messages == 1
    for broken in (b"", known[:-1], known + b"xxxxxx"):
        fresh = Transcript()
        assert not fresh.resume(through, broken, 0)
        assert fresh.last_message_id is None


def test_X8_rewound_survivors_stay_summarised_and_new_messages_do_not() -> None:
    made = transcript(*TALK)
    made.summarise("a3")
    made.reset(rewound=True)
    made.append(TALK[:3])
    assert made.lag_messages == 0
    made.append([says("b2"), user("v2")])  # a branch that nobody has seen yet
    assert ids(made.unsummarised().messages)[-2:] == ["b2", "v2"]  # type: ignore[union-attr]
    assert made.lag_messages == 2
    assert made.summarised_through == "r1"


def test_X8_rewound_twice_keeps_what_is_known() -> None:
    made = transcript(*TALK)
    made.summarise("a3")
    made.reset(rewound=True)
    made.reset(rewound=True)
    made.append(TALK)
    assert made.lag_messages == 0
    made.reset()
    made.append(TALK)
    assert made.lag_messages == 6


@settings(max_examples=60)
@given(talks(), st.integers(0, 1_000))
def test_resume_any_conversation_sent_anew_in_any_pieces(
    messages: list[Message], seed: int
) -> None:
    chance = random.Random(seed)
    first = Transcript(keeps_unsummarised=True)
    cut = chance.randint(1, len(messages))
    first.append(messages[:cut])
    found = first.unsummarised()
    if found is None:
        return
    made = Transcript(keeps_unsummarised=True)
    assert made.resume(found.through, found.ids, 0)
    begin = 0
    while begin < len(messages):
        size = chance.randint(1, len(messages))
        made.append(messages[begin : begin + size])
        begin += size
    assert made.lag_messages == len(messages) - found.count
    assert made.count == len(messages)
