"""Text that fits a line of a terminal (pure). Widths count cells."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text


def duration(milliseconds: float) -> str:
    """Short, with the unit that fits."""
    if milliseconds >= 60_000:
        return f"{milliseconds / 60_000:.1f} min"
    if milliseconds >= 999.5:
        return f"{milliseconds / 1000:.1f} s"
    if milliseconds >= 9.5:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms"


def fitted(text: Text, width: int) -> Text:
    """Exactly `width` cells: cut with an ellipsis, or padded."""
    text = text.copy()
    text.truncate(width, overflow="ellipsis", pad=True)
    # A wide character at the cut may leave one cell.
    text.pad_right(max(0, width - cell_len(text.plain)))
    return text


def one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
