"""What the machine says: commands to the keeper, and events to the session (pure, frozen)."""

from __future__ import annotations

from attrs import frozen

from oncue_protocol import ExtractDecision, ExtractTrigger
from oncue_protocol.extraction import RunOutcome


@frozen
class StartRun:
    """Command: run, and report to the machine under `run_id`."""

    run_id: str
    trigger: ExtractTrigger
    reason: str
    deadline: float
    """Monotonic seconds; the run's own end, whatever it does (X13)."""


@frozen
class CancelRun:
    """Command: stop the run, which has ended; its report will be late."""

    run_id: str


@frozen
class Decided:
    """A decision that says something new (X7)."""

    trigger: ExtractTrigger
    decision: ExtractDecision
    reason: str
    run_id: str | None


@frozen
class RunStarted:
    """A run began; exactly one `RunEnded` follows (X18)."""

    run_id: str
    trigger: ExtractTrigger
    reason: str


@frozen
class RunEnded:
    """The one terminal event of a run."""

    run_id: str
    outcome: RunOutcome
    reason: str | None
    """Why it did not settle; or, settled, `nothingToAdd` where the notes stay as they are."""
    duration_ms: int
    notes_revision: str | None = None
    """Revision of the notes now, where the run knows it."""
    conflict_path: str | None = None
    """Copy that holds what lost against the user's own edit (X23)."""
    messages: int = 0
    """Messages that the run worked on."""


ExtractionEvent = Decided | RunStarted | RunEnded
Output = StartRun | CancelRun | RunStarted | RunEnded
