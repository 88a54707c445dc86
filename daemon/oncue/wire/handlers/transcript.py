"""`transcript/*` and `turn/didEnd`: the conversation, kept in sync by notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
    peer.daemon.sessions.driven(params.session_id, peer).append(peer, params)


def did_reset(peer: Peer, params: TranscriptDidResetParams) -> None:
    """The chat was cleared or rewound."""
    peer.daemon.sessions.driven(params.session_id, peer).did_reset(params)


def will_compact(peer: Peer, params: TranscriptWillCompactParams) -> None:
    """A compaction begins."""
    peer.daemon.sessions.driven(params.session_id, peer).will_compact()


def did_compact(peer: Peer, params: TranscriptDidCompactParams) -> None:
    """The history was compacted."""
    peer.daemon.sessions.driven(params.session_id, peer).did_compact(params)


def turn_did_end(peer: Peer, params: TurnDidEndParams) -> None:
    """A turn is over."""
    peer.daemon.sessions.driven(params.session_id, peer).turn_ended(params)


async def follow(peer: Peer, params: TranscriptFollowParams) -> TranscriptFollowResult:
    """Read an agent's own transcript file as it grows."""
    session = peer.daemon.sessions.driven(params.session_id, peer)
    return await (await peer.daemon.services()).followers.follow(session, params)


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "transcript/didAppend": did_append,
    "transcript/didReset": did_reset,
    "transcript/willCompact": will_compact,
    "transcript/didCompact": did_compact,
    "transcript/follow": follow,
    "turn/didEnd": turn_did_end,
}
