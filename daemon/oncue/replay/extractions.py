"""Which session notes were written when, and why: read from the daemon's own timeline.

Nothing here is on a turn's path: the timeline is read between two turns, and only where a run has
ended since or so many turns have passed that its oldest entries might be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from attrs import define, field

from oncue.replay.report import Decision, Extraction, Notes, Totals
from oncue_client import Client
from oncue_protocol import MemoryExtractionEndedParams, TimelineEntry

READ_AFTER_TURNS = 64
"""The daemon keeps 2,000 entries, about four a turn and some for decisions."""
WAITS = 3
"""The last run, the one that may trail it (X11), and one to be told that it is idle."""
WAIT_MS = 15_000
"""For each of them, at most (X15)."""


class Observer(Protocol):
    """Who is told."""

    def extraction(self, run: Extraction) -> None:
        """A run has ended."""

    def decided(self, decision: Decision) -> None:
        """A decision that started no run of its own."""


@define
class _Run:
    """One that has begun."""

    turn: int | None
    into_ms: float | None
    reason: str
    was_armed: bool


@define
class Extractions:
    """Follows the runs of one session. `begin` and `listen` are quick; `look` and `finish` ask."""

    client: Client
    session_id: str
    observer: Observer
    totals: Totals
    _cursor: str | None = None
    """Of the page that was the last; it may have grown since."""
    _taken: int = 0
    """Entries of that page that are known."""
    _numbers: dict[str, int] = field(factory=dict)
    """Turns begun since the last look, and the one before, by their ids."""
    _turn: tuple[int, datetime] | None = None
    _is_turn_over: bool = False
    _armed: set[str] = field(factory=set)
    _runs: dict[str, _Run] = field(factory=dict)
    _has_ended: bool = False

    def listen(self) -> Callable[[], None]:
        """Begin to listen; returns what ends it."""
        return self.client.on("memory/extractionEnded", self._ended)

    def begin(self, turn_id: str, number: int) -> None:
        """The player begins a turn."""
        self._numbers[turn_id] = number

    async def look(self) -> None:
        """Between two turns: read on where there is a reason to."""
        if self._has_ended or len(self._numbers) > READ_AFTER_TURNS:
            await self._read()

    async def finish(self, path: str | None) -> None:
        """After the last turn: wait for the last run, within bounds, then read everything."""
        for _ in range(WAITS):
            waited = await self.client.memory_wait(session_id=self.session_id, wait_ms=WAIT_MS)
            if waited.outcome not in ("settled", "failed"):
                break
        await self._read()
        read = await self.client.notes_read(session_id=self.session_id)
        self.totals.notes = Notes(read.text, path, read.lag_messages, read.is_template)

    def _ended(self, told: MemoryExtractionEndedParams) -> None:
        self._has_ended = self._has_ended or told.session_id == self.session_id

    async def _read(self) -> None:
        self._has_ended = False
        while True:
            page = await self.client.session_timeline(
                session_id=self.session_id, cursor=self._cursor
            )
            for entry in page.entries[self._taken :]:
                self._take(entry)
            if page.cursor is None:
                self._taken = len(page.entries)
                break
            self._cursor, self._taken = page.cursor, 0
        for turn_id in list(self._numbers)[:-1]:
            del self._numbers[turn_id]

    def _take(self, entry: TimelineEntry) -> None:
        match entry.event:
            case "turnStarted":
                number = self._numbers.get(entry.turn_id or "")
                if number is not None:
                    self._turn = (number, datetime.fromisoformat(entry.at))
                    self._is_turn_over = False
            case "turnEnded":
                self._is_turn_over = True
            case "extractionDecided":
                self._decided(entry)
            case "runStarted" if entry.run_id is not None:
                into_ms = None
                if self._turn is not None and not self._is_turn_over:
                    since = datetime.fromisoformat(entry.at) - self._turn[1]
                    into_ms = max(since.total_seconds() * 1000, 0.0)
                self._runs[entry.run_id] = _Run(
                    self._number, into_ms, entry.reason or "", entry.run_id in self._armed
                )
                self._armed.discard(entry.run_id)
            case "runEnded" if entry.run_id in self._runs:
                run = self._runs.pop(entry.run_id)
                ended = Extraction(
                    run_id=entry.run_id,
                    turn=run.turn,
                    into_ms=run.into_ms,
                    reason=run.reason,
                    was_armed=run.was_armed,
                    took_ms=float(entry.since_start_ms or 0),
                    outcome=entry.outcome or "",
                    why=entry.reason,
                )
                self.totals.add_extraction(ended)
                self.observer.extraction(ended)
            case _:
                pass

    def _decided(self, entry: TimelineEntry) -> None:
        if entry.decision == "armed" and entry.run_id is not None:
            self._armed.add(entry.run_id)
        if entry.decision in ("started", "armed", None):
            return  # its run tells
        decision = Decision(self._number, entry.decision, entry.reason or "")
        self.totals.add_decision(decision)
        self.observer.decided(decision)

    @property
    def _number(self) -> int | None:
        return None if self._turn is None else self._turn[0]
