"""Plays a recording through a daemon, as the editor would have spoken.

At each prompt: `transcript/didAppend`, `recall/start`, and a look at the point `userQuery` before
the request would go to the model. After each round of tool results: a look at `toolResult`. At
the end of the turn: `turn/didEnd`. Nothing of this waits for a search; what it does wait is
measured and reported, round trip by round trip, on a real clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import trio
from attrs import Factory, define, field

from oncue.replay.extractions import Extractions
from oncue.replay.history import History, Request
from oncue.replay.lender import Lender
from oncue.replay.pace import Clock, Pace
from oncue.replay.recording import kind_of, with_next
from oncue.replay.report import Decision, Extraction, Handed, Totals, Turn
from oncue.transcript.events import (
    Appended,
    Compacted,
    Event,
    Note,
    Prompt,
    Reset,
    Steering,
    TurnEnded,
    WillCompact,
)
from oncue_client import Client
from oncue_protocol import (
    DeliveryPoint,
    EndedRecall,
    Message,
    RecallEndedParams,
    RecallPollResult,
    RecallSettledParams,
    TranscriptResyncRequiredParams,
)

PROMPT_WAIT_MS = 30
"""What an editor grants the fast stage at the prompt (R16); 0 is the strict form."""
FRAME_S = 0.08
"""So often the screen is refreshed, and only in pauses: drawing must not disturb what is
measured."""


class Observer(Protocol):
    """Whoever shows what happens. Methods are called in order and must be quick."""

    def turn_started(self, turn: Turn) -> None: ...

    def stage_ready(self, turn: Turn, stage: str) -> None: ...

    def handed(self, turn: Turn, handed: Handed) -> None: ...

    def turn_ended(self, turn: Turn) -> None: ...

    def noted(self, what: str, turn: int) -> None:
        """`compacted`, `reset`, `steering`."""

    def extraction(self, run: Extraction) -> None:
        """A run that worked on the notes has ended; told between turns."""

    def decided(self, decision: Decision) -> None:
        """A decision about notes that began no run of its own."""

    def tick(self, turn: Turn | None, now_s: float) -> None:
        """Time passes; `turn` is the live one."""


@define
class Player:
    """Plays one session over one connection."""

    client: Client
    session_id: str
    observer: Observer
    pace: Pace = Factory(Pace)
    lender: Lender | None = None
    extractions: Extractions | None = None
    """Follows the runs that write notes; None: nobody wants to know."""
    prompt_wait_ms: int = PROMPT_WAIT_MS
    on_request: Callable[[Request], None] | None = None
    """Gets the messages of every request that would go to the model (R15); without it no
    history is kept, and memory stays bounded however long the session is."""
    now: Callable[[], float] = time.perf_counter
    totals: Totals = field(factory=Totals)
    _clock: Clock = field(factory=Clock)
    _history: History = field(factory=History)
    _turn: Turn | None = None
    _last_id: str | None = None
    _has_answered: bool = False
    """Whether the model has said anything in this turn."""
    _results_open: bool = False
    """Whether results have been appended that no request has taken yet."""

    async def play(self, events: Iterator[Event]) -> Totals:
        """Every event in order; what happened is in `totals`."""
        off = (
            self.client.on("recall/settled", self._settled),
            self.client.on("recall/ended", self._ended),
            self.client.on("transcript/resyncRequired", self._resync),
        )
        began = self.now()
        try:
            for event, following in with_next(events):
                await self._play(event, following)
            await self._end("completed")
        finally:
            for end in off:
                end()
        self.totals.played_s = self.now() - began
        return self.totals

    async def _play(self, event: Event, following: Event | None) -> None:
        match event:
            case Prompt():
                await self._pause(event)
                if self.extractions is not None and self._turn is None:
                    await self.extractions.look()
                await self._prompt(event)
            case Steering() | Appended():
                await self._pause(event)
                await self._append(event.message)
                if isinstance(event, Steering):
                    self.observer.noted("steering", self.totals.turns + 1)
                elif event.message.role == "assistant":
                    self._has_answered = True
                elif event.message.role == "tool":
                    self._results_open = True
                if self._results_open and _goes_to_model(following):
                    await self._tool_round()
            case TurnEnded(reason, turn_id):
                if self._is_superseded(reason, following):
                    return
                await self.client.turn_did_end(
                    session_id=self.session_id, turn_id=turn_id, reason=reason
                )
                await self._end(reason)
            case WillCompact():
                await self.client.transcript_will_compact(session_id=self.session_id)
            case Compacted(tokens, kept):
                await self.client.transcript_did_compact(
                    session_id=self.session_id, kept_from_message_id=kept, context_tokens=tokens
                )
                self._history.keep_from(kept)
                self.totals.compactions += 1
                self.observer.noted("compacted", self.totals.turns)
            case Reset(reason):
                await self.client.transcript_did_reset(session_id=self.session_id, reason=reason)
                self._history.clear()
                self._last_id = None
                self.totals.resets += 1
                self.observer.noted("reset", self.totals.turns)
            case Note(skipped, _):
                self.totals.skipped = sum(skipped.values())
            case _:
                pass

    def _is_superseded(self, reason: str, following: Event | None) -> bool:
        """Whether the user typed again before the model had said anything. No editor knows then
        that the turn is over: it starts the next recall, which replaces the live one (R2)."""
        turn = self._turn
        return (
            turn is not None
            and reason == "completed"
            and not self._has_answered
            and isinstance(following, Prompt)
        )

    # A turn

    async def _prompt(self, event: Prompt) -> None:
        if self._turn is not None:
            self._turn.way = "replaced"
        before = self._turn
        await self._append(event.message)
        self._has_answered = self._results_open = False
        turn = Turn(
            number=self.totals.turns + (1 if before is None else 2),
            turn_id=event.turn_id,
            query=event.query,
            started_s=self.now(),
        )
        if event.query.strip():
            turn.recall_id = f"replay-{turn.number}"
        if self.lender is not None:
            self.lender.begin(turn)
        if self.extractions is not None:
            self.extractions.begin(turn.turn_id, turn.number)
        if before is not None and turn.recall_id is None:
            await self.client.turn_did_end(
                session_id=self.session_id, turn_id=before.turn_id, reason="completed"
            )
        self._turn = turn
        if turn.recall_id is not None:
            turn.started_s = self.now()
            started = await self.client.recall_start(
                session_id=self.session_id,
                query=event.query,
                turn_id=event.turn_id,
                recall_id=turn.recall_id,
            )
            turn.start_ms = turn.waited_ms = (self.now() - turn.started_s) * 1000
            self.totals.starts.add(turn.start_ms)
            if before is not None and started.replaced is not None:
                before.state, before.reason = "replaced", "newQuery"
        if before is not None:
            self._close(before, turn.started_s)
        self.observer.turn_started(turn)
        await self._look("userQuery")
        self._request()

    async def _tool_round(self) -> None:
        self._results_open = False
        turn = self._turn
        if turn is None:
            return
        turn.rounds += 1
        await self._look("toolResult")
        self._request()

    async def _look(self, point: DeliveryPoint) -> None:
        """One poll; what it delivers becomes part of the history."""
        turn = self._turn
        if turn is None or turn.recall_id is None or turn.state is not None:
            return
        at = self.now()
        answer = await self.client.recall_poll(
            session_id=self.session_id,
            point=point,
            wait_ms=self.prompt_wait_ms if point == "userQuery" else 0,
        )
        after = self.now()
        took = (after - at) * 1000
        turn.waited_ms += took
        (self.totals.first_polls if point == "userQuery" else self.totals.polls).add(took)
        if answer.delivery is not None:
            self._deliver(turn, point, answer, (after - turn.started_s) * 1000)
        if answer.ended is not None:
            self._note_end(turn, answer.ended)

    def _deliver(
        self, turn: Turn, point: DeliveryPoint, answer: RecallPollResult, late_ms: float
    ) -> None:
        delivery = answer.delivery
        if delivery is None:
            return
        if self.on_request is not None:
            self._history.attach(delivery)
        stage = answer.stage or "refined"
        handed = Handed(
            point=point,
            round=turn.rounds,
            late_ms=late_ms,
            stage=stage,
            strategy=delivery.strategy,
            titles=tuple(document.title for document in delivery.documents),
            paths=tuple(document.path for document in delivery.documents),
            tokens=delivery.text_tokens,
        )
        turn.handed.append(handed)
        # The notification may be a moment behind the answer.
        if stage == "fast" and turn.fast_ms is None:
            turn.fast_ms = late_ms
        if stage == "refined" and turn.settled_ms is None:
            turn.settled_ms = late_ms
        self.observer.handed(turn, handed)

    async def _end(self, reason: str) -> None:
        """The live turn is over, and the daemon has been told."""
        turn = self._turn
        if turn is None:
            return
        turn.way = reason if reason in ("completed", "aborted") else "other"  # type: ignore[assignment]
        if turn.recall_id is not None and turn.state is None:
            # Requests are answered in order: after this one every notification has arrived.
            answer = await self.client.recall_peek(session_id=self.session_id)
            if answer.ended is not None:
                self._note_end(turn, answer.ended)
        self._close(turn, self.now())
        self._turn = None

    def _close(self, turn: Turn, now_s: float) -> None:
        turn.ended_ms = (now_s - turn.started_s) * 1000
        self.totals.add(turn)
        self.observer.turn_ended(turn)

    # The conversation

    async def _append(self, message: Message) -> None:
        self.totals.messages += 1
        await self.client.transcript_did_append(
            session_id=self.session_id, after_message_id=self._last_id, messages=(message,)
        )
        self._last_id = message.id
        if self.on_request is not None:
            self._history.append(message)

    def _request(self) -> None:
        """Here an editor would ask its model."""
        if self.on_request is not None and self._turn is not None:
            self.on_request(self._history.request(self._turn.number))

    # What the daemon tells

    def _settled(self, told: RecallSettledParams) -> None:
        turn = self._turn
        if turn is None or told.recall_id != turn.recall_id:
            return
        since_ms = (self.now() - turn.started_s) * 1000
        if told.stage == "fast":
            turn.fast_ms = since_ms if turn.fast_ms is None else min(turn.fast_ms, since_ms)
        elif turn.settled_ms is None:
            turn.settled_ms = since_ms
        self.observer.stage_ready(turn, told.stage)

    def _ended(self, told: RecallEndedParams) -> None:
        if self._turn is not None and told.recall_id == self._turn.recall_id:
            self._turn.state, self._turn.reason = told.state, told.reason

    @staticmethod
    def _note_end(turn: Turn, ended: EndedRecall) -> None:
        if ended.recall_id == turn.recall_id:
            turn.state, turn.reason = ended.state, ended.reason

    def _resync(self, told: TranscriptResyncRequiredParams) -> None:
        self.totals.resyncs += 1
        self._last_id = told.last_message_id

    # Time

    async def _pause(self, event: Prompt | Steering | Appended) -> None:
        """As long as the recording paused, at the player's pace; the screen is drawn meanwhile."""
        recorded_s = self._clock.advance(event.message.time)
        self.totals.recorded_s += recorded_s
        until = trio.current_time() + self.pace.pause(recorded_s, kind_of(event))
        while True:
            self.observer.tick(self._turn, self.now())
            rest_s = until - trio.current_time()
            if rest_s <= 0:
                return
            await trio.sleep(min(rest_s, FRAME_S))


def _goes_to_model(following: Event | None) -> bool:
    """Whether the results that are in go to the model now: not while more of them come, nor where
    the turn ends, is compacted or rewound first."""
    match following:
        case Appended(message):
            return message.role != "tool"
        case Steering():
            return True
        case _:
            return False
