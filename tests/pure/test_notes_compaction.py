"""The notes as they stand for the history that a client drops (extraction.md §7)."""

from __future__ import annotations

from notes_support import written
from oncue.notes.compaction import cut_notes
from oncue.notes.document import parse
from oncue.notes_ports import NoteBudgets


def test_X21_notes_are_cut_a_section_visibly() -> None:
    long = "\n".join(f"- line {n}" for n in range(500))
    text = cut_notes(written(Now="n", Log=long, Task="t").text, NoteBudgets(100, 12_000))
    found = parse(text).contents()
    assert found["Log"].startswith("_(") and found["Log"].endswith("- line 499")
    assert (found["Now"], found["Task"]) == ("n", "t")
