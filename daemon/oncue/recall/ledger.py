"""The ledger: who owns a recall, and when its result may be taken (pure; recall.md §2-§4).

Rules; every transition stands in the one table of `transitions.py`:

* One live recall a slot; a lane has a slot for its turn and one for speculative recalls (R2).
* Taking the refined result, closing the handle and marking its documents as surfaced are one
  step (R9). With acknowledgements this step is the client's `accepted: true`.
* Exactly one `Ended` for each `Started` (R12).
* A result belongs to one turn of one lane and dies with it (R11).
* Whatever a client fills is bounded: lanes, tombstones, tokens, early cancels (D34).

Time is a parameter: monotonic seconds. Every method returns its answer and what to do and tell:
commands (`StartSearch`, `StopSearch`) and events, in order. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import evolve

from oncue.ports import Hit
from oncue.recall.answers import Answers
from oncue.recall.bounded import Newest
from oncue.recall.events import FastReady, Output, Pack, Settled, Started, StartSearch
from oncue.recall.gates import cut_query, query_has
from oncue.recall.lanes import Handle, Tombstone
from oncue.recall.moves import LedgerStatistics, Moves
from oncue.recall.transitions import TURN_ENDS
from oncue.settings import MAX_EARLY_CANCELS, RecallSettings
from oncue_protocol import (
    MAIN_LANE,
    LiveRecall,
    RecallCancelParams,
    RecallEndReason,
    RecallPollParams,
    RecallPollResult,
    RecallStartParams,
    RecallStartResult,
    SessionNotFound,
    Strategy,
    TurnEndReason,
)


class Ledger(Moves):
    """All recalls of one session."""

    def __init__(self, pack: Pack) -> None:
        super().__init__(pack)
        self._early_cancels: Newest[str, None] = Newest(MAX_EARLY_CANCELS)
        self._early_aborts: Newest[tuple[str, str], None] = Newest(MAX_EARLY_CANCELS)
        self._answers = Answers()
        self._closed = False

    # ---- what clients ask ------------------------------------------------------------------

    def start(
        self,
        params: RecallStartParams,
        *,
        new_id: str,
        settings: RecallSettings,
        now: float,
        acknowledged: bool = False,
    ) -> tuple[RecallStartResult, list[Output]]:
        """Make a handle; `new_id` names it where the client chose none. A start that is repeated,
        by its poll token or its recall id, starts nothing and gets the first one's answer.

        Raises LimitExceeded (lanes), SessionNotFound once closed."""
        if self._closed:
            raise SessionNotFound("this session is closed; open it again with session/open")
        lane_name = params.lane
        known = self._known_start(params)
        if known is not None:
            return known, []
        lane = self._lanes.open(lane_name, now)
        out: list[Output] = []
        slot = lane.slot(params.speculative)
        replaced = slot.live
        if replaced is not None:
            self._end(replaced, "replace", "newQuery", now, out)
        limit = settings.max_documents
        if params.limit is not None:
            limit = max(1, min(limit, params.limit))
        handle = slot.live = Handle(
            recall_id=params.recall_id or new_id,
            lane=lane_name,
            turn_id=params.turn_id,
            speculative=params.speculative,
            acknowledged=acknowledged,
            settings=settings,
            limit=limit,
            started=now,
            polled=now,
        )
        if not handle.speculative:
            lane.compacting = False  # the next turn has come
        self._started += 1
        replaced_id = replaced.recall_id if replaced else None
        out.append(
            Started(lane_name, handle.recall_id, handle.turn_id, handle.speculative, replaced_id)
        )
        early = self._early_end(handle)
        if early is not None:
            self._end(handle, "cancel", early, now, out)
        elif self._has_gate(handle, params.query):
            self.settled(handle.recall_id, (), "ranked", now, out)
        else:
            handle.ordered = True
            out.append(
                StartSearch(
                    recall_id=handle.recall_id,
                    lane=lane_name,
                    query=cut_query(params.query),
                    settings=settings,
                    limit=limit,
                    excluded_paths=frozenset(lane.surfaced) | frozenset(params.excluded_paths),
                    recent_tools=params.recent_tools,
                    speculative=handle.speculative,
                    started=now,
                )
            )
        answer = RecallStartResult(
            recall_id=handle.recall_id, state=handle.shown, replaced=replaced_id
        )
        self._answers.keep_start(params.poll_token, answer)
        return answer, out

    def poll(self, params: RecallPollParams, now: float) -> tuple[RecallPollResult, list[Output]]:
        """Take what is ready (recall.md §2, the table). The same poll token again gives the same
        answer object. Raises RecallNotFound for a `recall_id` never seen."""
        known = self._answers.poll(params.poll_token)
        if known is not None:
            return known, []
        out: list[Output] = []
        found = self._find(params.lane, params.recall_id, now, out)
        if isinstance(found, Handle):
            found.polled = now
            answer = self._take(found, params.point, now, out)
        else:
            answer = _none(found)
        self._answers.keep_poll(params.poll_token, answer)
        return answer, out

    def awaited(self, params: RecallPollParams, now: float) -> str | None:
        """The live recall that is worth waiting for; None: ask at once. At the prompt that is one
        whose fast stage has not spoken: what is left then is a model, which takes its time. Counts
        as asking (R13). Raises RecallNotFound."""
        if self._answers.poll(params.poll_token) is not None:
            return None
        found = self._find(params.lane, params.recall_id, now, None)
        if not isinstance(found, Handle) or now >= found.expires:
            return None
        found.polled = now
        if params.point == "userQuery" and found.fast_reported:
            return None
        return found.recall_id if self._ready(found) is None else None

    def peek(self, lane: str, now: float) -> RecallPollResult:
        """What a poll at `userQuery` would answer; changes nothing."""
        found = self._find(lane, None, now, None)
        if not isinstance(found, Handle) or now >= found.expires:
            return _none(found if isinstance(found, Tombstone) else None)
        ready = self._ready(found)
        delivery = None if ready is None else self._draft(found, ready, "userQuery")
        if ready == "refined" and delivery is None:
            return RecallPollResult(outcome="empty", recall_id=found.recall_id)
        if delivery is None:
            return RecallPollResult(outcome="pending", recall_id=found.recall_id)
        stage = "fast" if ready == "fast" else found.settled_stage
        return RecallPollResult(
            outcome="delivered", recall_id=found.recall_id, stage=stage, delivery=delivery
        )

    def cancel(self, params: RecallCancelParams, now: float) -> tuple[bool, list[Output]]:
        """End a recall on the client's word: the one named, in whatever lane; without a name the
        lane's turn recall, else its speculative one. A name not seen yet is remembered, and its
        start is born cancelled (R4); nothing was cancelled then. True: a live recall ended."""
        out: list[Output] = []
        handle: Handle | None
        if params.recall_id is not None:
            found = self._lanes.find(params.recall_id)
            if found is None:
                self._early_cancels.put(params.recall_id, None)
            handle = found if isinstance(found, Handle) else None
        else:
            lane = self._lanes.get(params.lane)
            handle = next(lane.live(), None) if lane else None
        if handle is None:
            return False, out
        return self._end(handle, "cancel", "client", now, out), out

    def acknowledge(
        self, delivery_id: str, accepted: bool, now: float
    ) -> tuple[bool, list[Output]]:
        """The model took an offered delivery, or did not. False: no such offer is open, and
        nothing changes (a late word for a recall that has ended)."""
        out: list[Output] = []
        handle = self._offers.pop(delivery_id, None)
        if handle is None or handle.offer is None:
            self._late += 1
            return False, out
        offer, handle.offer = handle.offer, None
        last = handle.state == "offered"
        if accepted:
            self._sent(handle, offer, now, out)
            if last:
                self._end(handle, "accept", "delivered", now, out)
            else:
                self._move(handle, "accept")
        else:
            self._move(handle, "refuse")
        return True, out

    # ---- what searches report --------------------------------------------------------------

    def fast_ready(
        self, recall_id: str, hits: tuple[Hit, ...], now: float, out: list[Output] | None = None
    ) -> list[Output]:
        """The fast stage has these hits, best first; none: it has nothing to say, and a look at
        the prompt need not wait for it any longer."""
        out = [] if out is None else out
        handle = self._reporting(recall_id)
        if handle is None or handle.fast_reported or handle.speculative:
            self._late += handle is not None
            return out
        hits = hits[: handle.settings.fast_documents]
        handle.fast_reported = handle.settings.fast_documents > 0
        if hits and self._move(handle, "reportFast"):
            handle.fast = hits
            age = handle.age_ms(now)
            out.append(FastReady(handle.lane, recall_id, len(hits), age))
        return out

    def settled(
        self,
        recall_id: str,
        hits: tuple[Hit, ...],
        strategy: Strategy,
        now: float,
        out: list[Output] | None = None,
    ) -> list[Output]:
        """The search's last word, best first. A late or second one is counted and dropped."""
        out = [] if out is None else out
        handle = self._reporting(recall_id)
        if handle is None:
            return out
        self._move(handle, "settle")
        limit = handle.settings.fast_documents if handle.speculative else handle.limit
        handle.refined = hits[:limit]
        handle.strategy = strategy
        out.append(
            Settled(
                lane=handle.lane,
                recall_id=recall_id,
                stage=handle.settled_stage,
                strategy=strategy,
                documents=len(handle.refined),
                latency_ms=handle.age_ms(now),
                speculative=handle.speculative,
            )
        )
        return out

    # ---- what the conversation does --------------------------------------------------------

    def turn_ended(
        self, lane: str, turn_id: str | None, reason: TurnEndReason, now: float
    ) -> list[Output]:
        """A turn is over (§4): its recall ends with it. A `turn_id` other than the live recall's
        leaves that alone; a recall started without one belongs to whatever turn ends. An abort of
        a turn that has had no recall yet is remembered for its start (R4)."""
        out: list[Output] = []
        found = self._lanes.get(lane)
        handle = found.turn.live if found else None
        if handle is not None and turn_id is not None and handle.turn_id not in (None, turn_id):
            handle = None
        if handle is not None:
            end = TURN_ENDS[reason]
            if reason == "completed" and handle.fast_sent and not self._remaining(handle):
                end = "alreadyDelivered"  # all that it had found is in front of the model
            self._end(handle, "cancel", end, now, out)
        elif reason == "aborted" and turn_id is not None:
            rows = found.turn.tombstones.values() if found else ()
            if all(tombstone.turn_id != turn_id for tombstone in rows):
                self._early_aborts.put((lane, turn_id), None)
        return out

    def message_seen(self, lane: str, message_id: str) -> None:
        """`message_id` is now the lane's last message: a delivery goes with it (R10)."""
        self._lanes.note(lane, message_id)

    def did_reset(self, now: float) -> list[Output]:
        """The chat was cleared or rewound: nothing of it lives on, answers to lost polls
        included."""
        out = self._end_all("reset", now)
        for lane in self._lanes:
            lane.surfaced.clear()
            lane.last_message = None
            lane.compacting = False
        self._answers.clear()
        self._early_aborts.clear()
        return out

    def will_compact(self) -> None:
        """No delivery until `did_compact`, `did_reset` or the lane's next turn (R10)."""
        for lane in self._lanes:
            lane.compacting = True

    def did_compact(self, is_kept: Callable[[str], bool]) -> None:
        """What went with messages that are gone may be recalled again, and deliveries flow
        again. A document that went with no known message counts as gone."""
        for lane in self._lanes:
            lane.compacting = False
            lane.surfaced = {
                path: message
                for path, message in lane.surfaced.items()
                if message is not None and is_kept(message)
            }
            for handle in lane.live():
                offer = handle.offer
                if offer is not None:
                    kept = offer.message_id is not None and is_kept(offer.message_id)
                    offer.compacted = offer.compacted or not kept

    def close(self, reason: Literal["sessionClosed", "shutdown"], now: float) -> list[Output]:
        """The session or the daemon ends; no recall starts any more."""
        self._closed = True
        return self._end_all(reason, now)

    def reopen(self) -> None:
        """A closed session is opened again: recalls start, and what is in front of the model is
        still known."""
        self._closed = False

    def expire(self, now: float) -> list[Output]:
        """Forget every recall that nobody asked for within its lifetime (R13)."""
        out: list[Output] = []
        for handle in tuple(self._lanes.live()):
            if now >= handle.expires:
                self._end(handle, "expire", "lifetime", now, out)
        return out

    def next_expiry(self) -> float | None:
        """When `expire` has something to do unless somebody asks; None: nothing is live."""
        return min((handle.expires for handle in self._lanes.live()), default=None)

    # ---- looks -----------------------------------------------------------------------------

    def live(self, lane: str, now: float) -> LiveRecall | None:
        """The live recall of the lane's turn."""
        found = self._lanes.get(lane)
        handle = found.turn.live if found else None
        if handle is None or now >= handle.expires:
            return None
        return LiveRecall(
            recall_id=handle.recall_id,
            state=handle.shown,
            fast_ready=bool(handle.fast),
            age_ms=handle.age_ms(now),
        )

    def is_searching(self, recall_id: str) -> bool:
        """Whether a recall of this id still awaits its search's last word."""
        found = self._lanes.find(recall_id)
        return isinstance(found, Handle) and found.searching

    def surfaced(self, lane: str = MAIN_LANE) -> frozenset[str]:
        """Paths in front of the lane's model."""
        found = self._lanes.get(lane)
        return frozenset(found.surfaced) if found else frozenset()

    def statistics(self) -> LedgerStatistics:
        """A snapshot."""
        return LedgerStatistics(
            lanes=len(self._lanes),
            live=sum(1 for _ in self._lanes.live()),
            started=self._started,
            ended=self._ended,
            delivered=self._delivered,
            late=self._late,
            illegal=self._illegal,
            delivered_bytes=self._bytes,
        )

    def complete_start(
        self, token: str | None, answer: RecallStartResult, first: RecallPollResult
    ) -> RecallStartResult:
        """The answer of a start that waited for its first poll. Whoever repeats the start with
        its token gets this very answer, also where both waited side by side."""
        known = self._answers.start(token)
        if known is not None and known.poll is not None:
            return known
        found = self._lanes.find(answer.recall_id)
        state = answer.state
        if found is not None:
            state = found.shown if isinstance(found, Handle) else found.ended.state
        whole = evolve(answer, state=state, poll=first)
        self._answers.keep_start(token, whole)
        return whole

    def _known_start(self, params: RecallStartParams) -> RecallStartResult | None:
        known = self._answers.start(params.poll_token)
        if known is not None or params.recall_id is None:
            return known
        found = self._lanes.find(params.recall_id)
        if found is None:
            return None
        state = found.shown if isinstance(found, Handle) else found.ended.state
        return RecallStartResult(recall_id=params.recall_id, state=state)

    def _early_end(self, handle: Handle) -> RecallEndReason | None:
        """Why this recall is cancelled from the beginning, if it is (R4)."""
        if handle.recall_id in self._early_cancels:
            self._early_cancels.pop(handle.recall_id)
            return "client"
        if handle.turn_id is not None and not handle.speculative:
            key = (handle.lane, handle.turn_id)
            if key in self._early_aborts:
                self._early_aborts.pop(key)
                return "abort"
        return None

    def _has_gate(self, handle: Handle, query: str) -> bool:
        """Whether settings let this recall find nothing, without a search (R14)."""
        settings = handle.settings
        budget = settings.session_byte_budget
        return (
            not settings.enabled
            or (handle.speculative and settings.fast_documents == 0)
            or bool(budget and self._bytes >= budget)
            or not query_has(query, settings.minimum_query_characters)
        )


def _none(found: Tombstone | None) -> RecallPollResult:
    if found is None:
        return RecallPollResult(outcome="none")
    return RecallPollResult(outcome="none", recall_id=found.ended.recall_id, ended=found.ended)
