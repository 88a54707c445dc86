"""The states of a session's extraction (pure; extraction.md §2, X11-X15, X18).

Rules; every transition stands in the one table below, and a move that is not in it changes nothing:

* One run a session: a request during a run joins it, and the policy is asked once more when it
  has ended (X11). After a failure only automatic requests are: they keep the back-off.
* Armed is a decision that waits for a safe point (X5). It has the id of the run it may become.
* Exactly one `RunEnded` for each `RunStarted` (X18). What a run reports after its end is late,
  counted and dropped.
* Stale is said to waiters only: a run older than the threshold is not waited for (X13).
* A run has a deadline of its own; automatic runs back off after failures (D68).

Time is a parameter: monotonic seconds. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import define, field, frozen

from oncue.extraction.events import CancelRun, Output, RunEnded, RunStarted, StartRun
from oncue.extraction.policy import Verdicted
from oncue_protocol import ExtractDecision, ExtractTrigger
from oncue_protocol.extraction import ExtractionState, RunOutcome

Move = Literal["arm", "start", "join", "drop", "end"]

TRANSITIONS: Mapping[ExtractionState, Mapping[Move, ExtractionState]] = {
    "idle": {"arm": "armed", "start": "running"},
    "armed": {"arm": "armed", "start": "running", "drop": "idle"},
    "running": {"join": "running", "end": "idle"},
}

RUN_DEADLINE_S = 120.0
"""A run that takes longer than two minutes hangs: five model rounds take one (X13)."""
BACK_OFF_S = 30.0
"""After a first failure; doubled with each further one. An endpoint that is down for half an hour
is asked six times, not at each message (D68)."""
MAX_BACK_OFF_S = 900.0
REMEMBERED = 32
"""Outcomes of ended runs that are still known to who waited for them."""

_STRENGTH: Mapping[ExtractTrigger, int] = {"auto": 0, "manual": 1, "compaction": 2, "close": 3}


@define
class Run:
    """The run that is armed or going on."""

    run_id: str
    trigger: ExtractTrigger
    reason: str
    started: float = 0.0
    joined: ExtractTrigger | None = None
    """Strongest request that joined; asks for one trailing evaluation."""


@frozen
class Answer:
    """What a request came to."""

    decision: ExtractDecision
    reason: str
    run_id: str | None = None


@frozen
class MachineStatistics:
    """A snapshot for tests and `daemon/status`."""

    started: int
    ended: int
    late: int


@define
class Machine:
    """Extraction of one session."""

    state: ExtractionState = "idle"
    run: Run | None = None
    last_outcome: RunOutcome | None = None
    _outcomes: dict[str, RunOutcome] = field(factory=dict)
    _failures: int = 0
    _retry_at: float = 0.0
    _started: int = 0
    _late: int = 0
    _ended: int = 0

    # ---- requests --------------------------------------------------------------------------

    def request(
        self, trigger: ExtractTrigger, verdict: Verdicted, *, new_id: str, now: float
    ) -> tuple[Answer, list[Output]]:
        """A decision of the policy, obeyed: starts, arms, joins or nothing. `new_id` names the run
        that may come of it."""
        out: list[Output] = []
        if verdict.verdict == "skip":
            return Answer("skipped", verdict.reason), out
        if self.run is not None and self._move("join"):
            self.run.joined = _stronger(self.run.joined, trigger)
            return Answer("joined", verdict.reason, self.run.run_id), out
        run = self.run
        if run is None:
            run = self.run = Run(new_id, trigger, verdict.reason)
        elif _STRENGTH[trigger] > _STRENGTH[run.trigger]:
            run.trigger, run.reason = trigger, verdict.reason
        if verdict.verdict == "arm":
            self._move("arm")
            return Answer("armed", verdict.reason, run.run_id), out
        self._start(run, now, out)
        return Answer("started", verdict.reason, run.run_id), out

    def safe_point(self, now: float) -> list[Output]:
        """No call waits for its result now: what is armed starts (X5)."""
        out: list[Output] = []
        if self.state == "armed" and self.run is not None:
            self._start(self.run, now, out)
        return out

    # ---- ends ------------------------------------------------------------------------------

    def ended(self, event: RunEnded, now: float) -> tuple[ExtractTrigger | None, list[Output]]:
        """A run reports its end. The trigger with which the policy is to be asked once more, if
        any. `duration_ms` of the event is set here."""
        run = self.run
        if self.state != "running" or run is None or run.run_id != event.run_id:
            self._late += 1
            return None, []
        self._count(event.outcome, now)
        return run.joined if event.outcome != "failed" else _only_auto(run.joined), [
            self._end(run, event, now)
        ]

    def cancel(self, run_id: str | None, reason: str, now: float) -> tuple[bool, list[Output]]:
        """End the run that goes on or is armed, at once; its task winds down behind our back.
        False: there is none, or it is another than `run_id`."""
        run = self.run
        if run is None or run_id not in (None, run.run_id):
            return False, []
        if self._move("drop"):
            self.run = None
            self._remember(run.run_id, "cancelled")
            return True, []
        event = RunEnded(run.run_id, "cancelled", reason, 0)
        return True, [CancelRun(run.run_id), self._end(run, event, now)]

    def forgive(self) -> None:
        """Failures of the past do not count any more: settings changed, or the chat is new."""
        self._failures = 0
        self._retry_at = 0.0

    # ---- looks -----------------------------------------------------------------------------

    def backing_off(self, now: float) -> bool:
        """Whether automatic runs wait for the end of a back-off."""
        return now < self._retry_at

    def outcome(self, run_id: str) -> RunOutcome | None:
        """How a run ended; None: it has not, or nobody remembers."""
        return self._outcomes.get(run_id)

    def stale_at(self, threshold_s: float) -> float | None:
        """When the run that goes on becomes too old to be waited for; None: nothing runs."""
        if self.state != "running" or self.run is None:
            return None
        return self.run.started + threshold_s

    @property
    def run_id(self) -> str | None:
        """Of the run that goes on or is armed."""
        return self.run.run_id if self.run is not None else None

    def statistics(self) -> MachineStatistics:
        """A snapshot."""
        return MachineStatistics(self._started, self._ended, self._late)

    # ---- inside ----------------------------------------------------------------------------

    def _move(self, move: Move) -> bool:
        target = TRANSITIONS[self.state].get(move)
        if target is None:
            return False
        self.state = target
        return True

    def _start(self, run: Run, now: float, out: list[Output]) -> None:
        if self._move("start"):
            run.started = now
            self._started += 1
            out.append(RunStarted(run.run_id, run.trigger, run.reason))
            out.append(StartRun(run.run_id, run.trigger, run.reason, now + RUN_DEADLINE_S))

    def _end(self, run: Run, event: RunEnded, now: float) -> RunEnded:
        self._move("end")
        self.run = None
        self.last_outcome = event.outcome
        self._ended += 1
        self._remember(run.run_id, event.outcome)
        return RunEnded(
            run_id=run.run_id,
            outcome=event.outcome,
            reason=event.reason,
            duration_ms=round((now - run.started) * 1_000),
            notes_revision=event.notes_revision,
            conflict_path=event.conflict_path,
            messages=event.messages,
        )

    def _remember(self, run_id: str, outcome: RunOutcome) -> None:
        self._outcomes[run_id] = outcome
        while len(self._outcomes) > REMEMBERED:
            del self._outcomes[next(iter(self._outcomes))]

    def _count(self, outcome: RunOutcome, now: float) -> None:
        if outcome == "settled":
            self.forgive()
        elif outcome == "failed":
            pause = min(BACK_OFF_S * 2 ** min(self._failures, 16), MAX_BACK_OFF_S)
            self._failures += 1
            self._retry_at = now + pause


def _stronger(one: ExtractTrigger | None, other: ExtractTrigger) -> ExtractTrigger:
    return other if one is None or _STRENGTH[other] > _STRENGTH[one] else one


def _only_auto(trigger: ExtractTrigger | None) -> ExtractTrigger | None:
    return None if trigger is None else "auto"
