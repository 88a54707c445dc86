"""The conversation as the client reports it (protocol.md, Sessions and the transcript; pure)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .base import Count, Identifier, JsonValue, Time, Tokens, Wire

MAIN_LANE = "main"
"""The lane of whoever names none."""

MessageRole = Literal["user", "assistant", "tool", "system"]
TranscriptFormat = Literal["claude", "qwen", "gemini", "codex", "oncue"]
ResetReason = Literal["cleared", "rewound"]
TurnEndReason = Literal[
    "completed",
    "aborted",
    "maxSessionTurns",
    "turnBudgetExhausted",
    "sessionTokenLimit",
    "controlSignal",
    "loopDetected",
    "error",
]


@frozen(kw_only=True, eq=False, repr=False)
class ToolCall(Wire):
    """A tool that the model asks for."""

    id: str
    """Joins the call to its result."""
    name: str
    """Name of the tool."""
    input: JsonValue = None
    """Its arguments: any JSON. What is nested deeper than 64 levels is cut, visibly."""


@frozen(kw_only=True, eq=False, repr=False)
class ToolResult(Wire):
    """What a tool answered."""

    call_id: str
    """Id of the call."""
    text: str = ""
    """The answer as text; binary parts are named, as in `[image]`."""
    is_error: bool = False
    """Whether the tool failed."""


@frozen(kw_only=True, eq=False, repr=False)
class Usage(Wire):
    """Token counts of one model request. They are disjoint: their sum is its context size."""

    input_tokens: Tokens = 0
    """Tokens read, without those from or to a cache."""
    output_tokens: Tokens = 0
    """Tokens written, thoughts included."""
    cache_read_tokens: Tokens = 0
    """Tokens read from the provider's prompt cache."""
    cache_write_tokens: Tokens = 0
    """Tokens written to it."""


@frozen(kw_only=True, eq=False, repr=False)
class Message(Wire):
    """One message of a conversation."""

    id: str
    """Stable id, unique in its session."""
    role: MessageRole
    """Who speaks: `tool` for results, `system` for summaries and injected text."""
    text: str = ""
    """What is said."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that the model asks for."""
    tool_results: tuple[ToolResult, ...] = ()
    """What tools answered."""
    usage: Usage | None = None
    """Token counts of the request that this message answers."""
    time: Time | None = None
    """When it was said."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptDidAppendParams(Wire):
    """New messages, in order. A repeated id replaces what was there if it has more content
    (longer text, more calls or results, usage where there was none), else it is ignored."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane."""
    after_message_id: str | None = None
    """Last message before these, as the client knows it; a gap is answered by
    `transcript/resyncRequired` and nothing is applied."""
    messages: tuple[Message, ...]
    """The new messages."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptResyncRequiredParams(Wire):
    """`afterMessageId` is not the daemon's last message: nothing was applied."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane."""
    last_message_id: str | None = None
    """Send again what follows this message; absent: from the beginning."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptFollowParams(Wire):
    """Asks the daemon to read an agent's own transcript file as it grows."""

    session_id: Identifier
    """The session that the messages belong to."""
    path: str
    """The file, below one of the known agent folders of this user."""
    format: TranscriptFormat
    """Whose format it is."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptFollowResult(Wire):
    """The file is being followed."""

    path: str
    """Real path of the file."""
    resumed: bool
    """Whether reading goes on from where it was, instead of from the beginning."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptDidResetParams(Wire):
    """The conversation was cleared or rewound: message ids seen before are forgotten."""

    session_id: Identifier
    """The session."""
    reason: ResetReason
    """`cleared`: begun anew; `rewound`: what survived is sent again."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptWillCompactParams(Wire):
    """A compaction begins: nothing is delivered until it ends, or the next turn."""

    session_id: Identifier
    """The session."""


@frozen(kw_only=True, eq=False, repr=False)
class TranscriptDidCompactParams(Wire):
    """The history was compacted: what fell out of it may be recalled again."""

    session_id: Identifier
    """The session."""
    kept_from_message_id: str | None = None
    """First message that is still in front of the model; absent: none is."""
    context_tokens: Count | None = None
    """Size of the context now, in tokens, where the client knows it."""


@frozen(kw_only=True, eq=False, repr=False)
class TurnDidEndParams(Wire):
    """A turn is over, and with it its recall (R11)."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane."""
    turn_id: Identifier | None = None
    """The turn; absent: the live one. One that is not the live recall's leaves it alone."""
    reason: TurnEndReason
    """Why it ended."""
