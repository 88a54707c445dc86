"""What a recording says, one event at a time: what every reader yields (pure).

A player sends each event as an editor would have: `Prompt` is a message and then a recall,
`Steering` and `Appended` are `transcript/didAppend`, the rest are the notifications of the
same name. Whoever only follows a session (`transcript/follow`) starts no recalls: there a
`Prompt` is one more message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from attrs import Factory, frozen

from oncue_protocol import Message, ResetReason, TranscriptFormat, TurnEndReason


@frozen
class SessionInfo:
    """Which session this is: comes first, once, as soon as the file tells."""

    session_id: str
    """The agent's own id of the conversation; the file's name where it has none."""
    workspace: str | None = None
    """Absolute path of the folder the agent worked in."""
    agent: TranscriptFormat = "claude"
    """Whose format it is."""


@frozen
class Prompt:
    """Words that the user typed: they open a turn and start a recall (T3)."""

    message: Message
    """Role `user`."""
    query: str
    """What to recall for: the typed words without placeholders; may be empty (an image alone)."""
    turn_id: str
    """Of the turn this opens; stable (T9)."""


@frozen
class Steering:
    """Words typed while the agent works: they open and end no turn and start no recall (T3)."""

    message: Message


@frozen
class Appended:
    """Any other message: an answer, a round of results, injected text (role `system`)."""

    message: Message


@frozen
class TurnEnded:
    """The turn that the last `Prompt` opened is over."""

    reason: TurnEndReason
    turn_id: str
    implied: bool = False
    """Whether only the next typed turn or the end of the file says so: then it may come late."""


@frozen
class WillCompact:
    """A compaction begins: no delivery until `Compacted`."""


@frozen
class Compacted:
    """History was compacted."""

    context_tokens: int | None = None
    """Size of the context afterwards; None: the recording does not say."""
    kept_from_message_id: str | None = None
    """The first message that stayed as it was; None: none did, or unknown."""


@frozen
class Reset:
    """Ids seen before are forgotten. After `rewound` follows what survived, as `Appended` (T8)."""

    reason: ResetReason


@frozen
class Note:
    """Comes last: how much of the file was passed over, and why (T1). Numbers only, no content."""

    skipped: Mapping[str, int] = Factory(dict)
    """Reason (one of our own few words, never a word of the file) to number of lines or parts."""
    lines: int = 0
    """Lines that the file has, blank ones included."""


PlainEvent: TypeAlias = (
    SessionInfo | Prompt | Steering | Appended | TurnEnded | WillCompact | Compacted | Reset | Note
)


@frozen
class Subagent:
    """An event of a subagent's session; only where the reader was asked for subagents (T6).

    A model wrote its prompt, so `event` is never a `Prompt`, `Steering` or `TurnEnded`.
    """

    session_id: str
    """`<session>/<agent>`."""
    event: PlainEvent


Event: TypeAlias = PlainEvent | Subagent
