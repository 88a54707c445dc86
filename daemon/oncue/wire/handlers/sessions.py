"""`session/*`: one conversation, which owns its recalls."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from oncue.session import Session
from oncue.wire.peer import Peer
from oncue_protocol import (
    MemoryWaitParams,
    SessionCloseParams,
    SessionListParams,
    SessionListResult,
    SessionOpenParams,
    SessionOpenResult,
    SessionStatusParams,
    SessionStatusResult,
    SessionTimelineParams,
    SessionTimelineResult,
    StoreUnavailable,
)


def session_open(peer: Peer, params: SessionOpenParams) -> Awaitable[SessionOpenResult]:
    """The session exists as soon as this returns, so that a client may send what follows in the
    same write; finding its workspace on disk is a task."""
    workspaces = params.workspaces or ((params.workspace,) if params.workspace else ())
    session, resumed = peer.daemon.sessions.open(peer, params, workspaces, peer.workspaces)
    return _opened(peer, session, resumed)


async def _opened(peer: Peer, session: Session, resumed: bool) -> SessionOpenResult:
    services = await peer.daemon.services()
    library = await services.memories.of(session)
    if not session.private:
        notes = await services.notebooks.notes_of(session)
        session.notes_seen(notes.path, None)
        with contextlib.suppress(StoreUnavailable):  # the next run says what is the matter
            left = await session.keeper.load()
            # Known, too, is what another daemon made notes of (extraction.md §5).
            resumed = resumed or (left is not None and not session.keeper.statistics().started)
    return SessionOpenResult(
        session_id=session.id,
        resumed=resumed,
        last_message_id=session.last_message_id,
        workspace_key=library.workspace_key,
        notes_path=session.notes_path,
        memory_roots=library.memory_roots,
        untrusted_roots=library.untrusted_roots,
    )


def session_close(peer: Peer, params: SessionCloseParams) -> Awaitable[None] | None:
    """End its recalls; with `waitMs`, first wait so long for a running extraction."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    if params.wait_ms > 0:
        return _close_later(peer, session, params)
    peer.daemon.sessions.close(params.session_id)
    return None


async def _close_later(peer: Peer, session: Session, params: SessionCloseParams) -> None:
    waiting = MemoryWaitParams(session_id=session.id, wait_ms=params.wait_ms)
    await session.keeper.wait(waiting)
    if session.is_open:
        peer.daemon.sessions.close(params.session_id)


async def session_list(peer: Peer, params: SessionListParams) -> SessionListResult:
    """Open and resumable sessions, the latest first."""
    sessions = peer.daemon.sessions.known()
    if params.workspace is not None:
        key = await (await peer.daemon.services()).memories.key_of(params.workspace)
        sessions = [s for s in sessions if s.workspace_key == key]
    return SessionListResult(sessions=tuple(s.summary(peer) for s in sessions))


def session_timeline(peer: Peer, params: SessionTimelineParams) -> SessionTimelineResult:
    """What happened when."""
    return peer.daemon.sessions.get(params.session_id).timeline.page(params.cursor)


def session_status(peer: Peer, params: SessionStatusParams) -> SessionStatusResult:
    """How a session is."""
    return peer.daemon.sessions.get(params.session_id).status()


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "session/open": session_open,
    "session/close": session_close,
    "session/list": session_list,
    "session/timeline": session_timeline,
    "session/status": session_status,
}
