"""Keeper, outline extractor and a real notes file together (I18-I20, X17, X23)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from keeper_doubles import Bench, ScriptedExtractor, calls, results, says, user
from oncue.extraction.extractors.outline import OutlineExtractor
from oncue.notes.file import NotesFile
from oncue.notes.places import NotesFolder
from oncue.notes_ports import Extracted, NoteBudgets, NotesView, SectionEdit, Snapshot


def notes_in(folder: Path) -> NotesFile:
    return NotesFile(NotesFolder(str(folder), ("notes",)), "s")


class Editor(ScriptedExtractor):
    """Writes into Now and Log, as every extractor must; the user edits the file meanwhile."""

    def __init__(self, path: Path, edit: tuple[str, str] | None) -> None:
        super().__init__()
        self.path = path
        self.edit = edit

    async def extract(
        self, snapshot: Snapshot, notes: NotesView, budgets: NoteBudgets, deadline_s: float
    ) -> Extracted:
        await super().extract(snapshot, notes, budgets, deadline_s)
        if self.edit is not None:
            before, after = self.edit
            text = self.path.read_text()
            assert before in text
            self.path.write_text(text.replace(before, after, 1))
        last = snapshot.last_message_id
        return Extracted((SectionEdit("Now", f"at {last}"), SectionEdit("Log", f"up to {last}")))


async def test_a_session_ends_with_notes_that_no_model_wrote(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    notes = notes_in(tmp_path)
    bench = Bench(
        nursery,
        tmp_path / "state",
        OutlineExtractor(),
        notes=notes,
        minimum_message_tokens_to_init=500,
        minimum_tokens_between_update=400,
    )
    for n in range(12):
        bench.append(user(f"u{n}", f"mend the importer, case {n}"), calls(f"a{n}", f"c{n}"))
        bench.append(results(f"r{n}", f"c{n}"), says(f"b{n}", 300 + 250 * n, text="mended"))
        await bench.idle()
    assert [end.outcome for end in bench.ends()] == ["settled"] * len(bench.ends())
    assert len(bench.ends()) >= 3
    bench.extract("close")
    await bench.idle()
    text = Path(notes.path).read_text()
    assert "mend the importer, case 0" in text
    assert "case 11" in text
    cursor = bench.cursors.load("s")
    assert cursor is not None
    assert (cursor.processed_through, cursor.notes_revision) == (
        "b11",
        bench.ends()[-1].notes_revision,
    )


@pytest.mark.parametrize(
    ("edit", "conflict"),
    [
        (None, False),
        (("# Lessons", "mine\n\n# Lessons"), False),
        (("at a1", "mine"), True),
    ],
)
async def test_I20_X23_what_the_user_writes_during_a_run_is_kept(
    nursery: trio.Nursery, tmp_path: Path, edit: tuple[str, str] | None, conflict: bool
) -> None:
    notes = notes_in(tmp_path)
    extractor = Editor(Path(notes.path), None)
    bench = Bench(nursery, tmp_path / "state", extractor, notes=notes)
    bench.append(user("u1"), says("a1", 12_000))
    await bench.idle()
    extractor.edit = edit
    bench.append(user("u2"), says("a2", 18_000))
    await bench.idle()
    end = bench.ends()[-1]
    assert end.outcome == "settled"
    text = Path(notes.path).read_text()
    assert "up to a2" in text
    assert ("mine" in text) == (edit is not None)
    assert (end.conflict_path is not None) == conflict
    if end.conflict_path is not None:
        assert "at a2" in Path(end.conflict_path).read_text()
    assert bench.keeper.last_summarized == "a2"
