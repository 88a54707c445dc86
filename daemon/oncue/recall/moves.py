"""How a handle moves, what a poll takes, and the one way in which a recall ends (pure).

Under the ledger: it decides which handle is meant, this file what then happens to it.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from oncue.ports import Hit
from oncue.recall.events import Delivered, Draft, Ended, Output, Pack, StopSearch
from oncue.recall.lanes import Handle, Lanes, Offer, Tombstone
from oncue.recall.transitions import PLACEMENTS, TRANSITIONS, Move
from oncue_protocol import (
    Delivery,
    DeliveryPoint,
    EndedRecall,
    RecallEndReason,
    RecallNotFound,
    RecallPollResult,
)


@frozen
class LedgerStatistics:
    """Counters since the session began, and what is live now."""

    lanes: int
    live: int
    started: int
    ended: int
    delivered: int
    """Deliveries that reached the model."""
    late: int
    """Reports and acknowledgements that came after their end, dropped."""
    illegal: int
    """Moves that the table does not have, refused."""
    delivered_bytes: int


class Moves:
    """The handles of a session and the moves that they make."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._lanes = Lanes()
        self._offers: dict[str, Handle] = {}
        self._started = self._ended = self._delivered = self._late = self._illegal = 0
        self._bytes = 0

    # ---- moves -----------------------------------------------------------------------------

    def _move(self, handle: Handle, move: Move) -> bool:
        target = TRANSITIONS[handle.state].get(move)
        if target is None:
            self._illegal += 1
            return False
        handle.state = target
        return True

    def _end(
        self, handle: Handle, move: Move, reason: RecallEndReason, now: float, out: list[Output]
    ) -> bool:
        """The terminal move: the slot is free, the row has a tombstone, one event is said."""
        stop = handle.ordered and handle.searching
        if not self._move(handle, move):
            return False
        if handle.offer is not None:
            self._offers.pop(handle.offer.delivery.delivery_id, None)
            handle.offer = None
        slot = self._lanes.of(handle).slot(handle.speculative)
        slot.live = None
        ended = EndedRecall(recall_id=handle.recall_id, state=handle.shown, reason=reason)
        slot.tombstones.put(handle.recall_id, Tombstone(ended, handle.lane, handle.turn_id))
        self._ended += 1
        if stop:
            out.append(StopSearch(handle.recall_id))
        out.append(
            Ended(
                lane=handle.lane,
                recall_id=handle.recall_id,
                state=handle.shown,
                reason=reason,
                stage=handle.sent_stage,
                point=handle.sent_point,
                strategy=handle.sent_strategy,
                documents=handle.documents,
                latency_ms=handle.age_ms(now),
                speculative=handle.speculative,
            )
        )
        return True

    def _end_all(self, reason: RecallEndReason, now: float) -> list[Output]:
        out: list[Output] = []
        for handle in tuple(self._lanes.live()):
            self._end(handle, "cancel", reason, now, out)
        return out

    def _ready(self, handle: Handle) -> Literal["fast", "refined"] | None:
        """What a poll could take just now (the truth table of §2, both points alike)."""
        if self._lanes.of(handle).compacting:
            return None
        if handle.state == "settled":
            return "refined"
        if handle.state == "pending" and handle.fast:
            return "fast"
        return None

    def _take(
        self, handle: Handle, point: DeliveryPoint, now: float, out: list[Output]
    ) -> RecallPollResult:
        ready = self._ready(handle)
        recall_id = handle.recall_id
        if ready is None:
            return RecallPollResult(outcome="pending", recall_id=recall_id)
        delivery = self._draft(handle, ready, point)
        if delivery is None:
            if ready == "fast":  # nothing of it fits: there is no fast stage
                handle.fast = ()
                return RecallPollResult(outcome="pending", recall_id=recall_id)
            had = bool(handle.refined) or handle.fast_sent
            reason: RecallEndReason = (
                "alreadyDelivered" if had and not self._remaining(handle) else "nothingFound"
            )
            if handle.sent_stage is None:
                handle.sent_stage = handle.settled_stage
                handle.sent_point, handle.sent_strategy = point, handle.strategy
            self._end(handle, "consume", reason, now, out)
            ended = EndedRecall(recall_id=recall_id, state="consumed", reason=reason)
            return RecallPollResult(outcome="empty", recall_id=recall_id, ended=ended)
        stage = "fast" if ready == "fast" else handle.settled_stage
        offer = Offer(delivery, stage, point, self._lanes.of(handle).last_message)
        if handle.acknowledged:
            self._move(handle, "offerFast" if ready == "fast" else "offer")
            handle.offer = offer
            self._offers[delivery.delivery_id] = handle
        else:
            self._sent(handle, offer, now, out)
            if ready == "fast":
                self._move(handle, "sendFast")
            else:
                self._end(handle, "consume", "delivered", now, out)
        return RecallPollResult(
            outcome="delivered", recall_id=recall_id, stage=stage, delivery=delivery
        )

    def _sent(self, handle: Handle, offer: Offer, now: float, out: list[Output]) -> None:
        """A delivery is in front of the model: its documents are surfaced (R9)."""
        delivery = offer.delivery
        if handle.searching or handle.state == "fastOfferedSettled":
            handle.fast = ()
            handle.fast_sent = True
        if not (handle.speculative or offer.compacted):
            surfaced = self._lanes.of(handle).surfaced
            surfaced.update((item.path, offer.message_id) for item in delivery.documents)
        handle.sent_stage, handle.sent_point = offer.stage, offer.point
        handle.sent_strategy = delivery.strategy
        handle.documents += len(delivery.documents)
        self._delivered += 1
        self._bytes += len(delivery.text.encode("utf-8", "replace"))
        out.append(
            Delivered(
                lane=handle.lane,
                recall_id=handle.recall_id,
                stage=offer.stage,
                point=offer.point,
                delivery=delivery,
                latency_ms=handle.age_ms(now),
                speculative=handle.speculative,
            )
        )

    def _remaining(self, handle: Handle) -> tuple[Hit, ...]:
        """The refined hits that are not in front of the model: minus what the fast stage
        delivered. Compaction clears both sets at once, so one of them is enough."""
        surfaced = self._lanes.of(handle).surfaced
        return tuple(hit for hit in handle.refined if hit.document.path not in surfaced)

    def _draft(
        self, handle: Handle, ready: Literal["fast", "refined"], point: DeliveryPoint
    ) -> Delivery | None:
        fast = ready == "fast"
        surfaced = self._lanes.of(handle).surfaced
        hits = (
            tuple(hit for hit in handle.fast if hit.document.path not in surfaced)
            if fast
            else self._remaining(handle)
        )
        if not hits:
            return None
        budget = handle.settings.session_byte_budget
        return self._pack(
            Draft(
                recall_id=handle.recall_id,
                stage="fast" if fast else handle.settled_stage,
                placement=PLACEMENTS[point],
                strategy="fast" if fast else (handle.strategy or "ranked"),
                hits=hits,
                settings=handle.settings,
                max_bytes=max(0, budget - self._bytes) if budget else None,
            )
        )

    # ---- look-ups --------------------------------------------------------------------------

    def _find(
        self, lane_name: str, recall_id: str | None, now: float, out: list[Output] | None
    ) -> Handle | Tombstone | None:
        """The recall that is meant. With `out`, one whose lifetime is over ends here."""
        lane = self._lanes.get(lane_name)
        if recall_id is None:
            if lane is None:
                return None
            found: Handle | Tombstone | None = lane.turn.live or lane.turn.tombstones.newest()
        else:
            found = self._lanes.find(recall_id)
            if found is None:
                raise RecallNotFound(
                    f"no recall {recall_id[:64]!r} was ever started in this session, or it ended "
                    "long ago; poll without recallId for the lane's live recall"
                )
            if found.lane != lane_name:
                raise RecallNotFound(
                    f"recall {recall_id[:64]!r} belongs to lane {found.lane[:64]!r}, not to "
                    f"{lane_name[:64]!r}; poll it in its own lane"
                )
        if out is not None and lane is not None:
            lane.used = now
        if out is not None and isinstance(found, Handle) and now >= found.expires:
            self._end(found, "expire", "lifetime", now, out)
            return self._lanes.find(found.recall_id)
        return found

    def _reporting(self, recall_id: str) -> Handle | None:
        found = self._lanes.find(recall_id)
        if isinstance(found, Handle) and found.searching:
            return found
        self._late += 1
        return None
