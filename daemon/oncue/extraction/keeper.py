"""The extraction of one session: policy and machine decide, this obeys (trio; house.md §4).

No await lies between a message and its decision, nor between `memory/extract` and its answer but in
the waiting methods, and those wait for an event with a deadline, never longer than 15 s (X15, X17).
Each run is one task in the daemon's nursery and reports to the machine, to nobody else; a run that
was cancelled winds down behind our back, and the next one begins when it is gone.

The session calls `appended`, `turn_started`, `turn_ended`, `did_reset`, `did_compact` after its
transcript has changed; all of them are dictionary work.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Literal

import structlog
import trio
from attrs import frozen

from oncue.extraction.accounting import Accounting, Base, Conversation, Range
from oncue.extraction.events import (
    CancelRun,
    Decided,
    ExtractionEvent,
    Output,
    RunEnded,
    StartRun,
)
from oncue.extraction.machine import Answer, Machine, MachineStatistics
from oncue.extraction.policy import Situation, decide
from oncue.extraction.ports import Tools
from oncue.extraction.run import Result, Task, in_thread, perform
from oncue.extraction.waits import Waits
from oncue.notes_ports import NoteBudgets
from oncue.settings import ExtractionSettings
from oncue.store.leases import Cursor
from oncue_protocol import (
    ExtractionStatus,
    ExtractionThresholds,
    ExtractOutcome,
    ExtractTrigger,
    LastDecision,
    MemoryExtractParams,
    MemoryExtractResult,
    MemoryWaitParams,
    MemoryWaitResult,
    OncueError,
)
from oncue_protocol.transcript import ResetReason

log = structlog.get_logger(__name__)


def random_hex() -> str:
    """64 random bits as 16 hex digits."""
    return secrets.token_hex(8)


@frozen
class Lag:
    """How far the notes are behind."""

    messages: int
    tokens: int


class Keeper:
    """Facade over policy, machine and runs; one a session.

    `conversation` is the main lane's transcript. `nursery` lives as long as the daemon. `opened`
    gives the tools, which may still be loading; it is awaited in a run, never before an answer.
    `settings` is asked at each decision. `on_event` is called at once, in order, on the trio
    thread, and must not wait. `archive` (blocking, in a worker thread) puts the notes of a
    cleared conversation away, when no run touches them."""

    def __init__(
        self,
        *,
        session_id: str,
        conversation: Conversation,
        nursery: trio.Nursery,
        opened: Callable[[], Awaitable[Tools]],
        settings: Callable[[], ExtractionSettings],
        private: bool,
        on_event: Callable[[ExtractionEvent], None],
        archive: Callable[[Tools], None] | None = None,
        new_id: Callable[[], str] = random_hex,
    ) -> None:
        self.session_id = session_id
        self._conversation = conversation
        self._nursery = nursery
        self._opened = opened
        self._settings = settings
        self.private = private
        self._on_event = on_event
        self._archive = archive
        self._new_id = new_id
        self._machine = Machine()
        self._accounting = Accounting()
        self._task: Task | None = None
        self._winding: trio.Event | None = None
        """The newest task or clean-up; the next run begins when it is done."""
        self._waits = Waits(self._machine, settings)
        self._last_decision: LastDecision | None = None
        self._last_summarized: str | None = None
        self._armed_end = 0
        self._is_open = True

    # ---- what the conversation does --------------------------------------------------------

    def appended(self) -> None:
        """Messages came (X7)."""
        self._observe()
        self._evaluate()

    def turn_started(self) -> None:
        """A turn opens: calls of the one before get no result any more (X5)."""
        self._conversation.boundary()
        self._start_if_safe()

    def turn_ended(self) -> None:
        """`turn/didEnd` of the main lane (X5, X7)."""
        self._conversation.boundary()
        self._observe()
        self._evaluate()

    def did_reset(self, reason: ResetReason) -> None:
        """`transcript/didReset`: a run that goes on is void (X8). Cleared: counters are zero, and
        the cursor goes, and the notes are archived when the run has wound down."""
        self._stop("reset", forgotten=True)
        self._machine.forgive()
        if reason == "rewound":
            self._accounting.rewound()
            return
        self._accounting.cleared()
        self._last_summarized = None
        self._last_decision = None
        if not self.private:
            before, self._winding = self._winding, trio.Event()
            self._nursery.start_soon(self._clear_away, before, self._winding, name="notes cleared")

    def did_compact(self) -> None:
        """`transcript/didCompact`: growth counts from the new size (X8)."""
        self._accounting.compacted(self._conversation)

    # ---- the methods of the protocol -------------------------------------------------------

    def extract(self, params: MemoryExtractParams) -> MemoryExtractResult:
        """Decide and answer at once; `waitMs` is not looked at."""
        self._observe()
        return self._result(self._request(params.trigger))

    def extract_and_wait(self, params: MemoryExtractParams) -> Awaitable[MemoryExtractResult]:
        """Decide now, so that what arrives behind it finds the run; what is returned waits at most
        `waitMs` for its outcome (X15). Cancelling that ends the wait only."""
        self._observe()
        return self._awaited(params, self._request(params.trigger))

    async def _awaited(self, params: MemoryExtractParams, answer: Answer) -> MemoryExtractResult:
        outcome: ExtractOutcome | None = None
        if answer.run_id is not None and params.wait_ms > 0:
            outcome = await self._waits.outcome(answer.run_id, params.wait_ms)
        return self._result(answer, outcome)

    async def wait(self, params: MemoryWaitParams) -> MemoryWaitResult:
        """Wait for the run that goes on, bounded (X15). `idle`: nothing runs; what is armed waits
        for the client itself, so it is not waited for."""
        run_id = self._machine.run_id
        if self._machine.state != "running" or run_id is None:
            return MemoryWaitResult(outcome="idle")
        return MemoryWaitResult(outcome=await self._waits.outcome(run_id, params.wait_ms))

    def cancel(self, run_id: str | None = None) -> bool:
        """`memory/cancelExtraction`. False: nothing runs or is armed, it is another run, or it is
        too late because notes are being put in place."""
        if self._task is not None and self._task.is_committing:
            return False
        return self._stop("cancelledByClient", run_id=run_id)

    def close(self, reason: Literal["sessionClosed", "shutdown"]) -> None:
        """The session or the daemon ends; a run ends now, and is told."""
        self._is_open = False
        self._stop(reason)

    def reopen(self) -> None:
        """Serve again after `close`."""
        self._is_open = True

    async def load(self) -> str | None:
        """Take over the cursor that another daemon left, if any: the last message that its notes
        reach, behind which a client may go on. Raises `StoreUnavailable`."""
        if self.private:
            return None
        tools = await self._opened()
        cursor = await in_thread(lambda: tools.cursors.load(self.session_id))
        if cursor is not None:
            self.adopt(cursor)
        return self._conversation.summarised_through

    async def quiet(self) -> None:
        """Until no run of this session touches anything any more."""
        while self._winding is not None and not self._winding.is_set():
            await self._winding.wait()

    async def purge(self) -> int:
        """End the run, and remove every row of the session; how many there were. The notes are
        the caller's. Raises `StoreUnavailable`."""
        self._stop("purged", forgotten=True)
        self._last_summarized = None
        await self.quiet()
        tools = await self._opened()
        return await in_thread(lambda: tools.cursors.purge(self.session_id))

    # ---- looks -----------------------------------------------------------------------------

    def status(self) -> ExtractionStatus:
        """As in `session/status`."""
        self._observe()
        running = self._machine.state == "running"
        return ExtractionStatus(
            state=self._machine.state,
            run_id=self._machine.run_id if running else None,
            last_decision=self._last_decision,
            last_outcome=self._machine.last_outcome,
            counters=self._accounting.counters,
            thresholds=self._thresholds(),
        )

    @property
    def run_id(self) -> str | None:
        """Of the run that goes on or is armed."""
        return self._machine.run_id

    @property
    def is_running(self) -> bool:
        """Whether a run goes on."""
        return self._machine.state == "running"

    @property
    def processed_through(self) -> str | None:
        """Last message that a run worked on (X9)."""
        return self._conversation.summarised_through

    @property
    def last_summarized(self) -> str | None:
        """Last message up to which history may be replaced by the notes (X9)."""
        return self._last_summarized

    @property
    def lag(self) -> Lag:
        """How far the notes are behind."""
        return Lag(self._conversation.lag_messages, self._conversation.lag_tokens)

    @property
    def initialised(self) -> bool:
        """Whether the first threshold was ever reached (X1)."""
        return self._accounting.initialised

    def statistics(self) -> MachineStatistics:
        """A snapshot."""
        return self._machine.statistics()

    # ---- what a run asks (run.Desk) --------------------------------------------------------

    def adopt(self, cursor: Cursor) -> None:
        """What a cursor says that is further than what we know."""
        if self._conversation.resume(
            cursor.processed_through, cursor.ids, cursor.tokens_at_last_extraction
        ):
            self._accounting.resume(
                tokens_at_last=cursor.tokens_at_last_extraction, initialised=cursor.initialised
            )
            self._last_summarized = cursor.last_summarized

    def take_snapshot(self) -> tuple[Range, Base, str | None] | None:
        """The newest messages that no run has worked on, the base if that succeeds, and what
        `lastSummarizedMessageId` becomes then."""
        chosen = self._conversation.unsummarised()
        if chosen is None:
            return None
        last = self._last_summarized
        if chosen.ends_in_text:
            last = chosen.through
        elif last is not None and not self._conversation.knows(last):
            last = None  # it was rewound
        return chosen, self._accounting.now(), last

    def budgets(self) -> NoteBudgets:
        """Of the settings as they are now."""
        settings = self._settings()
        return NoteBudgets(settings.max_section_tokens, settings.max_total_tokens)

    # ---- deciding --------------------------------------------------------------------------

    def _observe(self) -> None:
        self._accounting.observe(
            self._conversation, self._settings().minimum_message_tokens_to_init
        )

    def _evaluate(self) -> None:
        if self._machine.state == "armed" and not self._settings().enabled:
            self._stop("disabled")
        if self._machine.state == "armed":
            self._start_if_safe()
        elif self._is_open:
            self._request("auto")

    def _start_if_safe(self) -> None:
        """What is armed starts once the response in whose middle it was decided is complete, even
        if another one has begun since."""
        if self._machine.state == "armed" and (
            not self._conversation.open_calls or self._conversation.safe_end > self._armed_end
        ):
            self._obey(self._machine.safe_point(trio.current_time()))

    def _request(self, trigger: ExtractTrigger) -> Answer:
        now = trio.current_time()
        conversation = self._conversation
        settings = self._settings()
        verdict = decide(
            Situation(
                trigger=trigger,
                counters=self._accounting.counters,
                thresholds=self._thresholds(),
                pauses=conversation.pauses,
                in_tool_call=conversation.open_calls > 0,
                unsummarised=conversation.lag_messages > 0,
                enabled=settings.enabled,
                private=self.private,
                backing_off=self._machine.backing_off(now),
            )
        )
        was_idle = self._machine.state == "idle"
        answer, outputs = self._machine.request(
            trigger, verdict, new_id=f"x-{self._new_id()}", now=now
        )
        if was_idle and answer.decision in ("started", "armed"):
            self._accounting.run_decided()
            self._armed_end = conversation.safe_end
        decision = LastDecision(decision=answer.decision, reason=answer.reason)
        if decision != self._last_decision or trigger != "auto" or outputs:
            self._tell(Decided(trigger, answer.decision, answer.reason, answer.run_id))
        self._last_decision = decision
        self._obey(outputs)
        return answer

    def _thresholds(self) -> ExtractionThresholds:
        settings = self._settings()
        return ExtractionThresholds(
            minimum_message_tokens_to_init=settings.minimum_message_tokens_to_init,
            minimum_tokens_between_update=settings.minimum_tokens_between_update,
            tool_calls_between_updates=settings.tool_calls_between_updates,
        )

    def _result(self, answer: Answer, outcome: ExtractOutcome | None = None) -> MemoryExtractResult:
        return MemoryExtractResult(
            decision=answer.decision,
            reason=answer.reason,
            run_id=answer.run_id,
            outcome=outcome,
            counters=self._accounting.counters,
        )

    # ---- running ---------------------------------------------------------------------------

    def _obey(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, StartRun):
                task = self._task = Task(output, trio.CancelScope(deadline=output.deadline))
                before, self._winding = self._winding, task.done
                self._nursery.start_soon(self._run, task, before, name="extraction")
            elif isinstance(output, CancelRun):
                if self._task is not None and self._task.order.run_id == output.run_id:
                    self._task.is_wanted = False
                    self._task.scope.cancel()
                    self._task = None
            else:
                self._tell(output)
        if outputs:
            self._waits.wake()

    def _tell(self, event: ExtractionEvent) -> None:
        """Into the log (ids and reasons, never content) and to the session (X7, I27)."""
        if isinstance(event, Decided):
            log.info(
                "extraction decided",
                session=self.session_id,
                trigger=event.trigger,
                decision=event.decision,
                reason=event.reason,
                run_id=event.run_id,
            )
        elif isinstance(event, RunEnded):
            report = log.warning if event.outcome in ("failed", "stale") else log.info
            report(
                "extraction ended",
                session=self.session_id,
                run_id=event.run_id,
                outcome=event.outcome,
                reason=event.reason,
                duration_ms=event.duration_ms,
                messages=event.messages,
            )
        self._on_event(event)

    async def _run(self, task: Task, before: trio.Event | None) -> None:
        result = Result("cancelled", "shutdown")
        try:
            with task.scope:
                if before is not None:
                    await before.wait()
                await perform(task, self, await self._opened())
            if task.scope.cancelled_caught:
                result = Result("failed", "deadline: the run took longer than two minutes")
        except OncueError as error:
            result = Result("failed", f"{error.name}: {error.message}")
        except Exception as error:
            # Whatever breaks, the run ends and is told (X14, X18).
            log.warning("extraction broke", run_id=task.order.run_id, error=type(error).__name__)
            result = Result("failed", f"broke: {type(error).__name__}")
        finally:
            task.done.set()
            self._report(task, task.result or result)

    def _report(self, task: Task, result: Result) -> None:
        if result.progress is not None and not task.is_forgotten:
            self._conversation.summarise(result.progress.through)
            self._observe()
            self._accounting.run_succeeded(result.progress.base)
            self._last_summarized = result.progress.last_summarized
        if self._task is task:
            self._task = None
        trailing, outputs = self._machine.ended(
            RunEnded(
                run_id=task.order.run_id,
                outcome=result.outcome,
                reason=result.reason,
                duration_ms=0,
                notes_revision=result.notes_revision,
                conflict_path=result.conflict_path,
                messages=result.messages,
            ),
            trio.current_time(),
        )
        self._obey(outputs)
        if trailing is not None and self._is_open:
            self._request(trailing)

    def _stop(self, reason: str, *, run_id: str | None = None, forgotten: bool = False) -> bool:
        if forgotten and self._task is not None:
            self._task.is_forgotten = True
        stopped, outputs = self._machine.cancel(run_id, reason, trio.current_time())
        self._obey(outputs)
        if stopped:
            self._waits.wake()
        return stopped

    async def _clear_away(self, before: trio.Event | None, done: trio.Event) -> None:
        try:
            if before is not None:
                await before.wait()
            tools = await self._opened()
            await in_thread(lambda: tools.cursors.forget(self.session_id))
            if self._archive is not None:
                archive = self._archive
                await in_thread(lambda: archive(tools))
        except Exception as error:
            # The next run finds notes and cursor of the old conversation and goes on from there.
            log.warning("notes not archived", session=self.session_id, error=type(error).__name__)
        finally:
            done.set()
