"""Bounded waits for a run: woken by an event, never longer than 15 s (trio; X13, X15, I17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from oncue.extraction.machine import Machine
from oncue.settings import ExtractionSettings
from oncue_protocol import MAX_EXTRACTION_WAIT_MS, ExtractOutcome
from oncue_protocol.extraction import RunOutcome

_OUTCOMES: Mapping[RunOutcome, ExtractOutcome] = {
    "settled": "settled",
    "failed": "failed",
    "cancelled": "failed",
    "stale": "stale",
}


class Waits:
    """Who waits for the runs of one session."""

    def __init__(self, machine: Machine, settings: Callable[[], ExtractionSettings]) -> None:
        self._machine = machine
        self._settings = settings
        self._changed = trio.Event()

    def wake(self) -> None:
        """The machine has moved: whoever waits looks again."""
        self._changed.set()
        self._changed = trio.Event()

    async def outcome(self, run_id: str, wait_ms: int | None) -> ExtractOutcome:
        """How the run ended, or that it has not within `wait_ms` (None: as the settings say), or
        that it is too old to be waited for. Cancelling ends the wait only."""
        limit = min(self._settings().extraction_wait_timeout_ms, MAX_EXTRACTION_WAIT_MS)
        deadline = trio.current_time() + (limit if wait_ms is None else min(wait_ms, limit)) / 1_000
        while True:
            ended = self._machine.outcome(run_id)
            if ended is not None:
                return _OUTCOMES[ended]
            now = trio.current_time()
            threshold_s = self._settings().extraction_stale_threshold_ms / 1_000
            stale_at = self._machine.stale_at(threshold_s)
            if stale_at is not None and now >= stale_at:
                return "stale"
            if now >= deadline:
                return "stillRunning"
            changed = self._changed
            with trio.move_on_at(deadline if stale_at is None else min(deadline, stale_at)):
                await changed.wait()
