"""Recall: start it, look at it, end it (protocol.md, Recall; recall.md; pure)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .base import (
    Count,
    DocumentType,
    Identifier,
    Milliseconds,
    Origin,
    Placement,
    Scope,
    Stage,
    Strategy,
    Time,
    Tokens,
    Trust,
    Wire,
    WrittenBy,
)
from .transcript import MAIN_LANE

RecallState = Literal[
    "pending", "settled", "offered", "consumed", "cancelled", "replaced", "expired"
]
Outcome = Literal["delivered", "pending", "empty", "none"]
DeliveryPoint = Literal["userQuery", "toolResult"]
RecallEndReason = Literal[
    "delivered",
    "nothingFound",
    "alreadyDelivered",
    "newQuery",
    "client",
    "abort",
    "noSafeDeliveryPoint",
    "controlSignal",
    "reset",
    "sessionClosed",
    "lifetime",
    "shutdown",
]


@frozen(kw_only=True, eq=False, repr=False)
class DeliveredDocument(Wire):
    """A remembered document inside a delivery. Where it came from and who wrote it is set by
    the daemon, out of reach of its content."""

    path: str
    """Absolute path of the file."""
    title: str
    """Its name."""
    description: str
    """What it is about, in one line."""
    type: DocumentType
    """What kind of memory it is."""
    scope: Scope
    """`user`: all workspaces; `project`: this one."""
    score: float
    """The ranker's score: comparable within one search only."""
    confidence: float
    """How likely it is that the document is relevant, 0 to 1."""
    origin: Origin
    """Whose folder it lies in: mine, this repository's, another agent's."""
    trust: Trust
    """Whether the user trusts that folder or approved this file."""
    written_by: WrittenBy
    """Who wrote it."""
    sha256: str
    """Of the file's bytes, lower-case hexadecimal."""
    age_ms: Milliseconds
    """Time since the file was changed, when it was delivered."""
    modified: Time
    """When the file was changed."""
    truncated: bool
    """Whether the text was cut."""


@frozen(kw_only=True, eq=False, repr=False)
class Delivery(Wire):
    """What is remembered, as text for the model. Never changed once made: keep it verbatim in
    the history, where it was put (R15)."""

    delivery_id: Identifier
    """Names this delivery."""
    placement: Placement
    """`prepend`: at the head of the newest user message; `append`: after all tool results."""
    text: str
    """The fenced text, to be handed to the model as it is."""
    documents: tuple[DeliveredDocument, ...]
    """What it is made of, best first."""
    strategy: Strategy
    """Who chose: the fast stage, the ranker, a model, or the ranker because the model failed."""
    text_tokens: Tokens
    """Estimated size of the text in tokens."""


@frozen(kw_only=True, eq=False, repr=False)
class EndedRecall(Wire):
    """A recall that is over."""

    recall_id: Identifier
    """The recall."""
    state: RecallState
    """How it ended: consumed, cancelled, replaced or expired."""
    reason: RecallEndReason
    """Why."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallPollResult(Wire):
    """What a look at the recall found."""

    outcome: Outcome
    """`delivered`: a delivery is here, yours, once; `pending`: ask at the next point; `empty`:
    settled with nothing to say, closed; `none`: no live recall, `ended` tells why."""
    recall_id: Identifier | None = None
    """The recall that was looked at."""
    stage: Stage | None = None
    """Which stage the delivery comes from."""
    delivery: Delivery | None = None
    """With `delivered`: what is remembered."""
    ended: EndedRecall | None = None
    """How the recall that was asked for, or the last one, ended."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallStartParams(Wire):
    """Starts the recall of a turn. Answered at once; the search goes on in the background."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane; its live recall, if any, is replaced (R2)."""
    query: str
    """The user's words."""
    turn_id: Identifier | None = None
    """The turn that it belongs to."""
    recall_id: Identifier | None = None
    """Name chosen by the client, so that a cancel may overtake this request; else made up."""
    wait_ms: Milliseconds = 0
    """Wait so long, at most 2000, for a first delivery: start and first poll in one (R16)."""
    speculative: bool = False
    """Recall as the user types: fast stage only, no model, nothing marked as delivered."""
    poll_token: Identifier | None = None
    """With `waitMs`: the same token again gives the same answer."""
    excluded_paths: tuple[str, ...] = ()
    """Documents that must not be delivered."""
    recent_tools: tuple[str, ...] = ()
    """Tools that were used lately: documents that only say how to call them are noise."""
    limit: Count | None = None
    """At most so many documents; absent: the setting."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallStartResult(Wire):
    """The recall is there."""

    recall_id: Identifier
    """Its id."""
    state: RecallState
    """Its state: `cancelled` where a cancel came first."""
    replaced: Identifier | None = None
    """The recall that it replaced."""
    poll: RecallPollResult | None = None
    """With `waitMs`: the first look, at the point `userQuery`."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallPollParams(Wire):
    """Looks whether the recall has something, and takes it."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane."""
    point: DeliveryPoint
    """Where in the turn: before the model is asked, or after a round of tool results."""
    recall_id: Identifier | None = None
    """Only this recall; absent: the live one."""
    wait_ms: Milliseconds = 0
    """Wait so long, at most 2000."""
    poll_token: Identifier | None = None
    """The same token again gives the same answer, byte for byte: a reply may get lost."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallPeekParams(Wire):
    """Looks whether the recall has something, and takes nothing."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane."""


RecallPeekResult = RecallPollResult


@frozen(kw_only=True, eq=False, repr=False)
class RecallCancelParams(Wire):
    """Ends a recall. One that has not started yet is remembered: its start is born cancelled."""

    session_id: Identifier
    """The session."""
    lane: Identifier = MAIN_LANE
    """The lane."""
    recall_id: Identifier | None = None
    """The recall; absent: the live one."""
    reason: str | None = None
    """Why, for the log."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallCancelResult(Wire):
    """What came of the cancel."""

    cancelled: bool
    """Whether a live recall was ended by it."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallEndedParams(Wire):
    """The one terminal event of a recall (R12)."""

    session_id: Identifier
    """The session."""
    lane: Identifier
    """The lane."""
    recall_id: Identifier
    """The recall."""
    state: RecallState
    """How it ended."""
    reason: RecallEndReason
    """Why."""
    stage: Stage | None = None
    """Stage of the last delivery."""
    point: DeliveryPoint | None = None
    """Where it was delivered."""
    strategy: Strategy | None = None
    """Who chose the documents."""
    documents: Count
    """How many documents were delivered."""
    latency_ms: Milliseconds
    """Time from the start to the end."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallAcknowledgeParams(Wire):
    """Says whether the model took a delivery, where `acknowledgeDeliveries` was asked for."""

    delivery_id: Identifier
    """The delivery."""
    accepted: bool
    """False: it was not sent, and may be delivered again."""


@frozen(kw_only=True, eq=False, repr=False)
class RecallSettledParams(Wire):
    """A stage of the recall is ready: a poll would deliver or say that there is nothing."""

    session_id: Identifier
    """The session."""
    lane: Identifier
    """The lane."""
    recall_id: Identifier
    """The recall."""
    stage: Stage
    """Which stage is ready."""


@frozen(kw_only=True, eq=False, repr=False)
class LiveRecall(Wire):
    """The recall of a lane that is not over yet."""

    recall_id: Identifier
    """The recall."""
    state: RecallState
    """`pending`, `settled` or `offered`."""
    fast_ready: bool
    """Whether the fast stage has something."""
    age_ms: Milliseconds
    """Time since its start."""
