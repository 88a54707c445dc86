"""The messages of a model request, as a client keeps them (pure; R15).

A delivery goes inside the newest user message, or after all results of a tool round; there it
stays, word for word. So the messages of one request are a prefix of those of the next, and the
provider's prompt cache holds, until a compaction or a rewind begins the history anew.
"""

from __future__ import annotations

from attrs import define, evolve, field, frozen

from oncue_protocol import Delivery, Message


@frozen
class Entry:
    """One message of a request."""

    message_id: str
    role: str
    content: tuple[str, ...]
    """Blocks in order: text, calls, results, deliveries, each as it goes to the model."""


@frozen
class Request:
    """What would go to the model."""

    number: int
    """From 1."""
    turn: int
    """Number of the turn, from 1."""
    entries: tuple[Entry, ...]
    begins_anew: bool
    """Whether the history was compacted, rewound or cleared since the request before."""


@define
class History:
    """Grows message by message."""

    _entries: list[Entry] = field(factory=list)
    _known: set[str] = field(factory=set)
    _requests: int = 0
    _is_new: bool = True

    def append(self, message: Message) -> None:
        """A message of the conversation; a known id changes nothing that was sent."""
        if message.id in self._known:
            return
        self._known.add(message.id)
        self._entries.append(Entry(message.id, message.role, _blocks(message)))

    def attach(self, delivery: Delivery) -> None:
        """Put a delivery where it belongs; before the next request is made."""
        last = self._entries[-1]
        parts = (
            (delivery.text, *last.content)
            if delivery.placement == "prepend"
            else (*last.content, delivery.text)
        )
        self._entries[-1] = evolve(last, content=parts)

    def request(self, turn: int) -> Request:
        """The messages as they go to the model now."""
        self._requests += 1
        request = Request(self._requests, turn, tuple(self._entries), self._is_new)
        self._is_new = False
        return request

    def keep_from(self, message_id: str | None) -> None:
        """A compaction: what came before `message_id` is gone; without one, everything."""
        at = next(
            (at for at, entry in enumerate(self._entries) if entry.message_id == message_id),
            len(self._entries),
        )
        del self._entries[:at]
        self._known = {entry.message_id for entry in self._entries}
        self._is_new = True

    def clear(self) -> None:
        """A reset."""
        self.keep_from(None)


def _blocks(message: Message) -> tuple[str, ...]:
    blocks = [message.text] if message.text else []
    blocks += [f"call {call.id} {call.name} {call.input!r}" for call in message.tool_calls]
    blocks += [f"result {result.call_id} {result.text}" for result in message.tool_results]
    return tuple(blocks)
