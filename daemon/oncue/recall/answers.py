"""Answers kept under poll tokens: a reply may be lost in a hook's time-out, and whoever asks again
with the same token gets the same answer object (pure; protocol.md, Recall)."""

from __future__ import annotations

from attrs import define

from oncue.recall.bounded import Newest
from oncue.settings import MAX_POLL_TOKENS
from oncue_protocol import RecallPollResult, RecallStartResult


@define(eq=False)
class _Kept:
    start: RecallStartResult | None = None
    poll: RecallPollResult | None = None


class Answers:
    """The last `MAX_POLL_TOKENS` tokens of a session, each with the answer of its start, of its
    poll, or of both where a start waited. No token: nothing is kept."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: Newest[str, _Kept] = Newest(MAX_POLL_TOKENS)

    def start(self, token: str | None) -> RecallStartResult | None:
        """What a start with this token was answered."""
        kept = self._kept.get(token) if token else None
        return kept.start if kept else None

    def poll(self, token: str | None) -> RecallPollResult | None:
        """What a poll with this token was answered."""
        kept = self._kept.get(token) if token else None
        return kept.poll if kept else None

    def keep_start(self, token: str | None, answer: RecallStartResult) -> None:
        """`answer` is what a start with this token gets from now on."""
        if token:
            self._of(token).start = answer

    def keep_poll(self, token: str | None, answer: RecallPollResult) -> None:
        """`answer` is what a poll with this token gets from now on."""
        if token:
            self._of(token).poll = answer

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()

    def _of(self, token: str) -> _Kept:
        kept = self._kept.get(token)
        if kept is None:
            kept = _Kept()
            self._kept.put(token, kept)
        return kept
