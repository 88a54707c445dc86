"""Where the level-1 headings of a Markdown text are, by markdown-it-py (pure).

A `#` in a code fence, an indented block, HTML, a list or a quotation is no heading of ours. What a
fence or an HTML block that is never closed would swallow can be closed here.
"""

from __future__ import annotations

import re

from attrs import frozen
from markdown_it import MarkdownIt
from markdown_it.token import Token

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
"""A line with its end, as markdown-it counts lines."""

_MARKDOWN = MarkdownIt("commonmark").disable(["reference", "inline"])
_TERMINATORS = ("-->", "?>", "]]>", "</pre>", "</script>", "</style>", "</textarea>", ">")


@frozen
class Heading:
    """A level-1 heading that is in no other block."""

    start: int
    """Its line, from 0."""
    end: int
    """The line behind it (one or, underlined with `=`, more lines further)."""
    title: str
    underlined: bool = False


@frozen
class Block:
    """A code fence or a block of HTML that is in no other block."""

    start: int
    end: int


def line_end(line: str) -> str:
    """How a line ends: `""` for the last one of a file."""
    return line[len(line.rstrip("\r\n")) :]


def headings(text: str) -> list[Heading]:
    """All level-1 headings, in order."""
    return scan(text)[0]


def scan(text: str) -> tuple[list[Heading], list[Block]]:
    """All level-1 headings, and all blocks that may hide some."""
    found: list[Heading] = []
    blocks: list[Block] = []
    tokens = _parse(text)
    for index, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        start, end = token.map
        if token.type == "heading_open" and token.tag == "h1":
            title = tokens[index + 1].content.strip()
            found.append(Heading(start, end, title, token.markup.startswith("=")))
        elif token.type in ("fence", "html_block"):
            blocks.append(Block(start, end))
    return found, blocks


def fences(text: str) -> list[Block]:
    """All code fences that are in no other block."""
    return [
        Block(token.map[0], token.map[1])
        for token in _parse(text)
        if token.type == "fence" and not token.level and token.map is not None
    ]


# Only lines like these begin what could swallow a heading, or are one: without them nothing needs
# to be parsed, and most sections have none.
_OPENS = re.compile(r"^ {0,3}(?:```|~~~|<)", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}(?:#|=+[ \t]*$)", re.MULTILINE)


def closed(text: str) -> str:
    """`text` (line ends `\n`), with a line behind it that closes the fence or HTML block it leaves
    open; as it is, where a heading behind it would be one. No line end behind the last line."""
    if not _OPENS.search(text) or _is_closed(text):
        return text
    last = next((t for t in reversed(_parse(text)) if not t.level and t.map is not None), None)
    ends = (last.markup,) if last is not None and last.type == "fence" else _TERMINATORS
    for end in ends:
        if _is_closed(f"{text}\n{end}"):
            return f"{text}\n{end}"
    # Only what we do not know of Markdown leads here: then nothing of it may act as Markdown.
    return _indented(text)


def contained(text: str) -> str:
    """`text` (line ends `\n`) as the body of a section: no fence left open, and level-1 headings
    made level 2, so that nothing in it is a section of its own."""
    text = closed(text)
    for _ in range(_ROUNDS):
        found = headings(text) if _HEADING.search(text) else []
        if not found:
            return text
        lines = LINE.findall(text)
        for heading in found:
            at = heading.end - 1 if heading.underlined else heading.start
            lines[at] = _demoted(lines[at], underlined=heading.underlined)
        text = closed("".join(lines))
    return _indented(text)


_ROUNDS = 8
"""A line that changes may change how the next ones are read; more often than this nobody means."""


def _demoted(line: str, *, underlined: bool) -> str:
    if not underlined:
        return line.replace("#", "##", 1)
    return "-" * max(line.count("="), 3) + line_end(line)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


def _is_closed(text: str) -> bool:
    found = headings(f"{text}\n\n# x\n")
    return bool(found) and found[-1].start == len(LINE.findall(f"{text}\n\n"))


def _parse(text: str) -> list[Token]:
    return _MARKDOWN.parse(text)
