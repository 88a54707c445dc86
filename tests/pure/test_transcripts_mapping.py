"""Each row of transcripts.md §6, for each agent; and what §2 to §5 say of one agent alone."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.transcript.events import (
    Compacted,
    Event,
    Prompt,
    Reset,
    Steering,
    TurnEnded,
    WillCompact,
)
from oncue.transcript.readers import detect
from oncue_protocol import Message, TranscriptFormat
from transcript_maker import (
    SESSION,
    Claude,
    Codex,
    Gemini,
    Qwen,
    at,
    call,
    lines,
    messages,
    read,
    response,
    skipped,
    text,
    use,
)


def reasons(events: list[Event]) -> list[str]:
    return [e.reason for e in events if isinstance(e, TurnEnded)]


def prompts(events: list[Event]) -> list[str]:
    return [e.query for e in events if isinstance(e, Prompt)]


def figures(message: Message) -> tuple[int, int, int, int] | None:
    usage = message.usage
    if usage is None:
        return None
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )


def of(events: list[Event], role: str) -> list[Message]:
    return [m for m in messages(events) if m.role == role]


# id


def test_T9_mapping_id_claude() -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1"))
    writer.result("c1")

    assert [m.id for m in messages(read(writer.bytes(), "claude"))] == ["u1", "m1", "u3"]


def test_T9_mapping_id_qwen() -> None:
    writer = Qwen()
    writer.add("user", [text("go")])
    writer.add("assistant", [call("c1")])
    writer.add("tool_result", [response("c1", output="x")])

    assert [m.id for m in messages(read(writer.bytes(), "qwen"))] == ["w1", "w2", "w3"]


def test_T9_mapping_id_gemini() -> None:
    writer = Gemini()
    writer.user("go")
    writer.add("gemini", content="", toolCalls=[{"id": "c1", "name": "x", "status": "success"}])

    ids = [m.id for m in messages(read(writer.bytes(), "gemini"))]
    assert ids == ["g1", "g2", "g2:results"]


def test_T9_mapping_id_codex() -> None:
    writer = Codex()
    writer.user("go")
    writer.say("with an id", id="item-1")
    writer.output("nobody")
    writer.call("c1")
    writer.output("c1")
    writer.say("without an id")

    ids = [m.id for m in messages(read(writer.bytes(), "codex"))]
    assert ids == [f"{SESSION}:2", "item-1", "c1", "c1:output", f"{SESSION}:7"]


# toolCalls, toolResults, isError


def test_T7_mapping_calls_and_errors_claude() -> None:
    writer = Claude()
    writer.say("m1", use("c1", "Bash", command="ls"), use("c2"), use("c3"))
    writer.result("c1", "bad", is_error=True)
    writer.result("c2", None)
    writer.result("c3", [text("a"), {"type": "text", "text": "b"}], is_error=False)

    asked, *answered = messages(read(writer.bytes(), "claude"))

    assert asked.tool_calls[0].name == "Bash"
    assert asked.tool_calls[0].input == {"command": "ls"}
    results = [m.tool_results[0] for m in answered]
    assert [(r.text, r.is_error) for r in results] == [("bad", True), ("", False), ("a\nb", False)]


def test_T7_mapping_calls_and_errors_qwen() -> None:
    writer = Qwen()
    writer.add("assistant", [call("c1", "run", command="ls"), call("c2"), call("c3")])
    writer.add("tool_result", [response("c1", error="bad")])
    told = {"callId": "c2", "status": "error"}
    writer.add("tool_result", [response("c2", output="x")], toolCallResult=told)
    told = {"callId": "c3", "status": "success"}
    writer.add("tool_result", [response("c3", output="y")], toolCallResult=told)

    asked, *answered = messages(read(writer.bytes(), "qwen"))

    assert (asked.tool_calls[0].name, asked.tool_calls[0].input) == ("run", {"command": "ls"})
    results = [m.tool_results[0] for m in answered]
    assert [(r.text, r.is_error) for r in results] == [("bad", True), ("x", True), ("y", False)]


def test_T7_mapping_calls_and_errors_gemini() -> None:
    writer = Gemini()
    given = [
        {"id": f"c{n}", "name": "x", "args": {"n": n}, "status": status, "result": [part]}
        for n, (status, part) in enumerate(
            (
                ("success", response("c0", output="fine")),
                ("error", response("c1", error="bad")),
                ("cancelled", response("c2", output="")),
                ("executing", response("c3", output="not yet")),
            )
        )
    ]
    writer.add("gemini", content="", toolCalls=given)
    writer.user("next")

    asked, answered, closing, _ = messages(read(writer.bytes(), "gemini"))

    assert [c.input for c in asked.tool_calls] == [{"n": n} for n in range(4)]
    assert [(r.text, r.is_error) for r in answered.tool_results] == [
        ("fine", False),
        ("bad", True),
        ("", True),
    ]
    assert [(r.call_id, r.is_error) for r in closing.tool_results] == [("c3", True)]


@pytest.mark.parametrize(
    ("output", "shown", "is_error"),
    [
        ("fine", "fine", False),
        ("Exit code: 0\nOutput:\nfine", "Exit code: 0\nOutput:\nfine", False),
        ("Exit code: 2\nOutput:\n", "Exit code: 2\nOutput:\n", True),
        ("Process exited with code 1\n", "Process exited with code 1\n", True),
        ('{"output": "no", "metadata": {"exit_code": 1}}', "no", True),
        ('{"output": "yes", "metadata": {"exit_code": 0}}', "yes", False),
        ('{"looks": "like json"}', '{"looks": "like json"}', False),
        ({"content": "no", "success": False}, "no", True),
        ({"content": "yes", "success": True}, "yes", False),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], "a\n[image]", False),
        ("aborted by user after 2.1s", "aborted by user after 2.1s", True),
        (None, "", False),
    ],
)
def test_T7_mapping_outputs_and_errors_codex(output: Any, shown: str, is_error: bool) -> None:
    writer = Codex()
    writer.call("c1")
    writer.output("c1", output)

    _, answered = messages(read(writer.bytes(), "codex"))

    [result] = answered.tool_results
    assert (result.text, result.is_error) == (shown, is_error)


def test_T7_mapping_calls_codex() -> None:
    writer = Codex()
    writer.say("I try")
    writer.call("c1", '{"command": ["ls"]}', id="fc-1")
    writer.call("c2", '{"command": [')
    writer.item("custom_tool_call", call_id="c3", name="apply_patch", input="*** Begin")
    writer.item("local_shell_call", call_id="c4", action={"command": ["pwd"]})
    writer.item("web_search_call", id="ws-1", action={"query": "trio"}, status="completed")
    for number in (1, 2, 4):
        writer.output(f"c{number}")
    writer.item("custom_tool_call_output", call_id="c3", output="ok")
    writer.say("done")

    events = read(writer.bytes(), "codex")

    asked, done = of(events, "assistant")
    assert [(c.id, c.name, c.input) for c in asked.tool_calls] == [
        ("c1", "shell", {"command": ["ls"]}),
        ("c2", "shell", {"raw": '{"command": ['}),
        ("c3", "apply_patch", "*** Begin"),
        ("c4", "local_shell", {"command": ["pwd"]}),
        ("ws-1", "web_search", {"query": "trio"}),
    ]
    answered = [r for m in of(events, "tool") for r in m.tool_results]
    assert [r.call_id for r in answered] == ["ws-1", "c1", "c2", "c4", "c3"]
    assert not any(r.is_error for r in answered)
    assert (asked.text, done.text) == ("I try", "done")


# usage


def test_T5_mapping_usage_qwen() -> None:
    writer = Qwen()
    base = {"promptTokenCount": 100, "cachedContentTokenCount": 70, "candidatesTokenCount": 20}
    outside = base | {"thoughtsTokenCount": 5, "totalTokenCount": 125}
    inside = base | {"thoughtsTokenCount": 5, "totalTokenCount": 120}
    writer.add("assistant", [text("a")], usageMetadata=outside)
    writer.add("assistant", [text("b")], usageMetadata=inside)

    said = messages(read(writer.bytes(), "qwen"))

    assert [figures(m) for m in said] == [(30, 25, 70, 0), (30, 20, 70, 0)]


def test_T5_mapping_usage_gemini() -> None:
    writer = Gemini()
    tokens = {"input": 100, "cached": 70, "tool": 3, "output": 20, "thoughts": 5, "total": 128}
    writer.add("gemini", content="a", tokens=tokens)

    assert figures(messages(read(writer.bytes(), "gemini"))[0]) == (33, 25, 70, 0)


def test_T5_mapping_usage_codex() -> None:
    last = {
        "input_tokens": 100,
        "cached_input_tokens": 60,
        "cache_write_input_tokens": 10,
        "output_tokens": 20,
    }
    writer = Codex()
    writer.say("a")
    writer.event("token_count", info={"total_token_usage": {"x": 1}, "last_token_usage": last})
    assert figures(messages(read(writer.bytes(), "codex"))[0]) == (30, 20, 60, 10)

    new = Codex()
    new.say("a")
    new.line("token_usage_record", usage=last)
    other = {"input_tokens": 1}
    new.event("token_count", info={"total_token_usage": {"x": 1}, "last_token_usage": other})
    assert figures(messages(read(new.bytes(), "codex"))[0]) == (30, 20, 60, 10)


# compaction


def test_T7_mapping_compaction_qwen() -> None:
    writer = Qwen()
    writer.system("chat_compression", info={"originalTokenCount": 90_000, "newTokenCount": 9_000})

    assert read(writer.bytes(), "qwen")[1:3] == [WillCompact(), Compacted(9_000)]


def test_T7_mapping_compaction_gemini() -> None:
    writer = Gemini()
    brought = [{"id": "old", "type": "user", "content": "from before"}]
    writer.raw(set={"messages": brought, "lastUpdated": at(1)})
    writer.user("go")
    said = writer.add("gemini", content="a long answer")
    same = [*brought, writer.records[2], said]
    writer.raw(set={"messages": same})
    summary = {"id": "sum", "type": "user", "content": "the summary"}
    writer.raw(set={"messages": [summary, said]})
    writer.raw(set={"messages": [summary, said | {"content": "a long"}]})

    events = read(writer.bytes(), "gemini")

    assert sum(isinstance(e, Compacted) for e in events) == 2
    first = events.index(WillCompact())
    assert [m.text for m in messages(events[:first])] == ["from before", "go", "a long answer"]
    assert [m.role for m in messages(events)] == ["user", "user", "assistant", "system"]
    assert prompts(events) == ["go"]


def test_T7_mapping_compaction_codex() -> None:
    writer = Codex()
    writer.user("go")
    writer.line("compacted", message="so far: nothing", replacement_history=[])
    writer.event("context_compacted")

    events = read(writer.bytes(), "codex")

    assert sum(isinstance(e, Compacted) for e in events) == 1
    assert [m.text for m in of(events, "system")] == ["so far: nothing"]


# reset


def test_T8_mapping_reset_codex_unknown_and_too_many_turns() -> None:
    writer = Codex()
    writer.event("thread_rolled_back", num_turns=3)
    writer.user("one")
    writer.event("thread_rolled_back", num_turns=7)
    writer.user("two")

    events = read(writer.bytes(), "codex")

    assert [e for e in events if isinstance(e, Reset)] == [Reset("rewound")]
    after = events[events.index(Reset("rewound")) :]
    assert [m.text for m in messages(after)] == ["two"]


def test_T8_mapping_reset_qwen_unknown_parent_keeps_nothing() -> None:
    writer = Qwen()
    writer.add("user", [text("one")])
    writer.add("system", subtype="rewind", parentUuid="nobody")
    writer.add("user", [text("two")])

    events = read(writer.bytes(), "qwen")

    after = events[events.index(Reset("rewound")) :]
    assert [m.text for m in messages(after)] == ["two"]


# why a turn ended


def test_T7_mapping_reasons_claude() -> None:
    writer = Claude()
    writer.user("one")
    writer.user("[Request interrupted by user]")
    writer.user("two")
    error = {"id": "e", "model": "<synthetic>", "content": [text("API Error: 529")]}
    writer.add("system", subtype="api_error", content="retrying")
    writer.add("assistant", message=error, isApiErrorMessage=True)
    writer.user("three")
    writer.add("attachment", attachment={"type": "max_turns_reached", "maxTurns": 5})
    writer.user("four")

    events = read(writer.bytes(), "claude")

    assert reasons(events) == ["aborted", "error", "maxSessionTurns", "completed"]
    assert len(messages(events)) == 4


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("completed", "completed"),
        ("cancelled", "aborted"),
        ("error", "error"),
        ("max_session_turns", "maxSessionTurns"),
        ("loop_detected", "loopDetected"),
        ("something new", "completed"),
        (None, "completed"),
    ],
)
def test_T7_mapping_reasons_qwen(state: str | None, reason: str) -> None:
    writer = Qwen()
    writer.add("user", [text("go")])
    writer.system("turn_result", state=state)

    [ended] = [e for e in read(writer.bytes(), "qwen") if isinstance(e, TurnEnded)]
    assert (ended.reason, ended.implied) == (reason, False)


def test_T7_mapping_reasons_gemini() -> None:
    writer = Gemini()
    writer.user("one")
    writer.add("info", content="Request cancelled.")
    writer.user("two")
    writer.add("error", content="[API Error: quota]")
    writer.user("three")
    writer.add("info", content="Update available")
    cancelled = {"id": "c1", "name": "x", "status": "cancelled"}
    writer.add("gemini", content="", toolCalls=[cancelled])
    writer.user("four")

    assert reasons(read(writer.bytes(), "gemini")) == ["aborted", "error", "aborted", "completed"]


def test_T7_mapping_reasons_codex() -> None:
    writer = Codex()
    for kind, members in (
        ("task_complete", {}),
        ("task_complete", {"status": "failed"}),
        ("task_complete", {"error": {"message": "no"}}),
        ("turn_aborted", {"reason": "interrupted"}),
        ("turn_aborted", {"reason": "budget_limited"}),
    ):
        writer.user(f"{kind} {members}")
        writer.event(kind, **members)

    assert reasons(read(writer.bytes(), "codex")) == [
        "completed",
        "error",
        "error",
        "aborted",
        "turnBudgetExhausted",
    ]


def test_T7_mapping_time_is_the_records_in_utc() -> None:
    writer = Claude()
    writer.user("z", timestamp="2026-01-05T09:00:01.250Z")
    writer.user("offset", timestamp="2026-01-05T10:00:02+01:00")
    writer.user("none", timestamp="yesterday")
    writer.user("local", timestamp="2026-01-05T10:00:02.000")

    assert [m.time for m in messages(read(writer.bytes(), "claude"))] == [
        "2026-01-05T09:00:01.250Z",
        "2026-01-05T09:00:02Z",
        None,
        None,
    ]


# Qwen


def test_T3_qwen_typed_and_not_typed() -> None:
    writer = Qwen()
    writer.add("user", [text("hook text"), text("go")], systemPayload={"displayText": "go"})
    writer.add("user", [text("faster")], subtype="mid_turn_user_message")
    for subtype in ("notification", "cron", "goal_runtime"):
        writer.add("user", [text(subtype)], subtype=subtype)
    writer.add("system", [text("and this")], subtype="mid_turn_user_message")

    events = read(writer.bytes(), "qwen")

    assert prompts(events) == ["go"]
    assert [e.message.text for e in events if isinstance(e, Steering)] == ["faster", "and this"]
    assert [m.text for m in of(events, "system")] == ["notification", "cron", "goal_runtime"]


def test_T4_qwen_one_uuid_on_several_lines() -> None:
    writer = Qwen()
    writer.add("assistant", [{"text": "hm", "thought": True}], uuid="w")
    writer.add("assistant", [text("a")], uuid="w", usageMetadata={"promptTokenCount": 5})
    writer.add("assistant", [call("c1")], uuid="w", usageMetadata={"promptTokenCount": 7})

    [said, _] = messages(read(writer.bytes(), "qwen"))

    assert (said.text, len(said.tool_calls), figures(said)) == ("a", 1, (7, 0, 0, 0))


def test_T3_qwen_noise_and_forks() -> None:
    writer = Qwen()
    writer.add("user", [text("of the other session")], forkedFrom={"sessionId": "s0"})
    writer.system("ui_telemetry", uiEvent={"event.name": "api_response"})
    writer.add("user", [text("go")])

    events = read(writer.bytes(), "qwen")

    assert prompts(events) == ["go"]
    assert skipped(events) == {"copy": 1, "noise": 1}


def test_T7_qwen_first_sessions_are_geminis_object() -> None:
    writer = Gemini()
    writer.user("go")

    assert prompts(read(writer.whole(), "qwen", "/home/m/.qwen/tmp/x/chats/session-1.json")) == [
        "go"
    ]


def test_T4_qwen_calls_without_ids_are_joined_in_order() -> None:
    writer = Qwen()
    nameless = {"functionCall": {"name": "a", "args": {}}}
    writer.add("assistant", [nameless, nameless])
    writer.add("tool_result", [{"functionResponse": {"response": {"output": "one"}}}])
    writer.add("tool_result", [{"functionResponse": {"response": {"output": "two"}}}])

    said, *answered = messages(read(writer.bytes(), "qwen"))

    assert [m.tool_results[0].call_id for m in answered] == [c.id for c in said.tool_calls]


# Gemini


@pytest.mark.parametrize("words", ["/help", "?", "<session_context>today</session_context>"])
def test_T3_gemini_not_typed(words: str) -> None:
    writer = Gemini()
    writer.user(words)

    events = read(writer.bytes(), "gemini")

    assert prompts(events) == []
    assert [m.text for m in of(events, "system")] == [words]


def test_T3_gemini_typed() -> None:
    writer = Gemini()
    writer.user([{"text": "<hook_context>old memories</hook_context>\n\nmend it"}])
    writer.user([{"text": "expanded @file text"}], displayContent=[{"text": "see @file"}])
    writer.user("   ")

    assert prompts(read(writer.bytes(), "gemini")) == ["mend it", "see @file"]


def test_T4_gemini_calls_that_arrive_after_others_still_arrive() -> None:
    writer = Gemini()
    writer.add("gemini", "a", content="I look")
    writer.add("info", content="thinking")
    done = {"id": "c1", "name": "x", "status": "success", "result": [response("c1", output="y")]}
    writer.add("gemini", "a", content="I look", toolCalls=[done])

    first, again, result = messages(read(writer.bytes(), "gemini"))

    assert (first.id, again.id, len(again.tool_calls)) == ("a", "a", 1)
    assert result.tool_results[0].text == "y"


# Codex


@pytest.mark.parametrize(
    "words",
    [
        "<environment_context>x</environment_context>",
        "# AGENTS.md instructions",
        "<user_instructions>x",
        "<turn_aborted>",
        "<skill>x</skill>",
        "<user_shell_command>ls",
        "<subagent_notification>x",
    ],
)
def test_T3_codex_not_typed_unless_an_event_beside_it_says_so(words: str) -> None:
    injected = Codex()
    injected.user(words)
    injected.say("a")
    assert [m.role for m in messages(read(injected.bytes(), "codex"))] == ["system", "assistant"]

    for before in (True, False):
        typed = Codex()
        if before:
            typed.event("user_message", message=words)
        typed.user(words)
        if not before:
            typed.event("user_message", message=words)
        typed.say("a")
        assert prompts(read(typed.bytes(), "codex")) == [words], before


def test_T3_codex_kinds_ide_and_developer() -> None:
    writer = Codex()
    writer.user("typed", kind="user.text")
    writer.user("not typed", kind="user.environment")
    ide = "# Context from my IDE setup:\n\n## Active: a.py\n\n## My request for Codex:\nmend it\n"
    writer.user(ide)
    content = [{"type": "input_text", "text": "be brief"}]
    writer.item("message", role="developer", content=content)

    events = read(writer.bytes(), "codex")

    assert prompts(events) == ["typed", "mend it"]
    assert [m.text for m in of(events, "system")] == ["not typed", "be brief"]


def test_T3_codex_a_second_one_in_a_turn_is_steering() -> None:
    writer = Codex()
    writer.event("task_started", turn_id="t1")
    writer.user("go")
    writer.user("faster")
    writer.event("task_complete", turn_id="t1")
    writer.event("task_started", turn_id="t2")
    writer.user("next")

    events = read(writer.bytes(), "codex")

    assert prompts(events) == ["go", "next"]
    assert [e.message.text for e in events if isinstance(e, Steering)] == ["faster"]
    assert [e.turn_id for e in events if isinstance(e, Prompt)] == ["t1", "t2"]


def test_T4_codex_events_repeat_what_items_say() -> None:
    writer = Codex()
    writer.event("user_message", message="go")
    writer.user("go")
    writer.event("agent_message", message="one")
    writer.say("one")
    writer.item("reasoning", summary=[{"type": "summary_text", "text": "hm"}])
    writer.say("two")
    writer.call("c1")
    writer.event("item_completed", item={})
    writer.output("c1")
    writer.say("three")

    said = of(read(writer.bytes(), "codex"), "assistant")

    assert [(m.text, len(m.tool_calls)) for m in said] == [("one\ntwo", 1), ("three", 0)]


# Ours


def test_T3_ours_prompts_steering_lanes_and_resets() -> None:
    def told(method: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": method, "params": {"sessionId": "s", **params}}

    def said(message_id: str, role: str, **members: Any) -> dict[str, Any]:
        given = {"id": message_id, "role": role, **members}
        return told("transcript/didAppend", messages=[given])

    asks = [{"id": "c1", "name": "x"}]
    data = lines(
        [
            told("session/open", workspace="/w"),
            told("recall/start", query="what I want", turnId="t1"),
            said("1", "user", text="hello"),
            said("2", "assistant", text="", toolCalls=asks),
            said("3", "user", text="faster"),
            said("4", "tool", toolResults=[{"callId": "c1", "text": "ok"}]),
            said("5", "assistant", text="a", usage={"inputTokens": 3, "outputTokens": 2}),
            told("turn/didEnd", reason="maxSessionTurns"),
            told("transcript/willCompact"),
            told("transcript/didCompact", contextTokens=500, keptFromMessageId="5"),
            told("transcript/didAppend", lane="sub", messages=[{"id": "x", "role": "user"}]),
            told("transcript/didReset", reason="rewound"),
            said("1", "user", text="hello"),
            said("6", "user", text="again"),
            said("6", "user", text="again"),
            told("memory/search", query="?"),
        ]
    )

    events = read(data, "oncue")

    assert prompts(events) == ["what I want", "again"]
    assert [e.turn_id for e in events if isinstance(e, Prompt)] == ["t1", "6"]
    assert [e.message.text for e in events if isinstance(e, Steering)] == ["faster"]
    assert reasons(events) == ["maxSessionTurns", "completed"]
    assert Compacted(500, "5") in events
    assert figures(of(events, "assistant")[1]) == (3, 2, 0, 0)
    after = events[events.index(Reset("rewound")) :]
    assert [m.id for m in messages(after)] == ["1", "6", "6"]
    assert skipped(events) == {"subagent": 1, "noise": 1}


# Which format


def samples() -> list[tuple[TranscriptFormat, bytes]]:
    claude, qwen, gemini, codex = Claude(), Qwen(), Gemini(), Codex()
    claude.records.append({"type": "summary", "summary": "x", "leafUuid": "y"})
    claude.records.append({"type": "mode", "mode": "plan", "sessionId": SESSION})
    claude.user("go")
    qwen.system("ui_telemetry")
    qwen.add("user", [text("go")])
    gemini.user("go")
    codex.user("go")
    ours = lines([{"method": "session/open", "params": {"sessionId": "s"}}])
    return [
        ("claude", claude.bytes()),
        ("qwen", qwen.bytes()),
        ("gemini", gemini.bytes()),
        ("gemini", gemini.whole(2)),
        ("codex", codex.bytes()),
        ("oncue", ours),
    ]


@pytest.mark.parametrize(("form", "data"), samples())
def test_T1_the_content_tells_the_format(form: TranscriptFormat, data: bytes) -> None:
    assert detect("/tmp/x", data) == form
    assert detect("/home/m/.codex/sessions/x.jsonl", data) == form


def test_T1_the_path_tells_where_the_content_does_not() -> None:
    huge = b'{"type": "user", "message": {"content": "' + b"x" * 1_000
    assert detect("/home/m/.claude/projects/a/b.jsonl", huge) == "claude"
    assert detect("/home/m/.qwen/projects/a/b.jsonl", huge) == "qwen"
    assert detect("/tmp/rollout-1.jsonl", huge) == "codex"
    assert detect("/tmp/notes.txt", b"Dear diary,\n") is None
    assert detect("/tmp/x", b"\x28\xb5\x2f\xfd....") == "codex"
