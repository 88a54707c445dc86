"""Tool calls of a conversation: how many, and which of the newest response wait for a result (pure;
X3, X5).

Messages of one response may come one by one, each with a call of its own: assistant messages with
nothing between them are one response. The next response leaves unanswered calls behind, and so does
the end of a turn; a user's message in between (steering) does not.
"""

from __future__ import annotations

from oncue_protocol import Message


class Calls:
    """Told of each message once, and of what it has grown to."""

    def __init__(self) -> None:
        self.total = 0
        """Calls of assistant messages."""
        self.response = -1
        """Position at which the newest response begins; -1: there is none."""
        self._newest = -1
        self._asks = False
        self._open: set[str] = set()
        self._answers: set[str] = set()

    @property
    def open(self) -> int:
        """Calls of the newest response without a result, in a turn that goes on."""
        return len(self._open)

    @property
    def pauses(self) -> bool:
        """The last assistant message asks for no tool (N of the policy)."""
        return self._newest >= 0 and not self._asks

    def boundary(self) -> None:
        """The turn is over, or another opens: calls without a result get none."""
        self._open.clear()
        self._answers.clear()

    def see(self, position: int, message: Message, old: Message | None = None) -> None:
        """A message came, or has grown from `old`."""
        if message.role == "assistant":
            before = set() if old is None else {call.id for call in old.tool_calls}
            now = {call.id for call in message.tool_calls}
            if old is None:
                if self._newest < 0 or self._newest != position - 1:
                    self.response = position
                    self.boundary()
                self._newest = position
            self.total += len(message.tool_calls) - (0 if old is None else len(old.tool_calls))
            if position == self._newest:
                self._asks = bool(message.tool_calls)
            if position >= self.response:
                self._open -= before - now
                self._open |= now - before - self._answers
        if message.tool_results and position >= self.response:
            self._answers.update(result.call_id for result in message.tool_results)
            self._open -= self._answers
