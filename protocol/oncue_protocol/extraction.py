"""Session notes: when they are written, and reading them (protocol.md; extraction.md; pure)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .base import Count, Identifier, Milliseconds, Tokens, Wire

ExtractTrigger = Literal["auto", "manual", "compaction", "close"]
ExtractDecision = Literal["started", "joined", "armed", "skipped"]
ExtractOutcome = Literal["settled", "failed", "stillRunning", "stale"]
WaitOutcome = Literal["idle", "settled", "failed", "stillRunning", "stale"]
RunOutcome = Literal["settled", "failed", "cancelled", "stale"]
ExtractionState = Literal["idle", "armed", "running"]


@frozen(kw_only=True, eq=False, repr=False)
class ExtractionCounters(Wire):
    """What the decision to extract is made from (extraction.md, Policy)."""

    context_tokens: Tokens
    """Size of the context now."""
    tokens_at_last_extraction: Tokens
    """Its size at the last successful run."""
    tool_calls_since: Count
    """Tool calls since the last run was decided."""
    initialised: bool
    """Whether the first threshold was ever reached (X1)."""


@frozen(kw_only=True, eq=False, repr=False)
class ExtractionThresholds(Wire):
    """What the counters are compared with."""

    minimum_message_tokens_to_init: Tokens
    """Context size at which notes begin (X1)."""
    minimum_tokens_between_update: Tokens
    """Growth between two runs (X2)."""
    tool_calls_between_updates: Count
    """Tool calls between two runs (X3)."""


@frozen(kw_only=True, eq=False, repr=False)
class LastDecision(Wire):
    """The newest decision about an extraction."""

    decision: ExtractDecision
    """What was decided."""
    reason: str
    """Why: `belowInitThreshold`, `toolCallThreshold`, `naturalPause` and the like."""


@frozen(kw_only=True, eq=False, repr=False)
class ExtractionStatus(Wire):
    """How the session's extraction is."""

    state: ExtractionState
    """Whether a run is going on, or waits for a tool call's result."""
    run_id: Identifier | None = None
    """The run that is going on."""
    last_decision: LastDecision | None = None
    """The newest decision."""
    last_outcome: RunOutcome | None = None
    """How the last run ended."""
    counters: ExtractionCounters
    """Where the counters stand."""
    thresholds: ExtractionThresholds
    """What they are compared with."""


@frozen(kw_only=True, eq=False, repr=False)
class NotesStatus(Wire):
    """The session's notes and how far they are behind."""

    path: str
    """Absolute path of the notes."""
    revision: str | None = None
    """Their revision; absent: there are none yet."""
    lag_messages: Count
    """Messages that are not in the notes yet."""
    lag_tokens: Tokens
    """The same in tokens."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryExtractParams(Wire):
    """Asks for an extraction of session notes."""

    session_id: Identifier
    """The session."""
    trigger: ExtractTrigger
    """Who asks: `manual` ignores the thresholds (X6)."""
    wait_ms: Milliseconds = 0
    """Wait so long, at most 15000, for the outcome."""
    work_done_token: int | str | None = None
    """Progress is reported under this token."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryExtractResult(Wire):
    """What was decided, and what came of it if the caller waited."""

    decision: ExtractDecision
    """Whether a run started, was joined, waits for a tool's result, or is not worth it."""
    reason: str
    """Why."""
    run_id: Identifier | None = None
    """The run."""
    outcome: ExtractOutcome | None = None
    """Where the caller waited: how it ended, or that it did not yet."""
    counters: ExtractionCounters
    """What the decision was made from."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryWaitParams(Wire):
    """Waits for a running extraction."""

    session_id: Identifier
    """The session."""
    wait_ms: Milliseconds | None = None
    """At most so long, and at most 15000; absent: the setting."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryWaitResult(Wire):
    """What the wait ended with."""

    outcome: WaitOutcome
    """`idle`: nothing was running; `stale`: it is too old to be waited for (X13)."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryCancelExtractionParams(Wire):
    """Cancels a running extraction."""

    session_id: Identifier
    """The session."""
    run_id: Identifier | None = None
    """Only this run."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryCancelExtractionResult(Wire):
    """What came of the cancel."""

    cancelled: bool
    """Whether a run was cancelled by it."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryExtractionEndedParams(Wire):
    """The one terminal event of a run (X18)."""

    session_id: Identifier
    """The session."""
    run_id: Identifier
    """The run."""
    outcome: RunOutcome
    """How it ended."""
    notes_revision: str | None = None
    """Revision of the notes now."""
    conflict_path: str | None = None
    """Where a text went that the user's own edit stood against (X23)."""
    reason: str | None = None
    """Why it failed."""


@frozen(kw_only=True, eq=False, repr=False)
class NotesReadParams(Wire):
    """Reads the notes of a session."""

    session_id: Identifier
    """The session."""


@frozen(kw_only=True, eq=False, repr=False)
class NotesSection(Wire):
    """One section of the notes."""

    title: str
    """Its heading."""
    tokens: Tokens
    """Its size."""
    over_budget: bool
    """Whether it is larger than it should be."""


@frozen(kw_only=True, eq=False, repr=False)
class NotesReadResult(Wire):
    """The notes of a session."""

    text: str
    """The whole file."""
    revision: str
    """Its revision."""
    sections: tuple[NotesSection, ...]
    """Its sections, in order."""
    is_template: bool
    """Whether nothing has been written into it yet."""
    last_summarized_message_id: str | None = None
    """The message up to which the notes reach."""
    lag_messages: Count
    """Messages that are not in the notes yet."""
    lag_tokens: Tokens
    """The same in tokens."""


@frozen(kw_only=True, eq=False, repr=False)
class NotesCompactionViewParams(Wire):
    """Asks for what a client needs to compact its history without a model."""

    session_id: Identifier
    """The session."""
    min_tail_tokens: Tokens | None = None
    """Keep at least so many tokens of messages; absent: 10000."""
    max_tail_tokens: Tokens | None = None
    """Keep at most so many; absent: 40000."""
    min_tail_text_messages: Count | None = None
    """Keep at least so many messages with text; absent: 5."""


@frozen(kw_only=True, eq=False, repr=False)
class NotesCompactionViewResult(Wire):
    """How the history can be compacted (extraction.md §7)."""

    notes: str | None = None
    """Notes that stand for what is dropped, cut to their budget."""
    keep_from_message_id: str | None = None
    """First message to keep: no tool result loses its call."""
    fallback_reason: str | None = None
    """Why the notes cannot stand for the history: compact it as you did before."""
