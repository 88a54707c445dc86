"""Section edits: what a run may do to the notes, and what it may not (pure; X19-X22, D49, D50).

Neutralised, because the text is good and only its form is not: a heading and line in italics that
repeat the section's own (models do), other level-1 headings (they become level 2), fences left
open. Refused, because something else was meant: an unknown section, the heading of another section
of the template, old text that is not there exactly once, an edit that brings no text to "Now" when
others change, and notes that shrink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.notes.blocks import closed, contained, headings
from oncue.notes.budget import sizes
from oncue.notes.document import Document, content_of
from oncue.notes.template import NOW, Template, TemplateSection
from oncue.notes_ports import NoteBudgets, NotesRefusedError, SectionEdit
from oncue.text import tokens

MAX_EDIT_CHARACTERS = 200_000
"""Of one edit: ten times the budget of all sections is no note, it is a runaway answer."""
MAX_SHRINK = 0.30
"""Of the notes, in one run (X22)."""
MAX_SHRINK_OVER_BUDGET = 0.75
"""Of what the budgets leave, where condensing was asked for."""
GUARDED_TOKENS = 200
"""Smaller notes are a few lines: there a new "Now" alone is more than 30 %."""


def apply(document: Document, edits: Sequence[SectionEdit]) -> Document:
    """The document with all edits, in order. Raises `NotesRefusedError` for the first that cannot
    be; then none is applied."""
    contents = document.contents()
    before = dict(contents)
    refreshed = False
    for edit in edits:
        own = document.template.find(edit.section)
        if own is None:
            titles = ", ".join(s.title for s in document.template.sections)
            raise NotesRefusedError(f"there is no section {edit.section[:80]!r}: use {titles}")
        contents[own.title] = _edited(contents[own.title], edit, own, document.template)
        refreshed = refreshed or own.title == NOW
    changed = [title for title in contents if contents[title] != before[title]]
    if changed and not (refreshed and contents[NOW]):
        raise NotesRefusedError(
            f"section {NOW!r} was not refreshed although {', '.join(changed)} changed: "
            f"edit {NOW!r} too, with where it stands now"
        )
    return document.with_contents({title: contents[title] for title in changed})


def _edited(content: str, edit: SectionEdit, own: TemplateSection, template: Template) -> str:
    if len(edit.new_text) > MAX_EDIT_CHARACTERS:
        raise NotesRefusedError(
            f"the text for {own.title!r} has {len(edit.new_text)} characters, "
            f"more than {MAX_EDIT_CHARACTERS}: shorten it"
        )
    text = content_of(edit.new_text) if edit.old_text is None else _normal(edit.new_text)
    if edit.old_text is not None:
        text = _replaced(content, _normal(edit.old_text), text, own.title)
    return content_of(_neutral(_without_own_heading(text, own), own, template))


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _replaced(content: str, old: str, new: str, title: str) -> str:
    if not old.strip():
        raise NotesRefusedError(
            f"the old text for {title!r} is empty: leave it out to give the whole section"
        )
    count = content.count(old)
    if count != 1:
        raise NotesRefusedError(
            f"the old text for {title!r} occurs {count or 'nowhere'}"
            f"{' times' if count else ''} in it: quote exactly what is there once"
        )
    return content.replace(old, new)


def _without_own_heading(text: str, own: TemplateSection) -> str:
    """Without the section's own heading and line in italics at its beginning."""
    lines = content_of(text).split("\n")
    if lines[0].rstrip() == own.heading:
        del lines[0]
        text = content_of("\n".join(lines))
        lines = text.split("\n")
    if lines and lines[0].strip() == own.line:
        text = content_of("\n".join(lines[1:]))
    return text


def _neutral(text: str, own: TemplateSection, template: Template) -> str:
    """`text` with no level-1 heading in it and no fence left open."""
    for heading in headings(closed(text)) if "#" in text or "=" in text else ():
        other = template.find(heading.title)
        if other is not None and other is not own:
            raise NotesRefusedError(
                f"the text for {own.title!r} holds the heading of {other.title!r}: "
                "give the text of each section in an edit of its own"
            )
    return contained(text)


def check_shrink(before: Document, after: Document, budgets: NoteBudgets) -> None:
    """Raises `NotesRefusedError` where the notes would lose more than they may (X22). What only
    replaces "Now" loses nothing that lasts."""
    old, new = before.contents(), after.contents()
    if any(old.values()) and not any(new.values()):
        raise NotesRefusedError("the edits would leave the notes empty: they stay as they are")
    size, lasting = _size(old)
    if size < GUARDED_TOKENS:
        return
    new_size, new_lasting = _size(new)
    if sizes(before, budgets).is_over:
        room = min(
            sum(min(tokens.estimate(t), budgets.max_section_tokens) for t in old.values()),
            budgets.max_total_tokens,
        )
        least = room * (1 - MAX_SHRINK_OVER_BUDGET)
    else:
        least = size * (1 - MAX_SHRINK)
    if new_size < least and new_lasting < lasting:
        raise NotesRefusedError(
            f"the edits would shrink the notes from {size} to {new_size} tokens, "
            f"more than they may: keep what is still true"
        )


def _size(contents: Mapping[str, str]) -> tuple[int, int]:
    """Tokens of all sections, and of all but "Now"."""
    whole = sum(tokens.estimate(text) for text in contents.values())
    return whole, whole - tokens.estimate(contents[NOW])
