"""Entries of the outline: lines of a section that are read back as they were written (pure).

The notes are the outline's only memory between runs. What no entry could have written is the
user's, and stays where it is; what a user hangs below an entry stays with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from attrs import define, field

from oncue.extraction.extractors.outline_text import ARROW, cut
from oncue.text import tokens

MAX_LINE = 4_000
"""Characters: no entry of ours is longer."""
MAX_LEVEL = 2
LINE_END = tokens.weight("\n")
CODE = r"(?P<ticks>`+) ?(?P<subject>.+?) ?(?P=ticks)(?!`)"


def code(text: str) -> str:
    """Text in a code span, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}" if longest else f"`{text}`"


class Entry(Protocol):
    """One line."""

    @property
    def key(self) -> str: ...
    def line(self, level: int) -> str:
        """As written; the higher the level, the shorter."""


E = TypeVar("E", bound=Entry)


@define
class _Item(Generic[E]):
    entry: E | None
    raw: str
    """The line as it was read; empty for a new entry."""
    tail: list[str] = field(factory=list)
    is_changed: bool = False

    def lines(self, level: int) -> Iterator[str]:
        if self.entry is not None and (self.is_changed or level):
            yield self.entry.line(level)
        else:
            yield self.raw
        yield from self.tail


class Entries(Generic[E]):
    """A section's lines, oldest first; an entry that changes moves to the end."""

    def __init__(self, body: str, parse: Callable[[str], E | None]) -> None:
        self._items: list[_Item[E]] = []
        self._by_key: dict[str, _Item[E]] = {}
        self.is_changed = False
        fenced = False
        for line in body.split("\n"):
            if line.startswith(("```", "~~~")):
                fenced = not fenced
            is_entry = line.startswith("- ") and not fenced and len(line) <= MAX_LINE
            entry = parse(line) if is_entry else None
            if entry is not None and entry.key not in self._by_key:
                item = _Item(entry, line)
                self._by_key[entry.key] = item
                self._items.append(item)
            elif self._items and not fenced and (line[:1] in (" ", "\t") or not line):
                self._items[-1].tail.append(line)
            elif line or self._items:
                self._items.append(_Item(None, line))

    def __iter__(self) -> Iterator[E]:
        return (item.entry for item in self._items if item.entry is not None)

    def find(self, key: str) -> E | None:
        item = self._by_key.get(key)
        return item.entry if item is not None else None

    @property
    def last(self) -> E | None:
        return next((i.entry for i in reversed(self._items) if i.entry is not None), None)

    def put(self, entry: E, *, moves: bool = True) -> None:
        """A new entry, or another state of one that is there."""
        item = self._by_key.get(entry.key)
        if item is None:
            item = _Item(entry, "", is_changed=True)
            self._by_key[entry.key] = item
            self._strip()
            self._items.append(item)
        else:
            if item.entry == entry and item.is_changed is False and item.raw == entry.line(0):
                return
            item.entry, item.is_changed = entry, True
            if moves and self._items[-1] is not item:
                self._strip()
                self._items.remove(item)
                self._items.append(item)
        self.is_changed = True

    def _strip(self) -> None:
        """No blank lines before what is put at the end."""
        while self._items:
            tail = self._items[-1].tail
            while tail and not tail[-1].strip():
                tail.pop()
            if self._items[-1].entry is not None or self._items[-1].raw.strip() or tail:
                return
            self._items.pop()

    def body(self, max_weight: int) -> str:
        """The section's text. Where it is heavier (`tokens.weight`), the oldest entries are
        written shorter, as many as it takes; what is still too long is for whoever keeps the
        budgets."""
        parts = ["\n".join(item.lines(0)) for item in self._items]
        weights = [tokens.weight(part) + LINE_END for part in parts]
        excess = sum(weights) - max_weight
        for level in range(1, MAX_LEVEL + 1):
            for number, item in enumerate(self._items):
                if excess <= 0:
                    break
                if item.entry is not None:
                    parts[number] = "\n".join(item.lines(level))
                    weight = tokens.weight(parts[number]) + LINE_END
                    excess += weight - weights[number]
                    weights[number] = weight
        return "\n".join(parts).strip("\n")


# --- kinds of entries ------------------------------------------------------------------------

_SAID = re.compile(r"- \[(?P<key>[0-9a-z]{5})\] (?P<text>.+)")


@define
class Said:
    """What was said in a turn: a request, or what it came to."""

    key: str
    text: str

    @classmethod
    def parse(cls, line: str) -> Said | None:
        match = _SAID.fullmatch(line)
        return cls(match["key"], match["text"]) if match else None

    def line(self, level: int) -> str:
        return f"- [{self.key}] {cut(self.text, (0, 24, 12)[level]) if level else self.text}"


_COMMAND = re.compile(
    rf"- {CODE}(?: \((?P<about>[^()]*)\))?: (?:(?P<runs>\d+)×(?:, (?P<failed>\d+) failed)?, last )?"
    r"(?P<last>worked|failed|refused)(?:: (?P<said>.*))?"
)


@define
class Command:
    """A command: how often it was run, and how it went."""

    key: str
    about: str = ""
    runs: int = 0
    failed: int = 0
    last: str = "worked"
    said: str = ""

    @classmethod
    def parse(cls, line: str) -> Command | None:
        match = _COMMAND.fullmatch(line)
        if match is None:
            return None
        return cls(
            match["subject"],
            match["about"] or "",
            int(match["runs"] or 1),
            int(match["failed"] or (not match["runs"] and match["last"] == "failed")),
            match["last"],
            match["said"] or "",
        )

    def line(self, level: int) -> str:
        about = f" ({self.about})" if self.about and not level else ""
        said = f": {cut(self.said, 12) if level else self.said}" if self.said and level < 2 else ""
        often = ""
        if self.runs > 1:
            often = f"{self.runs}×{f', {self.failed} failed' if self.failed else ''}, last "
        return f"- {code(self.key)}{about}: {often}{self.last}{said}"


_FILE = re.compile(
    rf"- {CODE}: (?P<deeds>(?:read|edited|written|deleted)(?: \d+×)?"
    r"(?:, (?:read|edited|written|deleted)(?: \d+×)?)*)"
    r"(?:; in it: (?P<names>[^;]*))?(?:; changed: (?P<change>.*))?"
)


@define
class File:
    """A file: what was done to it, what is in it, the last changes."""

    key: str
    deeds: dict[str, int] = field(factory=dict)
    names: list[str] = field(factory=list)
    changes: list[str] = field(factory=list)

    @classmethod
    def parse(cls, line: str) -> File | None:
        match = _FILE.fullmatch(line)
        if match is None:
            return None
        deeds = {}
        for deed in match["deeds"].split(", "):
            kind, _, times = deed.partition(" ")
            deeds[kind] = int(times.removesuffix("×") or 1)
        names = match["names"].split(", ") if match["names"] else []
        changes = match["change"].split(" ⏎ ") if match["change"] else []
        return cls(match["subject"], deeds, names, changes)

    def line(self, level: int) -> str:
        deeds = ", ".join(kind if n == 1 else f"{kind} {n}×" for kind, n in self.deeds.items())
        names = f"; in it: {', '.join(self.names)}" if self.names and not level else ""
        changes = [cut(self.changes[-1], 20)] if level and self.changes else self.changes
        change = f"; changed: {' ⏎ '.join(changes)}" if changes and level < 2 else ""
        return f"- {code(self.key)}: {deeds}{names}{change}"


OPEN = "not mended so far"
_PROBLEM = re.compile(
    rf"- (?:\[(?P<turn>[0-9a-z]{{5}})\] )?{CODE}(?: (?P<times>\d+)×)? failed(?:: (?P<error>.*))?"
)


@define
class Problem:
    """Something that failed, and what followed."""

    key: str
    error: str = ""
    times: int = 1
    then: str = ""
    """What the agent said next."""
    end: str = OPEN
    """How it was mended."""
    turn: str = ""
    """Key of the turn in which it failed last."""
    edited: list[str] = field(factory=list)
    """Files changed since; known within a run."""

    @classmethod
    def parse(cls, line: str) -> Problem | None:
        first, *rest = line.split(ARROW)
        match = _PROBLEM.fullmatch(first)
        if match is None or len(rest) not in (1, 2):
            return None
        then = rest[0] if len(rest) == 2 else ""
        return cls(
            match["subject"],
            match["error"] or "",
            int(match["times"] or 1),
            then,
            rest[-1],
            match["turn"] or "",
        )

    def line(self, level: int) -> str:
        times = f" {self.times}×" if self.times > 1 else ""
        error = f": {cut(self.error, 24) if level else self.error}" if self.error else ""
        then = [cut(self.then, 24) if level else self.then] if self.then and level < 2 else []
        turn = f"[{self.turn}] " if self.turn else ""
        first = f"- {turn}{code(self.key)}{times} failed{error}"
        return ARROW.join((first, *then, self.end))


_TURN = re.compile(
    r"- (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d )?\[(?P<key>[0-9a-z]{5})\] (?P<text>.*?)"
    r"(?: → (?P<calls>\d+) calls?(?:, (?P<failed>\d+) failed)?(?:; changed: (?P<changed>.*))?)?"
)


@define
class Turn:
    """A turn in the log."""

    key: str
    time: str = ""
    text: str = ""
    calls: int = 0
    failed: int = 0
    changed: list[str] = field(factory=list)

    @classmethod
    def parse(cls, line: str) -> Turn | None:
        match = _TURN.fullmatch(line)
        if match is None:
            return None
        return cls(
            match["key"],
            (match["time"] or "").strip(),
            match["text"],
            int(match["calls"] or 0),
            int(match["failed"] or 0),
            match["changed"].split(", ") if match["changed"] else [],
        )

    def line(self, level: int) -> str:
        time = f"{self.time} " if self.time else ""
        line = f"- {time}[{self.key}] {cut(self.text, 10) if level else self.text}"
        if self.calls:
            failed = f", {self.failed} failed" if self.failed else ""
            changed = f"; changed: {', '.join(self.changed)}" if self.changed and not level else ""
            line += f"{ARROW}{self.calls} call{'' if self.calls == 1 else 's'}{failed}{changed}"
        return line


_FACTS = re.compile(r"- (?P<kind>[A-Z][a-z ]{2,30}): (?P<values>.+)")
MAX_FACTS = 40
"""Of a kind; the oldest go."""


@define
class Facts:
    """Names worth knowing, of one kind."""

    key: str
    values: list[str] = field(factory=list)

    @classmethod
    def parse(cls, line: str) -> Facts | None:
        match = _FACTS.fullmatch(line)
        return cls(match["kind"], match["values"].split(", ")) if match else None

    def line(self, level: int) -> str:
        values = self.values[-MAX_FACTS // (4 if level else 1) :]
        return f"- {self.key}: {', '.join(values)}"


_LESSON = re.compile(r"- (?P<text>.+)")


@define
class Lesson:
    """Something the user wants done in a certain way."""

    key: str

    @classmethod
    def parse(cls, line: str) -> Lesson | None:
        match = _LESSON.fullmatch(line)
        return cls(match["text"]) if match else None

    def line(self, level: int) -> str:
        return f"- {self.key}"
