"""The outline extractor: the default, deterministic, without any model (extraction.md §4)."""

from __future__ import annotations

import time

import trio

from oncue.extraction.extractors.outline_fold import Fold
from oncue.notes_ports import Extracted, ExtractionFailedError, NoteBudgets, NotesView, Snapshot


class OutlineExtractor:
    """`notes_ports.Extractor`."""

    async def extract(
        self, snapshot: Snapshot, notes: NotesView, budgets: NoteBudgets, deadline_s: float
    ) -> Extracted:
        """In a worker thread, which gives way after every message, so that nothing waits for it
        (X17). Raises `ExtractionFailedError` at the deadline."""
        is_over = False

        def work() -> Extracted | None:
            fold = Fold(notes, budgets)
            for message in fold.unseen(snapshot.messages):
                if is_over:
                    return None
                fold.feed(message)
                time.sleep(0)
            return fold.extracted()

        try:
            with trio.move_on_after(deadline_s):
                made = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
                if made is not None:
                    return made
        finally:
            is_over = True
        raise ExtractionFailedError(f"the outline was not ready within {deadline_s:.0f} s")
