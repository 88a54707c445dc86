"""Claims between real processes: races, stopped holders, holders killed anywhere (I15, I18, I19;
D17-D19).

The long campaigns: `pytest -m slow tests/rooms/test_claims_processes.py` (10^6 races over 8
processes take about 20 minutes; kills at each system call of a commit need strace).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claim_process import BUDGETS, MARKER
from oncue.notes.document import new, view
from oncue.notes.file import NotesFile
from oncue.notes.places import NotesFolder
from oncue.notes.template import DEFAULT
from oncue.store.claims import Claim, Claims
from oncue.store.cursors import Cursors
from oncue.store.sessions_db import SessionsDb

SCRIPT = Path(__file__).parents[1] / "claim_process.py"
Process = subprocess.Popen[str]
PARTS = ("state", "data")
TITLES = [section.title for section in view(new(DEFAULT), None, BUDGETS).sections]


class Crowd:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[Process] = []

    def start(self, *arguments: object, before: tuple[str, ...] = ()) -> Process:
        what, *rest = map(str, arguments)
        process = subprocess.Popen(
            [*before, sys.executable, str(SCRIPT), what, str(self.folder), *rest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.all.append(process)
        return process


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    made = Crowd(tmp_path)
    yield made
    for process in made.all:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def hear(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: Process, line: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


@pytest.mark.parametrize(
    ("processes", "rounds"),
    [(4, 400), pytest.param(8, 125_000, marks=pytest.mark.slow)],
)
def test_I15_races_never_commit_twice_under_one_token_nor_backwards(
    crowd: Crowd, processes: int, rounds: int
) -> None:
    sessions = 3
    racers = [crowd.start("race", sessions, rounds, seed) for seed in range(processes)]
    done = [json.loads(racer.communicate()[0]) for racer in racers]
    committed = sum(one["committed"] for one in done)
    assert committed > rounds // 10
    lines = 0
    for ledger in crowd.folder.glob("*.ledger"):
        tokens = [int(line) for line in ledger.read_text().split()]
        # In the order of the commits, each token once, each higher than the one before.
        assert tokens == sorted(set(tokens))
        lines += len(tokens)
    assert lines == committed
    db = SessionsDb(crowd.folder)
    assert db.read(lambda c: c.execute("PRAGMA integrity_check").get) == "ok"
    db.close()


def test_D18_X12_a_stopped_holder_that_wakes_is_refused(crowd: Crowd) -> None:
    """The stale time is scaled down to 0.3 s; the processes are real."""
    first = crowd.start("once", "s", 0.3)
    token = int(hear(first).split()[1])
    os.kill(first.pid, signal.SIGSTOP)
    second = crowd.start("once", "s", 0.3)  # waits until it is stale, then takes over
    higher = int(hear(second).split()[1])
    assert higher > token
    os.kill(first.pid, signal.SIGCONT)
    tell(first)
    assert hear(first) == "refused"
    assert not (crowd.folder / "notes.md").exists()
    tell(second)
    assert hear(second) == "committed"
    assert (crowd.folder / "notes.md").read_text() == str(higher)


def test_D17_a_killed_holder_is_followed_at_once(crowd: Crowd) -> None:
    first = crowd.start("once", "s", 60)
    token = int(hear(first).split()[1])
    other = crowd.start("try", "s", 60)
    assert hear(other) == "ready"
    tell(other)
    assert hear(other) == "held"
    first.kill()
    tell(other)  # a zombie is dead too: it is not waited for yet
    answer = hear(other)
    while answer == "held":  # the signal is on its way
        tell(other)
        answer = hear(other)
    assert int(answer.split()[1]) > token


@pytest.mark.parametrize("rounds", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_D19_three_released_onto_one_stale_claim_have_one_winner(crowd: Crowd, rounds: int) -> None:
    three = [crowd.start("try", "s", 60) for _ in range(3)]
    for process in three:
        assert hear(process) == "ready"
    db = SessionsDb(crowd.folder)
    db.write(lambda _: None)
    for number in range(1, rounds + 1):
        db.write(  # a claim of a process that is dead
            lambda c, n=number: c.execute(  # type: ignore[misc]
                "INSERT OR REPLACE INTO lease SELECT 'extraction/s', "
                "coalesce((SELECT token FROM lease), 0) + 1, 'gone' || ?, pid, start, boot, place, "
                "0, 0, 0, 0 FROM (SELECT 4194304 + 9 AS pid, 7 AS start, 'b' AS boot, ? AS place)",
                (n, Claims(db).place),
            )
        )
        for process in three:
            tell(process)
        answers = [hear(process) for process in three]
        assert sorted(a.split()[0] for a in answers) == ["held", "held", "won"], (number, answers)
    db.close()


# ---- kill -9 at every step of a commit ----------------------------------------------------------


def inspect(folder: Path) -> tuple[str | None, str | None]:
    """(what the notes say, where the cursor stands) as the next run finds them."""
    db = SessionsDb(folder / "state")
    try:
        claims = Claims(db)
        cursors = Cursors(db, claims)
        claim = claims.claim(cursors.lease_name("s"))
        assert isinstance(claim, Claim), "the dead process still holds the claim"
        notes = NotesFile(NotesFolder(str(folder), ("data", "notes")), "s")
        view = notes.read(BUDGETS)
        assert [section.title for section in view.sections] == TITLES
        said = {
            section.body.strip() for section in view.sections if section.title in ("Now", "Log")
        }
        assert len(said) == 1, "half of a run's edits"
        cursor = cursors.reconcile(claim, "s", view.revision)
        assert db.read(lambda c: c.execute("PRAGMA integrity_check").get) == "ok"
        claims.release(claim)
        left = [path for path in (folder / "data").rglob("*") if ".tmp" in path.name]
        assert left == [], "a temporary file after the next start"
        return said.pop() or None, None if cursor is None else cursor.processed_through
    finally:
        db.close()


def trace(crowd: Crowd, text: str, *options: str) -> bool:
    """One whole run under strace; whether it came to its end."""
    before = ("strace", "-f", "-qq", *options)
    process = crowd.start("commit", "s", 60, text, before=before)
    out, _ = process.communicate(timeout=60)
    return "done" in out


def calls_of_imports(crowd: Crowd, call: str) -> int:
    """How often Python itself makes this call before the run begins."""
    log = crowd.folder / "trace.log"
    assert trace(crowd, "old", "-o", str(log), "-e", f"trace={call},access,faccessat,faccessat2")
    count = 0
    for line in log.read_text().splitlines():
        if MARKER in line:
            return count
        count += f" {call}(" in line
    raise AssertionError("the run made no mark")


CALLS = ["pwrite64", "write", "rename,renameat,renameat2", "openat", "openat2", "fcntl",
         "ftruncate", "flock", "fsync", "fdatasync", "close", "unlink,unlinkat", "mkdir,mkdirat",
         "fstat,newfstatat,statx", "lseek", "pread64,read"]  # fmt: skip


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize(
    ("calls", "step"),
    [
        pytest.param(["pwrite64", "renameat"], 9, id="quick"),
        pytest.param(CALLS, 1, id="all", marks=pytest.mark.slow),
    ],
)
def test_I18_I19_killed_anywhere_leaves_whole_notes_and_a_true_cursor(
    crowd: Crowd, calls: list[str], step: int
) -> None:
    """A session's first run, which makes everything, and a later one."""
    process = crowd.start("commit", "s", 60, "old")
    assert hear(process) == "done"
    process.wait(10)
    assert inspect(crowd.folder) == ("old", "old")
    for name in PARTS:
        (crowd.folder / name).rename(crowd.folder / f"{name}.old")
    points = sum(
        killed_at_each(crowd, call, step, before)
        for group in calls
        for call in group.split(",")
        for before in (None, "old")
    )
    assert points >= (300 if step == 1 else 3)


def killed_at_each(crowd: Crowd, call: str, step: int, before: str | None) -> int:
    """Kill a run at each of its calls of this kind; how many there were."""
    number = calls_of_imports(crowd, call) + 1
    points = 0
    while True:
        for name in PARTS:
            shutil.rmtree(crowd.folder / name, ignore_errors=True)
            if before is not None:
                shutil.copytree(crowd.folder / f"{name}.old", crowd.folder / name)
        (crowd.folder / "data").mkdir(exist_ok=True)
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        if trace(crowd, "new", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject):
            return points
        says, stands = inspect(crowd.folder)
        assert says in (before, "new")
        assert stands == says, f"killed at {call} {number}"
        number += step
        points += 1


def test_the_script_documents_its_commands() -> None:
    text = SCRIPT.read_text()
    assert set(re.findall(r"claim_process.py (\w+) FOLDER", text)) == {
        "race", "once", "try", "commit",
    }  # fmt: skip
