"""The 25 cases of transcripts.md §7."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard

from oncue.transcript import files
from oncue.transcript.events import (
    Appended,
    Compacted,
    Event,
    Note,
    Prompt,
    Reset,
    SessionInfo,
    Steering,
    Subagent,
    TurnEnded,
    WillCompact,
)
from oncue.transcript.readers import detect, reader_for
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
    feed_in_pieces,
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


def reasons(events: list[Event]) -> list[str]:
    return [e.reason for e in events if isinstance(e, TurnEnded)]


def prompts(events: list[Event]) -> list[str]:
    return [e.query for e in events if isinstance(e, Prompt)]


def texts(events: list[Event], role: str) -> list[str]:
    return [m.text for m in messages(events) if m.role == role]


@pytest.mark.parametrize("form", FORMATS)
def test_T7_case_01_empty_file(form: TranscriptFormat) -> None:
    assert read(b"", form) == [Note({}, 0)]


def test_T7_case_01_header_only() -> None:
    for form, data in (
        ("gemini", Gemini().bytes()),
        ("gemini", Gemini().whole()),
        ("codex", Codex().bytes()),
        ("codex", lines([{"id": SESSION, "timestamp": at(0), "instructions": None}])),
    ):
        events = read(data, form)  # type: ignore[arg-type]
        assert isinstance(events[0], SessionInfo)
        assert events[0].session_id == SESSION
        assert len(events) == 2


@pytest.mark.parametrize("cut", range(1, 9))
def test_T7_case_02_last_line_cut_inside_utf8(cut: int) -> None:
    writer = Claude()
    writer.user("whole")
    whole = writer.bytes()
    writer.user("ends in 記憶")
    data = writer.bytes()
    position = data.index("記憶".encode()) + cut

    events = read(data[: min(position, len(data) - 2)], "claude")

    assert prompts(events) == ["whole"]
    assert skipped(events) == {"bad_line": 1}
    assert len(data) > len(whole)


@pytest.mark.parametrize("form", FORMATS)
def test_T7_case_03_numbers_lists_and_prose(form: TranscriptFormat) -> None:
    events = read(b'42\n[1]\nDear diary\n"text"\ntrue\n', form)

    assert skipped(events) == {"bad_line": 5}
    assert messages(events) == []


def test_T7_case_04_bom_crlf_u2028_nul() -> None:
    writer = Claude()
    writer.user("a\u2028b\u0000c")
    writer.say("m1", text("d"))
    first, second = writer.bytes().splitlines()
    data = b"\xef\xbb\xbf" + first + b"\r\n" + b"\0" * 512 + second + b"\r\n"

    events = read(data, "claude")

    assert [m.text for m in messages(events)] == ["a\u2028b\0c", "d"]
    assert skipped(events) == {}


def test_T7_case_05_five_megabyte_image_line() -> None:
    writer = Claude()
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 5_000_000}}
    writer.user([image, text("what is this?")])
    writer.say("m1", text("A graph."))
    data = writer.bytes()

    events = feed_in_pieces(reader_for("claude"), data, 64 * 1024)

    assert [m.text for m in messages(events)] == ["[image]\nwhat is this?", "A graph."]
    assert sum(len(repr(e)) for e in events) < 2_000


def test_T7_case_06_unknown_type_subtype_block() -> None:
    claude = Claude()
    claude.user("go")
    claude.add("hologram", message={"content": "?"})
    claude.add("system", subtype="weather", content="rain")
    claude.add("attachment", attachment={"type": "smell"})
    claude.say("m1", {"type": "dance", "steps": 3}, text("yes"))
    events = read(claude.bytes(), "claude")
    assert [m.text for m in messages(events)] == ["go", "yes"]
    assert skipped(events) == {"unknown_type": 1, "noise": 2, "unknown_block": 1}

    qwen = Qwen()
    qwen.add("hologram")
    qwen.system("weather")
    qwen.add("user", [text("go")], subtype="telepathy")
    qwen.add("assistant", [{"dance": 3}, text("yes")])
    events = read(qwen.bytes(), "qwen")
    assert [(m.role, m.text) for m in messages(events)] == [("system", "go"), ("assistant", "yes")]
    assert skipped(events) == {"unknown_type": 2, "unknown_block": 1}

    gemini = Gemini()
    gemini.add("hologram", content="?")
    gemini.add("gemini", content=[{"dance": 3}, text("yes")])
    events = read(gemini.bytes(), "gemini")
    assert [m.text for m in messages(events)] == ["yes"]
    assert skipped(events) == {"unknown_type": 1, "unknown_block": 1}

    codex = Codex()
    codex.line("hologram", a=1)
    codex.item("poem", text="?")
    codex.event("weather", text="rain")
    codex.item(
        "message", role="assistant", content=[{"type": "dance"}, {"type": "x", "text": "yes"}]
    )
    events = read(codex.bytes(), "codex")
    assert [m.text for m in messages(events)] == ["yes"]
    assert skipped(events) == {"unknown_type": 2, "noise": 1, "unknown_block": 1}


def test_T7_case_07_null_content_message_usage() -> None:
    claude = Claude()
    for kind in ("user", "assistant", "system", "attachment"):
        claude.add(kind, message=None, attachment=None)
    claude.user(None)
    claude.add("assistant", message={"id": "m0", "content": None, "usage": None})
    claude.say("m1", text("yes"), usage=None)
    qwen = Qwen()
    for kind in ("user", "assistant", "tool_result", "system"):
        qwen.add(kind, message=None, systemPayload=None, usageMetadata=None, toolCallResult=None)
    qwen.add("assistant", [text("yes")], usageMetadata=None)
    gemini = Gemini()
    gemini.add("user", content=None)
    gemini.raw(set=None)
    gemini.add("gemini", content="yes", tokens=None, toolCalls=None)
    codex = Codex()
    codex.records.append({"timestamp": None, "type": "response_item", "payload": None})
    codex.event("token_count", info=None)
    codex.item("message", role="user", content=None)
    codex.item("message", role="assistant", content=[{"type": "output_text", "text": "yes"}])

    for form, data in (
        ("claude", claude.bytes()),
        ("qwen", qwen.bytes()),
        ("gemini", gemini.bytes()),
        ("codex", codex.bytes()),
    ):
        events = read(data, form)  # type: ignore[arg-type]
        assert [m.text for m in messages(events)] == ["yes"], form
        assert messages(events)[0].usage is None
        assert "failed" not in skipped(events)


def test_T7_case_08_nine_lines_one_id_usage_once() -> None:
    writer = Claude()
    writer.user("go")
    for number in range(9):
        usage = {"input_tokens": 4, "cache_read_input_tokens": 900, "output_tokens": 100 + number}
        writer.say("m1", text(f"part {number}"), usage=usage)

    prompt, said = messages(read(writer.bytes(), "claude"))

    assert said.text == "\n".join(f"part {number}" for number in range(9))
    assert said.usage is not None
    assert (said.usage.input_tokens, said.usage.cache_read_tokens) == (4, 900)
    assert said.usage.output_tokens == 108
    assert prompt.usage is None


def test_T7_case_09_results_amid_one_response() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1"))
    writer.result("c1", "one")
    writer.say("m1", use("c2"))
    writer.result("c2", "two")
    writer.say("m2", text("done"))

    events = read(writer.bytes(), "claude")

    _, asked, first, second, said = messages(events)
    assert [c.id for c in asked.tool_calls] == ["c1", "c2"]
    assert [m.tool_results[0].text for m in (first, second)] == ["one", "two"]
    assert said.text == "done"


def test_T7_case_10_same_id_two_responses() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1"), stop="tool_use")
    writer.result("c1")
    again = writer.say("m1", text("a new answer"), stop="end_turn")

    said = [m for m in messages(read(writer.bytes(), "claude")) if m.role == "assistant"]

    assert [m.id for m in said] == ["m1", again["uuid"]]
    assert [m.text for m in said] == ["", "a new answer"]


def test_T7_case_11_placeholder_output() -> None:
    writer = Claude()
    words = "A sentence of some length. " * 40
    writer.say("m1", text(words), usage={"input_tokens": 9, "output_tokens": 1})
    writer.say("m2", text("short"), usage={"input_tokens": 9, "output_tokens": 400})

    placeholder, real = messages(read(writer.bytes(), "claude"))

    assert placeholder.usage is not None
    assert placeholder.usage.output_tokens > 100
    assert real.usage is not None
    assert real.usage.output_tokens == 400


def test_T7_case_12_copy_in_the_same_file_with_new_uuids() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", text("I look"))
    writer.say("m1", use("c1"))
    writer.result("c1", "one", text("steer"))
    writer.say("m2", text("done"))
    history = json.loads(json.dumps(writer.records))
    for number, record in enumerate(history):
        record["uuid"] = f"copy{number}"
        record["parentUuid"] = f"copy{number - 1}" if number else None
    writer.records += history
    writer.last = history[-1]["uuid"]
    writer.user("and now this")

    events = read(writer.bytes(), "claude")

    assert prompts(events) == ["go", "and now this"]
    assert len(messages(events)) == 6
    assert Reset("rewound") not in events
    assert skipped(events)["copy"] == 5


def test_T7_case_12_copy_of_history_in_a_new_file_keeps_its_ids() -> None:
    old = Claude()
    old.user("go")
    old.say("m1", text("yes"))
    new = Claude("5d1f0c1e-0000-4000-8000-000000000002")
    new.records = [*old.records]
    new.count, new.last = old.count, old.last
    new.user("and now this")
    name = f"/home/mira/.claude/projects/shop/{new.session}.jsonl"

    events = read(new.bytes(), "claude", name)

    assert isinstance(events[0], SessionInfo)
    assert events[0].session_id == new.session
    first = [m.id for m in messages(read(old.bytes(), "claude"))]
    assert [m.id for m in messages(events)][:2] == first


def test_T7_case_13_parallel_calls_answered_out_of_order() -> None:
    writer = Claude()
    writer.user("go")
    one = writer.say("m1", use("c1"))
    two = writer.say("m1", use("c2"))
    three = writer.say("m1", use("c3"))
    writer.result("c3", "3", parentUuid=three["uuid"])
    writer.result("c1", "1", parentUuid=one["uuid"])
    writer.result("c2", "2", parentUuid=two["uuid"])
    writer.say("m2", text("done"))
    writer.user("next")

    events = read(writer.bytes(), "claude")

    results = [m.tool_results[0] for m in messages(events) if m.role == "tool"]
    assert [(r.call_id, r.text) for r in results] == [("c3", "3"), ("c1", "1"), ("c2", "2")]
    assert [len(m.tool_calls) for m in messages(events) if m.role == "assistant"] == [3, 0]
    assert Reset("rewound") not in events
    assert reasons(events) == ["completed", "completed"]


def test_T7_case_14_unanswered_call_and_orphan_result() -> None:
    writer = Claude()
    writer.user("go")
    writer.result("never-asked", "surprise")
    writer.say("m1", use("c1"))

    events = read(writer.bytes(), "claude")

    [closing] = [m for m in messages(events) if m.role == "tool"]
    assert [(r.call_id, r.is_error, r.text) for r in closing.tool_results] == [("c1", True, "")]
    assert reasons(events) == ["aborted"]
    assert skipped(events) == {"orphan_result": 1}


def test_T7_case_15_refused_call_interrupt_prompt() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1", "Bash", command="rm x"))
    writer.result("c1", "The user doesn't want to proceed.", is_error=True)
    writer.user([text("[Request interrupted by user for tool use]")])
    writer.user("only list the files")

    events = read(writer.bytes(), "claude")

    assert kinds(events)[:5] == ["Prompt", "Appended", "Appended", "TurnEnded", "Prompt"]
    assert messages(events)[2].tool_results[0].is_error
    assert reasons(events)[0] == "aborted"
    assert prompts(events) == ["go", "only list the files"]
    assert not any("interrupted" in m.text for m in messages(events))


@pytest.mark.parametrize(
    "words",
    [
        "<local-command-stdout>ok</local-command-stdout>",
        "<bash-input>ls</bash-input>",
        "<task-notification>done</task-notification>",
        "<system-reminder>hm</system-reminder>",
        "Caveat: the messages below were generated",
        "Operation stopped by hook: no",
    ],
)
def test_T7_case_16_text_nobody_typed(words: str) -> None:
    writer = Claude()
    writer.user(words)

    events = read(writer.bytes(), "claude")

    assert prompts(events) == []
    assert texts(events, "system") == [words]


@pytest.mark.parametrize("member", ["isMeta", "isCompactSummary", "origin"])
def test_T7_case_16_records_nobody_typed(member: str) -> None:
    writer = Claude()
    writer.user("looks typed", **{member: {"kind": "task"} if member == "origin" else True})

    assert texts(read(writer.bytes(), "claude"), "system") == ["looks typed"]


def test_T7_case_16_ide_text_is_dropped_and_the_rest_kept() -> None:
    writer = Claude()
    ide = "<ide_opened_file>The user opened /x.py</ide_opened_file>"
    writer.user([text(ide), text("mend it")])
    writer.user(f"<ide_selection>lines 1 to 3</ide_selection>\nand this {ide}please")

    events = read(writer.bytes(), "claude")

    assert prompts(events) == ["mend it", "and this please"]
    assert not any("ide_" in m.text for m in messages(events))


def test_T7_case_16_a_command_is_a_turn_if_an_answer_follows() -> None:
    command = (
        "<command-message>review is running…</command-message>\n"
        "<command-name>/review</command-name>\n<command-args>the cart module</command-args>"
    )
    answered = Claude()
    answered.user(command)
    answered.user("Look at what you are given and judge it.", isMeta=True)
    answered.say("m1", text("It is fine."))
    events = read(answered.bytes(), "claude")
    assert kinds(events) == ["Prompt", "Appended", "Appended", "TurnEnded"]
    assert prompts(events) == ["the cart module"]
    assert messages(events)[0].text == "/review the cart module"
    assert [m.role for m in messages(events)] == ["user", "system", "assistant"]

    local = Claude()
    local.user("<command-name>/model</command-name><command-args></command-args>")
    local.user("<local-command-stdout>Set model</local-command-stdout>")
    local.user("now a question")
    events = read(local.bytes(), "claude")
    assert prompts(events) == ["now a question"]
    assert [m.role for m in messages(events)] == ["system", "system", "user"]


def test_T7_case_17_steering_beside_a_result() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1"))
    writer.result("c1", "ok", text("not the tests"))
    writer.add("attachment", attachment={"type": "queued_command", "prompt": "be quick"})
    queued = {"type": "queued_command", "prompt": "a task ended", "origin": {"kind": "task"}}
    writer.add("attachment", attachment=queued)
    writer.say("m2", text("done"))

    events = read(writer.bytes(), "claude")

    assert [e.message.text for e in events if isinstance(e, Steering)] == [
        "not the tests",
        "be quick",
    ]
    assert texts(events, "system") == ["a task ended"]
    assert prompts(events) == ["go"]
    assert reasons(events) == ["completed"]
    assert len({m.id for m in messages(events)}) == len(messages(events))


@pytest.mark.parametrize("trigger", ["auto", "manual"])
def test_T7_case_18_compaction(trigger: str) -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", text("yes"))
    if trigger == "manual":
        writer.user("<command-name>/compact</command-name><command-args></command-args>")
    metadata = {"trigger": trigger, "preTokens": 150_000}
    writer.add(
        "system",
        subtype="compact_boundary",
        parentUuid=None,
        logicalParentUuid=writer.last,
        compactMetadata=metadata,
    )
    writer.user("This session is continued: …", isCompactSummary=True)
    writer.user("next")

    events = read(writer.bytes(), "claude")

    at_boundary = events.index(WillCompact())
    assert events[at_boundary + 1] == Compacted(None)
    summary = events[at_boundary + 2]
    assert isinstance(summary, Appended)
    assert summary.message.role == "system"
    assert prompts(events) == ["go", "next"]
    assert Reset("rewound") not in events


def test_T7_case_18_compaction_micro() -> None:
    writer = Claude()
    writer.user("go")
    metadata = {"trigger": "auto", "preTokens": 90_000, "tokensSaved": 25_000}
    writer.add("system", subtype="microcompact_boundary", microcompactMetadata=metadata)

    assert Compacted(65_000) in read(writer.bytes(), "claude")


def test_T7_case_18_a_rewind_behind_a_compaction_brings_nothing_back_from_before_it() -> None:
    writer = Claude()
    writer.user("ancient")
    writer.say("m1", text("history"))
    writer.add("system", subtype="compact_boundary", parentUuid=None)
    writer.user("summary", isCompactSummary=True)
    writer.user("go")
    kept = writer.say("m2", text("answer"))
    writer.user("one way")
    writer.user("another way", parentUuid=kept["uuid"])

    events = read(writer.bytes(), "claude")

    after = events[events.index(Reset("rewound")) :]
    assert [m.text for m in messages(after)] == ["summary", "go", "answer", "another way"]


def test_T7_case_19_rewind_into_a_branch_that_was_left() -> None:
    writer = Claude()
    writer.user("root")
    root = writer.say("m1", text("root answer"))
    writer.user("first way")
    first = writer.say("m2", text("first answer"))
    writer.user("first way on")
    writer.user("second way", parentUuid=root["uuid"])
    writer.say("m3", text("second answer"))
    writer.user("back to the first", parentUuid=first["uuid"])

    events = read(writer.bytes(), "claude")

    resets = [at for at, event in enumerate(events) if event == Reset("rewound")]
    assert len(resets) == 2
    survived = [m.text for m in messages(events[resets[0] : resets[1]])]
    assert survived == ["root", "root answer", "second way", "second answer"]
    survived = [m.text for m in messages(events[resets[1] :])]
    assert survived == ["root", "root answer", "first way", "first answer", "back to the first"]


def test_T7_case_19_parent_cycle_and_unknown_parent_are_no_rewind() -> None:
    writer = Claude()
    writer.user("one", uuid="a", parentUuid="b")
    writer.user("two", uuid="b", parentUuid="a")
    writer.user("three", uuid="c", parentUuid="c")
    writer.user("four", parentUuid="nobody")
    writer.user("five", parentUuid=17)

    events = read(writer.bytes(), "claude")

    assert prompts(events) == ["one", "two", "three", "four", "five"]
    assert Reset("rewound") not in events


def test_T7_case_19_qwen_and_codex_and_gemini_rewinds() -> None:
    qwen = Qwen()
    qwen.add("user", [text("one")])
    kept = qwen.add("assistant", [text("first")])
    qwen.add("user", [text("two")])
    qwen.add("system", subtype="rewind", parentUuid=kept["uuid"])
    qwen.add("user", [text("three")])
    events = read(qwen.bytes(), "qwen")
    after = events[events.index(Reset("rewound")) :]
    assert [m.text for m in messages(after)] == ["one", "first", "three"]
    assert prompts(after) == ["three"]

    codex = Codex()
    for number in ("one", "two", "three"):
        codex.user(number)
        codex.say(f"re {number}")
    codex.event("thread_rolled_back", num_turns=2)
    codex.user("four")
    events = read(codex.bytes(), "codex")
    after = events[events.index(Reset("rewound")) :]
    assert [m.text for m in messages(after)] == ["one", "re one", "four"]

    gemini = Gemini()
    gemini.user("one")
    gemini.add("gemini", content="first")
    second = gemini.user("two")
    gemini.add("gemini", content="second")
    gemini.raw(rewindTo=second["id"])
    gemini.user("three")
    gemini.raw(rewindTo="nobody")
    gemini.user("four")
    events = read(gemini.bytes(), "gemini")
    first, last = [at for at, event in enumerate(events) if event == Reset("rewound")]
    assert [m.text for m in messages(events[first:last])] == ["one", "first", "three"]
    assert [m.text for m in messages(events[last:])] == ["four"]


def test_T7_case_20_clear_at_head_and_mid_file() -> None:
    clear = "<command-name>/clear</command-name><command-message>clear</command-message>"
    head = Claude()
    head.user("Caveat: local", isMeta=False, type="user", subtype=None)
    head.records.clear()
    head.user(clear)
    head.user("go")
    events = read(head.bytes(), "claude")
    assert Reset("cleared") not in events
    assert prompts(events) == ["go"]

    late = Claude()
    late.user("go")
    late.say("m1", text("yes"))
    late.user(clear)
    late.user("afresh")
    events = read(late.bytes(), "claude")
    assert kinds(events) == ["Prompt", "Appended", "TurnEnded", "Reset", "Prompt", "TurnEnded"]
    assert Reset("cleared") in events
    assert not any("clear" in m.text for m in messages(events))


def test_T7_case_21_subagent_inside_beside_below(tmp_path: Path) -> None:
    inside = Claude()
    inside.user("go")
    main = inside.last
    inside.add("user", message={"content": "search"}, isSidechain=True, parentUuid=None)
    inside.say("s1", use("sc1"), isSidechain=True)
    inside.result("sc1", "found", isSidechain=True)
    inside.say("m1", text("done"), parentUuid=main)
    agents = [e for e in read(inside.bytes(), "claude", subagents=True) if isinstance(e, Subagent)]
    assert {e.session_id for e in agents} == {f"{SESSION}/u2"}
    assert [m.role for m in messages(e.event for e in agents)] == ["system", "assistant", "tool"]
    assert prompts(read(inside.bytes(), "claude")) == ["go"]
    assert skipped(read(inside.bytes(), "claude")) == {"subagent": 3}

    own = Claude()
    own.user("search", isSidechain=True, agentId="a7")
    own.say("s1", text("found"), isSidechain=True, agentId="a7")
    events = read(own.bytes(), "claude", f"/p/{SESSION}/subagents/agent-a7.jsonl", subagents=True)
    assert {e.session_id for e in events if isinstance(e, Subagent)} == {f"{SESSION}/a7"}
    assert messages(events) == []

    main_file = tmp_path / f"{SESSION}.jsonl"
    below = tmp_path / SESSION / "subagents"
    below.mkdir(parents=True)
    for file in (
        tmp_path / "agent-a1.jsonl",
        below / "agent-a2.jsonl",
        below / "agent-acompact-3.jsonl",
    ):
        file.write_bytes(own.bytes())
    found = [file.name for file in files.subagent_files(main_file)]
    assert sorted(found) == ["agent-a1.jsonl", "agent-a2.jsonl"]


def test_T7_case_21_subagents_of_the_other_agents() -> None:
    qwen = Qwen()
    qwen.add("user", [text("search")])
    name = f"/q/subagents/{SESSION}/agent-a7.jsonl"
    events = read(qwen.bytes(), "qwen", name, subagents=True)
    assert {e.session_id for e in events if isinstance(e, Subagent)} == {f"{SESSION}/a7"}
    assert messages(read(qwen.bytes(), "qwen", name)) == []

    gemini = Gemini()
    gemini.user("search")
    name = "/g/chats/parent-id/session-2026-01-05T09-00-5d1f0c1e.jsonl"
    events = read(gemini.bytes(), "gemini", name, subagents=True)
    assert {e.session_id for e in events if isinstance(e, Subagent)} == {f"parent-id/{SESSION}"}
    assert messages(read(gemini.bytes(), "gemini", name)) == []

    codex = Codex(source={"subagent": {"thread_spawn": {"parent_thread_id": "p1"}}})
    codex.user("search")
    events = read(codex.bytes(), "codex", subagents=True)
    assert {e.session_id for e in events if isinstance(e, Subagent)} == {f"p1/{SESSION}"}
    assert messages(read(codex.bytes(), "codex")) == []


def test_T7_case_22_gemini_id_three_times() -> None:
    writer = Gemini()
    writer.user("go")
    given = {"id": "c1", "name": "read_file", "args": {"path": "x"}}
    done = given | {"status": "success", "result": [response("c1", output="text of x")]}
    writer.add("gemini", "g9", content="I look")
    writer.add("gemini", "g9", content="I look", tokens={"input": 50, "output": 5, "total": 55})
    writer.add(
        "gemini", "g9", content="I look", tokens={"input": 50, "output": 5}, toolCalls=[done]
    )
    writer.user([response("c1", output="text of x")])
    writer.add("gemini", content="done")

    events = read(writer.bytes(), "gemini")

    prompt, asked, result, said = messages(events)
    assert (prompt.text, said.text) == ("go", "done")
    assert asked.usage is not None
    assert [c.input for c in asked.tool_calls] == [{"path": "x"}]
    assert result.tool_results[0].text == "text of x"
    assert skipped(events) == {"repeated_result": 1}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("size", [1, 11, 10_000])
def test_T7_case_22_one_object_reads_as_its_lines_whatever_the_file_is_called(
    indent: int | None, size: int
) -> None:
    writer = Gemini()
    writer.user('quotes " and \\ brackets ] } , in [text]')
    writer.add("gemini", content="nested", toolCalls=[{"id": "c", "args": {"a": [1, {"b": []}]}}])
    writer.user("ümlaut 記憶")
    whole = writer.whole(indent)
    assert detect("/x/session-1.jsonl", whole) == "gemini"
    assert detect("/x/session-1.json", writer.bytes()) == "gemini"

    reader = reader_for("gemini", "/x/session-1.jsonl", whole)
    events = feed_in_pieces(reader, whole, size)

    assert messages(events) == messages(read(writer.bytes(), "gemini", "/x/session-1.json"))
    assert len(prompts(events)) == 2


def test_T7_case_22_one_object_cut_short() -> None:
    writer = Gemini()
    writer.user("one")
    writer.user("two")
    whole = writer.whole()

    for cut in range(len(whole)):
        events = read(whole[:cut], "gemini")
        assert prompts(events) in ([], ["one"], ["one", "two"])
        assert "failed" not in skipped(events)


def test_T7_case_23_codex_repeated_token_count() -> None:
    writer = Codex()
    writer.user("go")
    writer.say("one")
    total = {"input_tokens": 100, "output_tokens": 10}
    last = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 10}
    writer.event("token_count", info={"total_token_usage": total, "last_token_usage": last})
    writer.call("c1")
    writer.output("c1")
    writer.say("two")
    writer.event("token_count", info={"total_token_usage": total, "last_token_usage": last})
    writer.event("token_count", info=None)

    said = [m for m in messages(read(writer.bytes(), "codex")) if m.role == "assistant"]

    assert [m.text for m in said] == ["one", "two"]
    usage = said[0].usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (40, 60, 10)
    assert said[1].usage is None


def test_T7_case_23_codex_bare() -> None:
    data = lines(
        [
            {"id": SESSION, "timestamp": at(0), "instructions": "be kind", "git": {}},
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            {"type": "message", "role": "assistant", "content": [{"text": "done"}]},
        ]
    )
    assert detect("/x/rollout-1.jsonl", data) == "codex"

    events = read(data, "codex")

    assert isinstance(events[0], SessionInfo)
    assert events[0].session_id == SESSION
    assert kinds(events) == ["Prompt", "Appended", "Appended", "Appended", "TurnEnded"]
    assert all(m.time is None for m in messages(events))


def test_T7_case_23_codex_zst(tmp_path: Path) -> None:
    writer = Codex()
    writer.user("go")
    writer.say("done")
    packed = tmp_path / "rollout-1.jsonl.zst"
    half = len(writer.bytes()) // 2
    pieces = (writer.bytes()[:half], writer.bytes()[half:])
    packed.write_bytes(b"".join(zstandard.compress(piece) for piece in pieces))

    assert list(files.read(packed)) == read(writer.bytes(), "codex", "")
    assert list(files.read(tmp_path / "rollout-1.jsonl")) == list(files.read(packed))

    writer.user("more")
    (tmp_path / "rollout-1.jsonl").write_bytes(writer.bytes())
    assert prompts(list(files.read(packed))) == ["go", "more"], "a plain twin is newer"


def test_T7_case_23_codex_zst_damaged(tmp_path: Path) -> None:
    writer = Codex()
    for number in range(2_000):
        writer.user(f"request {number} of {number * 7919 % 1_000}")
    packed = zstandard.compress(writer.bytes())
    file = tmp_path / "rollout-1.jsonl.zst"
    for cut in (5, len(packed) // 2, len(packed) - 1):
        file.write_bytes(packed[:cut])
        events = list(files.read(file))
        assert isinstance(events[-1], Note)
        assert "failed" not in skipped(events)


PARENT = "019b8000-0000-7000-8000-000000000001"
CHILD = "019b8100-0000-7000-8000-000000000002"
PARENT_TURN = "019b8001-0000-7000-8000-000000000003"
CHILD_TURN = "019b8101-0000-7000-8000-000000000004"


def child(parent_turn: str, own_turn: str, own_second: float, thread: str = CHILD) -> Codex:
    """A fork: its meta, the parent's, a copy restamped at one moment, then its own turn."""
    writer = Codex(thread, forked_from_id=PARENT)
    fork = at(1)
    writer.line("session_meta", fork, id=PARENT, cwd="/elsewhere")
    writer.event("task_started", fork, turn_id=parent_turn)
    writer.line("turn_context", fork, turn_id=parent_turn, model="x")
    writer.user("asked of the parent", fork)
    writer.say("answered by the parent", fork)
    writer.event("task_started", at(own_second), turn_id=own_turn)
    writer.line("turn_context", at(own_second), turn_id=own_turn, model="x")
    writer.user("asked of the child", at(own_second))
    writer.say("answered by the child", at(own_second))
    return writer


@pytest.mark.parametrize(
    ("parent_turn", "own_turn", "own_second", "thread"),
    [(PARENT_TURN, CHILD_TURN, 1.2, CHILD), ("1", "2", 60, "plain-id")],
    ids=["ids tell", "times tell"],
)
def test_T7_case_24_codex_child_two_session_meta(
    parent_turn: str, own_turn: str, own_second: float, thread: str
) -> None:
    events = read(child(parent_turn, own_turn, own_second, thread).bytes(), "codex")

    info = events[0]
    assert isinstance(info, SessionInfo)
    assert (info.session_id, info.workspace) == (thread, "/home/mira/shop")
    assert [m.text for m in messages(events)] == ["asked of the child", "answered by the child"]
    assert prompts(events) == ["asked of the child"]


@pytest.mark.parametrize("form", FORMATS)
def test_T7_case_25_second_reading_equal(form: TranscriptFormat) -> None:
    data = {
        "claude": rewound_claude(),
        "qwen": Qwen().bytes(),
        "gemini": Gemini().bytes(),
        "codex": child(PARENT_TURN, CHILD_TURN, 2).bytes(),
        "oncue": b'{"method": "turn/didEnd", "params": {"sessionId": "s"}}\n',
    }[form]

    assert read(data, form) == read(data, form)


def rewound_claude() -> bytes:
    writer = Claude()
    writer.user("one")
    kept = writer.say("m1", text("a"), IMAGE)
    writer.user("two")
    writer.user("three", parentUuid=kept["uuid"])
    return writer.bytes()


def test_T7_case_25_growing_file() -> None:
    data = rewound_claude()
    for cut in range(0, len(data), 13):
        reader = reader_for("claude", source=lambda: [data])
        events = reader.feed(data[:cut])
        events += reader.feed(data[cut:]) + reader.close()
        assert events == read(data, "claude")


def test_T7_case_25_settling_sends_early_and_again_what_has_grown() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", text("I look"), use("c1"))
    reader = reader_for("claude")
    reader.feed(writer.bytes())

    [early] = messages(reader.settle())
    assert reader.settle() == []
    writer.records.clear()
    writer.result("c1")
    writer.say("m1", use("c2"))
    events = reader.feed(writer.bytes()) + reader.close()

    assert early.id == "m1"
    again = messages(events)
    assert [(m.id, len(m.tool_calls)) for m in again] == [
        ("u3", 0),
        ("m1", 2),
        ("c2:unanswered", 0),
    ]
    assert [r.call_id for m in again for r in m.tool_results] == ["c1", "c2"]


def test_T7_case_25_call_of_qwen_is_closed_once() -> None:
    writer = Qwen()
    writer.add("user", [text("go")])
    writer.add("assistant", [call("c1")])
    reader = reader_for("qwen")
    early = reader.feed(writer.bytes()) + reader.settle()
    rest = reader.close()

    ids = [m.id for m in messages(early + rest)]
    assert ids == ["w1", "w2", "c1:unanswered"]
