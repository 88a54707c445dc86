"""The report on a terminal: a block a turn, and the totals.

Every mark differs by shape as well as by colour, so that it reads the same without colour. Widths
count cells: Chinese and Japanese take two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import frozen
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from oncue.replay import notes
from oncue.replay.report import OLD_LIMIT_MS, Handed, Totals, Turn
from oncue.replay.words import duration, fitted, one_line

SPAN_MS = 4500.0
"""What the bars show; a longer turn is cut, visibly."""
VISIBLE_MS = 20.0
"""Shorter waits have no bar: nobody notices a frame of a screen."""
NARROW = 90
"""Below so many columns bars are shorter."""

FAST, REFINED, SEARCH, STOPPED, ON = "◆", "●", "━", "┫", "╌"
OLD, LOST, CUT = "▓", "✗", "▸"
STYLES = {
    FAST: "bold cyan",
    REFINED: "bold green",
    SEARCH: "blue",
    STOPPED: "blue",
    ON: "bright_black",
    OLD: "yellow",
    LOST: "bold yellow",
    CUT: "bright_black",
}
ENDINGS: dict[str | None, str] = {
    "alreadyDelivered": "nothing more to say",
    "nothingFound": "nothing relevant, nothing said",
    "newQuery": "replaced by the next message",
    "abort": "stopped with the turn (Esc)",
    "noSafeDeliveryPoint": "turn over before the search",
    "client": "cancelled",
    "lifetime": "expired",
    "reset": "ended by a reset",
    "controlSignal": "ended by a control signal",
    "sessionClosed": "session closed",
    "shutdown": "daemon shut down",
}


@frozen
class Layout:
    """Columns of a block, for one width of the terminal."""

    width: int
    bar: int
    label: int

    @classmethod
    def of(cls, width: int) -> Layout:
        bar = 36 if width >= NARROW else 24
        return cls(width, bar, 11)

    @property
    def left(self) -> int:
        return self.width - self.bar - self.label - 2

    def cell(self, milliseconds: float) -> int:
        """Where a time lies on the bar, in whole cells; may be beyond its end."""
        return int(milliseconds / SPAN_MS * self.bar)


def scale(layout: Layout) -> Text:
    """The head of the bars."""
    text = Text(" " * (layout.left + 2), style="bright_black")
    marks = ""
    for second in range(int(SPAN_MS / 1000) + 1):
        marks = marks.ljust(layout.cell(second * 1000)) + f"{second}s"
    text.append(marks[: layout.bar + 2].ljust(layout.bar))
    text.append("waited".rjust(layout.label))
    return text


def bar(turn: Turn, layout: Layout, now_ms: float | None = None) -> Text:
    """The turn as it was: the search beneath, the deliveries on it, then the rest of the turn."""
    end_ms = turn.ended_ms if turn.ended_ms is not None else (now_ms or 0.0)
    search_ms = end_ms if turn.settled_ms is None else min(turn.settled_ms, end_ms)
    if turn.recall_id is None:
        search_ms = 0.0
    cells = [SEARCH] * layout.cell(search_ms)
    cells += [ON] * (layout.cell(end_ms) - len(cells))
    is_cut = len(cells) > layout.bar
    cells = (cells or [ON])[: layout.bar]
    is_stopped = turn.ended_ms is not None and turn.settled_ms is None and turn.recall_id
    for handed in turn.handed:
        at = min(layout.cell(handed.late_ms), layout.bar - 1)
        cells += [ON] * (at + 1 - len(cells))
        if cells[at] in (FAST, REFINED) and at + 1 < layout.bar:
            at += 1
            cells += [ON] * (at + 1 - len(cells))
        cells[at] = FAST if handed.stage == "fast" else REFINED
    if is_cut:
        cells[-1] = CUT
    elif is_stopped and len(cells) < layout.bar:
        cells.append(STOPPED)
    return _drawn(cells, layout)


def old_bar(turn: Turn, layout: Layout) -> Text:
    """The same turn under the old design: how long nothing would have happened."""
    old = turn.old()
    cells = [OLD] * max(layout.cell(old.waited_ms), 1 if old.waited_ms >= VISIBLE_MS else 0)
    if old.is_lost:
        cells.append(LOST)
    return _drawn(cells[: layout.bar], layout)


def _drawn(cells: list[str], layout: Layout) -> Text:
    text = Text()
    for cell in cells:
        text.append(cell, STYLES[cell])
    text.pad_right(layout.bar - len(cells))
    return text


def block(turn: Turn, width: int, now_ms: float | None = None) -> Text:
    """A turn in lines of exactly `width` cells; `now_ms`: it is still going on."""
    layout = Layout.of(width)
    number = Text(f"{turn.number:>3} ", style="bright_black")
    head = Text.assemble(number, (one_line(turn.query) or "(no text)", "bold"))
    waited = Text(f"{duration(turn.waited_ms):>{layout.label}}", style="bold")
    rows = [_row(head, bar(turn, layout, now_ms), waited, layout)]
    notes = list(_notes(turn)) if now_ms is None or turn.handed else []
    if now_ms is not None:
        notes = notes or [Text("    " + _live(turn), style="bright_black")]
        rows += [fitted(note, width) for note in notes]
        return Text("\n").join(rows)
    old = turn.old()
    said = ("≥ " if old.is_at_least else "") + duration(old.waited_ms)
    label = Text(f"{said:>{layout.label}}", style="yellow")
    for at, note in enumerate(notes):
        if at == 0 and turn.recall_id is not None:
            rows.append(_row(note, old_bar(turn, layout), label, layout))
        else:
            rows.append(fitted(note, width))
    return Text("\n").join(rows)


def _row(left: Text, middle: Text, right: Text, layout: Layout) -> Text:
    return Text.assemble(
        fitted(left, layout.left), "  ", fitted(middle, layout.bar), fitted(right, layout.label)
    )


def _live(turn: Turn) -> str:
    if turn.settled_ms is not None:
        return "search done, taken at the next opportunity"
    return "searching; nobody waits"


def _notes(turn: Turn) -> Iterator[Text]:
    """What was delivered, or why nothing was."""
    for handed in turn.handed:
        yield _handed(handed)
    if turn.recall_id is None:
        yield Text("    nothing typed to recall for", style="bright_black")
    elif turn.reason in ENDINGS and (not turn.handed or turn.reason in ("newQuery", "abort")):
        yield Text(f"    {ENDINGS[turn.reason]}", style="bright_black")
    elif not turn.handed:
        yield Text("    nothing relevant, nothing said", style="bright_black")


def _handed(handed: Handed) -> Text:
    mark = FAST if handed.stage == "fast" else REFINED
    where = "prompt" if handed.point == "userQuery" else f"tool {handed.round}"
    fallback = " (model failed, by rank)" if handed.strategy == "fallback" else ""
    return Text.assemble(
        "    ",
        (mark, STYLES[mark]),
        (f" {where} +{duration(handed.late_ms)}{fallback}  ", "bright_black"),
        " · ".join(one_line(title) for title in handed.titles),
    )


def legend(has_model: bool, width: int) -> Text:
    """What the marks mean; lines break between them only."""
    known = [
        (FAST, "fast stage, local index"),
        (REFINED, "chosen by the model" if has_model else "ranked, local index"),
        (SEARCH, "search runs, nobody waits"),
        (STOPPED, "stopped with its turn"),
        (ON, "turn goes on"),
        (OLD, "blocked under the old design"),
        (LOST, "and lost"),
    ]
    lines = [Text(" ")]
    for mark, meaning in known:
        item = Text.assemble(" ", (mark, STYLES[mark]), (f" {meaning} ", "bright_black"))
        if lines[-1].cell_len + item.cell_len > width:
            lines.append(Text(" "))
        lines[-1].append_text(item)
    return Text("\n").join(lines)


def header(lines: list[tuple[str, str]], title: str) -> RenderableType:
    """What is played, with what: pairs of word and meaning."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(overflow="fold")
    for word, meaning in lines:
        table.add_row(word, meaning)
    return Panel(table, title=title, title_align="left", box=box.ROUNDED, border_style="blue")


def totals(sums: Totals) -> RenderableType:
    """The sums, old design beside this one."""
    mine, old = sums.per_turn.spread(), sums.old_per_turn.spread()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("waiting for recall")
    table.add_column("here", justify="right", style="green")
    table.add_column("old design", justify="right", style="yellow")
    at_least = "≥ " if sums.old_is_at_least else ""
    table.add_row("all turns", duration(sums.waited_ms), at_least + duration(sums.old_ms))
    table.add_row("a turn, median", duration(mine.p50), duration(old.p50))
    table.add_row("a turn, at most", duration(mine.largest), duration(old.largest))
    table.add_row(f"results lost after {OLD_LIMIT_MS / 1000:g} s", "0", str(sums.old_lost))
    table.add_row(f"results taken after {OLD_LIMIT_MS / 1000:g} s", str(sums.late), "0")
    facts = Text()
    facts.append(
        f"{sums.turns} turns, {sums.recalls} recalls: {sums.documents} documents in "
        f"{sums.deliveries_at_prompt + sums.deliveries_at_tools} deliveries "
        f"({sums.deliveries_at_prompt} at the prompt, {sums.deliveries_at_tools} at a tool round); "
        f"{_plural(sums.silent, 'time')} nothing to say, "
        f"{_plural(sums.stopped, 'search', 'searches')} stopped with their turn\n"
    )
    if said := notes.counted(sums):
        facts.append(said + "\n")
    start, first, poll = sums.starts.spread(), sums.first_polls.spread(), sums.polls.spread()
    for name, spread in (
        ("recall/start", start),
        ("recall/poll at the prompt", first),
        ("recall/poll at a tool round", poll),
    ):
        if spread.count:
            facts.append(
                f"{name}: p50 {duration(spread.p50)}, p99 {duration(spread.p99)}, "
                f"{spread.count} round trips\n",
                "bright_black",
            )
    facts.append(
        f"{sums.messages} messages, {_plural(sums.compactions, 'compaction')}, "
        f"{_plural(sums.resets, 'reset')}; {duration(sums.recorded_s * 1000)} recorded, played in "
        f"{duration(sums.played_s * 1000)}; pauses are shortened, what is measured is real time",
        "bright_black",
    )
    return Panel(
        Group(table, facts),
        title="totals",
        title_align="left",
        box=box.ROUNDED,
        border_style="blue",
    )


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def finite(milliseconds: float | None) -> float | None:
    """For JSON: infinity is no number there."""
    return None if milliseconds is None or not math.isfinite(milliseconds) else milliseconds
