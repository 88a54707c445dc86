"""One run: claim, snapshot, extractor, notes, one fenced commit, release (trio; X11-X16).

No lock and no transaction is held while the extractor works. The claim is released on every path,
or expires. What a run came to is its `Result`; no failure of it is raised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol, TypeVar

import structlog
import trio
from attrs import define, field, frozen

from oncue.extraction.accounting import Base, Range
from oncue.extraction.events import StartRun
from oncue.extraction.ports import Tools
from oncue.notes_ports import (
    Extracted,
    ExtractionFailedError,
    NoteBudgets,
    NotesMovedError,
    NotesRefusedError,
    NotesView,
    Prepared,
    Snapshot,
)
from oncue.store.leases import BEAT_S, Claim, Cursor, Held, LostClaimError, NotWantedError
from oncue_protocol import Message, OncueError
from oncue_protocol.extraction import RunOutcome

T = TypeVar("T")
COMMIT_RESERVE_S = 5.0
"""Kept of the run's deadline for notes and commit: what an extractor made is not thrown away for
a slow disk."""
MAX_MERGES = 3
"""The notes moved while they were merged: somebody edits them at this very moment. Three merges
take well under a second; after that the run fails and the next one finds them quiet."""
CLAIM_PAUSE_S = 0.25
MAX_CLAIM_PAUSE_S = 2.0
"""How often a claim that another process holds is asked for: its run joins ours."""
RELEASE_S = 1.0
"""A shutdown has not more; a claim that is not released expires, its owner being dead."""
log = structlog.get_logger(__name__)


@frozen
class Progress:
    """What a successful run moves (X9)."""

    through: str
    base: Base
    last_summarized: str | None


@frozen
class Result:
    """What a run came to."""

    outcome: RunOutcome
    reason: str | None = None
    notes_revision: str | None = None
    conflict_path: str | None = None
    messages: int = 0
    progress: Progress | None = None
    """None: nothing moves."""


@define(eq=False)
class Task:
    """A run that goes on, or winds down."""

    order: StartRun
    scope: trio.CancelScope
    is_wanted: bool = True
    """False: cancelled or voided; nothing of it may be published any more."""
    is_forgotten: bool = False
    """The conversation was reset: what it reports moves nothing."""
    is_committing: bool = False
    result: Result | None = None
    """What the work came to, once it is known: a cancel that comes later changes nothing."""
    done: trio.Event = field(factory=trio.Event)

    def came_to(self, result: Result) -> None:
        """The work is over."""
        self.result = result


class Desk(Protocol):
    """What a run asks of the keeper, on the trio thread."""

    @property
    def session_id(self) -> str: ...
    def adopt(self, cursor: Cursor) -> None: ...
    def take_snapshot(self) -> tuple[Range, Base, str | None] | None: ...
    def budgets(self) -> NoteBudgets: ...
    @property
    def initialised(self) -> bool: ...


async def perform(task: Task, desk: Desk, tools: Tools) -> None:
    """See the module; `task.result` is set. The caller's scope has deadline and cancellation."""
    claim = await _claimed(desk.session_id, tools)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_beat, claim, task, tools, nursery.cancel_scope)
            task.came_to(await _work(task, desk, tools, claim))
            nursery.cancel_scope.cancel()
    finally:
        await _release(claim, tools)
    if task.result is None:  # its heartbeat ended it
        task.came_to(Result("stale", "takenOver"))


async def in_thread(work: Callable[[], T]) -> T:
    """Blocking work, one thread for it; waited for even when cancelled, so that its outcome is
    known."""
    return await trio.to_thread.run_sync(work, limiter=trio.CapacityLimiter(1))


async def _claimed(session_id: str, tools: Tools) -> Claim:
    name = tools.cursors.lease_name(session_id)
    pause = CLAIM_PAUSE_S
    while True:
        answer = await in_thread(lambda: tools.leases.claim(name))
        if not isinstance(answer, Held):
            return answer
        await trio.sleep(pause)
        pause = min(2 * pause, MAX_CLAIM_PAUSE_S)


async def _beat(claim: Claim, task: Task, tools: Tools, run: trio.CancelScope) -> None:
    while True:
        await trio.sleep(BEAT_S)
        try:
            ours = await in_thread(lambda: tools.leases.beat(claim))
        except OncueError as error:
            # The next beat may get through; if none does, the commit is refused.
            log.warning("extraction heartbeat failed", reason=error.message)
            continue
        if not ours:
            task.is_wanted = False
            run.cancel()
            return


async def _release(claim: Claim, tools: Tools) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + RELEASE_S):
        try:
            await trio.to_thread.run_sync(
                lambda: tools.leases.release(claim),
                abandon_on_cancel=True,
                limiter=trio.CapacityLimiter(1),
            )
        except OncueError as error:
            log.warning("extraction claim not released; it expires", reason=error.message)


async def _work(task: Task, desk: Desk, tools: Tools, claim: Claim) -> Result:
    """From claim to commit; every failure is a `Result`."""
    messages = 0
    try:
        budgets = desk.budgets()
        view = await in_thread(lambda: tools.notes.read(budgets))
        cursor = await in_thread(
            lambda: tools.cursors.reconcile(claim, desk.session_id, view.revision)
        )
        if cursor is not None:
            desk.adopt(cursor)
        taken = desk.take_snapshot()
        if taken is None:
            return Result("settled", "nothingNew", notes_revision=view.revision)
        chosen, base, last_summarized = taken
        messages = len(chosen.messages)
        snapshot = Snapshot(desk.session_id, chosen.messages, digest(chosen.messages))
        left = task.order.deadline - trio.current_time() - COMMIT_RESERVE_S
        extracted = await tools.extractor().extract(snapshot, view, budgets, max(left, 0.0))
        if not extracted.edits and not extracted.nothing_to_add:
            return Result("failed", "noVerifiedEdit", messages=messages)
        progress = Progress(chosen.through, base, last_summarized)
        commit = _Commit(task, desk, tools, claim, chosen, snapshot, progress)
        return await commit.make(extracted, view, budgets)
    except LostClaimError:
        return Result("stale", "takenOver", messages=messages)
    except NotWantedError:
        return Result("cancelled", "notWanted", messages=messages)
    except NotesRefusedError as error:
        return Result("failed", f"notesRefused: {error}", messages=messages)
    except NotesMovedError:
        return Result("failed", "notesBusy: the file changed during each merge", messages=messages)
    except ExtractionFailedError as error:
        return Result("failed", str(error), messages=messages)
    except OncueError as error:
        return Result("failed", f"{error.name}: {error.message}", messages=messages)
    except OSError as error:
        what = error.strerror or type(error).__name__
        return Result("failed", f"notesUnavailable: {what}", messages=messages)
    except Exception as error:
        # A mistake of ours or of an extractor; its text may hold what nobody should read (D79).
        log.warning("extraction broke", error=type(error).__name__)
        return Result("failed", f"broke: {type(error).__name__}", messages=messages)


@frozen
class _Commit:
    """Notes and cursor of one run."""

    task: Task
    desk: Desk
    tools: Tools
    claim: Claim
    chosen: Range
    snapshot: Snapshot
    progress: Progress

    async def make(self, extracted: Extracted, view: NotesView, budgets: NoteBudgets) -> Result:
        if not extracted.edits:
            return await self._unchanged(view)
        for attempt in range(1, MAX_MERGES + 1):
            prepared = await in_thread(
                lambda: self.tools.notes.prepare(extracted.edits, view, budgets)
            )
            changed, published = prepared.changed, False
            try:
                revision = await self._publish(prepared)
                published = revision is not None
            except NotesMovedError:
                if attempt == MAX_MERGES:
                    raise
                continue
            finally:
                if not published:
                    with trio.CancelScope(shield=True):
                        await in_thread(prepared.discard)
            return Result(
                "settled",
                None if changed else "nothingToAdd",
                notes_revision=revision or view.revision,
                conflict_path=prepared.conflict_path,
                messages=len(self.snapshot.messages),
                progress=self.progress,
            )
        raise AssertionError("unreachable")  # pragma: no cover

    async def _unchanged(self, view: NotesView) -> Result:
        await self._committed(self._cursor(view.revision), None)
        return Result(
            "settled",
            "nothingToAdd",
            notes_revision=view.revision,
            messages=len(self.snapshot.messages),
            progress=self.progress,
        )

    async def _publish(self, prepared: Prepared) -> str | None:
        """The revision; None: the range was applied before, and nothing was published."""
        cursor = self._cursor(prepared.revision or None)
        if prepared.changed:
            await in_thread(
                lambda: self.tools.cursors.intend(
                    self.claim, self.desk.session_id, self._key, cursor, prepared.revision
                )
            )
        # Without a change it is published too: a last look that the file is still as merged.
        return await self._committed(cursor, prepared.publish)

    async def _committed(self, cursor: Cursor, publish: Callable[[], str] | None) -> str | None:
        await trio.lowlevel.checkpoint()
        self.task.is_committing = True
        try:
            return await in_thread(
                lambda: self.tools.cursors.commit(
                    self.claim,
                    self.desk.session_id,
                    self._key,
                    cursor,
                    publish=publish,
                    is_wanted=lambda: self.task.is_wanted,
                )
            )
        finally:
            self.task.is_committing = False

    @property
    def _key(self) -> str:
        """The range's idempotency key within its session."""
        ends = (self.chosen.first_message_id, self.chosen.through, self.snapshot.sha256)
        return hashlib.sha256("\0".join(ends).encode("utf-8", "surrogatepass")).hexdigest()

    def _cursor(self, revision: str | None) -> Cursor:
        return Cursor(
            processed_through=self.progress.through,
            last_summarized=self.progress.last_summarized,
            tokens_at_last_extraction=self.progress.base.tokens,
            initialised=self.desk.initialised,
            notes_revision=revision,
            ids=self.chosen.ids,
        )


def digest(messages: tuple[Message, ...]) -> str:
    """SHA-256 of messages, whatever their ids: of what an extractor sees."""
    hasher = hashlib.sha256()
    for message in messages:
        hasher.update(repr(message).encode("utf-8", "surrogatepass"))
        hasher.update(b"\0")
    return hasher.hexdigest()
