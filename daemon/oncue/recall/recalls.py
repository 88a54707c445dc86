"""The recalls of one session: the ledger decides, this obeys (trio).

No await lies between a request and its answer but in the `…_and_wait` methods, and what those
wait for is an event of the ledger, never the search itself: nothing here depends on how long a
finder or a model takes (R1, I9). Each search is one task under the cancel scope of its handle and
reports to the ledger, to nobody else (R3). One timer task at most serves every lifetime of the
session: a ticker a handle would cost 25 µs each.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Literal

import structlog
import trio
from attrs import evolve, frozen

from oncue.ports import Finder, Generator, Hit, Wall
from oncue.recall.events import (
    Draft,
    Ended,
    Output,
    RecallEvent,
    Started,
    StartSearch,
    StopSearch,
)
from oncue.recall.ledger import Ledger
from oncue.recall.moves import LedgerStatistics
from oncue.recall.prefetch import Prefetch
from oncue.recall.render import Prepared, deliver, prepare
from oncue.settings import RecallSettings
from oncue_protocol import (
    MAIN_LANE,
    MAX_RECALL_WAIT_MS,
    Delivery,
    LiveRecall,
    RecallCancelParams,
    RecallNotFound,
    RecallPeekParams,
    RecallPollParams,
    RecallPollResult,
    RecallStartParams,
    RecallStartResult,
    Strategy,
    TurnEndReason,
)

log = structlog.get_logger(__name__)


def random_hex() -> str:
    """64 random bits as 16 hex digits: ids, and nonces that stored text cannot guess (T2)."""
    return secrets.token_hex(8)


@frozen
class RecallStatistics:
    """A snapshot for `daemon/status` and for tests."""

    ledger: LedgerStatistics
    searching: int
    """Searches that run."""
    waiting: int
    """Polls that wait."""


class Recalls:
    """Facade over ledger, prefetch and render; one a session.

    `nursery` lives as long as the daemon: a search outlives the request that began it. `limits`
    is asked at each start. `on_event` is called at once, in order, on the trio thread, and must
    not wait. `new_id` draws ids and nonces, 16 hex digits each; tests pass a counter."""

    def __init__(
        self,
        *,
        session_id: str,
        nursery: trio.Nursery,
        finder: Finder,
        generator: Callable[[], Generator | None],
        limits: Callable[[], RecallSettings],
        wall: Wall,
        on_event: Callable[[RecallEvent], None],
        new_id: Callable[[], str] = random_hex,
    ) -> None:
        self._nursery = nursery
        self._limits = limits
        self._wall = wall
        self._on_event = on_event
        self._new_id = new_id
        self._ledger = Ledger(self._pack)
        self._prefetch = Prefetch(
            session_id=session_id,
            finder=finder,
            generator=generator,
            prepare=self._prepare,
            fast_ready=self._fast_ready,
            settled=self._settled,
        )
        self._searches: dict[str, trio.CancelScope] = {}
        self._prepared: dict[str, dict[str, Prepared]] = {}
        self._waiters: dict[str, set[trio.Event]] = {}
        self._timer: trio.CancelScope | None = None

    # ---- the methods of the protocol -------------------------------------------------------

    def start(self, params: RecallStartParams, *, acknowledged: bool = False) -> RecallStartResult:
        """Start a recall and answer at once; `waitMs` is not looked at. `acknowledged`: this
        connection acknowledges deliveries. Raises LimitExceeded, SessionNotFound."""
        answer, outputs = self._ledger.start(
            params,
            new_id=f"r-{self._new_id()}",
            settings=self._limits(),
            now=trio.current_time(),
            acknowledged=acknowledged,
        )
        self._obey(outputs)
        return answer

    def start_and_wait(
        self, params: RecallStartParams, *, acknowledged: bool = False
    ) -> Awaitable[RecallStartResult]:
        """Start now, so that what arrives behind it (a cancel, another start) finds the recall;
        what is returned awaits the first poll at `userQuery` (R16). Cancelling that ends the wait
        only: the recall belongs to its handle, and the next poll finds it (R3)."""
        return self._first_poll(params, self.start(params, acknowledged=acknowledged))

    async def _first_poll(
        self, params: RecallStartParams, answer: RecallStartResult
    ) -> RecallStartResult:
        if params.wait_ms <= 0 or answer.poll is not None:
            return answer
        try:
            first = await self.poll_and_wait(
                RecallPollParams(
                    session_id=params.session_id,
                    lane=params.lane,
                    point="userQuery",
                    recall_id=answer.recall_id,
                    wait_ms=params.wait_ms,
                    poll_token=params.poll_token,
                )
            )
        except RecallNotFound:  # replaced so often meanwhile that even its tombstone is gone
            first = RecallPollResult(outcome="none", recall_id=answer.recall_id)
        return self._ledger.complete_start(params.poll_token, answer, first)

    def poll(self, params: RecallPollParams) -> RecallPollResult:
        """Take what is ready (R7-R9); `waitMs` is not looked at. Raises RecallNotFound."""
        answer, outputs = self._ledger.poll(params, trio.current_time())
        self._obey(outputs)
        return answer

    async def poll_and_wait(self, params: RecallPollParams) -> RecallPollResult:
        """As `poll`, but first wait, `waitMs` and 2 s at most, for whatever comes first: a stage
        that is ready, or the end. It waits for the recall that was live when it came; what
        replaces that is not taken. Cancelling it takes nothing."""
        now = trio.current_time()
        deadline = now + min(params.wait_ms, MAX_RECALL_WAIT_MS) / 1000
        while now < deadline:
            awaited = self._ledger.awaited(params, now)
            if awaited is None:
                break
            params = evolve(params, recall_id=awaited)
            await self._woken(awaited, deadline)
            now = trio.current_time()
        return self.poll(params)

    def peek(self, params: RecallPeekParams) -> RecallPollResult:
        """What a poll would answer, taking nothing."""
        return self._ledger.peek(params.lane, trio.current_time())

    def cancel(self, params: RecallCancelParams) -> bool:
        """End a recall; one not yet started is born cancelled. True: a live one ended."""
        cancelled, outputs = self._ledger.cancel(params, trio.current_time())
        self._obey(outputs)
        return cancelled

    def acknowledge(self, delivery_id: str, accepted: bool) -> bool:
        """The model took a delivery, or did not. False: it is not one of ours that is open."""
        known, outputs = self._ledger.acknowledge(delivery_id, accepted, trio.current_time())
        self._obey(outputs)
        if known:
            self._wake_all()
        return known

    # ---- what the conversation does --------------------------------------------------------

    def turn_ended(self, lane: str, turn_id: str | None, reason: TurnEndReason) -> None:
        """A turn is over, and its recall with it (R11)."""
        self._obey(self._ledger.turn_ended(lane, turn_id, reason, trio.current_time()))

    def message_seen(self, lane: str, message_id: str) -> None:
        """The lane's last message is now this one: "the message it went with" (R10)."""
        self._ledger.message_seen(lane, message_id)

    def did_reset(self) -> None:
        """The chat was cleared or rewound."""
        self._obey(self._ledger.did_reset(trio.current_time()))

    def will_compact(self) -> None:
        """No delivery until it is done, the chat is reset, or the next turn comes."""
        self._ledger.will_compact()

    def did_compact(self, is_kept: Callable[[str], bool]) -> None:
        """Documents that went with messages that are not kept may be recalled again."""
        self._ledger.did_compact(is_kept)
        self._wake_all()

    def close(self, reason: Literal["sessionClosed", "shutdown"]) -> None:
        """Every recall ends, every search stops; starting raises SessionNotFound from now on."""
        self._obey(self._ledger.close(reason, trio.current_time()))

    def reopen(self) -> None:
        """Serve again after `close`; documents in front of the model stay known (R10)."""
        self._ledger.reopen()

    # ---- looks -----------------------------------------------------------------------------

    def live(self, lane: str = MAIN_LANE) -> LiveRecall | None:
        """The live recall of the lane's turn."""
        return self._ledger.live(lane, trio.current_time())

    def statistics(self) -> RecallStatistics:
        """A snapshot."""
        return RecallStatistics(
            ledger=self._ledger.statistics(),
            searching=len(self._searches),
            waiting=sum(map(len, self._waiters.values())),
        )

    # ---- obeying the ledger ----------------------------------------------------------------

    def _pack(self, draft: Draft) -> Delivery | None:
        return deliver(
            draft,
            delivery_id=f"d-{self._new_id()}",
            nonce=self._new_id(),
            now=self._wall(),
            prepared=self._prepared.get(draft.recall_id),
        )

    def _prepare(self, order: StartSearch, hit: Hit) -> None:
        """Never for a recall that has ended: its search is cancelled, and prefetch looks first."""
        ready = self._prepared.setdefault(order.recall_id, {})
        path = hit.document.path
        if path not in ready:
            ready[path] = prepare(hit, order.settings.max_document_chars)

    def _obey(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, StartSearch):
                scope = self._searches[output.recall_id] = trio.CancelScope()
                self._nursery.start_soon(self._search, output, scope, name="recall")
            elif isinstance(output, StopSearch):
                running = self._searches.pop(output.recall_id, None)
                if running is not None:
                    running.cancel()
            else:
                if isinstance(output, Ended):
                    self._prepared.pop(output.recall_id, None)
                self._on_event(output)
                if not isinstance(output, Started):
                    self._wake(output.recall_id)
        if outputs:
            self._set_timer()

    async def _search(self, order: StartSearch, scope: trio.CancelScope) -> None:
        if scope.cancel_called:  # ended before it ran: a key was pressed
            return
        try:
            with scope:
                await self._prefetch.search(order)
        except Exception as error:
            # A mistake of ours; it must neither reach the turn nor take down the nursery (R6).
            log.warning(
                "recall.search_broke", recall_id=order.recall_id, error=type(error).__name__
            )
        finally:
            if self._searches.get(order.recall_id) is scope:
                del self._searches[order.recall_id]
        if self._ledger.is_searching(order.recall_id) and not scope.cancel_called:
            self._settled(order.recall_id, (), "ranked")

    def _fast_ready(self, recall_id: str, hits: tuple[Hit, ...]) -> None:
        self._obey(self._ledger.fast_ready(recall_id, hits, trio.current_time()))
        self._wake(recall_id)  # also where it has nothing: then a look at the prompt is over

    def _settled(self, recall_id: str, hits: tuple[Hit, ...], strategy: Strategy) -> None:
        self._obey(self._ledger.settled(recall_id, hits, strategy, trio.current_time()))

    # ---- waiting ---------------------------------------------------------------------------

    async def _woken(self, recall_id: str, deadline: float) -> None:
        event = trio.Event()
        waiters = self._waiters.setdefault(recall_id, set())
        waiters.add(event)
        try:
            with trio.move_on_at(deadline):
                await event.wait()
        finally:
            waiters.discard(event)
            if not waiters and self._waiters.get(recall_id) is waiters:
                del self._waiters[recall_id]

    def _wake(self, recall_id: str) -> None:
        for event in self._waiters.get(recall_id, ()):
            event.set()

    def _wake_all(self) -> None:
        for events in self._waiters.values():
            for event in events:
                event.set()

    def _set_timer(self) -> None:
        """Have the one timer wake for the earliest lifetime. It outlives a handle that ends
        early and looks again in its own time, so that keystrokes cost no task each."""
        expiry = self._ledger.next_expiry()
        if expiry is None:
            if self._timer is not None:
                self._timer.deadline = trio.current_time()  # nothing to wait for: let it go
        elif self._timer is None:
            self._timer = trio.CancelScope(deadline=expiry)
            self._nursery.start_soon(self._expire, self._timer, name="recall lifetimes")
        elif expiry < self._timer.deadline:
            self._timer.deadline = expiry

    async def _expire(self, timer: trio.CancelScope) -> None:
        try:
            while True:
                with timer:
                    await trio.sleep(math.inf)
                self._obey(self._ledger.expire(trio.current_time()))
                expiry = self._ledger.next_expiry()
                if expiry is None:
                    return
                # A scope is used once; the next one belongs to the same timer.
                timer = self._timer = trio.CancelScope(deadline=expiry)
        finally:
            self._timer = None
