"""The transcript of one lane, kept in sync by notifications as LSP keeps documents (pure).

Rules (protocol.md, "Sessions and the transcript"):

* messages come in order; `afterMessageId` that is not our last means that something was lost:
  nothing is applied and the client is asked to send again (`Resync`);
* a repeated id replaces what was there if it has more content, else it is ignored;
* ids are known until a reset, bodies are kept for the newest messages only (`KEPT_TOKENS`),
  stripped of what we injected ourselves, so that memory never feeds on itself;
* the size of the context is the usage of the last assistant message plus an estimate of what
  follows it; a compaction sets a new base.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import attrs
from attrs import frozen

from oncue.text import marker, tokens
from oncue_protocol import Message

KEPT_TOKENS = 40_000
"""Newest messages whose bodies are kept: what a compaction view may at most need (X27)."""


@frozen
class Applied:
    """What an append changed."""

    added: int
    replaced: int
    ignored: int
    last_message_id: str | None


@frozen
class Resync:
    """Nothing was applied: the client's last message is not ours."""

    last_message_id: str | None
    """Send again from behind this one; None: from the beginning."""


@frozen
class Entry:
    """One message as it is kept."""

    message: Message
    tokens: int
    """Estimate of the whole message, injected text included: it fills the context as well."""


class Transcript:
    """One lane's messages. Every method is dictionary work."""

    def __init__(self, kept_tokens: int = KEPT_TOKENS) -> None:
        self._kept_tokens = kept_tokens
        self._position: dict[str, int] = {}
        self._entries: deque[Entry] = deque()
        self._first = 0
        self._next = 0
        self._tokens = 0
        self._last_id: str | None = None
        self._base = (0, 0)
        self._kept_from = 0

    @property
    def last_message_id(self) -> str | None:
        """Id of the newest message; None: none is known."""
        return self._last_id

    @property
    def count(self) -> int:
        """Messages known since the last reset."""
        return len(self._position)

    @property
    def entries(self) -> Sequence[Entry]:
        """The newest messages, oldest first, bodies included."""
        return tuple(self._entries)

    def knows(self, message_id: str) -> bool:
        """Whether this id was seen since the last reset."""
        return message_id in self._position

    def append(self, messages: Iterable[Message], after: str | None = None) -> Applied | Resync:
        """Apply `messages`, in order; all of them or, where `after` is not our last, none."""
        if after is not None and after != self._last_id:
            return Resync(self._last_id)
        added = replaced = ignored = 0
        for message in messages:
            position = self._position.get(message.id)
            if position is None:
                self._add(message)
                added += 1
            elif self._replace(position, message):
                replaced += 1
            else:
                ignored += 1
        self._trim()
        return Applied(added, replaced, ignored, self._last_id)

    def reset(self) -> None:
        """`transcript/didReset`: ids seen before are forgotten (cleared and rewound alike)."""
        self.__init__(self._kept_tokens)  # type: ignore[misc]

    def compact(self, kept_from: str | None, context_tokens: int | None) -> None:
        """`transcript/didCompact`: what lies before `kept_from` left the context.

        `context_tokens` is the new size as the client knows it; without it the kept messages
        are estimated."""
        position = self._position.get(kept_from) if kept_from is not None else None
        self._kept_from = self._next if position is None else position
        if context_tokens is None:
            context_tokens = sum(entry.tokens for _, entry in self._in_context())
        self._base = (self._next, context_tokens)

    def is_in_context(self, message_id: str) -> bool:
        """Whether this message is still in front of the model (R10)."""
        position = self._position.get(message_id)
        return position is not None and position >= self._kept_from

    @property
    def context_tokens(self) -> int:
        """Size of the context now: last usage or compaction base, plus an estimate of the rest."""
        total = 0
        base_position, base_tokens = self._base
        for position, entry in reversed(list(self._in_context())):
            if position < base_position:
                break
            usage = entry.message.usage
            if entry.message.role == "assistant" and usage is not None:
                return total + (
                    usage.input_tokens
                    + usage.output_tokens
                    + usage.cache_read_tokens
                    + usage.cache_write_tokens
                )
            total += entry.tokens
        return total + base_tokens

    def _in_context(self) -> Iterable[tuple[int, Entry]]:
        for offset, entry in enumerate(self._entries):
            if self._first + offset >= self._kept_from:
                yield self._first + offset, entry

    def _add(self, message: Message) -> None:
        entry = Entry(without_injected(message), estimate(message))
        self._position[message.id] = self._next
        self._entries.append(entry)
        self._next += 1
        self._tokens += entry.tokens
        self._last_id = message.id

    def _replace(self, position: int, message: Message) -> bool:
        if position < self._first:
            return False
        index = position - self._first
        old = self._entries[index]
        new = Entry(without_injected(message), estimate(message))
        if not has_more(old.message, new.message):
            return False
        self._entries[index] = new
        self._tokens += new.tokens - old.tokens
        return True

    def _trim(self) -> None:
        while len(self._entries) > 1 and self._tokens - self._entries[0].tokens > self._kept_tokens:
            self._tokens -= self._entries.popleft().tokens
            self._first += 1


def has_more(old: Message, new: Message) -> bool:
    """Whether `new` says more than `old`: longer text, more calls or results, first usage."""
    return (
        len(new.text) > len(old.text)
        or len(new.tool_calls) > len(old.tool_calls)
        or len(new.tool_results) > len(old.tool_results)
        or _result_length(new) > _result_length(old)
        or (new.usage is not None and old.usage is None)
    )


def estimate(message: Message) -> int:
    """Estimated tokens of everything in the message that a model reads."""
    return tokens.estimate(message.text) + sum(
        tokens.estimate(text) for text in _tool_texts(message)
    )


def without_injected(message: Message) -> Message:
    """The message without text that we delivered ourselves."""
    results = tuple(attrs.evolve(r, text=marker.strip(r.text)) for r in message.tool_results)
    return attrs.evolve(message, text=marker.strip(message.text), tool_results=results)


def _result_length(message: Message) -> int:
    return sum(len(result.text) for result in message.tool_results)


def _tool_texts(message: Message) -> Iterable[str]:
    for call in message.tool_calls:
        yield call.name
        if call.input is not None:
            yield str(call.input)
    for result in message.tool_results:
        yield result.text
