"""`replay` plays each format that transcripts.md names, through a real daemon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import transcript_maker as maker
from oncue.replay.commands import DEMO
from oncue.replay.recording import Recording
from oncue.replay.run import Play, perform
from oncue_protocol import TranscriptFormat
from rooms.replay_fakes import Notebook

WORDS = "the deploy to staging hangs, waiting for its health check"


def claude() -> bytes:
    session = maker.Claude()
    session.user(WORDS)
    session.say("m1", maker.text("I look"), maker.use("c1"), stop="tool_use")
    session.result("c1")
    session.say("m2", maker.text("the tunnel is down"), stop="end_turn")
    return session.bytes()


def qwen() -> bytes:
    session = maker.Qwen()
    session.add("user", [{"text": WORDS}])
    session.add("assistant", [{"text": "I look"}, maker.call("c1")])
    session.add("tool_result", [maker.response("c1", output="done")])
    session.add("assistant", [{"text": "the tunnel is down"}])
    return session.bytes()


def _gemini() -> maker.Gemini:
    session = maker.Gemini()
    session.user(WORDS)
    tool = {"id": "c1", "name": "read_file", "args": {}, "status": "success", "result": "done"}
    session.add("gemini", content="I look", toolCalls=[tool])
    session.add("gemini", content="the tunnel is down")
    return session


def codex() -> bytes:
    session = maker.Codex()
    session.event("user_message", message=WORDS)
    session.user(WORDS)
    session.call("c1")
    session.output("c1")
    session.say("the tunnel is down")
    return session.bytes()


def ours() -> bytes:
    def message(name: str, role: str, **more: object) -> maker.Json:
        return {"id": name, "role": role, **more}

    def append(*messages: maker.Json) -> maker.Json:
        params = {"sessionId": "s", "messages": list(messages)}
        return {"method": "transcript/didAppend", "params": params}

    call, result = {"id": "c1", "name": "Read"}, {"callId": "c1", "text": "done"}
    return maker.lines([
        {"method": "session/open", "params": {"sessionId": "s", "workspace": "/home/mira/shop"}},
        append(message("u1", "user", text=WORDS)),
        {"method": "recall/start", "params": {"sessionId": "s", "query": WORDS, "turnId": "t1"}},
        append(message("a1", "assistant", text="I look", toolCalls=[call])),
        append(message("r1", "tool", toolResults=[result])),
        append(message("a2", "assistant", text="the tunnel is down")),
        {"method": "turn/didEnd", "params": {"sessionId": "s", "reason": "completed"}},
    ])  # fmt: skip


def _frames(data: bytes, count: int) -> bytes:
    """Packed as several frames, one after the other."""
    size = -(-len(data) // count)
    parts = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(zstandard.compress(part) for part in parts)


@pytest.mark.parametrize(
    ("name", "make", "agent"),
    [
        ("s.jsonl", claude, "claude"),
        ("s.jsonl", qwen, "qwen"),
        ("session-1.jsonl", lambda: _gemini().bytes(), "gemini"),
        ("session-1.json", lambda: _gemini().whole(2), "gemini"),
        ("rollout-1.jsonl", codex, "codex"),
        ("rollout-1.jsonl.zst", lambda: zstandard.compress(codex()), "codex"),
        ("rollout-2.jsonl.zst", lambda: _frames(codex(), 3), "codex"),
        ("rollout-3.jsonl.zst", lambda: _frames(codex(), 2) + b"\x28\xb5\x2f\xfd\x04", "codex"),
        ("s.jsonl", ours, "oncue"),
    ],
    ids=[
        "claude",
        "qwen",
        "gemini",
        "gemini-object",
        "codex",
        "codex-zst",
        "frames",
        "cut",
        "ours",
    ],
)
async def test_every_format_is_recognised_and_played(
    tmp_path: Path, name: str, make: Callable[[], bytes], agent: TranscriptFormat
) -> None:
    file = tmp_path / name
    file.write_bytes(make())
    recording, notebook = Recording(file), Notebook()
    survey = recording.survey()
    assert survey.info.agent == agent
    play = Play(recording, memory=DEMO / "memory", speed="max", prompt_wait_ms=2000)
    totals = await perform(play, survey, lambda *_: notebook)
    (turn,) = notebook.turns
    assert turn.query == WORDS
    assert turn.rounds == 1
    assert totals.resyncs == 0
    assert [handed.point for handed in turn.handed] == ["userQuery"]
    assert "WireGuard" in turn.handed[0].titles[0]
    assert (turn.state, turn.reason) == ("consumed", "delivered")
