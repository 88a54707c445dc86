"""What the ledger says: commands to the prefetch, and events to the session (pure, frozen)."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from oncue.ports import Hit
from oncue.settings import RecallSettings
from oncue_protocol import (
    Delivery,
    DeliveryPoint,
    Placement,
    RecallEndReason,
    RecallState,
    Stage,
    Strategy,
)


@frozen
class StartSearch:
    """Command: search, and report to the ledger under `recall_id`."""

    recall_id: str
    lane: str
    query: str
    """The user's words, whole but for the cap on pasted logs."""
    settings: RecallSettings
    """As they were when the recall started; a later change touches later recalls only."""
    limit: int
    """Documents of the refined stage, at least 1."""
    excluded_paths: frozenset[str]
    """Already in front of the model (R10), or excluded by the client."""
    recent_tools: tuple[str, ...]
    speculative: bool
    """Fast stage only, never a model."""
    started: float
    """Monotonic seconds; the safety ceiling counts from here (R5)."""


@frozen
class StopSearch:
    """Command: cancel the search, whose handle has ended; its report would be late."""

    recall_id: str


@frozen
class Started:
    """A handle was made, perhaps cancelled from the beginning (R4)."""

    lane: str
    recall_id: str
    turn_id: str | None
    speculative: bool
    replaced: str | None
    """The recall that ended for it."""


@frozen
class FastReady:
    """The fast stage has something to deliver."""

    lane: str
    recall_id: str
    documents: int
    latency_ms: int
    """Since start."""
    speculative: bool = False
    stage: Stage = "fast"


@frozen
class Settled:
    """The search has said its last word, perhaps an empty one."""

    lane: str
    recall_id: str
    stage: Stage
    """`refined`; `fast` for a speculative recall, which knows no other."""
    strategy: Strategy
    documents: int
    latency_ms: int
    """Since start."""
    speculative: bool = False


@frozen
class Delivered:
    """A delivery is out and its documents are in front of the model; with acknowledgements it is
    said when the model took it."""

    lane: str
    recall_id: str
    stage: Stage
    point: DeliveryPoint
    delivery: Delivery
    latency_ms: int
    """Since start."""
    speculative: bool = False


@frozen
class Ended:
    """The one terminal event of a recall (R12)."""

    lane: str
    recall_id: str
    state: RecallState
    reason: RecallEndReason
    stage: Stage | None
    """Of the last delivery; `refined` where the result was empty; None: nothing was delivered."""
    point: DeliveryPoint | None
    strategy: Strategy | None
    documents: int
    """Delivered in all."""
    latency_ms: int
    """From start to this end."""
    speculative: bool = False


Command = StartSearch | StopSearch
RecallEvent = Started | FastReady | Settled | Delivered | Ended
Output = Command | RecallEvent


@frozen
class Draft:
    """What may be delivered; rendering decides what of it fits."""

    recall_id: str
    stage: Stage
    placement: Placement
    strategy: Strategy
    hits: tuple[Hit, ...]
    """Best first."""
    settings: RecallSettings
    max_bytes: int | None = None
    """What is left of the session's byte budget; None: no budget."""


class Pack(Protocol):
    """Renders a draft, leaving out what does not fit; None where nothing does."""

    def __call__(self, draft: Draft) -> Delivery | None: ...
