"""The notes as they stand for the history that a client drops (pure; extraction.md §7)."""

from __future__ import annotations

from oncue.notes.budget import shortened
from oncue.notes.document import parse
from oncue.notes.template import DEFAULT, Template
from oncue.notes_ports import NoteBudgets


def cut_notes(text: str, budgets: NoteBudgets, template: Template = DEFAULT) -> str:
    """The notes, each section within its budget, with a line that says what was left out."""
    document = parse(text, template)
    contents = {
        title: shortened(content, budgets.max_section_tokens * 1_000)
        for title, content in document.contents().items()
    }
    return document.with_contents(contents).text
