"""Runs that write notes, and the notes, on a terminal (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from oncue.replay.report import Decision, Extraction, Notes, Totals
from oncue.replay.words import duration, fitted, one_line

SHORT_LINES = 3
"""Lines of a section's text in the short form: ten sections make about 40 lines."""
MARK = "✎"


def run_line(run: Extraction, width: int) -> Text:
    """Where a run began, why, how long it took and how it ended: one line of `width` cells."""
    if run.turn is None:
        where = "before the first turn"
    elif run.into_ms is None:
        where = f"after turn {run.turn}"
    else:
        where = f"turn {run.turn} +{duration(run.into_ms)}"
    armed = ", after a tool call's result" if run.was_armed else ""
    why = f" ({run.why})" if run.why else ""
    text = Text.assemble(
        "    ",
        (MARK, "bold magenta"),
        (f" notes, {where}: ", "bright_black"),
        one_line(run.reason),
        (f"{armed}; ran {duration(run.took_ms)}, ", "bright_black"),
        one_line(run.outcome + why),
    )
    return fitted(text, width)


def decision_line(decision: Decision, width: int) -> Text:
    """A decision that began no run."""
    where = "" if decision.turn is None else f", turn {decision.turn}"
    said = one_line(f"· notes{where}: {decision.decision} {decision.reason}")
    return fitted(Text(f"    {said}", style="bright_black"), width)


def counted(sums: Totals) -> str:
    """Runs and other decisions in one sentence; nothing where there were none."""
    if not sums.runs and not sums.decisions:
        return ""
    runs = ", ".join(f"{n} {outcome}" for outcome, n in sorted(sums.runs.items()))
    others = ", ".join(f"{n} {what}" for what, n in sorted(sums.decisions.items()))
    count = sum(sums.runs.values())
    return f"notes: {count} {'run' if count == 1 else 'runs'} ({runs or 'none'})" + (
        f"; other decisions: {others}" if others else ""
    )


def panel(notes: Notes, *, width: int, whole: bool, saved: str | None) -> RenderableType:
    """The notes, whole or a few lines of each section, and where they are."""
    body = Text()
    if notes.is_template:
        body.append("nothing was written: the session is too short (extraction.md X1), or notes ")
        body.append("are switched off in the configuration")
    else:
        room = max(width - 4, 10)
        for line, style in _whole(notes.text) if whole else _short(notes.text):
            text = Text(line, style)
            body.append_text(text if whole else _cut(text, room)).append("\n")
        if not whole:
            more = len(list(_whole(notes.text))) - len(list(_short(notes.text)))
            if more > 0:
                body.append(f"{more} more lines; --notes shows them all\n", "bright_black")
    if notes.lag_messages and not notes.is_template:
        body.append(f"{notes.lag_messages} messages are not in them yet\n", "bright_black")
    where = f"saved as {one_line(saved)}" if saved else "made in a temporary folder that is gone"
    body.append(where, "bright_black")
    return Panel(
        body,
        title="session notes",
        title_align="left",
        box=box.ROUNDED,
        border_style="magenta",
    )


def _cut(text: Text, room: int) -> Text:
    text.truncate(room, overflow="ellipsis")
    return text


def _whole(text: str) -> Iterator[tuple[str, str]]:
    """Printable lines and their styles: what a session says reaches no terminal as a control."""
    for line in text.splitlines():
        clean = "".join(c if c.isprintable() else " " for c in line).rstrip()
        yield clean, "bold" if clean.startswith("# ") else ""


def _short(text: str) -> Iterator[tuple[str, str]]:
    """Each heading with its first lines; descriptions, blank lines and comments left out."""
    left = SHORT_LINES
    for line, style in _whole(text):
        if style:
            left = SHORT_LINES
            yield line, style
        elif line and left and not line.startswith("<!--"):
            if line.startswith("_") and line.endswith("_"):
                continue
            left -= 1
            yield line, style
