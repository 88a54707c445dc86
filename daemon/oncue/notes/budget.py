"""Budgets of the notes, and condensing what is over them (pure; X21, I22).

Deterministic: the oldest units of a section go first, which are those at its top. A unit is a line
with what is indented below it, or a whole code fence: none is ever cut inside. One line in italics
says how many went. Where the notes as a whole are over budget, "Now" and "Problems" go last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from oncue.notes.blocks import LINE, contained, fences
from oncue.notes.document import Document, content_of
from oncue.notes_ports import NoteBudgets
from oncue.text import tokens

KEPT_LONGEST = ("Problems", "Now")
"""Condensed after all others, in this order."""
FIRST = ("Log", "Results", "Commands", "Files", "System", "Lessons", "Task", "Title")
"""Condensed in this order; sections of a user's template after `Files`."""
SHARES = (0.25, 0.05)
"""Of a section's budget: how far each section is condensed before the next one's turn comes, in a
first and a second round."""

USUAL_FULL = 6
"""Sections that may be full at once: the default of the total is six sections' budgets."""

_MARKER = re.compile(r"_\((\d+) older lines? left out\)_")
_CUT = "_(beginning left out)_ "


@frozen
class OverBudget:
    """A section that is larger than it may be."""

    title: str
    tokens: int
    budget: int


@frozen
class Sizes:
    """What is over budget: for a model to condense."""

    sections: tuple[OverBudget, ...]
    total: int
    """Tokens of the whole file."""
    max_total: int

    @property
    def is_over(self) -> bool:
        return bool(self.sections) or self.total > self.max_total


def sizes(document: Document, budgets: NoteBudgets) -> Sizes:
    """What is over budget."""
    over = []
    for title, content in document.contents().items():
        size = tokens.estimate(content)
        if size > budgets.max_section_tokens:
            over.append(OverBudget(title, size, budgets.max_section_tokens))
    return Sizes(tuple(over), tokens.estimate(document.text), budgets.max_total_tokens)


@frozen
class Condensed:
    """The document within its budgets, and what went."""

    document: Document
    removed: dict[str, str]
    """Title → text that was left out, for whoever keeps it."""


def condensed(document: Document, budgets: NoteBudgets) -> Condensed:
    """Idempotent. Sections that users added are theirs: they count, and are never touched."""
    before = document.contents()
    contents = dict(before)
    for _ in range(_ROUNDS):
        last = dict(contents)
        _condense(document, contents, budgets)
        if contents == last:
            break
    changed = {title: text for title, text in contents.items() if text != before[title]}
    removed = {title: _difference(before[title], text) for title, text in changed.items()}
    return Condensed(document.with_contents(changed) if changed else document, removed)


_ROUNDS = 4
"""One does nearly always; a section whose budget is smaller than the line that says what was left
out takes another."""


def _condense(document: Document, contents: dict[str, str], budgets: NoteBudgets) -> None:
    for title, content in contents.items():
        contents[title] = shortened(content, budgets.max_section_tokens * 1_000)
    excess = tokens.weight(document.text) - budgets.max_total_tokens * 1_000
    for title, content in document.contents().items():
        excess += tokens.weight(contents[title]) - tokens.weight(content)
    usual = min(budgets.max_section_tokens, budgets.max_total_tokens // USUAL_FULL)
    for title, share in _turns(document):
        if excess <= 0:
            break
        size = tokens.weight(contents[title])
        floor = int(usual * share * 1_000)
        if size > floor:
            contents[title] = shortened(contents[title], max(floor, size - excess))
            excess -= size - tokens.weight(contents[title])


def _turns(document: Document) -> Iterator[tuple[str, float]]:
    titles = [section.title for section in document.template.sections]
    at = FIRST.index("System")
    others = [t for t in titles if t not in FIRST and t not in KEPT_LONGEST]
    order = [t for t in (*FIRST[:at], *others, *FIRST[at:]) if t in titles]
    last = [title for title in KEPT_LONGEST if title in titles]
    for share in SHARES:
        yield from ((title, share) for title in order)
    for share in SHARES:
        yield from ((title, share) for title in last)


def shortened(content: str, max_weight: int) -> str:
    """A section's content within `max_weight` (`tokens.weight`): the oldest units left out, and a
    line that says how many lines went. As it is, where that makes it no shorter."""
    weight = tokens.weight(content)
    if weight <= max_weight:
        return content
    gone, units = _counted(_units(content))
    room = max_weight - tokens.weight("_(100000 older lines left out)_\n\n")
    kept: list[str] = []
    while units and tokens.weight(units[-1]) <= room:
        room -= tokens.weight(units[-1])
        kept.insert(0, units.pop())
    if not kept and units and not _is_fence(units[-1]):
        kept = [_tail(units.pop(), room)]
    gone += sum(len(LINE.findall(unit.strip("\n"))) for unit in units)
    rest = content_of("".join(kept))
    if gone:
        marker = f"_({gone} older line{'' if gone == 1 else 's'} left out)_"
        rest = f"{marker}\n\n{rest}" if rest else marker
    rest = content_of(contained(rest))
    return rest if tokens.weight(rest) < weight else content


def _counted(units: list[str]) -> tuple[int, list[str]]:
    """How many lines went before, and the units without the line that says so."""
    for number, unit in enumerate(units):
        if unit.strip():
            match = _MARKER.fullmatch(unit.strip())
            if match is not None:
                return int(match[1]), units[:number] + units[number + 1 :]
            break
    return 0, units


def _units(content: str) -> list[str]:
    lines = LINE.findall(content)
    fenced = {}
    if "```" in content or "~~~" in content:
        fenced = {block.start: block.end for block in fences(content)}
    units: list[str] = []
    at = 0
    while at < len(lines):
        if at in fenced:
            units.append("".join(lines[at : fenced[at]]))
            at = fenced[at]
            continue
        if units and not _is_fence(units[-1]) and _goes_on(units[-1], lines[at]):
            units[-1] += lines[at]
        else:
            units.append(lines[at])
        at += 1
    return units


def _goes_on(unit: str, line: str) -> bool:
    """Whether a line belongs to the unit before it: indented, blank, or the same quotation."""
    return line[:1] in " \t" or not line.strip() or (line[0] == ">" and unit[0] == ">")


def _is_fence(unit: str) -> bool:
    return unit.lstrip(" ").startswith(("```", "~~~"))


def _tail(unit: str, room: int) -> str:
    """The end of a unit that is too long as a whole, from the beginning of a word."""
    room -= tokens.weight(_CUT)
    text = unit.strip().removeprefix(_CUT)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if tokens.weight(text[middle:]) <= room:
            high = middle
        else:
            low = middle + 1
    space = text.find(" ", low, low + 40)
    return _CUT + text[space + 1 if space >= 0 else low :].lstrip()


def _difference(before: str, after: str) -> str:
    kept = after.split("\n")
    lines = before.split("\n")
    # What is kept is the end: whatever stands before it went.
    while kept and lines and kept[-1] == lines[-1]:
        kept.pop()
        lines.pop()
    return "\n".join(line for line in lines if not _MARKER.fullmatch(line.strip()))
