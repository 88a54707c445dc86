"""The counters that a decision is made from (pure; extraction.md §1, X1, X8-X10).

* `tokensAtLastExtraction` moves only after success; a compaction, or a context that has become
  smaller, sets it again, so that growth never counts from a stale higher base.
* The tool-call anchor moves when a run is decided.
* `initialised` is set once, and only a cleared conversation takes it back.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from oncue_protocol import ExtractionCounters, Message

CORRECTION = 0.35
"""Estimates are within ±35 % of what a tokenizer counts (D73): a fall within that of what was
estimated when the base was taken is the first true figure, not a smaller context."""
NOISE = 0.02
"""Usage figures of two requests with the same history differ by a per cent or so."""


class Range(Protocol):
    """Messages that a run works on (`transcript.state.Range`)."""

    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def first_message_id(self) -> str: ...
    @property
    def through(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def ids(self) -> bytes: ...
    @property
    def ends_in_text(self) -> bool: ...


class Conversation(Protocol):
    """What extraction needs of a transcript (`transcript.state.Transcript` has it)."""

    @property
    def context_tokens(self) -> int: ...
    @property
    def estimated_tokens(self) -> int: ...
    @property
    def tool_calls(self) -> int: ...
    @property
    def open_calls(self) -> int: ...
    @property
    def pauses(self) -> bool: ...
    @property
    def safe_end(self) -> int: ...
    @property
    def lag_messages(self) -> int: ...
    @property
    def lag_tokens(self) -> int: ...
    @property
    def is_sent_anew(self) -> bool: ...
    @property
    def summarised_through(self) -> str | None: ...

    def knows(self, message_id: str) -> bool: ...
    def boundary(self) -> None: ...
    def unsummarised(self) -> Range | None: ...
    def summarise(self, through: str) -> bool: ...
    def resume(self, through: str, ids: bytes, context_tokens: int) -> bool: ...


@frozen
class Base:
    """A context size, and how much of it was an estimate."""

    tokens: int = 0
    estimated: int = 0

    def has_fallen(self, now: int) -> bool:
        """Whether `now` is a smaller context, and not the same one counted better."""
        tolerated = CORRECTION * self.estimated + NOISE * self.tokens
        return now < self.tokens - tolerated


class Accounting:
    """Counters of one session."""

    def __init__(self) -> None:
        self.initialised = False
        self._base = Base()
        self._calls_at_anchor = 0
        self._context = 0
        self._estimated = 0
        self._calls = 0

    def observe(self, conversation: Conversation, minimum_to_init: int) -> None:
        """The conversation has changed (X1, X8)."""
        self._context = conversation.context_tokens
        self._estimated = conversation.estimated_tokens
        self._calls = conversation.tool_calls
        # Calls that were counted went with a rewind.
        self._calls_at_anchor = min(self._calls_at_anchor, self._calls)
        if self._context >= minimum_to_init:
            self.initialised = True
        if self._base.has_fallen(self._context) or conversation.is_sent_anew:
            self._base = self.now()

    def now(self) -> Base:
        """The context as it is: what becomes the base if a run that starts now succeeds."""
        return Base(self._context, self._estimated)

    def run_decided(self) -> None:
        """The tool-call anchor moves (X9)."""
        self._calls_at_anchor = self._calls

    def run_succeeded(self, at_snapshot: Base) -> None:
        """The base moves to the context of the run's snapshot (X9, X10); where that was compacted
        meanwhile, to the context now."""
        fallen = at_snapshot.has_fallen(self._context)
        self._base = self.now() if fallen else at_snapshot

    def compacted(self, conversation: Conversation) -> None:
        """`transcript/didCompact`: growth counts from the new size, whatever it was (X8)."""
        self._context = conversation.context_tokens
        self._estimated = conversation.estimated_tokens
        self._base = self.now()

    def cleared(self) -> None:
        """The conversation begins anew."""
        self.__init__()  # type: ignore[misc]

    def rewound(self) -> None:
        """Messages are gone, and the survivors come again, with their calls; the base falls by
        itself when the context is known to be smaller."""
        self._calls = 0

    def resume(self, *, tokens_at_last: int, initialised: bool) -> None:
        """What a cursor kept, for a session that nothing was counted of yet."""
        self.initialised = self.initialised or initialised
        self._base = Base(tokens_at_last, 0)

    @property
    def counters(self) -> ExtractionCounters:
        """As clients see them."""
        return ExtractionCounters(
            context_tokens=self._context,
            tokens_at_last_extraction=self._base.tokens,
            tool_calls_since=max(0, self._calls - self._calls_at_anchor),
            initialised=self.initialised,
        )
