"""`MEMORY.md`: an index for readers, derived from the files and never truth (M1, D51; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from attrs import frozen

from oncue.memory.document import one_line

MAX_LINES = 200
"""Agents read so many lines of it and cut the rest silently."""
MAX_BYTES = 25_000
MAX_LINE_CHARACTERS = 200
"""So that one memory cannot push the others out."""

HEADER = (
    "<!-- Written by oncue from the memory files beside it; what you change here is lost. -->",
    "# Memory",
    "",
)


@frozen
class Entry:
    """One memory."""

    relative_path: str
    title: str
    description: str


@frozen
class Manifest:
    """The text, and what it has no room for."""

    text: str
    left_out: tuple[str, ...]
    """Relative paths, in the order given."""


def manifest(entries: Sequence[Entry]) -> Manifest:
    """Whole lines only, at most MAX_LINES and MAX_BYTES. `entries` come newest first, so the
    oldest are at the tail and are the ones left out."""
    lines = list(HEADER)
    size = sum(len(line.encode()) + 1 for line in lines)
    for at, entry in enumerate(entries):
        line = _line(entry)
        size += len(line.encode("utf-8", "replace")) + 1
        if len(lines) >= MAX_LINES or size > MAX_BYTES:
            return Manifest(_text(lines), tuple(e.relative_path for e in entries[at:]))
        lines.append(line)
    return Manifest(_text(lines), ())


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _line(entry: Entry) -> str:
    title = one_line(entry.title, 100).translate({ord("["): "(", ord("]"): ")"})
    link = quote(entry.relative_path, safe="/", errors="replace")
    line = f"- [{title}]({link})"
    room = MAX_LINE_CHARACTERS - len(title) - 6
    if entry.description and room > 20:
        line += f": {one_line(entry.description, room)}"
    return line
