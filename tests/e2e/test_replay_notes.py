"""A replay shows when notes were written and why, and the notes themselves (extraction.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oncue.replay.commands import DEMO, demo_main, replay_main
from oncue.replay.extractions import Extractions


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folders."""
    for kind in ("DATA", "STATE", "CONFIG", "RUNTIME"):
        monkeypatch.setenv(f"ONCUE_{kind}_DIR", str(tmp_path / "home" / kind))
    return tmp_path / "home"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns a run gets the time to end, as people's pauses give it. Played without
    any, the whole session takes no longer than two runs, and what is joined is one run (X11)."""
    look = Extractions.look

    async def wait_and_look(self: Extractions) -> None:
        while True:
            waited = await self.client.memory_wait(session_id=self.session_id)
            if waited.outcome in ("idle", "stale"):
                break
        await look(self)

    monkeypatch.setattr(Extractions, "look", wait_and_look)


def _events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_X4_demo_session_has_three_runs_or_more(
    home: Path, patient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo_main(model=False, as_json=True, speed="max", wait_ms=0) == 0
    events = _events(capsys.readouterr().out)
    runs = [event for event in events if event["event"] == "extraction"]
    assert len(runs) >= 3
    assert len({run["runId"] for run in runs}) == len(runs), "each run is told once (X18)"
    assert {run["reason"] for run in runs} <= {"toolCallThreshold", "naturalPause"}
    assert {run["outcome"] for run in runs} == {"settled"}
    turns = [run["turn"] for run in runs]
    assert turns == sorted(turns)
    assert turns[0] >= 1
    assert turns[-1] <= 29
    assert events[-1]["extractions"] == {"settled": len(runs)}
    assert not [event for event in events if event["event"] == "extractionDecision"]


def test_the_notes_of_the_demo_know_its_facts(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo_main(model=False, as_json=True, speed="max", wait_ms=0, verbose=True) == 0
    events = _events(capsys.readouterr().out)
    assert any(event["event"] == "extractionDecision" for event in events)
    notes = events[-2]
    assert notes["event"] == "notes"
    assert not notes["isTemplate"]
    for fact in (
        "make deploy-staging", "src/ledgerline/money.py", "wg-staging", "LED-412",
        "fonts-noto-cjk-jp", "uv add pandas", "豆腐", "Österreich",
    ):  # fmt: skip
        assert fact in notes["text"], fact


def test_people_see_runs_and_a_short_form_of_the_notes(
    home: Path, patient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo_main(model=False, speed="max", wait_ms=0) == 0
    text = capsys.readouterr().out
    assert text.count("✎ notes, ") >= 3
    assert "toolCallThreshold" in text
    assert len(text[text.index("session notes") :].splitlines()) <= 50
    assert "more lines; --notes shows them all" in text
    assert demo_main(model=False, speed="max", wait_ms=0, notes=False) == 0
    assert "session notes" not in capsys.readouterr().out


def test_own_notes_are_kept_only_where_asked_for(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, workspace = tmp_path / "kept.md", tmp_path / "ledgerline"
    workspace.mkdir()
    memory = home / "DATA" / "user" / "memory"
    memory.mkdir(parents=True)
    (memory / "one.md").write_text("---\nname: One\n---\nwords\n", "utf-8")

    def play() -> int:
        return replay_main(
            DEMO / "session.jsonl",
            workspace=str(workspace),
            speed="max",
            wait_ms=0,
            notes=True,
            save_notes=kept,
        )

    assert play() == 0
    assert "src/ledgerline/money.py" in capsys.readouterr().out
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["one.md"]
    assert not list(workspace.iterdir())
    assert "src/ledgerline/money.py" in kept.read_text("utf-8")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert play() == 2, "a file that is there is not written over"
    assert "exists" in capsys.readouterr().err
