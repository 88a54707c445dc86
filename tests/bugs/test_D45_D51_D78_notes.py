"""Rows of bugs.md about notes that were lost, hollowed out, cut, or held secrets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from notes_support import BUDGETS, TITLES, edits, notes_file, save, stored, write
from oncue import safe_files
from oncue.notes.document import parse
from oncue.notes.template import DEFAULT
from oncue.notes_ports import NoteBudgets, NotesRefusedError, SectionEdit
from oncue.text import tokens

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
LONG = "\n".join(f"- line {n} that a colleague needs" for n in range(90))


def everything(data: Path) -> str:
    """All that is kept beside the versions."""
    return "".join(p.read_text() for p in data.rglob("*.md") if ".versions" not in str(p))


WRITER = """
import sys
from pathlib import Path
from notes_support import BUDGETS, notes_file
from oncue.notes_ports import NotesMovedError, SectionEdit
name = sys.argv[2]
file = notes_file(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[3])):
    while True:
        view = file.read(BUDGETS)
        log = next(s.body for s in view.sections if s.title == "Log")
        line = f"- {name} {n} done"
        prepared = file.prepare(
            [SectionEdit("Now", line), SectionEdit("Log", f"{log}\\n{line}")], view, BUDGETS)
        try:
            prepared.publish()
        except NotesMovedError:
            prepared.discard()
            continue
        print(line, flush=True)
        break
"""


def writers(data: Path, names: str, count: int) -> list[subprocess.Popen[str]]:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(data), name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        for name in names
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return started


def test_D45_writers_in_processes_and_a_user_lose_no_line(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- first")
    started = writers(tmp_path, "abcd", 8)
    by_hand = []
    while any(process.poll() is None for process in started):
        line = f"- by hand {len(by_hand)}"
        # An editor that knows nothing of us. What was saved while it was open is overwritten by
        # the editor, not by us, so it looks once more before it saves.
        before = stored(file)
        swap = Path(file.path).with_suffix(".swp")
        swap.write_text(before.replace("# Files\n", f"# Files\n\n{line}\n", 1))
        if stored(file) == before:
            swap.replace(file.path)
            by_hand.append(line)
        if len(by_hand) > 20:
            break
    said = [line for process in started for line in process.communicate()[0].splitlines()]
    assert len(said) == 32 and all(process.returncode == 0 for process in started)
    versions = "".join(p.read_text() for p in tmp_path.rglob("*.md"))
    missing = [line for line in by_hand if line not in versions]
    assert not missing
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(safe_files.TEMPORARY)]
    assert not parse(stored(file)).missing


def test_D48_writers_killed_in_between_damage_nothing(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- first")
    started = writers(tmp_path, "abcde", 20)
    for process in started[:3]:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    said = []
    for process in started:
        out, _ = process.communicate()
        if process.returncode == 0:
            said += out.splitlines()
    assert len(said) == 40
    assert set(said) <= set(everything(tmp_path).split("\n"))  # some in conflict copies
    assert not parse(stored(file)).missing
    notes_file(tmp_path).read(BUDGETS)
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(safe_files.TEMPORARY)]


def test_D46_an_edit_during_the_run_is_merged_not_overwritten(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Task="- t", Log="- a")
    base = file.read(BUDGETS)  # 120 s of a model's work begin
    save(file, stored(file).replace("- t\n", "- t\n- added by the user\n"))
    write(file, base, Now="n2", Task="- t, by the run", Log="- a\n- b")
    kept = everything(tmp_path)
    assert "- added by the user" in stored(file)
    assert "- t, by the run" in kept and "- b" in stored(file)


@pytest.mark.parametrize("how", ["append", "sed", "checkout", "rename", "inPlace"])
def test_D47_whatever_changes_the_file_between_read_and_write_is_seen(
    tmp_path: Path, how: str
) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Task="- old task\n- more", Log="- a")
    base, path = file.read(BUDGETS), Path(file.path)
    changed = stored(file).replace("- old task", "- CANARY task")
    match how:
        case "append":
            with path.open("a") as out:
                out.write("- CANARY task\n")
        case "sed":
            subprocess.run(["sed", "-i", "s/old task/CANARY task/", file.path], check=True)
        case "checkout":
            path.unlink()
            path.write_text(changed)
        case "rename":
            path.with_suffix(".tmp").write_text(changed)
            path.with_suffix(".tmp").replace(path)
        case "inPlace":
            path.write_text(changed)
    write(file, base, Now="n2", Files="- f")
    assert "- CANARY task" in stored(file) and "\n- f\n" in stored(file)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([("Now", ""), ("Task", ""), ("Log", "")], id="empty"),
        pytest.param([(t, " \n\t ") for t in TITLES], id="whitespace"),
        pytest.param([(s.title, f"{s.heading}\n{s.line}") for s in DEFAULT.sections], id="headers"),
        pytest.param([("Now", "x"), ("Task", "- t"), ("Log", "- l")], id="shrunk"),
        pytest.param([("Now", DEFAULT.text)], id="wholeFile"),
        pytest.param([("Now", "x"), ("Now\n# Log", "y")], id="headingInTitle"),
        pytest.param([("Now", "x"), ("Task", LONG), ("Log", "y" * 250_000)], id="tooLong"),
        pytest.param([("Now", "x"), ("../../etc/passwd", "y")], id="path"),
    ],
)
def test_D49_bad_answers_of_a_model_leave_the_notes_as_they_are(
    tmp_path: Path, answer: list[tuple[str, str]]
) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Task=LONG, Log=LONG, Files="- f")
    before = stored(file)
    with pytest.raises(NotesRefusedError):
        file.prepare([SectionEdit(*edit) for edit in answer], file.read(BUDGETS), BUDGETS)
    assert stored(file) == before


@pytest.mark.parametrize(
    "text", ["另一种语言的笔记。" * 20, "Notizen in einer anderen Sprache. " * 20, LONG * 10]
)
def test_D49_other_answers_are_taken_within_the_budget(tmp_path: Path, text: str) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log=LONG, Task="t")
    write(file, Now="n2", Task=text)
    found = file.read(BUDGETS)
    assert not any(section.over_budget for section in found.sections)
    assert found.sections[2].body.rstrip()[-20:] == text.strip()[-20:]


def test_D50_hollowing_out_is_refused_in_one_run_and_kept_in_versions_over_many(
    tmp_path: Path,
) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log=LONG)
    lines = LONG.split("\n")
    with pytest.raises(NotesRefusedError, match="shrink"):
        write(file, Log="\n".join([*lines[:20], *lines[-20:]]))  # its middle
    write(file, Log="\n".join(lines[:70]))
    versions = "".join(p.read_text() for p in tmp_path.rglob("*.md"))
    assert all(line in versions for line in lines)


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("kind", ["section", "total"])
def test_D51_at_the_cap_the_newest_stays_and_what_went_is_said(
    tmp_path: Path, off: int, kind: str
) -> None:
    """At cap - 1, cap, cap + 1: the newest entries stay, it is said, nothing is gone for good."""
    file = notes_file(tmp_path)
    lines = LONG.split("\n")
    size = tokens.estimate(LONG)
    if kind == "section":
        budgets = NoteBudgets(size - off, 100_000)
    else:
        with_all = parse(DEFAULT.text).with_contents({"Now": "now", "Log": LONG})
        budgets = NoteBudgets(100_000, tokens.estimate(with_all.text) - off)
    prepared = file.prepare(edits(Now="now", Log=LONG), file.read(budgets), budgets)
    prepared.publish()
    log = parse(stored(file)).content("Log").split("\n")
    assert log[-1] == lines[-1]
    if off <= 0:
        assert log == lines
    else:
        assert "older line" in log[0]
        kept = everything(tmp_path)
        assert all(line in kept for line in lines)


SHAPES = (
    "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "AKIAIOSFODNN7EXAMPLQ",
    "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zA0cD" * 2,
    "xoxb-284756190384-905817263549-aB3dE6gH9jK2mN5pQ8sT1vW4",
    "glpat-aB3dE6gH9jK2mN5pQ8sT",
)
CONTEXTS = (
    "- env: TOKEN={}",
    '- {{"token": "{}"}}',
    "- `curl -H 'Authorization: Bearer {}'`",
    "- https://user:{}@example.com/x",
    "```\nexport KEY={}\n```",
    "- 中文 {} 日本語",
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape[:6])
def test_D78_secrets_of_the_conversation_reach_no_file(tmp_path: Path, shape: str) -> None:
    file = notes_file(tmp_path)
    for number, context in enumerate(CONTEXTS):
        text = context.format(shape)
        write(file, Now=f"n {number}", Log=f"{text}\n- {number}", Task=text)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert shape not in path.read_text(), path
    assert "[secret removed: " in stored(file)
