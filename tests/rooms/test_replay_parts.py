"""Pace, figures, the scripted model, and the bundled demo."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import trio
import yaml

from oncue.replay.commands import DEMO
from oncue.replay.demo import make_session
from oncue.replay.errors import ReplayError
from oncue.replay.lender import Lender, by_titles, by_words, entries, plan, schedule, sidecar
from oncue.replay.pace import BUDGET_S, Clock, Meter, Pace
from oncue.replay.recording import Recording
from oncue.replay.report import Durations, Handed, Totals, Turn
from oncue.replay.stage import copy_memory, dated
from oncue.transcript.events import Compacted, Prompt, Steering, TurnEnded
from oncue_protocol import ModelGenerateParams, ModelMessage, RequestFailed


def turn(**given: object) -> Turn:
    return Turn(number=1, turn_id="t", query="q", started_s=0.0, recall_id="r", **given)  # type: ignore[arg-type]


# Pace


def test_fast_keeps_proportions_up_to_a_cap() -> None:
    pace = Pace("fast")
    assert math.isclose(pace.pause(10, "working"), 0.2)
    assert pace.pause(600, "working") == 0.6
    assert pace.pause(600, "thinking") == 0.1
    assert pace.pause(-5, "working") == 0
    assert Pace("max").pause(600, "working") == 0
    assert Pace("real").pause(600, "working") == 600


def test_an_hour_and_a_day_replay_within_the_budget() -> None:
    for steps in (200, 50_000):
        meter = Meter()
        for _ in range(steps):
            meter.add(18.0, "working")
        pace = meter.pace("fast")
        assert sum(pace.pause(18.0, "working") for _ in range(steps)) <= BUDGET_S + 1e-6


def test_T2_older_lines_and_missing_times_make_no_pause() -> None:
    clock = Clock()
    times = [
        "2026-03-13T10:00:00Z",
        None,
        "2026-03-13T09:00:00Z",
        "rubbish",
        "2026-03-13T10:00:02Z",
    ]
    assert [clock.advance(time) for time in times] == [0, 0, 0, 0, 2]
    assert clock.advance("2026-03-13T10:00:09") == 0, "a time without a zone says nothing"


# Figures


@pytest.mark.parametrize(
    ("settled", "planned", "waited", "lost", "at_least"),
    [
        (900.0, None, 900.0, False, False),
        (4000.0, 4000.0, 2500.0, True, False),
        (None, 900.0, 900.0, False, False),
        (None, math.inf, 2500.0, True, False),
        (None, None, 700.0, False, True),
    ],
)
def test_old_design_waits_for_the_search_up_to_its_limit(
    settled: float | None, planned: float | None, waited: float, lost: bool, at_least: bool
) -> None:
    old = turn(settled_ms=settled, planned_ms=planned, ended_ms=700.0).old()
    assert (old.waited_ms, old.is_lost, old.is_at_least) == (waited, lost, at_least)


def test_percentiles_are_nearest_rank() -> None:
    durations = Durations()
    for value in range(1, 201):
        durations.add(float(value))
    spread = durations.spread()
    assert (spread.count, spread.p50, spread.p99, spread.largest) == (200, 100, 198, 200)
    assert Durations().spread().count == 0


def test_totals_add_up() -> None:
    totals = Totals()
    handed = Handed("toolResult", 3, 4000.0, "refined", "model", ("A", "B"), ("a", "b"), 90)
    totals.add(turn(settled_ms=4000.0, waited_ms=3.0, handed=[handed], ended_ms=5000.0))
    totals.add(turn(settled_ms=5.0, waited_ms=1.0, ended_ms=100.0))
    totals.add(turn(planned_ms=900.0, waited_ms=1.0, ended_ms=100.0))
    assert (totals.turns, totals.documents, totals.late) == (3, 2, 1)
    assert (totals.silent, totals.stopped, totals.old_lost) == (1, 1, 1)
    assert math.isclose(totals.waited_ms, 5.0)
    assert math.isclose(totals.old_ms, 2500 + 5 + 900)


# The scripted model


MANIFEST = """Request:
where is it
m9 [project] this line is the user's

Notes:
m1 [project] 2026-01-01 Roll back by switching the slot: make rollback
m2 [user] 2026-01-01 How Mira wants commit messages
m3 [project] 2026-01-01 接口分页用游标: 不用 offset
"""


def test_manifest_lines_are_found_by_their_ids() -> None:
    manifest = entries(MANIFEST)
    assert {"m1", "m2", "m3"} <= set(manifest)
    assert by_titles(["How Mira wants commit messages", "unknown"], manifest) == ["m2"]
    assert by_words("roll back the slot", manifest)[0] == "m1"
    assert by_words("客户列表接口怎么分页", manifest) == ["m3"]
    assert by_words("quantum chromodynamics", manifest) == []


@pytest.mark.parametrize("text", ["soon", "", "1.5 parsecs", "0.9s,,1s", "-1s", "nan"])
def test_a_bad_latency_is_refused_in_words(text: str) -> None:
    with pytest.raises(ReplayError, match="not understood"):
        schedule(text)


def test_latencies() -> None:
    assert [plan(text).latency_s for text in ("0.9s", "900ms", 4)] == [0.9, 0.9, 4.0]
    assert schedule("0.9s,fail, never").latencies == ("0.9 s", "fails", "never")


async def test_the_model_takes_its_time_fails_and_never_answers(autojump_clock: object) -> None:
    lender = Lender(schedule("0.9s,fail,never"))
    params = ModelGenerateParams(
        purpose="select",
        messages=(ModelMessage(role="user", text=MANIFEST),),
        max_output_tokens=10,
        deadline_ms=30_000,
    )
    turns = [
        Turn(number=at, turn_id="t", query="roll back the slot", started_s=0) for at in (1, 2, 3)
    ]
    lender.begin(turns[0])
    before = trio.current_time()
    answer = await lender.serve(params)
    assert json.loads(answer.text or "")["ids"][0] == "m1"
    assert math.isclose(trio.current_time() - before, 0.9)
    lender.begin(turns[1])
    with pytest.raises(RequestFailed, match="scripted"):
        await lender.serve(params)
    lender.begin(turns[2])
    with trio.move_on_after(3600) as scope:
        await lender.serve(params)
    assert scope.cancelled_caught
    assert turns[2].planned_ms == math.inf


# The bundled demo


def test_the_demo_session_is_fresh() -> None:
    session, model = make_session.expand()
    assert (DEMO / "session.jsonl").read_text("utf-8") == session
    assert (DEMO / "model.json").read_text("utf-8") == model


def test_the_demo_session_is_realistic_work() -> None:
    recording = Recording(DEMO / "session.jsonl")
    survey = recording.survey()
    assert survey.info.agent == "claude", "its format is recognised"
    assert survey.turns >= 25
    events = list(recording.events())
    assert sum(isinstance(event, Steering) for event in events) == 1
    assert sum(isinstance(event, Compacted) for event in events) == 1
    assert [e.reason for e in events if isinstance(e, TurnEnded)].count("aborted") == 1
    queries = " ".join(event.query for event in events if isinstance(event, Prompt))
    assert "Umsatzsteuer" in queries and "請求書" in queries and "分页" in queries
    assert "ide_opened_file" not in queries
    assert (DEMO / "session.jsonl").stat().st_size <= 400 * 1024
    messages = [e.message for e in events if hasattr(e, "message")]
    assert any(len(message.tool_calls) > 1 for message in messages), "parallel calls"
    assert any(one.is_error for message in messages for one in message.tool_results)
    grown, before = 0, None
    for usage in (message.usage for message in messages if message.usage):
        size = (
            usage.input_tokens + usage.output_tokens
            + usage.cache_read_tokens + usage.cache_write_tokens
        )  # fmt: skip
        grown += max(0, size - before) if before is not None else 0
        before = size
    assert grown >= 60_000, "enough for three runs of an extraction"


def test_the_scripts_titles_are_memories_and_its_queries_prompts() -> None:
    titles = set()
    for path in (DEMO / "memory").rglob("*.md"):
        head = path.read_text("utf-8").split("---\n")[1]
        front = yaml.safe_load(head)
        titles.add(front["name"])
        assert front["type"] in ("user", "feedback", "project", "reference")
        assert dated(path) is not None
    assert len(titles) >= 25
    script = sidecar(DEMO / "model.json")
    chosen = {title for plan in script.by_query.values() for title in plan.titles or ()}
    assert chosen <= titles
    prompts = {e.query for e in Recording(DEMO / "session.jsonl").events() if isinstance(e, Prompt)}
    assert set(script.by_query) == prompts


# Memory folders


def test_memory_files_are_copied_into_their_scopes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("user/a.md", "project/sub/b.md", "c.md", "MEMORY.md", "notes.txt"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("---\nname: x\nupdated: 2026-01-02\n---\nbody\n", "utf-8")
    (source / "big.md").write_bytes(b"x" * 300_000)
    (source / "link.md").symlink_to(source / "c.md")
    roots = {"user": tmp_path / "u", "project": tmp_path / "p"}
    assert copy_memory(source, roots) == 3  # type: ignore[arg-type]
    copies = [tmp_path / name for name in ("u/a.md", "p/sub/b.md", "p/c.md")]
    assert all(copy.stat().st_mtime == dated(copy) for copy in copies)
    assert copy_memory(source, {"user": tmp_path / "only"}) == 3
