"""What happened in a turn, what it would have been under the old design, and the totals (pure).

The old design awaited the search before the model was asked, for at most 2.5 s; what came later
was lost. Where the search of a turn was stopped with the turn, its length is what the scripted
model had in store, else only a lower bound is known, and said to be one.
"""

from __future__ import annotations

from array import array
from typing import Literal

from attrs import define, field, frozen

from oncue_protocol import DeliveryPoint, RecallEndReason, RecallState, Stage, Strategy

OLD_LIMIT_MS = 2500.0
"""What a turn waited at most for its recall in the design that this one replaces (recall.md)."""

Way = Literal["completed", "aborted", "replaced", "other"]


@frozen
class Handed:
    """A delivery that the player received."""

    point: DeliveryPoint
    round: int
    """Tool rounds so far: 0 at the prompt."""
    late_ms: float
    """Time since the recall's start."""
    stage: Stage
    strategy: Strategy
    titles: tuple[str, ...]
    paths: tuple[str, ...]
    tokens: int


@frozen
class Extraction:
    """A run that worked on the session notes (extraction.md)."""

    run_id: str
    turn: int | None
    """In which turn it began, or after which; None: before the first."""
    into_ms: float | None
    """How long after that turn's beginning; None: the turn was over."""
    reason: str
    """Why it began: `toolCallThreshold`, `naturalPause` and the like (X4)."""
    was_armed: bool
    """Whether it had to wait for a tool call's result first (X5)."""
    took_ms: float
    outcome: str
    why: str | None
    """Why it did not settle, or that it found nothing to add."""


@frozen
class Decision:
    """A decision that began no run of its own: `skipped` or `joined`."""

    turn: int | None
    decision: str
    reason: str


@frozen
class Notes:
    """The session notes at the end."""

    text: str
    path: str | None
    """Where they lie while the daemon runs; the folder is temporary."""
    lag_messages: int
    """Messages that are not in them."""
    is_template: bool
    """Whether nothing was written."""


@frozen
class Old:
    """The same turn under the old design."""

    waited_ms: float
    is_lost: bool
    """Whether the result came after the limit and was thrown away."""
    is_at_least: bool
    """Whether the true length of the search is unknown: it was stopped before."""


@define
class Turn:
    """One turn of the recording."""

    number: int
    """From 1."""
    turn_id: str
    query: str
    started_s: float
    """When the recall was started, on the player's clock."""
    recall_id: str | None = None
    """None: nothing to recall for (an image alone)."""
    start_ms: float = 0.0
    """Round trip of `recall/start`."""
    waited_ms: float = 0.0
    """All round trips on the turn's path: the start and every poll."""
    rounds: int = 0
    """Tool rounds so far."""
    fast_ms: float | None = None
    """From the start until the fast stage was ready."""
    settled_ms: float | None = None
    """From the start until the search was done."""
    handed: list[Handed] = field(factory=list)
    state: RecallState | None = None
    """How the recall ended; None: it has not, or there was none."""
    reason: RecallEndReason | None = None
    ended_ms: float | None = None
    """From the start until the turn was over."""
    way: Way = "completed"
    """How the turn ended."""
    planned_ms: float | None = None
    """What the scripted model takes in this turn; infinite: it never answers; None: no script."""
    does_fail: bool = False
    """Whether the scripted model fails in this turn."""

    @property
    def documents(self) -> int:
        return sum(len(handed.titles) for handed in self.handed)

    def old(self) -> Old:
        """What the turn would have waited."""
        if self.recall_id is None:
            return Old(0.0, is_lost=False, is_at_least=False)
        took = self.settled_ms if self.settled_ms is not None else self.planned_ms
        known = took is not None
        if took is None:
            took = self.ended_ms or 0.0
        waited = min(took, OLD_LIMIT_MS)
        if self.way in ("aborted", "replaced") and self.ended_ms is not None:
            return Old(min(waited, self.ended_ms), is_lost=False, is_at_least=False)
        return Old(waited, took > OLD_LIMIT_MS, not known and waited < OLD_LIMIT_MS)


@frozen
class Spread:
    """Of a set of durations, in milliseconds."""

    count: int
    p50: float
    p99: float
    largest: float


@define
class Durations:
    """Collects durations in eight bytes each."""

    _all: array[float] = field(factory=lambda: array("d"))

    def add(self, milliseconds: float) -> None:
        self._all.append(milliseconds)

    def spread(self) -> Spread:
        """Nearest-rank percentiles; zeros where nothing was added."""
        ordered = sorted(self._all)
        count = len(ordered)
        if not count:
            return Spread(0, 0.0, 0.0, 0.0)

        def rank(share: float) -> float:
            return ordered[min(count - 1, max(0, -int(-share * count // 1) - 1))]

        return Spread(count, rank(0.5), rank(0.99), ordered[-1])


@define
class Totals:
    """Sums over all turns; constant memory but for the durations."""

    turns: int = 0
    recalls: int = 0
    deliveries_at_prompt: int = 0
    deliveries_at_tools: int = 0
    documents: int = 0
    silent: int = 0
    """Recalls that ended with nothing worth delivering."""
    stopped: int = 0
    """Searches that were still running when their turn was over."""
    late: int = 0
    """Deliveries of searches that the old design had given up on: longer than 2.5 s."""
    waited_ms: float = 0.0
    old_ms: float = 0.0
    old_is_at_least: bool = False
    old_lost: int = 0
    messages: int = 0
    compactions: int = 0
    resets: int = 0
    resyncs: int = 0
    """Times that the daemon asked for messages again: 0 unless something is wrong."""
    recorded_s: float = 0.0
    """Length of the recording."""
    played_s: float = 0.0
    skipped: int = 0
    """Lines or parts of the recording that say nothing to us."""
    runs: dict[str, int] = field(factory=dict)
    """Runs that worked on the notes, by outcome."""
    decisions: dict[str, int] = field(factory=dict)
    """Other decisions about notes, by what was decided and why."""
    notes: Notes | None = None
    starts: Durations = field(factory=Durations)
    polls: Durations = field(factory=Durations)
    """Those that wait for nothing: at tool results."""
    first_polls: Durations = field(factory=Durations)
    """At the prompt, which may wait a moment for the fast stage."""
    per_turn: Durations = field(factory=Durations)
    old_per_turn: Durations = field(factory=Durations)

    def add_extraction(self, run: Extraction) -> None:
        """A run that has ended."""
        self.runs[run.outcome] = self.runs.get(run.outcome, 0) + 1

    def add_decision(self, decision: Decision) -> None:
        """A decision without a run of its own."""
        name = f"{decision.decision} {decision.reason}".strip()
        self.decisions[name] = self.decisions.get(name, 0) + 1

    def add(self, turn: Turn) -> None:
        """A turn that is over."""
        self.turns += 1
        if turn.recall_id is None:
            return
        self.recalls += 1
        old = turn.old()
        self.waited_ms += turn.waited_ms
        self.old_ms += old.waited_ms
        self.old_lost += old.is_lost
        self.old_is_at_least |= old.is_at_least
        self.per_turn.add(turn.waited_ms)
        self.old_per_turn.add(old.waited_ms)
        self.documents += turn.documents
        for handed in turn.handed:
            if handed.point == "userQuery":
                self.deliveries_at_prompt += 1
            else:
                self.deliveries_at_tools += 1
            is_late = handed.stage == "refined" and (turn.settled_ms or 0.0) > OLD_LIMIT_MS
            self.late += is_late
        self.silent += not turn.handed and turn.settled_ms is not None
        self.stopped += turn.settled_ms is None
