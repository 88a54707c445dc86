"""No bytes whatever make a reader raise, and how they are cut changes nothing (T1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncue.transcript.events import Appended, Event, Note, Prompt, Reset, Steering, TurnEnded
from oncue.transcript.readers import detect, reader_for
from oncue_protocol import Message, TranscriptFormat, converter
from transcript_maker import (
    SESSION,
    Claude,
    Codex,
    Gemini,
    Qwen,
    big_session,
    call,
    feed_in_pieces,
    read,
    response,
    text,
    use,
)

FORMATS: tuple[TranscriptFormat, ...] = ("claude", "qwen", "gemini", "codex", "oncue")
_WORDS = """
type user assistant system attachment tool_result message content parts text uuid
parentUuid sessionId timestamp isSidechain agentId isMeta origin id model usage
input_tokens subtype output_tokens stop_reason tool_use tool_use_id name input
compact_boundary rewind payload microcompact_boundary microcompactMetadata queued_command
prompt systemPayload displayText chat_compression info newTokenCount turn_result state
toolCallResult callId status cancelled functionCall functionResponse response output
error args usageMetadata promptTokenCount gemini toolCalls result tokens cached
displayContent $set messages $rewindTo kind subagent session_meta turn_context
response_item event_msg compacted token_usage_record role call_id function_call
function_call_output web_search_call arguments item turn_id user_message task_started
task_complete turn_aborted thread_rolled_back num_turns token_count total_token_usage
last_token_usage forked_from_id parent_thread_id source thread_spawn method params
transcript/didAppend transcript/didReset turn/didEnd recall/start lane main reason
rewound query turnId toolResults metadata exit_code success action cwd inlineData
mimeType thinking image is_error directories clear command-name thought raw a b c1 c2 m1
m2
"""
WORDS = sorted(set(_WORDS.split()))
TEXTS = (
    "<command-name>/clear</command-name>",
    "<command-name>/x</command-name><command-args>y</command-args>",
    "[Request interrupted by user]",
    "<ide_x>y</ide_x>z",
    "<ide_",
    "<hook_context>",
    "<environment_context>",
    "# Context from my IDE setup: My request for Codex: x",
    "Request cancelled.",
    "2026-01-05T09:00:01Z",
    "9999-12-31T23:59:59-14:00",
    "Exit code: 99999999999999999999",
    '{"output": 3}',
    '{"a":',
    "\ud800",
    "<oncue-memory 0123456789abcdef>",
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(allow_nan=False),
    st.sampled_from(WORDS),
    st.sampled_from(TEXTS),
    st.text(max_size=8),
)
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(WORDS), inner, max_size=6),
    ),
    max_leaves=12,
)


def sample(form: TranscriptFormat) -> bytes:
    """A recording with a bit of everything."""
    if form == "claude":
        claude = Claude()
        kept = claude.user("go")
        claude.say("m1", text("a"), use("c1"), usage={"input_tokens": 3}, stop="tool_use")
        claude.result("c1", [text("x")], text("steer"))
        claude.user("<command-name>/review</command-name><command-args>y</command-args>")
        claude.say("m2", text("b"))
        claude.add("system", subtype="microcompact_boundary", microcompactMetadata={"preTokens": 9})
        claude.user("back", parentUuid=kept["uuid"])
        return claude.bytes()
    if form == "qwen":
        qwen = Qwen()
        kept = qwen.add("user", [text("go")])
        qwen.add("assistant", [text("a"), call("c1")], usageMetadata={"promptTokenCount": 4})
        qwen.add("tool_result", [response("c1", output="x")], toolCallResult={"callId": "c1"})
        qwen.system("chat_compression", info={"newTokenCount": 4})
        qwen.add("system", subtype="rewind", parentUuid=kept["uuid"])
        qwen.system("turn_result", state="cancelled")
        return qwen.bytes()
    if form == "gemini":
        gemini = Gemini()
        gemini.user("go")
        done = {"id": "c1", "name": "x", "status": "error", "result": [response("c1", error="y")]}
        gemini.add("gemini", "g", content="a", toolCalls=[done], tokens={"input": 3})
        gemini.raw(set={"messages": [{"id": "n", "type": "user", "content": "sum"}]})
        gemini.user("on")
        gemini.raw(rewindTo="g")
        return gemini.bytes()
    if form == "codex":
        codex = Codex(forked_from_id="p")
        codex.line("session_meta", id="p")
        codex.event("task_started", turn_id="t1")
        codex.user("go")
        codex.call("c1", '{"a": 1}')
        codex.output("c1", "Exit code: 1")
        codex.user("<skill>x")
        codex.event("thread_rolled_back", num_turns=1)
        codex.line("compacted", message="sum")
        return codex.bytes()
    given_messages = [
        {"id": "1", "role": "user", "text": "go"},
        {"id": "2", "role": "assistant", "toolCalls": [{"id": "c1", "name": "x"}]},
        {"id": "3", "role": "tool", "toolResults": [{"callId": "c1"}]},
    ]
    params = {"sessionId": SESSION, "messages": given_messages}
    return json.dumps({"method": "transcript/didAppend", "params": params}).encode()


def check(data: bytes, form: TranscriptFormat, size: int = 100_000) -> None:
    """Read it, in pieces too, and hold what was read against what a daemon may be told."""
    name = f"/x/subagents/{SESSION}/agent-1.jsonl" if len(data) % 2 else "/x/chats/y"
    detect(name, data)
    events = read(data, form)
    assert "failed" not in skipped_of(events)
    reader = reader_for(form, "", data, source=lambda: [data])
    assert feed_in_pieces(reader, data, size) == events
    assert "failed" not in skipped_of(read(data, form, name, subagents=True))

    turn: str | None = None
    unanswered: set[str] = set()
    for event in events:
        if isinstance(event, Prompt):
            assert turn is None
            turn = event.turn_id
        if isinstance(event, TurnEnded):
            assert event.turn_id == turn
            assert not unanswered
            turn = None
        if isinstance(event, Reset):
            unanswered.clear()
        if isinstance(event, Prompt | Steering | Appended):
            sendable(event.message)
            unanswered |= {asked.id for asked in event.message.tool_calls}
            answered = {result.call_id for result in event.message.tool_results}
            assert answered <= unanswered or form == "oncue"
            unanswered -= answered
    assert turn is None
    assert not unanswered or form == "oncue"


def skipped_of(events: list[Event]) -> dict[str, int]:
    assert isinstance(events[-1], Note)
    return dict(events[-1].skipped)


def sendable(message: Message) -> None:
    """The protocol takes it as it is."""
    given_params = {"sessionId": "s", "messages": [converter.unstructure(message)]}
    taken: Any = converter.structure_params("transcript/didAppend", given_params)
    assert taken.messages[0].id == message.id


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.binary(max_size=400), size=st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_T1_random_bytes(form: TranscriptFormat, data: bytes, size: int) -> None:
    check(data, form, size)


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_T1_mutated_recordings(form: TranscriptFormat, data: st.DataObject) -> None:
    raw = sample(form)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(len(raw), start + 80)))
        other = data.draw(st.integers(0, len(raw)))
        new = data.draw(
            st.one_of(
                st.binary(max_size=6),
                st.just(raw[other : other + 200]),
                st.sampled_from([b"null", b"\n", b'"', b"{}", b"[]", b"0"]),
            )
        )
        raw = raw[:start] + new + raw[end:]
    check(raw, form, data.draw(st.integers(1, 200)))


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_T1_records_with_members_of_any_kind(form: TranscriptFormat, data: st.DataObject) -> None:
    records = [json.loads(line) for line in sample(form).splitlines()]
    for _ in range(data.draw(st.integers(1, 5))):
        record = data.draw(st.sampled_from(records))
        holder = record
        while isinstance(holder, dict) and holder:
            key = data.draw(st.sampled_from(sorted(holder)))
            inner = holder[key]
            if not isinstance(inner, dict) or data.draw(st.booleans()):
                holder[key] = data.draw(values)
                break
            holder = inner
        records.append(data.draw(st.dictionaries(st.sampled_from(WORDS), values, max_size=8)))
        records.append(data.draw(st.sampled_from(records)))
    check("\n".join(map(json.dumps, records)).encode(), form, 97)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_T1_one_object_with_anything_in_it(data: st.DataObject) -> None:
    whole = data.draw(st.dictionaries(st.sampled_from(WORDS), values, max_size=5))
    records = st.dictionaries(st.sampled_from(WORDS), values, max_size=6)
    whole["messages"] = data.draw(st.lists(records, max_size=5))
    raw = json.dumps(whole).encode()
    check(raw[: data.draw(st.integers(0, len(raw)))], "gemini", data.draw(st.integers(1, 50)))


def test_T1_deep_nesting() -> None:
    for depth in (64, 900, 1_100, 200_000):
        deep = "[" * depth + "]" * depth
        line = (
            '{"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": '
        )
        line += f'"c", "name": "x", "input": {deep}}}]}}}}\n'
        check(line.encode(), "claude")
        check(b'{"messages": ' + deep.encode(), "gemini")


@pytest.mark.parametrize("form", FORMATS)
def test_T9_time_grows_no_faster_than_the_text(form: TranscriptFormat) -> None:
    """Text made to be slow: a megabyte of each is done long before a quadratic reader would be."""
    for unit in ("<ide_a>", "<ide_", "</ide_a><ide_b>", "<hook_context>", "\\", '"', "Exit code: "):
        line = json.dumps({"type": "user", "uuid": "u", "message": {"content": unit * 60_000}})
        read(line.encode(), form)
        read((unit * 60_000).encode(), form)


def test_T1_a_synthetic_session_reads_without_a_word_lost() -> None:
    data = b"".join(big_session(1))

    events = read(data, "claude")

    turns = sum(isinstance(event, Prompt) for event in events)
    assert turns == data.count(b"Please look at")
    assert skipped_of(events) == {"noise": turns * 9}
    assert sum(isinstance(event, TurnEnded) for event in events) == turns
