"""`oncue replay` and `oncue demo` as their users run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncue.replay.commands import DEMO

DEADLINE_S = 120


def run(*arguments: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """`python -m oncue …` with folders of its own."""
    folders = {
        f"ONCUE_{kind}_DIR": str(home / kind) for kind in ("DATA", "STATE", "CONFIG", "RUNTIME")
    }
    return subprocess.run(
        [sys.executable, "-m", "oncue", *arguments],
        env={**os.environ, **folders, "PYTHONIOENCODING": "utf-8", **more},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_demo_runs_and_leaves_no_trace(tmp_path: Path) -> None:
    done = run("demo", "--speed", "max", "--no-model", "--wait-ms", "2000", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "29 turns, 29 recalls" in done.stdout
    assert "\x1b" not in done.stdout
    assert "Staging is reachable" in done.stdout
    assert listing(tmp_path) == {}, "nothing in the user's own folders"


def test_the_demo_says_everything_to_machines(tmp_path: Path) -> None:
    done = run("demo", "--speed", "max", "--json", home=tmp_path)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event"] == "replay" and events[0]["model"] == "scripted"
    assert events[-1]["event"] == "summary"
    assert events[-1]["turns"] == 29
    assert events[-1]["resyncs"] == 0
    ended = [event for event in events if event["event"] == "turnEnded"]
    assert len(ended) == 29
    assert {event["reason"] for event in ended} >= {"noSafeDeliveryPoint", "newQuery", "abort"}
    assert all("state" in event for event in ended), "each recall has its end (R12)"


def test_the_users_own_memory_is_read_and_not_written(tmp_path: Path) -> None:
    workspace = tmp_path / "work" / "ledgerline"
    workspace.mkdir(parents=True)
    memory = tmp_path / "home" / "DATA" / "user" / "memory"
    memory.mkdir(parents=True)
    (memory / "tunnel.md").write_text(
        "---\nname: The tunnel\ndescription: staging deploy hangs without the tunnel\n"
        "type: user\n---\nwg-quick up\n",
        "utf-8",
    )
    before = listing(tmp_path / "home")
    done = run(
        "replay", str(DEMO / "session.jsonl"), "--speed", "max", "--json", "--wait-ms", "2000",
        "--workspace", str(workspace), home=tmp_path / "home",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    titles = [title for event in events for title in event.get("titles", ())]
    assert "The tunnel" in titles
    assert "only read" in events[0]["memory"]
    assert listing(tmp_path / "home") == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", "/no/such/file.jsonl"), "there is no file"),
        (("replay",), "Missing argument"),
        (("demo", "--daemon", "/no/such/program"), "cannot start the daemon"),
        (("demo", "--daemon", f"{sys.executable} -c 'pass'"), "ended before it answered"),
    ],
)
def test_what_cannot_be_done_is_said_and_exits_2(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = run(*arguments, home=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
