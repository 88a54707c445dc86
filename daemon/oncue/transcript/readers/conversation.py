"""From records to events: what all formats have in common (pure): T3, T4, T6, T8, T9.

A reader tells a `Conversation` what a record means; the conversation puts the messages into
their order. An assistant message is a `Draft` while its response may grow. It goes out once,
whole, when the next response, typed turn or end closes it, and what came meanwhile follows it.
At the end of a turn every call that was never answered gets an empty result with `isError`.

Each message has an ordinal; `_before[n]` is the ordinal of the message that stood before
message n when it came. So a rewind is one assignment, and what survives it is one walk.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence

import attrs
from attrs import define, field, frozen

from oncue_protocol import Message, ResetReason, ToolCall, ToolResult, TurnEndReason, Usage

from ..events import (
    Appended,
    Compacted,
    PlainEvent,
    Prompt,
    Reset,
    Steering,
    TurnEnded,
    WillCompact,
)
from .fields import joined

NOTHING = -1
"""Ordinal of "before the first message"."""


@frozen
class Survivors:
    """Stands behind a `Reset("rewound")`: the messages that survived, to be sent again (T8)."""

    ordinals: frozenset[int]


Emission = tuple[int, PlainEvent | Survivors]
"""An event and the ordinal of its message (`NOTHING` for those that are none)."""


@define
class Draft:
    """A response that may still grow."""

    id: str
    key: str
    """What further lines of the same response have in common."""
    ordinal: int
    time: str | None = None
    texts: list[str] = field(factory=list)
    calls: list[ToolCall] = field(factory=list)
    usage: Usage | None = None
    stopped: bool = False
    """A reason to stop was seen."""
    answered: bool = False
    """A result for one of its calls was seen."""
    sent: Message | None = None
    """As it went out early (`settle`)."""

    def message(self) -> Message | None:
        """The message as far as it is known; None while it says nothing."""
        text = joined(self.texts)
        if not text and not self.calls:
            return None
        return Message(
            id=self.id,
            role="assistant",
            text=text,
            tool_calls=tuple(self.calls),
            usage=self.usage,
            time=self.time,
        )


@frozen
class _Command:
    """A typed command: a turn if an answer follows, else not (transcripts.md §2)."""

    ordinal: int
    message: Message
    query: str


class Conversation:
    """One conversation's events. `emit` takes each; `is_subagent`: its typed words are a
    model's, so they are `system` and open no turn (T6)."""

    def __init__(
        self, emit: Callable[[Emission], None], skipped: Counter[str], *, is_subagent: bool = False
    ) -> None:
        self._emit = emit
        self._skipped = skipped
        self.is_subagent = is_subagent
        self._before = array("q")
        self._tail = NOTHING
        self.has_messages = False
        """Whether there is anything that a `/clear` would clear."""
        self._draft: Draft | None = None
        self._command: _Command | None = None
        self._held: list[Emission] = []
        self._open: dict[str, None] = {}
        self._cancelled = False
        self._turn_id: str | None = None

    # What a reader may ask.

    @property
    def tail(self) -> int:
        """Ordinal of the newest message."""
        return self._tail

    @property
    def next_ordinal(self) -> int:
        """Ordinal that the next message gets."""
        return len(self._before)

    @property
    def draft(self) -> Draft | None:
        """The response that may still grow."""
        return self._draft

    @property
    def in_turn(self) -> bool:
        """Whether a turn is open."""
        return self._turn_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a call has no result yet."""
        return bool(self._open)

    def is_open(self, call_id: str) -> bool:
        """Whether this call has no result yet."""
        return call_id in self._open

    def open_call(self) -> str | None:
        """The oldest call without a result."""
        return next(iter(self._open), None)

    # What a record may mean.

    def prompt(self, message: Message, query: str, turn_id: str | None = None) -> None:
        """Words the user typed: end the turn before, open the next."""
        if self.is_subagent:
            self.system(message)
            return
        self.end(None)
        self._begin(self._next(), message, query, turn_id)

    def command(self, message: Message, query: str) -> None:
        """A typed command; whether it is a turn is seen later."""
        if self.is_subagent:
            self.system(message)
            return
        self.close_draft()
        self._settle_command()
        self._command = _Command(self._next(), message, query)

    def steering(self, message: Message) -> None:
        """Words typed while the agent works."""
        if self.is_subagent:
            self.system(message)
        else:
            self._post(self._next(), Steering(message))

    def system(self, message: Message) -> None:
        """Text that nobody typed: summaries, injected text, whatever is in doubt (T3)."""
        self._post(self._next(), Appended(attrs.evolve(message, role="system")))

    def history(self, message: Message) -> None:
        """A message as it is, without a recall: history that was brought along."""
        self.close_draft()
        self._settle_command()
        self._post(self._next(), Appended(message))

    def respond(self, message_id: str, key: str, time: str | None) -> Draft:
        """Begin a response; closes the one before."""
        self.close_draft()
        if self._command is not None:
            command, held = self._command, self._held
            self._command, self._held = None, []
            self.end(None)
            self._begin(command.ordinal, command.message, command.query, None)
            for emission in held:
                self._emit(emission)
        self._cancelled = False
        self._draft = Draft(message_id, key, self._next(), time)
        return self._draft

    def call(self, call: ToolCall) -> None:
        """A call of the response that is growing."""
        if self._draft is None:
            return
        if any(known.id == call.id for known in self._draft.calls):
            self._skipped["copy"] += 1
            return
        self._draft.calls.append(call)
        self._open[call.id] = None

    def results(self, message: Message, *, cancelled: bool = False) -> None:
        """Results; those whose call is not open are dropped: a provider refuses them."""
        kept: list[ToolResult] = []
        for result in message.tool_results:
            if result.call_id not in self._open:
                self._skipped["orphan_result"] += 1
                continue
            del self._open[result.call_id]
            kept.append(result)
        if not kept:
            return
        self._settle_command()
        self._cancelled = cancelled
        draft = self._draft
        if draft is not None and any(c.id == r.call_id for c in draft.calls for r in kept):
            draft.answered = True
        self._post(self._next(), Appended(attrs.evolve(message, tool_results=tuple(kept))))

    def repeat(self, message: Message) -> None:
        """A message that went out and has grown since: out again under its id."""
        self._post(NOTHING, Appended(message))

    def reopen(self, calls: Sequence[ToolCall]) -> None:
        """Calls that a message which went out has got since."""
        for call in calls:
            self._open[call.id] = None

    def end(self, reason: TurnEndReason | None) -> None:
        """The turn is over; None: as the next typed turn or the end of the file implies."""
        self.close_draft()
        self._settle_command()
        unanswered = bool(self._open)
        if closing := unanswered_results(tuple(self._open)):
            self._open.clear()
            self._emit((self._next(), Appended(closing)))
        if self._turn_id is not None:
            implied: TurnEndReason = "aborted" if unanswered or self._cancelled else "completed"
            ended = TurnEnded(reason or implied, self._turn_id, implied=reason is None)
            self._emit((NOTHING, ended))
            self._turn_id = None
        self._cancelled = False

    def compacted(
        self, tokens: int | None, *, announced: bool = True, kept_from: str | None = None
    ) -> None:
        """History was compacted. Open calls stay open: it happens amid a turn."""
        self.close_draft()
        self._settle_command()
        if announced:
            self._emit((NOTHING, WillCompact()))
        self._emit((NOTHING, Compacted(tokens, kept_from)))
        self._tail = NOTHING  # a later rewind brings back nothing from before

    def will_compact(self) -> None:
        """A compaction begins (our own format says so)."""
        self.close_draft()
        self._emit((NOTHING, WillCompact()))

    def reset(self, reason: ResetReason, survivors: frozenset[int] = frozenset()) -> None:
        """Cleared, or rewound: then these messages survived."""
        self.end(None)
        self.has_messages = bool(survivors)
        self._tail = max(survivors, default=NOTHING)
        self._emit((NOTHING, Reset(reason)))
        if survivors:
            self._emit((NOTHING, Survivors(survivors)))

    def chain(self, ordinal: int) -> frozenset[int]:
        """What stood before the model when the message with this ordinal was the last one."""
        ordinals = set()
        while NOTHING < ordinal < len(self._before):
            ordinals.add(ordinal)
            ordinal = self._before[ordinal]
        return frozenset(ordinals)

    def settle(self) -> None:
        """What is known goes out as it stands: the file has been quiet (only while following).
        A response that grows afterwards goes out again, which the protocol takes."""
        if self._command is None:
            self._send_draft()
            self._release()

    # How it is put in order.

    def _begin(self, ordinal: int, message: Message, query: str, turn_id: str | None) -> None:
        self._turn_id = turn_id or message.id
        self._emit((ordinal, Prompt(message, query, self._turn_id)))

    def _next(self) -> int:
        self._before.append(self._tail)
        self._tail = len(self._before) - 1
        self.has_messages = True
        return self._tail

    def _post(self, ordinal: int, event: PlainEvent) -> None:
        if self._command is not None or self._is_growing():
            self._held.append((ordinal, event))
        else:
            self._emit((ordinal, event))

    def _is_growing(self) -> bool:
        """Whether a response holds back what follows it; one that settled does not."""
        draft = self._draft
        return draft is not None and (draft.sent is None or draft.sent != draft.message())

    def _send_draft(self) -> None:
        draft = self._draft
        if draft is None:
            return
        message = draft.message()
        if message is None:
            return
        if message != draft.sent:
            self._emit((draft.ordinal, Appended(message)))
            draft.sent = message

    def close_draft(self) -> None:
        """The response is whole: it goes out, and what came meanwhile follows it."""
        if self._draft is None:
            return
        if self._draft.message() is None:
            self._skipped["empty"] += 1
        self._send_draft()
        self._draft = None
        self._release()

    def _settle_command(self) -> None:
        """No answer followed it: it was for the agent, not for the model."""
        if self._command is None:
            return
        command, self._command = self._command, None
        self._emit((command.ordinal, Appended(attrs.evolve(command.message, role="system"))))
        self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for emission in held:
            self._emit(emission)


def unanswered_results(call_ids: Sequence[str]) -> Message | None:
    """The message that answers calls which were never answered (T4). Its id is stable (T9)."""
    if not call_ids:
        return None
    return Message(
        id=f"{call_ids[0]}:unanswered",
        role="tool",
        tool_results=tuple(ToolResult(call_id=call, is_error=True) for call in call_ids),
    )
