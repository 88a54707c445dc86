"""Notes under faults: torn files, crashes at each step, full disks, folders of others."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notes_support import BUDGETS, TITLES, edits, notes_file, save, stored, write, written
from oncue import safe_files
from oncue.notes import places
from oncue.notes.document import parse
from oncue.notes.places import folder_of

TESTS = Path(__file__).parents[1]


def leftovers(data: Path) -> list[Path]:
    return [path for path in data.rglob("*") if path.name.startswith(safe_files.TEMPORARY)]


def test_F11_a_file_torn_at_any_byte_loses_no_text(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    text = {title: "\n".join(f"- {title} {n} wörd" for n in range(4)) for title in TITLES}
    write(file, **text)
    whole = stored(file).encode()
    for at in [*range(0, len(whole), 23), *range(len(whole) - 40, len(whole))]:
        save(file, whole[:at])
        write(file, Now=f"- now {at}")
        found = parse(stored(file))
        assert not found.missing
        kept = "".join(
            path.read_bytes().decode("utf-8", "replace") for path in tmp_path.rglob("*.md")
        )
        for title in TITLES:
            for line in text[title].split("\n"):
                assert line in kept, (at, line)
        # What lay behind the tear is in the notes again, not only in a copy.
        behind = [t for t in TITLES if whole.find(f"# {t}\n".encode()) > at and t != "Now"]
        assert all(found.content(title) == text[title] for title in behind), at
        save(file, whole)
        write(file, Now=f"- again {at}")


CRASH = """
import os, sys
from pathlib import Path
from notes_support import BUDGETS, edits, notes_file
from oncue import safe_files
step, nth = sys.argv[2], int(sys.argv[3])
file = notes_file(Path(sys.argv[1]))
base = file.read(BUDGETS)
target = os if hasattr(os, step) else safe_files
real, count = getattr(target, step), 0
def crash(*args, **kwargs):
    global count
    count += 1
    if count == nth:
        if len(sys.argv) > 4:
            real(*args, **kwargs)
        os._exit(9)
    return real(*args, **kwargs)
setattr(target, step, crash)
prepared = file.prepare(edits(Now="new", Log="- old\\n- new"), base, BUDGETS)
prepared.publish()
os._exit(0)
"""


SLOW = [pytest.param(step, marks=pytest.mark.slow) for step in ("open", "close", "mkdir", "unlink")]


@pytest.mark.parametrize("step", ["write", "fsync", "rename", "exchange", *SLOW])
@pytest.mark.parametrize("after", [False, True])
def test_I19_a_crash_at_any_step_leaves_one_whole_version(
    tmp_path: Path, step: str, after: bool
) -> None:
    """kill -9 before or after the n-th call of each kind, until none is hit any more."""
    if step == "close" and after:
        pytest.skip("the same as before the next call")
    old = new = 0
    for nth in range(1, 60):
        data = tmp_path / str(nth)
        file = notes_file(data)
        write(file, Now="old", Log="- old")
        before = stored(file)
        done = subprocess.run(
            [sys.executable, "-c", CRASH, str(data), step, str(nth), *["after"] * after],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 9), done.stderr
        contents = parse(stored(file)).contents()
        if stored(file) == before:
            old += 1
        else:
            assert (contents["Now"], contents["Log"]) == ("new", "- old\n- new")
            new += 1
        again = notes_file(data)
        again.read(BUDGETS)  # the next start tidies up
        assert leftovers(data) == []
        write(again, Now="later", Log="- old\n- later")
        assert "- later" in stored(file)
        if done.returncode == 0:
            break
    assert new


def test_I6_the_temporary_file_of_a_living_writer_stays(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    prepared = file.prepare(edits(Now="n", Log="- a"), file.read(BUDGETS), BUDGETS)
    assert len(leftovers(tmp_path)) == 1
    assert places.tidy(folder_of(tmp_path, "k")) == 0
    notes_file(tmp_path).read(BUDGETS)
    prepared.publish()
    assert "- a" in stored(file) and leftovers(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_F2_an_error_at_any_call_leaves_the_old_notes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    file = notes_file(tmp_path)
    write(file, Now="old", Log="- old")
    base = file.read(BUDGETS)
    save(file, stored(file).replace("- old", "- old of the user"))
    before = stored(file)
    real = getattr(os, step)
    failures = 0
    for nth in range(1, 40):
        count = 0

        def fail(*args, nth: int = nth, **kwargs):  # type: ignore[no-untyped-def]
            nonlocal count
            count += 1
            if count == nth:
                raise OSError(code, os.strerror(code))
            return real(*args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr(os, step, fail)
            prepared = None
            try:
                prepared = file.prepare(edits(Now="new", Log="- run"), base, BUDGETS)
                prepared.publish()
            except OSError as error:
                failures += 1
                assert error.errno == code
                if prepared is not None:
                    prepared.discard()
        assert leftovers(tmp_path) == []
        if stored(file) != before:
            break
    assert failures
    assert "- old of the user" in stored(file) and "\nnew\n" in stored(file)


def test_F4_a_folder_that_cannot_be_written_is_an_error_and_reading_goes_on(
    tmp_path: Path,
) -> None:
    """As another user: root may write anywhere."""
    file = notes_file(tmp_path / "data")
    write(file, Log="- a")
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from notes_support import BUDGETS, edits, notes_file\n"
        "os.setuid(65534)\n"
        "file = notes_file(Path(sys.argv[1]))\n"
        "try:\n"
        "    file.prepare(edits(Now='x', Log='y'), file.read(BUDGETS), BUDGETS)\n"
        "except OSError as error:\n"
        "    print(error.strerror or error)\n"
    )
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    for path in [tmp_path, *tmp_path.parents]:
        if path.stat().st_uid == 0 and str(path).startswith("/tmp/"):
            path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "belongs to another user" in done.stdout or "Permission denied" in done.stdout
    assert "- a" in stored(file)


def test_F11_a_robot_that_rewrites_in_place_and_by_rename_loses_no_line(tmp_path: Path) -> None:
    """As vim (rename), nano (in place), `sed -i` and `git checkout` do, between read and write."""
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a")

    def vim(text: str) -> None:
        swap = Path(file.path).with_suffix(".swp")
        swap.write_text(text)
        swap.replace(file.path)

    def nano(text: str) -> None:
        Path(file.path).write_text(text)

    def git(text: str) -> None:
        Path(file.path).unlink()
        Path(file.path).write_text(text)

    saved: list[str] = []
    for number in range(12):
        base = file.read(BUDGETS)
        line = f"- by hand {number}"
        saved.append(line)
        (vim, nano, git)[number % 3](stored(file).replace("# Files\n", f"# Files\n\n{line}\n", 1))
        files = next(section.body for section in base.sections if section.title == "Files")
        write(file, base, Now=f"n {number}", Files=f"{files}\n- r {number}", Log=f"- run {number}")
    everything = "".join(
        path.read_text() for path in tmp_path.rglob("*.md") if ".versions" not in str(path)
    )
    assert all(line in everything for line in saved)
    assert parse(stored(file)).content("Log") == "- run 11"


def test_F11_notes_in_a_file_that_was_only_ever_the_users(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    save(file, written(Task="by hand").text.replace("\n", "\r\n"))
    write(file, Log="- a")
    assert parse(stored(file)).content("Task") == "by hand"
