"""What every reader must do: rules T1 to T9 of transcripts.md."""

from __future__ import annotations

import json

import pytest

from oncue.transcript.events import (
    Appended,
    Prompt,
    Reset,
    SessionInfo,
    Steering,
    Subagent,
    TurnEnded,
)
from oncue.transcript.readers import lines as line_module
from oncue.transcript.readers import reader_for
from oncue_protocol import TranscriptFormat
from transcript_maker import (
    IMAGE,
    SESSION,
    Claude,
    Codex,
    Gemini,
    Qwen,
    at,
    call,
    kinds,
    lines,
    messages,
    read,
    response,
    skipped,
    text,
    use,
)

FORMATS: tuple[TranscriptFormat, ...] = ("claude", "qwen", "gemini", "codex", "oncue")


def small(form: TranscriptFormat) -> bytes:
    """A prompt, a call, its result and an answer, in each format."""
    if form == "claude":
        claude = Claude()
        claude.user("mend the cart")
        claude.say("m1", text("I look."), use("c1"))
        claude.result("c1")
        claude.say("m2", text("Mended."))
        return claude.bytes()
    if form == "qwen":
        qwen = Qwen()
        qwen.add("user", [text("mend the cart")])
        qwen.add("assistant", [text("I look."), call("c1")])
        qwen.add("tool_result", [response("c1", output="done")])
        qwen.add("assistant", [text("Mended.")])
        return qwen.bytes()
    if form == "gemini":
        gemini = Gemini()
        gemini.user("mend the cart")
        result = [response("c1", output="done")]
        done = {"id": "c1", "name": "read_file", "args": {}, "status": "success", "result": result}
        gemini.add("gemini", content="I look.", toolCalls=[done])
        gemini.add("gemini", content="Mended.")
        return gemini.bytes()
    if form == "codex":
        codex = Codex()
        codex.user("mend the cart")
        codex.say("I look.")
        codex.call("c1")
        codex.output("c1")
        codex.say("Mended.")
        return codex.bytes()
    given = [
        {"id": "p", "role": "user", "text": "mend the cart"},
        {
            "id": "a",
            "role": "assistant",
            "text": "I look.",
            "toolCalls": [{"id": "c1", "name": "x"}],
        },
        {"id": "r", "role": "tool", "toolResults": [{"callId": "c1", "text": "done"}]},
        {"id": "b", "role": "assistant", "text": "Mended."},
    ]
    params = {"sessionId": SESSION, "messages": given}
    return lines(
        [
            {"method": "session/open", "params": {"sessionId": SESSION, "workspace": "/w"}},
            {"method": "transcript/didAppend", "params": params},
        ]
    )


@pytest.mark.parametrize("form", FORMATS)
def test_T3_T4_the_same_turn_reads_the_same_from_every_format(form: TranscriptFormat) -> None:
    events = read(small(form), form)

    assert kinds(events) == ["Prompt", "Appended", "Appended", "Appended", "TurnEnded"]
    info = events[0]
    assert isinstance(info, SessionInfo)
    assert (info.session_id, info.agent) == (SESSION, form)
    prompt, asked, answered, said = messages(events)
    assert (prompt.role, prompt.text) == ("user", "mend the cart")
    assert (asked.role, asked.text) == ("assistant", "I look.")
    assert [c.id for c in asked.tool_calls] == ["c1"]
    assert answered.role == "tool"
    [result] = answered.tool_results
    assert (result.call_id, result.text, result.is_error) == ("c1", "done", False)
    assert said.text == "Mended."
    assert isinstance(events[1], Prompt)
    assert events[-2] == TurnEnded("completed", events[1].turn_id, implied=True)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("size", [1, 7, 64])
def test_T1_the_size_of_the_pieces_changes_nothing(form: TranscriptFormat, size: int) -> None:
    data = small(form)
    reader = reader_for(form, "", data)

    events = [e for i in range(0, len(data), size) for e in reader.feed(data[i : i + size])]

    assert events + reader.close() == read(data, form)


@pytest.mark.parametrize("form", FORMATS)
def test_T1_bom_cr_nul_and_blank_lines_are_dropped(form: TranscriptFormat) -> None:
    data = b"\xef\xbb\xbf" + small(form).replace(b"\n", b"\r\n")
    padded = data.replace(b"\r\n", b"\r\n\r\n\n" + b"\0" * 40, 2)

    plain = messages(read(small(form), form))
    assert [m.text for m in messages(read(data, form))] == [m.text for m in plain]
    assert [m.text for m in messages(read(padded, form))] == [m.text for m in plain]


@pytest.mark.parametrize("form", FORMATS)
def test_T1_bad_lines_are_counted_and_never_fatal(form: TranscriptFormat) -> None:
    good = small(form).splitlines(keepends=True)
    data = good[0] + b'{"type": "assis\n\xff\xfe\nnull\n[]\n' + b"".join(good[1:])

    events = read(data, form)

    assert skipped(events)["bad_line"] == 4
    assert [m.text for m in messages(events)] == [m.text for m in messages(read(small(form), form))]


def test_T1_a_string_may_hold_a_line_separator_of_unicode() -> None:
    writer = Claude()
    writer.user("one\u2028two\u2029three\u0085four")

    [message] = messages(read(writer.bytes(), "claude"))

    assert message.text == "one\u2028two\u2029three\u0085four"


def test_T1_half_a_character_in_an_escape_is_replaced() -> None:
    writer = Claude()
    line = json.dumps(writer.user("cut \ud83d"))

    [message] = messages(read(line.encode(), "claude"))

    assert message.text.startswith("cut ")
    message.text.encode()


def test_T1_a_line_that_never_ends_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_module, "MAX_RECORD_BYTES", 1_000)
    writer = Claude()
    writer.user("before")
    after = Claude()
    after.count = 5
    after.user("after")
    data = writer.bytes() + b'{"type": "user", "x": "' + b"y" * 5_000 + b'"}\n' + after.bytes()

    events = read(data, "claude")

    assert [m.text for m in messages(events)] == ["before", "after"]
    assert skipped(events) == {"overlong": 1}


def test_T2_file_order_rules_not_times() -> None:
    writer = Claude()
    writer.user("first", timestamp=at(50))
    writer.say("m1", text("second"), timestamp=at(10))
    writer.user("third", timestamp=at(5))

    assert [m.text for m in messages(read(writer.bytes(), "claude"))] == [
        "first",
        "second",
        "third",
    ]


def test_T3_in_doubt_text_is_system_and_starts_no_recall() -> None:
    writer = Claude()
    writer.user("<system-reminder>be kind</system-reminder>")
    writer.user("injected by a hook", isMeta=True)

    events = read(writer.bytes(), "claude")

    assert kinds(events) == ["Appended", "Appended"]
    assert {m.role for m in messages(events)} == {"system"}


def test_T3_steering_ends_no_turn() -> None:
    writer = Claude()
    writer.user("mend it")
    writer.say("m1", use("c1"))
    writer.result("c1", "done", text("and the tests"))
    writer.say("m2", text("Both."))

    events = read(writer.bytes(), "claude")

    assert kinds(events) == ["Prompt", "Appended", "Appended", "Steering", "Appended", "TurnEnded"]
    [steering] = [e for e in events if isinstance(e, Steering)]
    assert (steering.message.role, steering.message.text) == ("user", "and the tests")


def test_T3_what_we_injected_is_not_what_the_user_typed() -> None:
    nonce = "0123456789abcdef"
    fence = f"<oncue-memory {nonce}>\nuse tabs\n</oncue-memory {nonce}>\n"
    writer = Claude()
    writer.user(fence + "mend the cart")

    [prompt] = [e for e in read(writer.bytes(), "claude") if isinstance(e, Prompt)]

    assert prompt.query == "mend the cart"


def test_T4_an_assistant_message_goes_out_when_the_next_closes_it() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", text("one"))
    writer.say("m1", text("two"))
    reader = reader_for("claude")

    assert kinds(reader.feed(writer.bytes())) == ["Prompt"]

    writer.records.clear()
    writer.say("m2", text("three"))
    [closed] = messages(reader.feed(writer.bytes()))
    assert closed.text == "one\ntwo"


def test_T4_at_turn_end_an_open_call_gets_an_empty_result_with_an_error() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1"), use("c2"))
    writer.result("c1")
    writer.user("next")

    events = read(writer.bytes(), "claude")

    assert kinds(events)[:5] == ["Prompt", "Appended", "Appended", "Appended", "TurnEnded"]
    [closing] = messages(events)[3].tool_results
    assert (closing.call_id, closing.text, closing.is_error) == ("c2", "", True)
    assert [e.reason for e in events if isinstance(e, TurnEnded)] == ["aborted", "completed"]


def test_T5_usage_figures_are_disjoint_and_all_zero_is_none() -> None:
    writer = Claude()
    writer.say(
        "m1",
        text("a"),
        usage={
            "input_tokens": 7,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "output_tokens": 30,
        },
    )
    writer.say("m2", text("b"), usage={"input_tokens": 0, "output_tokens": 0})

    first, second = messages(read(writer.bytes(), "claude"))

    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens) == (7, 30)
    assert (first.usage.cache_read_tokens, first.usage.cache_write_tokens) == (100, 20)
    assert second.usage is None


def test_T6_subagents_are_off_by_default_and_never_have_recalls() -> None:
    writer = Claude()
    writer.user("go")
    writer.user("You are a searcher.", isSidechain=True, agentId="a7")
    writer.say("s1", text("found"), isSidechain=True, agentId="a7")

    assert kinds(read(writer.bytes(), "claude")) == ["Prompt", "TurnEnded"]

    events = [e for e in read(writer.bytes(), "claude", subagents=True) if isinstance(e, Subagent)]
    assert {e.session_id for e in events} == {f"{SESSION}/a7"}
    inner = [e.event for e in events]
    assert isinstance(inner[0], SessionInfo)
    assert [m.role for m in messages(inner)] == ["system", "assistant"]
    assert all(isinstance(e, SessionInfo | Appended) for e in inner)


def test_T7_binary_parts_are_named_and_thoughts_dropped() -> None:
    writer = Claude()
    writer.user([IMAGE, text("why?")])
    writer.say("m1", {"type": "thinking", "thinking": "secret thought"}, text("so"), use("c1"))
    writer.result("c1", [text("see"), IMAGE])

    prompt, said, result = messages(read(writer.bytes(), "claude"))[:3]

    assert prompt.text == "[image]\nwhy?"
    assert said.text == "so"
    assert result.tool_results[0].text == "see\n[image]"
    assert "iVBOR" not in str((prompt, said, result))


def test_T7_an_image_alone_is_a_turn_with_nothing_to_recall_for() -> None:
    writer = Claude()
    writer.user([IMAGE])

    [prompt] = [e for e in read(writer.bytes(), "claude") if isinstance(e, Prompt)]

    assert (prompt.message.text, prompt.query) == ("[image]", "")


def test_T8_a_rewind_resets_and_sends_what_survived_without_recalls() -> None:
    writer = Claude()
    writer.user("one")
    writer.say("m1", use("c1"))
    writer.result("c1")
    kept = writer.say("m2", text("first answer"))
    writer.user("two")
    writer.say("m3", text("second answer"))
    writer.user("two, differently", parentUuid=kept["uuid"])

    events = read(writer.bytes(), "claude")

    at_reset = events.index(Reset("rewound"))
    after = events[at_reset + 1 :]
    assert kinds([after[0], *after]) == ["Appended"] * 4 + ["Prompt", "TurnEnded"]
    assert [m.text for m in messages(after)] == ["one", "", "", "first answer", "two, differently"]
    assert [m.id for m in messages(after)][:4] == [m.id for m in messages(events)][:4]


def test_T8_without_the_bytes_what_survived_is_only_counted() -> None:
    writer = Claude()
    kept = writer.user("one")
    writer.say("m1", text("a"))
    writer.user("instead", parentUuid=kept["uuid"])
    reader = reader_for("claude")

    events = reader.feed(writer.bytes()) + reader.close()

    assert Reset("rewound") in events
    assert skipped(events) == {"not_sent_again": 1}


@pytest.mark.parametrize("form", FORMATS)
def test_T9_ids_are_stable_and_unique(form: TranscriptFormat) -> None:
    ids = [m.id for m in messages(read(small(form), form))]

    assert ids == [m.id for m in messages(read(small(form), form))]
    assert len(set(ids)) == len(ids)


def test_T9_a_record_without_id_is_named_by_session_and_line() -> None:
    writer = Claude()
    writer.records.append("")
    record = writer.user("who am I")
    del record["uuid"]

    [message] = messages(read(writer.bytes(), "claude"))

    assert message.id == f"{SESSION}:2"


def test_T9_ids_that_the_protocol_would_refuse_are_as_good_as_none() -> None:
    writer = Claude()
    writer.user("long", uuid="x" * 300)
    writer.user("number", uuid=7)

    assert [m.id for m in messages(read(writer.bytes(), "claude"))] == [
        f"{SESSION}:1",
        f"{SESSION}:2",
    ]
