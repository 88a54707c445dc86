"""The data of the ledger: handles, the slots they live in, the lanes of a session (pure).

A lane is one line of work: the main conversation, or one subagent. It has two slots, one for the
recall of its turn and one for speculative recalls, so that typing ahead never touches a turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field, frozen

from oncue.ports import Hit
from oncue.recall.bounded import Newest
from oncue.recall.transitions import SHOWN, State
from oncue.settings import MAX_LANES, MAX_TOMBSTONES, RecallSettings
from oncue_protocol import (
    MAIN_LANE,
    Delivery,
    DeliveryPoint,
    EndedRecall,
    LimitExceeded,
    RecallState,
    Stage,
    Strategy,
)

IDLE_LANE_S = 600.0
"""A lane unused for ten minutes may make room for a new one: its subagent is gone, and without
this the 33rd subagent of a long session would have no recall. Never before: R10 would be lost."""


@define(eq=False)
class Offer:
    """A delivery that waits for `recall/acknowledge`."""

    delivery: Delivery
    stage: Stage
    point: DeliveryPoint
    message_id: str | None
    """Last message known when it went out (R10)."""
    compacted: bool = False
    """That message is gone meanwhile: accepting puts nothing in front of the model."""


@define(eq=False)
class Handle:
    """One recall, from its start to its end."""

    recall_id: str
    lane: str
    turn_id: str | None
    speculative: bool
    acknowledged: bool
    """Deliveries are offers until the client says that the model took them."""
    settings: RecallSettings
    limit: int
    started: float
    """Monotonic seconds."""
    polled: float
    """When its owner last asked for it; the lifetime counts from here (R13)."""
    ordered: bool = False
    """Its search was ordered, so its end must stop it; a handle born cancelled has none."""
    state: State = "pending"
    fast: tuple[Hit, ...] = ()
    """Deliverable fast hits; emptied once sent."""
    fast_reported: bool = False
    fast_sent: bool = False
    refined: tuple[Hit, ...] = ()
    strategy: Strategy | None = None
    offer: Offer | None = None
    sent_stage: Stage | None = None
    sent_point: DeliveryPoint | None = None
    sent_strategy: Strategy | None = None
    documents: int = 0
    """Delivered so far."""

    @property
    def shown(self) -> RecallState:
        """The state as the protocol names it."""
        return SHOWN[self.state]

    @property
    def searching(self) -> bool:
        """Whether its search has not yet said its last word."""
        return self.state in ("pending", "fastOffered")

    @property
    def settled_stage(self) -> Stage:
        """The stage of its last word."""
        return "fast" if self.speculative else "refined"

    @property
    def expires(self) -> float:
        """When it is forgotten unless asked for, monotonic seconds."""
        return self.polled + self.settings.lifetime_ms / 1000

    def age_ms(self, now: float) -> int:
        """Milliseconds since start."""
        return max(0, round((now - self.started) * 1000))


@frozen
class Tombstone:
    """Why there is no recall, kept for whoever asks."""

    ended: EndedRecall
    lane: str
    turn_id: str | None


@define(eq=False)
class Slot:
    """Room for one live recall, and the row of those that ended."""

    live: Handle | None = None
    tombstones: Newest[str, Tombstone] = field(factory=lambda: Newest(MAX_TOMBSTONES))


@define(eq=False)
class Lane:
    """One line of work."""

    name: str
    used: float = 0.0
    turn: Slot = field(factory=Slot)
    speculative: Slot = field(factory=Slot)
    surfaced: dict[str, str | None] = field(factory=dict)
    """Path → the message it went with; None where no message was known (R10)."""
    last_message: str | None = None
    compacting: bool = False
    """Between `willCompact` and its end: nothing is delivered."""

    def slot(self, speculative: bool) -> Slot:
        """The slot for a turn's recall or for a speculative one."""
        return self.speculative if speculative else self.turn

    def live(self) -> Iterator[Handle]:
        """Its live handles, at most two."""
        for slot in (self.turn, self.speculative):
            if slot.live is not None:
                yield slot.live

    def is_idle(self, now: float) -> bool:
        """Whether it may make room: never used for a recall, or not for a long time."""
        if self.name == MAIN_LANE or any(self.live()):
            return False
        fresh = not (len(self.turn.tombstones) or len(self.speculative.tombstones))
        return fresh or now - self.used >= IDLE_LANE_S


class Lanes:
    """The lanes of a session, at most `MAX_LANES`."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        # The main line has its place from the start: 32 subagents must not leave it without one.
        self._lanes: dict[str, Lane] = {MAIN_LANE: Lane(MAIN_LANE)}

    def get(self, name: str) -> Lane | None:
        """The lane, if there is one."""
        return self._lanes.get(name)

    def of(self, handle: Handle) -> Lane:
        """The lane of a live handle: while it lives its lane makes no room."""
        return self._lanes[handle.lane]

    def open(self, name: str, now: float) -> Lane:
        """The lane, made where needed. LimitExceeded where there is no room."""
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= MAX_LANES and not self._make_room(now):
                raise LimitExceeded(
                    f"a session has at most {MAX_LANES} lanes and {name[:64]!r} would be one more; "
                    "reuse a lane whose subagent has finished, or close the session",
                    limit="lanes",
                    value=MAX_LANES,
                    sent=len(self._lanes) + 1,
                )
            lane = self._lanes[name] = Lane(name)
        lane.used = now
        return lane

    def note(self, name: str, message_id: str) -> None:
        """Remember the last message of a lane; a lane too many is not worth an error here."""
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= MAX_LANES:
                return
            lane = self._lanes[name] = Lane(name)
        lane.last_message = message_id

    def _make_room(self, now: float) -> bool:
        idle = [lane for lane in self._lanes.values() if lane.is_idle(now)]
        if not idle:
            return False
        del self._lanes[min(idle, key=lambda lane: lane.used).name]
        return True

    def find(self, recall_id: str) -> Handle | Tombstone | None:
        """The recall with this id, live or ended, in any lane."""
        for lane in self._lanes.values():
            for slot in (lane.turn, lane.speculative):
                if slot.live is not None and slot.live.recall_id == recall_id:
                    return slot.live
                tombstone = slot.tombstones.get(recall_id)
                if tombstone is not None:
                    return tombstone
        return None

    def live(self) -> Iterator[Handle]:
        """Every live handle, at most two a lane."""
        for lane in self._lanes.values():
            yield from lane.live()

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def __len__(self) -> int:
        return len(self._lanes)
