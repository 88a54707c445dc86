"""What happened in a session, newest `KEPT` entries, read page by page (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import Any

from oncue.times import rfc3339
from oncue_protocol import InvalidParams, SessionTimelineResult, TimelineEntry

KEPT = 2_000
"""Entries kept a session: a day of turns with four entries each, at about 300 bytes."""
PAGE = 500
"""Entries a page: about 150 KB of answer."""


class Timeline:
    """A bounded log with a cursor that stays valid while entries fall off its head."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=KEPT)
        self._total = 0

    def add(self, at: float, members: Mapping[str, Any]) -> None:
        """Append what happened `at` (seconds since 1970 UTC); the oldest entry makes room.
        `members` of a TimelineEntry: it is made when somebody reads it, not on a poll's time."""
        self._entries.append((at, members))
        self._total += 1

    def page(self, cursor: str | None) -> SessionTimelineResult:
        """Entries from `cursor` on, oldest first. Raises InvalidParams for a cursor not ours."""
        start = 0
        if cursor is not None:
            if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):
                raise InvalidParams(
                    "cursor is not one that session/timeline gave out", path="params.cursor"
                )
            start = int(cursor)
        first = self._total - len(self._entries)
        begin = max(start - first, 0)
        entries = tuple(
            TimelineEntry(at=rfc3339(at), **members)
            for at, members in islice(self._entries, begin, begin + PAGE)
        )
        end = first + begin + len(entries)
        return SessionTimelineResult(
            entries=entries, cursor=str(end) if end < self._total else None
        )
