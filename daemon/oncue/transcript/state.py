"""The transcript of one lane, kept in sync by notifications as LSP keeps documents (pure).

Rules (protocol.md, "Sessions and the transcript"; extraction.md X5, X27, §5):

* messages come in order; `afterMessageId` that is not our last means that something was lost:
  nothing is applied and the client is asked to send again (`Resync`);
* a repeated id replaces what was there if it has more content, else it is ignored;
* ids are known until a reset; bodies are kept of the newest messages (`KEPT_TOKENS`) and, where
  notes are written, of all that is not summarised yet, within `MAX_BODIES`;
* the size of the context is the usage of the last assistant message plus an estimate of what
  follows it; a compaction sets a new base;
* what was summarised is a prefix of the conversation. It is recognised again, message by message,
  when the conversation is sent anew: after a rewind, or to another daemon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import sha256

from attrs import evolve, frozen

from oncue.transcript.bodies import Size, estimate, kept, paired, size_of, start_with_calls
from oncue.transcript.calls import Calls
from oncue_protocol import Message

KEPT_TOKENS = 40_000
"""Newest messages whose bodies are kept: what a compaction view may at most need (X27)."""
MAX_UNSUMMARISED_TOKENS = 400_000
"""Bodies kept for notes that are not written yet, failing runs included: two full contexts of the
largest models; what is older than that is given up, oldest first."""
MAX_BODIES = 20_000
"""The same as a number: short messages weigh more than their tokens. About 20 MB (X27)."""
_RECORD = 6
"""Bytes of a message id's hash: enough to tell the messages of one conversation apart."""


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
    size: Size


@frozen
class Range:
    """What a run works on."""

    messages: tuple[Message, ...]
    """Oldest first; calls and results in pairs (X5)."""
    first_message_id: str
    through: str
    """Id of the last message."""
    count: int
    """Messages of the conversation up to and with `through`: the new summarised prefix."""
    ids: bytes
    """Their ids, hashed: `Transcript.resume` takes them."""
    ends_in_text: bool
    """The last assistant message asks for no tool (X9)."""


class Transcript:
    """One lane's messages. Every method is dictionary work; only `unsummarised` and `summarise`
    walk over what is not summarised."""

    def __init__(self, kept_tokens: int = KEPT_TOKENS, *, keeps_unsummarised: bool = False) -> None:
        self._kept_tokens = kept_tokens
        self.keeps_unsummarised = keeps_unsummarised
        """Whether somebody will summarise: else bodies beyond the tail are let go."""
        self._clear()

    def _clear(self) -> None:
        self._position: dict[str, int] = {}
        self._entries: deque[Entry] = deque()
        self._first = 0
        self._next = 0
        self._tokens = 0
        self._last_id: str | None = None
        self._kept_from = 0
        # Context: size at the anchor, and the estimate of what came after that position.
        self._base = 0
        self._anchor = -1
        self._anchor_tokens = 0
        self._after_anchor = 0
        self._calls = Calls()
        # Summaries.
        self._ids = bytearray()
        self._summarised = 0
        self._through: str | None = None
        self._behind = 0
        self._expected = b""
        self._resumed: str | None = None

    # ---- what is known ---------------------------------------------------------------------

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

    def position(self, message_id: str) -> int | None:
        """Its number in the conversation, from 0; None: not known."""
        return self._position.get(message_id)

    @property
    def first_body(self) -> int:
        """Position of the oldest message whose body is kept: `entries[0]`."""
        return self._first

    @property
    def first_in_reach(self) -> int:
        """Position of the oldest message that has a body and is in front of the model."""
        return max(self._first, self._kept_from)

    def is_in_context(self, message_id: str) -> bool:
        """Whether this message is still in front of the model (R10)."""
        position = self._position.get(message_id)
        return position is not None and position >= self._kept_from

    @property
    def context_tokens(self) -> int:
        """Size of the context now: last usage or compaction base, plus an estimate of the rest."""
        return self._anchor_tokens + self._after_anchor

    @property
    def estimated_tokens(self) -> int:
        """How much of `context_tokens` is an estimate."""
        return self._after_anchor

    @property
    def tool_calls(self) -> int:
        """Calls of assistant messages since the last reset (X3)."""
        return self._calls.total

    @property
    def open_calls(self) -> int:
        """Calls of the newest response that have no result yet, in a turn that goes on (X5)."""
        return self._calls.open

    @property
    def pauses(self) -> bool:
        """The last assistant message asks for no tool (X3, N)."""
        return self._calls.pauses

    # ---- what the client tells -------------------------------------------------------------

    def append(self, messages: Iterable[Message], after: str | None = None) -> Applied | Resync:
        """Apply `messages`, in order; all of them or, where `after` is not our last, none."""
        if after is not None and after != self._last_id:
            return Resync(self._last_id)
        added = replaced = ignored = 0
        for message in messages:
            if self._resumed is not None and after is None:
                self._maybe_sent_anew(message.id)
            position = self._position.get(message.id)
            if position is None:
                self._add(message)
                added += 1
            elif self._replace(position, message):
                replaced += 1
            else:
                ignored += 1
        if added or replaced or ignored:
            self._resumed = None
        self._trim()
        return Applied(added, replaced, ignored, self._last_id)

    def reset(self, *, rewound: bool = False) -> None:
        """`transcript/didReset`: ids seen before are forgotten. `rewound`: those who survived are
        sent again, and what was summarised of them stays so."""
        known = bytes(self._ids[: self._summarised * _RECORD]) or self._expected
        self._clear()
        if rewound:
            self._expected = known

    def boundary(self) -> None:
        """The turn is over, or another opens: calls without a result get none (X5)."""
        self._calls.boundary()

    def compact(self, kept_from: str | None, context_tokens: int | None) -> None:
        """`transcript/didCompact`: what lies before `kept_from` left the context.

        `context_tokens` is the new size as the client knows it; without it the kept messages
        are estimated."""
        position = self._position.get(kept_from) if kept_from is not None else None
        self._kept_from = self._next if position is None else position
        if context_tokens is None:
            begin = max(self._kept_from, self._first)
            context_tokens = sum(self._entry(at).tokens for at in range(begin, self._next))
        self._base = self._next  # figures of messages before it are of the old context
        self._anchor = self._next - 1
        self._anchor_tokens = context_tokens
        self._after_anchor = 0

    # ---- summaries -------------------------------------------------------------------------

    @property
    def lag_messages(self) -> int:
        """Messages that are not summarised."""
        return self._next - self._summarised

    @property
    def lag_tokens(self) -> int:
        """The same in estimated tokens."""
        return self._behind

    @property
    def safe_end(self) -> int:
        """Position up to which (exclusive) no call waits for its result (X5)."""
        return self._calls.response if self._calls.open else self._next

    def unsummarised(self) -> Range | None:
        """What is not summarised yet, up to where no call waits for its result. It begins earlier
        where a late result would lose its call. None: there is nothing."""
        begin = max(self._summarised, self._first)
        end = self.safe_end
        if begin >= end:
            return None
        messages = [self._entry(at).message for at in range(self._first, end)]
        start = start_with_calls(messages, begin - self._first)
        chosen = messages[start:]
        assistant = next((m for m in reversed(chosen) if m.role == "assistant"), None)
        return Range(
            messages=paired(chosen),
            first_message_id=chosen[0].id,
            through=chosen[-1].id,
            count=end,
            ids=bytes(self._ids[: end * _RECORD]),
            ends_in_text=assistant is None or not assistant.tool_calls,
        )

    def summarise(self, through: str) -> bool:
        """Everything up to this message is summarised. False: it is not known (any more)."""
        position = self._position.get(through)
        if position is None:
            return False
        if position >= self._summarised:
            self._set_summarised(position + 1, through)
            self._trim()
        return True

    def resume(self, through: str, ids: bytes, context_tokens: int) -> bool:
        """Take over what another daemon summarised: `ids` of a `Range`, ending in `through`, and
        the size of the context then. The client goes on behind `through`, or sends the
        conversation from its beginning, or has already begun to. False: nothing was taken over,
        because it is another conversation, or this one is further."""
        if not ids or len(ids) % _RECORD or ids[-_RECORD:] != _record(through):
            return False
        if self._next:
            return self._compare(ids)
        self._ids = bytearray(ids)
        self._next = self._first = self._kept_from = len(ids) // _RECORD
        self._set_summarised(self._next, through)
        self._position[through] = self._next - 1
        self._last_id = self._resumed = through
        self._anchor = self._next - 1
        self._anchor_tokens = context_tokens
        return True

    def _compare(self, ids: bytes) -> bool:
        """Take over what the messages that are here have in common with a summarised prefix."""
        common = 0
        end = min(len(ids), len(self._ids))
        while (
            common < end and self._ids[common : common + _RECORD] == ids[common : common + _RECORD]
        ):
            common += _RECORD
        position = common // _RECORD
        if position <= self._summarised or position <= self._first:
            return False
        self._set_summarised(position, self._entry(position - 1).message.id)
        if position == self._next < len(ids) // _RECORD:
            self._expected = ids
        self._trim()
        return True

    @property
    def is_sent_anew(self) -> bool:
        """Every message so far is one that was summarised before: a conversation comes again."""
        return bool(self._expected) and self._summarised == self._next > 0

    @property
    def summarised_through(self) -> str | None:
        """Id of the last message that is summarised (`processedThrough`)."""
        return self._through

    def prefix(self) -> bytes:
        """Hashed ids of what is summarised."""
        return bytes(self._ids[: self._summarised * _RECORD])

    # ---- inside ----------------------------------------------------------------------------

    def _entry(self, position: int) -> Entry:
        return self._entries[position - self._first]

    def _maybe_sent_anew(self, message_id: str) -> None:
        """The first append after `resume` tells whether the client sends everything again."""
        through = self._resumed
        if self._next == self._summarised and message_id != through:
            first = bytes(self._ids[:_RECORD])
            if _record(message_id) == first:
                known = bytes(self._ids)
                self._clear()
                self._expected = known
                return
        if message_id == through:
            # Whatever came since then lies before it, sent again from somewhere in the middle.
            self._set_summarised(self._next, through)

    def _add(self, message: Message) -> None:
        entry = Entry(kept(message), estimate(message), size_of(message))
        position = self._next
        self._position[message.id] = position
        self._entries.append(entry)
        self._next += 1
        self._tokens += entry.tokens
        self._behind += entry.tokens
        self._ids += _record(message.id)
        if self._expected:
            self._recognise(position, message.id)
        self._anchor_at(position, entry)
        self._calls.see(position, message)
        self._last_id = message.id

    def _recognise(self, position: int, message_id: str) -> None:
        """A message of a conversation that is sent anew: is it one of those summarised?"""
        begin = position * _RECORD
        expected = self._expected[begin : begin + _RECORD]
        if self._summarised == position and expected == self._ids[begin:]:
            self._summarised = self._next
            self._through = message_id
            self._behind = 0
        else:
            self._expected = b""

    def _replace(self, position: int, message: Message) -> bool:
        if position < self._first:
            return False
        old = self._entry(position)
        size = size_of(message)
        if not size.exceeds(old.size):
            return False
        if message.usage is None and old.message.usage is not None:
            message = evolve(message, usage=old.message.usage)  # figures do not get lost
        new = Entry(kept(message), estimate(message), size)
        self._entries[position - self._first] = new
        grown = new.tokens - old.tokens
        self._tokens += grown
        if position >= self._summarised:
            self._behind += grown
        if position > self._anchor:
            self._after_anchor += grown
        if position >= max(self._anchor, self._base):
            self._anchor_at(position, new, added=False)
        self._calls.see(position, message, old.message)
        return True

    def _anchor_at(self, position: int, entry: Entry, *, added: bool = True) -> None:
        usage = entry.message.usage
        if entry.message.role == "assistant" and usage is not None:
            self._anchor = position
            self._anchor_tokens = (
                usage.input_tokens
                + usage.output_tokens
                + usage.cache_read_tokens
                + usage.cache_write_tokens
            )
            behind = range(max(position + 1, self._first), self._next)
            self._after_anchor = sum(self._entry(at).tokens for at in behind)
        elif added:
            self._after_anchor += entry.tokens

    def _set_summarised(self, end: int, through: str) -> None:
        self._summarised = end
        self._through = through
        self._behind = sum(
            self._entry(at).tokens for at in range(max(end, self._first), self._next)
        )

    def _trim(self) -> None:
        entries = self._entries
        while len(entries) > 1:
            rest = self._tokens - entries[0].tokens
            if rest <= self._kept_tokens and len(entries) <= MAX_BODIES:
                return
            if (
                self.keeps_unsummarised
                and self._first >= self._summarised
                and rest <= MAX_UNSUMMARISED_TOKENS
                and len(entries) <= MAX_BODIES
            ):
                return
            entries.popleft()
            self._tokens = rest
            self._first += 1


def _record(message_id: str) -> bytes:
    return sha256(message_id.encode("utf-8", "surrogatepass")).digest()[:_RECORD]
