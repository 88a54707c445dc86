"""Followed transcript files (`transcript/follow`) as messages of their session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from oncue.session import Session
from oncue.transcript.events import (
    Appended,
    Compacted,
    Event,
    Prompt,
    Reset,
    Steering,
    TurnEnded,
    WillCompact,
)
from oncue.transcript.follow import Follower
from oncue_protocol import (
    TranscriptDidAppendParams,
    TranscriptDidCompactParams,
    TranscriptDidResetParams,
    TranscriptFollowParams,
    TranscriptFollowResult,
    TurnDidEndParams,
)


class Followers:
    """One `Follower` a session, made when the first file is followed. Starts no recall: the
    agent's hook does that; the file only says what was said."""

    def __init__(self, nursery: trio.Nursery, roots: Sequence[Path] | None = None) -> None:
        self._nursery = nursery
        self._roots = roots
        self._of: dict[str, Follower] = {}

    async def follow(
        self, session: Session, params: TranscriptFollowParams
    ) -> TranscriptFollowResult:
        """See `Follower.follow`; raises OutsideRoots, LimitExceeded."""
        follower = self._of.get(session.id)
        if follower is None:

            def sink(events: Sequence[Event], live: bool) -> None:
                for event in events:
                    _apply(session, event, live)

            follower = self._of[session.id] = Follower(self._nursery, sink, roots=self._roots)
        return await follower.follow(params)

    def close(self, session_id: str) -> None:
        """The session has ended."""
        follower = self._of.pop(session_id, None)
        if follower is not None:
            follower.close()


def _apply(session: Session, event: Event, live: bool) -> None:
    """One event as the client would have sent it. What happened before (`live` False) only fills
    the transcript: history must not end the recall of the present turn."""
    if isinstance(event, Prompt | Steering | Appended):
        session.apply(TranscriptDidAppendParams(session_id=session.id, messages=(event.message,)))
    elif isinstance(event, Compacted):
        session.did_compact(
            TranscriptDidCompactParams(
                session_id=session.id,
                kept_from_message_id=event.kept_from_message_id,
                context_tokens=event.context_tokens,
            )
        )
    elif isinstance(event, Reset) and not live:
        session.forget(event.reason)
    elif not live:
        return
    elif isinstance(event, TurnEnded):
        # An end that only the next prompt implies comes too late: that prompt's recall is live. One
        # that the file says in so many words (Esc) ends whatever is: hooks name turns otherwise.
        if not event.implied:
            session.turn_ended(TurnDidEndParams(session_id=session.id, reason=event.reason))
    elif isinstance(event, WillCompact):
        session.will_compact()
    elif isinstance(event, Reset):
        session.did_reset(TranscriptDidResetParams(session_id=session.id, reason=event.reason))
