"""What a client keeps of its history when the notes stand for the rest (pure; extraction.md §7)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from oncue.transcript.bodies import start_with_calls
from oncue.transcript.state import Transcript

MIN_TAIL_TOKENS = 10_000
MAX_TAIL_TOKENS = 40_000
MIN_TAIL_TEXT_MESSAGES = 5

CutFallback = Literal["nothingSummarised", "boundaryUnknown", "boundaryTooFarBack"]


@frozen
class Cut:
    """Where to cut; or why the notes cannot stand for what would be dropped."""

    keep_from_message_id: str | None = None
    """First message to keep; None without a reason: nothing follows, and nothing need be kept."""
    fallback_reason: CutFallback | None = None


def cut(
    transcript: Transcript,
    *,
    last_summarized: str | None,
    processed_through: str | None,
    min_tokens: int = MIN_TAIL_TOKENS,
    max_tokens: int = MAX_TAIL_TOKENS,
    min_text_messages: int = MIN_TAIL_TEXT_MESSAGES,
) -> Cut:
    """Keep what follows the boundary, and of what lies before it enough for a model to go on:
    back to `min_tokens` and `min_text_messages`, not beyond `max_tokens`, nor beyond what is in
    front of the model at all. No tool result loses its call."""
    boundary = last_summarized if last_summarized is not None else processed_through
    if boundary is None:
        return Cut(fallback_reason="nothingSummarised")
    position = transcript.position(boundary)
    if position is None:
        return Cut(fallback_reason="boundaryUnknown")
    first = transcript.first_in_reach
    if position + 1 < first:
        if position + 1 < transcript.first_body:
            return Cut(fallback_reason="boundaryTooFarBack")
        position = first - 1  # it was compacted before: all that is left follows the boundary
    entries = transcript.entries[first - transcript.first_body :]
    messages = [entry.message for entry in entries]
    start = position + 1 - first
    if last_summarized is None:
        start = start_with_calls(messages, start)
    total = sum(entry.tokens for entry in entries[start:])
    texts = sum(bool(message.text.strip()) for message in messages[start:])
    while start > 0 and (total < min_tokens or texts < min_text_messages):
        before = entries[start - 1]
        if total + before.tokens > max_tokens:
            break
        start -= 1
        total += before.tokens
        texts += bool(before.message.text.strip())
    start = start_with_calls(messages, start)
    return Cut(messages[start].id if start < len(messages) else None)
