"""The transcript of a lane (protocol.md, "Sessions and the transcript")."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncue.text import marker
from oncue.transcript.state import Applied, Resync, Transcript
from oncue_protocol import Message, ToolCall, ToolResult, Usage


def said(message_id: str, text: str = "hello", role: str = "user", **more: object) -> Message:
    return Message(id=message_id, role=role, text=text, **more)  # type: ignore[arg-type]


def test_transcript_messages_are_applied_in_order() -> None:
    transcript = Transcript()
    assert transcript.append([said("a"), said("b")]) == Applied(2, 0, 0, "b")
    assert transcript.append([said("c")], after="b") == Applied(1, 0, 0, "c")
    assert [e.message.id for e in transcript.entries] == ["a", "b", "c"]


def test_transcript_a_gap_applies_nothing_and_says_where_to_resume() -> None:
    transcript = Transcript()
    assert transcript.append([said("b")], after="a") == Resync(None)
    assert transcript.count == 0
    transcript.append([said("a")])
    assert transcript.append([said("c")], after="b") == Resync("a")
    assert transcript.last_message_id == "a"


def test_transcript_a_repeated_id_replaces_only_with_more_content() -> None:
    transcript = Transcript()
    transcript.append([said("a", "longer text", role="assistant")])
    assert transcript.append([said("a", "short", role="assistant")]) == Applied(0, 0, 1, "a")
    for richer in (
        said("a", "a much longer text", role="assistant"),
        said("a", "x", role="assistant", tool_calls=(ToolCall(id="1", name="run"),)),
        said("a", "x", role="assistant", usage=Usage(input_tokens=5)),
        said("a", "x", role="assistant", tool_results=(ToolResult(call_id="1", text="ok"),)),
    ):
        fresh = Transcript()
        fresh.append([said("a", "longer text", role="assistant"), said("b")])
        assert fresh.append([richer]) == Applied(0, 1, 0, "b")
        assert fresh.entries[0].message == richer


def test_transcript_reset_forgets_ids() -> None:
    transcript = Transcript()
    transcript.append([said("a")])
    transcript.reset()
    assert transcript.last_message_id is None
    assert transcript.append([said("a", "x")]) == Applied(1, 0, 0, "a")


def test_transcript_context_is_the_last_usage_plus_what_follows() -> None:
    transcript = Transcript()
    usage = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=3_000, cache_write_tokens=7)
    transcript.append([said("a", "word " * 400), said("b", "ok", role="assistant", usage=usage)])
    assert transcript.context_tokens == 3_127
    transcript.append([said("c", "word " * 400)])
    assert 3_127 + 250 < transcript.context_tokens < 3_127 + 1_000


def test_X8_a_compaction_sets_a_new_base() -> None:
    transcript = Transcript()
    transcript.append([said("a", role="assistant", usage=Usage(input_tokens=90_000)), said("b")])
    transcript.compact("b", 4_000)
    assert transcript.context_tokens == 4_000
    transcript.append([said("c", role="assistant", usage=Usage(input_tokens=4_500))])
    assert transcript.context_tokens == 4_500
    transcript.compact(None, None)
    assert transcript.context_tokens == 0


def test_R10_what_lies_before_the_kept_message_is_out_of_context() -> None:
    transcript = Transcript()
    transcript.append([said("a"), said("b"), said("c")])
    transcript.compact("b", None)
    assert [transcript.is_in_context(i) for i in ("a", "b", "c", "nobody")] == [
        False,
        True,
        True,
        False,
    ]
    transcript.append([said("d")])
    assert transcript.is_in_context("d")
    transcript.compact("unknown", None)
    assert not transcript.is_in_context("d")


def test_X27_bodies_are_bounded_and_ids_stay_known() -> None:
    transcript = Transcript(kept_tokens=1_000)
    for number in range(2_000):
        transcript.append([said(f"m{number}", "some words of a message")])
    assert transcript.count == 2_000
    assert len(transcript.entries) < 400
    assert transcript.append([said("m0", "other words, and many more of them")]).ignored == 1  # type: ignore[union-attr]


def test_X26_injected_text_is_not_kept() -> None:
    nonce = "0123456789abcdef"
    injected = f"{marker.open_line(nonce)}\nremembered\n{marker.close_line(nonce)}\n"
    transcript = Transcript()
    transcript.append(
        [
            said("a", injected + "my question"),
            said("b", "", role="tool", tool_results=(ToolResult(call_id="1", text=injected),)),
        ]
    )
    kept = "".join(
        e.message.text + "".join(r.text for r in e.message.tool_results) for e in transcript.entries
    )
    assert "remembered" not in kept
    assert "my question" in kept


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 30)), max_size=40))
def test_transcript_repeating_everything_changes_nothing(rows: list[tuple[str, int]]) -> None:
    transcript = Transcript()
    messages = [said(message_id, "x" * length) for message_id, length in rows]
    transcript.append(messages)
    before = (transcript.entries, transcript.last_message_id, transcript.context_tokens)
    assert transcript.append(messages) == Applied(0, 0, len(messages), transcript.last_message_id)
    assert (transcript.entries, transcript.last_message_id, transcript.context_tokens) == before
