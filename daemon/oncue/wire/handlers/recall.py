"""`recall/*`: nothing here waits for a search (R1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from attrs import evolve
from structlog import get_logger

from oncue.wire.peer import Peer
from oncue_protocol import (
    RecallAcknowledgeParams,
    RecallCancelParams,
    RecallCancelResult,
    RecallPeekParams,
    RecallPollParams,
    RecallPollResult,
    RecallStartParams,
    RecallStartResult,
    RequestFailed,
)

log = get_logger("oncue.recall")


def recall_start(
    peer: Peer, params: RecallStartParams
) -> RecallStartResult | Awaitable[RecallStartResult]:
    """Start at once; with `waitMs` the first poll follows as a task."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    params = session.prepare(_with_local_paths(params))
    acknowledged = peer.options.acknowledge_deliveries
    if params.wait_ms > 0:
        return session.recalls.start_and_wait(params, acknowledged=acknowledged)
    return session.recalls.start(params, acknowledged=acknowledged)


def _with_local_paths(params: RecallStartParams) -> RecallStartParams:
    """Excluded paths may come as `file:` URIs; documents have paths."""
    if not any(path[:5].casefold() == "file:" for path in params.excluded_paths):
        return params
    from oncue.memory.workspace import local_path  # most starts do without

    return evolve(
        params, excluded_paths=tuple(local_path(path) or path for path in params.excluded_paths)
    )


def recall_poll(
    peer: Peer, params: RecallPollParams
) -> RecallPollResult | Awaitable[RecallPollResult]:
    """Take what is ready; with `waitMs` as a task."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    session.touch()
    if params.wait_ms > 0:
        return session.recalls.poll_and_wait(params)
    return session.recalls.poll(params)


def recall_peek(peer: Peer, params: RecallPeekParams) -> RecallPollResult:
    """Look, taking nothing: for observers too."""
    session = peer.daemon.sessions.get(params.session_id)
    if session.role_of(peer) is None:
        raise RequestFailed(
            f"this connection has not opened session {params.session_id!r}: "
            "open it with session/open, role 'observer' to look only"
        )
    return session.recalls.peek(params)


def recall_cancel(peer: Peer, params: RecallCancelParams) -> RecallCancelResult:
    """End a recall, also one that has not started yet."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    return RecallCancelResult(cancelled=session.recalls.cancel(params))


def recall_acknowledge(peer: Peer, params: RecallAcknowledgeParams) -> None:
    """The model took a delivery, or did not."""
    for session in peer.daemon.sessions.of(peer):
        drives = session.role_of(peer) == "driver"  # an observer never takes a result away
        if drives and session.recalls.acknowledge(params.delivery_id, params.accepted):
            return
    log.info("acknowledgement of no open delivery", delivery=params.delivery_id)


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "recall/start": recall_start,
    "recall/poll": recall_poll,
    "recall/peek": recall_peek,
    "recall/cancel": recall_cancel,
    "recall/acknowledge": recall_acknowledge,
}
