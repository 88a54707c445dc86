"""Hostile Markdown, and small helpers, for the tests of notes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from hypothesis import strategies as st

from oncue.notes.document import Document, new, parse, repaired
from oncue.notes.file import NotesFile
from oncue.notes.places import folder_of
from oncue.notes.template import DEFAULT
from oncue.notes_ports import NoteBudgets, NotesView, SectionEdit

BUDGETS = NoteBudgets(2_000, 12_000)
TITLES = tuple(section.title for section in DEFAULT.sections)
PAIRS = tuple(f"{section.heading}\n{section.line}\n" for section in DEFAULT.sections)

_LINES = (
    *("# Now", "# Log", "# Title", "# now", "#  Task  #", "## x", "# Mine", "#", "# ", "\\# x"),
    *("```", "~~~", "```sh", "````", "> ```", "- ```", "<div>", "<!--", "-->", "<pre>", "</pre>"),
    *("<?php", "<![CDATA[", "===", "---", "=", "-\n# z", "text", "- a", "  - b", "    # code"),
    *("> # q", "- # li", "1. # y", "\t# t", "_it_", "| a | b |", "[x]: y", "* * *", "", "", " "),
    *("\x0b# vt", "\u2028", "\x85# n", "\x00", "\x00# Now", "株式", "_(3 older lines left out)_"),
    *(DEFAULT.sections[1].line, DEFAULT.sections[9].line, PAIRS[1].strip(), PAIRS[4].strip()),
)
line = st.sampled_from(_LINES) | st.text(max_size=6)
_end = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
_text = st.lists(st.tuples(line, _end), max_size=12).map(lambda p: "".join(a + b for a, b in p))
markdown = _text | _text.map(lambda text: text.rstrip("\n"))
"""Any text, full of what breaks notes."""
files = st.lists(markdown | st.sampled_from(PAIRS) | st.just(DEFAULT.text), max_size=6).map("".join)
"""Any notes file."""
plain_line = st.text(
    st.characters(categories=("L", "N"), max_codepoint=0x30FF), min_size=1, max_size=8
).map("- {}".format)
plain = st.lists(plain_line, max_size=5).map("\n".join)
"""A section's text, as people write it."""


def blank() -> Document:
    return repaired(new())


def written(**contents: str) -> Document:
    """Notes with text in some sections, as read back from a file."""
    return parse(blank().with_contents(contents).text)


def edits(**contents: str) -> list[SectionEdit]:
    return [SectionEdit(title, text) for title, text in contents.items()]


def assert_whole(document: Document) -> None:
    """I21: all sections, once, in order, headings and lines byte-equal; read back the same."""
    again = parse(document.text, document.template)
    wanted = document.template.sections
    assert [section.title for section in again.own] == [section.title for section in wanted]
    for section, own in zip(again.own, wanted, strict=True):
        assert section.heading.rstrip("\r\n") == own.heading
        assert section.line.rstrip("\r\n") == own.line
    assert again.contents() == document.contents()


def lines_of(text: str) -> Counter[str]:
    """The lines that a user would miss: all but blank ones and those of the template."""
    ours = {own.heading for own in DEFAULT.sections} | {own.line for own in DEFAULT.sections}
    found = (part.strip() for part in re.split(r"\r\n|\r|\n", text.replace("\0", "")))
    return Counter(part for part in found if part and part not in ours)


def notes_file(data: Path, session: str = "one", key: str | None = "k") -> NotesFile:
    return NotesFile(folder_of(data, key), session)


def write(file: NotesFile, base: NotesView | None = None, **contents: str) -> str | None:
    """One whole run; the conflict copy's path."""
    base = base if base is not None else file.read(BUDGETS)
    contents.setdefault("Now", "now")
    prepared = file.prepare(edits(**contents), base, BUDGETS)
    prepared.publish()
    return prepared.conflict_path


def save(file: NotesFile, text: str | bytes) -> None:
    """What an editor does."""
    path = Path(file.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def stored(file: NotesFile) -> str:
    return Path(file.path).read_bytes().decode()
