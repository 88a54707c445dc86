"""`transcript/*` and `turn/didEnd`: the conversation, kept in sync by notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncue.session import Session
from oncue.wire.peer import Peer
from oncue_protocol import (
    TranscriptDidAppendParams,
    TranscriptDidCompactParams,
    TranscriptDidResetParams,
    TranscriptFollowParams,
    TranscriptFollowResult,
    TranscriptWillCompactParams,
    TurnDidEndParams,
)


def did_append(peer: Peer, params: TranscriptDidAppendParams) -> None:
    """New messages; a gap is answered by `transcript/resyncRequired`."""
    _driven(peer, params.session_id).append(peer, params)


def did_reset(peer: Peer, params: TranscriptDidResetParams) -> None:
    """The chat was cleared or rewound."""
    _driven(peer, params.session_id).did_reset(params)


def will_compact(peer: Peer, params: TranscriptWillCompactParams) -> None:
    """A compaction begins."""
    _driven(peer, params.session_id).will_compact()


def did_compact(peer: Peer, params: TranscriptDidCompactParams) -> None:
    """The history was compacted."""
    _driven(peer, params.session_id).did_compact(params)


def turn_did_end(peer: Peer, params: TurnDidEndParams) -> None:
    """A turn is over."""
    _driven(peer, params.session_id).turn_ended(params)


async def follow(peer: Peer, params: TranscriptFollowParams) -> TranscriptFollowResult:
    """Read an agent's own transcript file as it grows."""
    session = _driven(peer, params.session_id)
    return await (await peer.daemon.services()).followers.follow(session, params)


def _driven(peer: Peer, session_id: str) -> Session:
    session = peer.daemon.sessions.get(session_id)
    session.require_driver(peer)
    return session


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "transcript/didAppend": did_append,
    "transcript/didReset": did_reset,
    "transcript/willCompact": will_compact,
    "transcript/didCompact": did_compact,
    "transcript/follow": follow,
    "turn/didEnd": turn_did_end,
}
