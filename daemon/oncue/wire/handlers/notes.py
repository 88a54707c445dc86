"""Session notes: `memory/extract` and its kin, `notes/*`, `session/purge` (extraction.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from oncue.notes_ports import NotesView
from oncue.session import Session
from oncue.transcript import compaction
from oncue.wire.peer import Peer
from oncue_protocol import (
    MemoryCancelExtractionParams,
    MemoryCancelExtractionResult,
    MemoryExtractParams,
    MemoryExtractResult,
    MemoryWaitParams,
    MemoryWaitResult,
    NotesCompactionViewParams,
    NotesCompactionViewResult,
    NotesReadParams,
    NotesReadResult,
    RequestFailed,
    SessionPurgeParams,
    SessionPurgeResult,
    StoreUnavailable,
)
from oncue_protocol.extraction import NotesSection
from oncue_protocol.memory import Removed


def memory_extract(
    peer: Peer, params: MemoryExtractParams
) -> MemoryExtractResult | Awaitable[MemoryExtractResult]:
    """Decide now; with `waitMs` the wait for the outcome follows as a task."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    if params.wait_ms > 0:
        waiting = session.keeper.extract_and_wait(params)
        _follow_progress(session, peer, params)
        return waiting
    result = session.keeper.extract(params)
    _follow_progress(session, peer, params)
    return result


async def memory_wait(peer: Peer, params: MemoryWaitParams) -> MemoryWaitResult:
    """Wait for the run that goes on, at most 15 s."""
    return await peer.daemon.sessions.get(params.session_id).keeper.wait(params)


def memory_cancel_extraction(
    peer: Peer, params: MemoryCancelExtractionParams
) -> MemoryCancelExtractionResult:
    """Cancel the run that goes on."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    return MemoryCancelExtractionResult(cancelled=session.keeper.cancel(params.run_id))


async def notes_read(peer: Peer, params: NotesReadParams) -> NotesReadResult:
    """The notes, and how far they are behind."""
    session = peer.daemon.sessions.get(params.session_id)
    view = await _read(peer, session)
    lag = session.keeper.lag
    return NotesReadResult(
        text=view.text,
        revision=view.revision or "",
        sections=tuple(
            NotesSection(title=s.title, tokens=s.tokens, over_budget=s.over_budget)
            for s in view.sections
        ),
        is_template=view.is_template,
        last_summarized_message_id=session.keeper.last_summarized,
        lag_messages=lag.messages,
        lag_tokens=lag.tokens,
    )


async def notes_compaction_view(
    peer: Peer, params: NotesCompactionViewParams
) -> NotesCompactionViewResult:
    """What a client needs to compact its history without a model (§7)."""
    session = peer.daemon.sessions.get(params.session_id)
    await session.keeper.wait(MemoryWaitParams(session_id=params.session_id))
    view = await _read(peer, session)
    if view.revision is None or view.is_template:
        reason = "noNotes" if view.revision is None else "notesAreTemplate"
        return NotesCompactionViewResult(fallback_reason=reason)
    cut = compaction.cut(
        session.transcript,
        last_summarized=session.keeper.last_summarized,
        processed_through=session.keeper.processed_through,
        min_tokens=_or(params.min_tail_tokens, compaction.MIN_TAIL_TOKENS),
        max_tokens=_or(params.max_tail_tokens, compaction.MAX_TAIL_TOKENS),
        min_text_messages=_or(params.min_tail_text_messages, compaction.MIN_TAIL_TEXT_MESSAGES),
    )
    if cut.fallback_reason is not None:
        return NotesCompactionViewResult(fallback_reason=cut.fallback_reason)
    from oncue.notes.compaction import cut_notes  # its Markdown parser takes 20 ms to load

    notes = await trio.to_thread.run_sync(cut_notes, view.text, session.keeper.budgets())
    return NotesCompactionViewResult(notes=notes, keep_from_message_id=cut.keep_from_message_id)


async def session_purge(peer: Peer, params: SessionPurgeParams) -> SessionPurgeResult:
    """Remove what is on disk of a session: its run ends first."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    rows = await session.keeper.purge()
    notes = await (await peer.daemon.services()).notebooks.notes_of(session)
    try:
        paths = await trio.to_thread.run_sync(notes.purge)
    except OSError as error:
        raise _unavailable(notes.path, error) from error
    session.notes_seen(None if session.private else notes.path, None)
    removed = tuple(
        Removed(kind="notes" if path == notes.path else "version", path=path) for path in paths
    )
    if rows:
        removed += (Removed(kind="cursor", count=rows),)
    return SessionPurgeResult(removed=removed)


async def _read(peer: Peer, session: Session) -> NotesView:
    if session.private:
        raise RequestFailed("a private session has no notes")
    notes = await (await peer.daemon.services()).notebooks.notes_of(session)
    try:
        view = await trio.to_thread.run_sync(notes.read, session.keeper.budgets())
    except OSError as error:
        raise _unavailable(notes.path, error) from error
    session.notes_seen(notes.path, view.revision)
    return view


def _unavailable(path: str, error: OSError) -> StoreUnavailable:
    reason = error.strerror or type(error).__name__
    return StoreUnavailable(
        f"the notes at {path} cannot be used: {reason}; mend the file or its folder", reason=reason
    )


def _follow_progress(session: Session, peer: Peer, params: MemoryExtractParams) -> None:
    if params.work_done_token is not None:
        session.report_progress(peer, params.work_done_token)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "memory/extract": memory_extract,
    "memory/wait": memory_wait,
    "memory/cancelExtraction": memory_cancel_extraction,
    "notes/read": notes_read,
    "notes/compactionView": notes_compaction_view,
    "session/purge": session_purge,
}
