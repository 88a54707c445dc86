"""The notes' file: written whole or not at all, merged with what the user saved, copies kept."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from notes_support import BUDGETS, edits, notes_file, save, stored, write, written
from oncue import safe_files
from oncue.notes import copies, places
from oncue.notes.document import parse
from oncue.notes.file import NotesFile
from oncue.notes.places import folder_of, stem_of
from oncue.notes.template import DEFAULT
from oncue.notes_ports import NoteBudgets, NotesMovedError, NotesRefusedError, SectionEdit

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def all_files(data: Path) -> list[Path]:
    return sorted(path for path in data.rglob("*") if not path.is_dir())


def test_X23_a_first_run_seeds_the_template_0600_in_0700_folders(tmp_path: Path) -> None:
    file = notes_file(tmp_path / "data")
    view = file.read(BUDGETS)
    assert view.is_template and view.revision is None and view.text == DEFAULT.text
    assert not (tmp_path / "data").exists()  # reading makes nothing
    prepared = file.prepare(edits(Now="here", Log="- a"), view, BUDGETS)
    assert prepared.changed and prepared.conflict_path is None
    assert not Path(file.path).exists()
    assert prepared.publish() == prepared.revision == safe_files.revision(stored(file).encode())
    assert parse(stored(file)).contents() == written(Now="here", Log="- a").contents()
    for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    again = file.read(BUDGETS)
    assert again.revision == prepared.revision and not again.is_template


def test_X23_files_lie_below_their_project_or_the_user(tmp_path: Path) -> None:
    assert notes_file(tmp_path, "s").path == f"{tmp_path}/projects/k/notes/{stem_of('s')}.md"
    assert notes_file(tmp_path, "s", None).path == f"{tmp_path}/user/notes/{stem_of('s')}.md"


@pytest.mark.parametrize(
    "session",
    ["a/../../b", "", ".", "..", "x" * 5_000, "con", "a\0b", "日本語", "a b", "A", "\ud800", "-rf"],
)
def test_D61_any_session_id_is_a_harmless_file_name(tmp_path: Path, session: str) -> None:
    file = notes_file(tmp_path, session)
    write(file, Log="- a")
    path = Path(file.path)
    assert path.parent == tmp_path / "projects/k/notes"
    assert path.name.isascii() and len(path.name) < 100 and path.name[0].isalnum()
    assert path.is_file()


def test_D61_no_two_sessions_share_a_file() -> None:
    ids = ["a", "A", "a/", "a-", "a b", "a  b", "", "session", "\ud800", "é", "e\u0301"]
    assert len({stem_of(session).casefold() for session in ids}) == len(ids)


def test_X20_nothing_new_changes_nothing(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Log="- a")
    before = all_files(tmp_path)
    view = file.read(BUDGETS)
    prepared = file.prepare(edits(Now="now", Log="- a"), view, BUDGETS)
    assert not prepared.changed
    assert prepared.publish() == prepared.revision == view.revision
    assert all_files(tmp_path) == before
    empty = notes_file(tmp_path, "none", "other").prepare([], file.read(BUDGETS), BUDGETS)
    assert (empty.changed, empty.revision, empty.publish()) == (False, "", "")


def test_X23_an_edit_of_another_section_during_the_run_is_merged(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Task="t", Log="- a")
    base = file.read(BUDGETS)
    save(file, stored(file).replace("\nt\n", "\nt of the user\n"))
    assert write(file, base, Now="n2", Log="- a\n- b") is None
    found = parse(stored(file)).contents()
    assert (found["Now"], found["Task"], found["Log"]) == ("n2", "t of the user", "- a\n- b")


def test_X23_an_edit_of_the_same_section_wins_and_the_run_goes_beside(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a")
    base = file.read(BUDGETS)
    save(file, stored(file).replace("- a", "- a, says the user"))
    conflict = write(file, base, Now="n2", Log="- a\n- b")
    assert conflict is not None and Path(conflict).parent == Path(file.path).parent
    assert "- a\n- b" in Path(conflict).read_text()
    assert Path(file.path).name in Path(conflict).read_text()
    assert parse(stored(file)).content("Log") == "- a, says the user"
    assert parse(stored(file)).content("Now") == "n2"
    assert stat.S_IMODE(Path(conflict).stat().st_mode) == 0o600


def test_X23_a_save_between_merge_and_rename_is_noticed(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a")
    base = file.read(BUDGETS)
    prepared = file.prepare(edits(Now="n2"), base, BUDGETS)
    save(file, stored(file) + "\nsaved by the user\n")
    with pytest.raises(NotesMovedError):
        prepared.publish()
    prepared.discard()
    assert "saved by the user" in stored(file) and "n2" not in stored(file)
    write(file, base, Now="n2")
    assert "saved by the user" in stored(file) and "n2" in stored(file)


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.parametrize("how", ["rename", "inPlace", "unlink", "link"])
def test_I20_a_save_in_the_very_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, can_exchange: bool
) -> None:
    """After the last look at the file, just before it is replaced."""
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a")
    prepared = file.prepare(edits(Now="n2"), file.read(BUDGETS), BUDGETS)
    text, path = stored(file) + "saved by the user\n", Path(file.path)
    real = safe_files.exchange
    saved = False

    def save_first(folder: int, one: str, other: str) -> bool:
        nonlocal saved
        if not saved:
            saved = True
            match how:
                case "rename":
                    path.with_suffix(".swp").write_text(text)
                    path.with_suffix(".swp").replace(path)
                case "inPlace":
                    path.write_text(text)
                case "unlink":
                    path.unlink()
                case "link":
                    path.unlink()
                    path.symlink_to(tmp_path)
        return real(folder, one, other) if can_exchange else False

    monkeypatch.setattr(safe_files, "exchange", save_first)
    with pytest.raises((NotesMovedError, OSError)):
        prepared.publish()
    prepared.discard()
    assert saved
    if how in ("rename", "inPlace"):
        assert stored(file) == text
    elif how == "link":
        assert path.is_symlink()
    else:
        assert not path.exists()
    assert not [p for p in all_files(tmp_path) if p.name.startswith(safe_files.TEMPORARY)]


def test_I20_two_saves_in_the_very_last_moment_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a")
    prepared = file.prepare(edits(Now="n2"), file.read(BUDGETS), BUDGETS)
    real, swapped = safe_files.exchange, 0

    def save_before(folder: int, one: str, other: str) -> bool:
        nonlocal swapped
        swapped += 1
        save(file, stored(file) + f"saved {swapped}\n")
        return real(folder, one, other)

    monkeypatch.setattr(safe_files, "exchange", save_before)
    with pytest.raises(NotesMovedError):
        prepared.publish()
    prepared.discard()
    assert swapped == 2
    assert stored(file).endswith("saved 1\n")
    (copy,) = Path(file.folder.path).glob("*.conflict-*.md")
    assert copy.read_text().endswith("saved 2\n")


def test_I20_a_file_that_appears_in_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = notes_file(tmp_path)
    prepared = file.prepare(edits(Now="n"), file.read(BUDGETS), BUDGETS)
    real = safe_files.place

    def save_first(folder: int, temporary: str, name: str) -> None:
        Path(file.path).write_text("by the user")
        real(folder, temporary, name)

    monkeypatch.setattr(safe_files, "place", save_first)
    with pytest.raises(NotesMovedError):
        prepared.publish()
    prepared.discard()
    assert stored(file) == "by the user"


def test_X23_a_save_where_nothing_was_to_change_is_noticed_too(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Log="- a")
    prepared = file.prepare([], file.read(BUDGETS), BUDGETS)
    save(file, stored(file) + "more\n")
    with pytest.raises(NotesMovedError):
        prepared.publish()


def test_X23_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a")
    base = file.read(BUDGETS)
    save(file, stored(file).replace("- a", "- user"))
    before = all_files(tmp_path)
    prepared = file.prepare(edits(Now="n2", Log="- run"), base, BUDGETS)
    assert prepared.conflict_path is not None and len(all_files(tmp_path)) == len(before) + 2
    prepared.discard()
    prepared.discard()
    assert all_files(tmp_path) == before


def test_X23_ten_versions_are_kept(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    for number in range(15):
        write(file, Log=f"- {number}")
    versions = sorted((Path(file.path).parent / ".versions" / stem_of("one")).iterdir())
    assert len(versions) == copies.MAX_VERSIONS
    assert versions[-1].read_text() == stored(file)
    assert "- 5\n" in versions[0].read_text()


def test_I20_the_users_own_state_is_among_the_versions(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Log="- a")
    save(file, stored(file).replace("- a", "- edited"))
    write(file, Log="- later")
    versions = Path(file.path).parent / ".versions" / stem_of("one")
    assert any("- edited" in path.read_text() for path in versions.iterdir())


def test_X21_what_is_left_out_is_kept_beside(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    tight = NoteBudgets(100, 12_000)
    lines = [f"- line {number}" for number in range(100)]
    prepared = file.prepare(edits(Now="n", Log="\n".join(lines)), file.read(tight), tight)
    prepared.publish()
    shown = parse(stored(file)).content("Log").split("\n")
    older = Path(file.path.replace(".md", ".older.md")).read_text()
    assert "older lines left out" in shown[0]
    assert [line for line in (older + "\n".join(shown)).split("\n") if line in lines] == lines


@pytest.mark.parametrize("where", ["edit", "user", "mine", "conflict"])
def test_D78_no_secret_reaches_any_file_of_ours(tmp_path: Path, where: str) -> None:
    file = notes_file(tmp_path)
    write(file, Now="n", Log="- a", Task="t")
    base = file.read(BUDGETS)
    if where == "user":
        save(file, stored(file).replace("\nt\n", f"\nt {TOKEN}\n"))
    elif where == "mine":
        save(file, stored(file) + f"\n# Mine\n\ntoken {TOKEN}\n")
    elif where == "conflict":
        save(file, stored(file).replace("- a", "- user"))
    text = f"- a {TOKEN}" if where in ("edit", "conflict") else "- a\n- b"
    write(file, base, Now=f"n2 {TOKEN}", Log=text)
    for path in all_files(tmp_path):
        assert TOKEN not in path.read_text(), path
    assert "[secret removed: " in stored(file)
    assert parse(stored(file)).missing == ()


def test_X22_a_run_that_would_hollow_the_notes_out_is_refused(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    long = "\n".join(f"- line {n} that matters" for n in range(80))
    write(file, Log=long, Task=long)
    before = stored(file)
    with pytest.raises(NotesRefusedError, match="shrink"):
        write(file, Log="- gone", Task="")
    with pytest.raises(NotesRefusedError):
        write(file, Plan="x")
    assert stored(file) == before


@pytest.mark.parametrize(
    ("encoding", "bom"),
    [("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_F11_a_file_keeps_its_encoding_and_line_ends(
    tmp_path: Path, encoding: str, bom: bytes, end: str
) -> None:
    file = notes_file(tmp_path)
    text = written(Now="n", Log="- Größe 株式").text.replace("\n", end)
    save(file, bom + text.encode(encoding))
    assert [problem.code for problem in file.problems()] == (
        ["encoding"] if encoding != "utf-8" else []
    )
    write(file, Now="n2")
    data = Path(file.path).read_bytes()
    assert data.startswith(bom)
    assert data[len(bom) :].decode(encoding) == text.replace(f"{end}n{end}", f"{end}n2{end}")


@pytest.mark.parametrize(
    "data",
    [b"caf\xe9 \xff\n", b"\xff\xfe" + "x\ud800y".encode("utf-16-le", "surrogatepass"),
     b"\xff\xfea\x00b", b"\x00\x01\x02", b"\xff\xfe\x00\x00\x01", b"plain words only\n"],
)  # fmt: skip
def test_F11_bytes_that_are_no_text_are_kept(tmp_path: Path, data: bytes) -> None:
    file = notes_file(tmp_path)
    save(file, data)
    write(file, Log="- a")
    assert parse(file.read(BUDGETS).text).content("Log") == "- a"
    copies_ = [path.read_bytes() for path in all_files(tmp_path)]
    assert any(copy.startswith(data) for copy in copies_)


def test_D47_a_deleted_file_is_written_again_with_all_that_was_in_it(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Task="t", Log="- a")
    base = file.read(BUDGETS)
    Path(file.path).unlink()
    write(file, base, Log="- a\n- b")
    found = parse(stored(file)).contents()
    assert (found["Task"], found["Log"]) == ("t", "- a\n- b")


def test_F11_a_file_deleted_before_the_run_is_a_fresh_start(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    write(file, Task="t")
    Path(file.path).unlink()
    assert file.read(BUDGETS).is_template
    write(file, Log="- b")
    assert parse(stored(file)).content("Task") == ""


def test_D47_a_file_replaced_by_a_few_words_keeps_them_and_gets_its_sections_back(
    tmp_path: Path,
) -> None:
    file = notes_file(tmp_path)
    write(file, Task="- the task", Log="- a")
    save(file, "333 bytes of something else\n")
    assert any(problem.code == "sections" for problem in file.problems())
    view = file.read(BUDGETS)
    assert {s.title: s.body for s in view.sections}["Task"] == "- the task"
    write(file, Log="- a\n- b")
    assert stored(file).startswith("333 bytes of something else\n\n# Title")
    assert parse(stored(file)).content("Task") == "- the task"


def test_T1_links_and_other_things_in_its_place_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("canary")
    file = notes_file(tmp_path / "data")
    path = Path(file.path)
    path.parent.mkdir(parents=True)
    for make in (
        lambda: path.symlink_to(outside),
        lambda: os.link(outside, path),
        lambda: os.mkfifo(path),
        lambda: path.mkdir(),
    ):
        make()
        with pytest.raises(OSError, match=r"notes file .* (is not|is a symbolic|has more)"):
            file.read(BUDGETS)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert outside.read_text() == "canary"


def test_T1_a_link_in_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    data = tmp_path / "data"
    (data / "projects" / "k").mkdir(parents=True)
    (data / "projects" / "k" / "notes").symlink_to(elsewhere)
    file = notes_file(data)
    with pytest.raises(OSError, match="cannot be used"):
        write(file, Log="- a")
    assert list(elsewhere.iterdir()) == []


def test_F11_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "projects").mkdir(parents=True)
    (data / "projects" / "k").write_text("a file")
    with pytest.raises(OSError, match="a part of it is a file: move it"):
        write(notes_file(data), Log="- a")


def test_I22_a_file_of_more_than_256_kib_is_refused_and_stays(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    save(file, b"x" * 300_000)
    with pytest.raises(OSError, match="is larger than"):
        file.read(BUDGETS)
    text = written(Now="n").text + "\n# Mine\n\n" + "own words\n" * 25_000
    save(file, text.ljust(safe_files.MAX_FILE_BYTES - 10, "x"))
    with pytest.raises(NotesRefusedError, match="shorten what you added"):
        write(file, Log="\n".join(f"- {n} and more of it" for n in range(2_000)), Now="n2")


def test_M9_purge_leaves_no_copy(tmp_path: Path) -> None:
    file, other = notes_file(tmp_path), notes_file(tmp_path, "other")
    for target in (file, other):
        write(target, Log="- CANARY", Task="t")
    base = file.read(BUDGETS)
    save(file, stored(file).replace("- CANARY", "- CANARY 2"))
    write(file, base, Log="- CANARY 3")
    tight = NoteBudgets(100, 12_000)
    long = "\n".join(f"- CANARY {n}" for n in range(200))
    prepared = file.prepare(edits(Now="x", Task=long), file.read(tight), tight)
    prepared.publish()
    left = file.prepare(edits(Now="CANARY"), file.read(BUDGETS), BUDGETS)
    removed = places.purge(folder_of(tmp_path, "k"), "one")
    assert removed and all(not Path(path).exists() for path in removed)
    assert len(removed) == len(set(removed)) >= 6
    assert all(stem_of("other") in str(path) for path in all_files(tmp_path))
    assert places.purge(folder_of(tmp_path, "k"), "one") == ()
    assert places.purge(folder_of(tmp_path, "none"), "one") == ()
    with pytest.raises(NotesMovedError):
        left.publish()
    left.discard()
    assert file.read(BUDGETS).is_template


def test_M9_notes_expire(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "k")
    old, new, mine = notes_file(tmp_path, "old"), notes_file(tmp_path, "new"), "diary.md"
    write(old, Log="- a")
    write(new, Log="- a")
    (Path(folder.path) / mine).write_text("not ours")
    now = Path(new.path).stat().st_mtime
    for path in all_files(tmp_path):
        if stem_of("old") in str(path) or path.name == mine:
            os.utime(path, (now - 91 * 86_400,) * 2)
    assert places.expire(folder, days=92, now=now) == ()
    removed = places.expire(folder, days=90, now=now)
    assert removed and all(stem_of("old") in path for path in removed)
    assert not Path(old.path).exists() and Path(new.path).exists()
    assert (Path(folder.path) / mine).read_text() == "not ours"
    assert places.stems(folder) == [stem_of("new")]
    assert places.expire(folder_of(tmp_path, "none"), days=1, now=now) == ()


def test_D45_writers_in_threads_lose_no_line(tmp_path: Path) -> None:
    lines = [[f"- {name} {n}" for n in range(12)] for name in "abcd"]

    def work(own: list[str]) -> None:
        file = notes_file(tmp_path)
        for text in own:
            while True:
                view = file.read(BUDGETS)
                log = next(s.body for s in view.sections if s.title == "Log")
                prepared = file.prepare(
                    [SectionEdit("Now", text), SectionEdit("Log", f"{log}\n{text}")], view, BUDGETS
                )
                try:
                    prepared.publish()
                    break
                except NotesMovedError:
                    prepared.discard()

    threads = [threading.Thread(target=work, args=(own,)) for own in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = "\n".join(
        path.read_text() for path in all_files(tmp_path) if ".versions" not in str(path)
    )
    assert all(text in kept for own in lines for text in own)
    assert not [p for p in all_files(tmp_path) if p.name.startswith(safe_files.TEMPORARY)]


def test_X24_another_template_keeps_what_the_old_one_had(tmp_path: Path) -> None:
    from oncue.notes.template import parse_template

    file = notes_file(tmp_path)
    write(file, Task="t", Log="- a")
    template = parse_template("# Now\n_where_\n\n# Task\n_what_\n\n# Ideas\n*later*\n")
    other = NotesFile(folder_of(tmp_path, "k"), "one", template)
    view = other.read(BUDGETS)
    assert [(s.title, s.description) for s in view.sections] == [
        ("Now", "where"),
        ("Task", "what"),
        ("Ideas", "later"),
    ]
    assert view.sections[1].body == "t"
    write(other, Ideas="- i")
    text = stored(other)
    assert "# Ideas\n*later*\n\n- i\n" in text and "# Task\n_what_\n\nt\n" in text
    assert "- a\n" in text and "_where_" in text
