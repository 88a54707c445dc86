"""Sessions: open, close, list, status, timeline, purge (protocol.md, Sessions; pure)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .base import Count, Identifier, Milliseconds, Stage, Strategy, Time, Wire
from .extraction import ExtractionStatus, NotesStatus
from .memory import MemoryRoot, Removed
from .recall import DeliveryPoint, LiveRecall, RecallState

Role = Literal["driver", "observer"]
Lifetime = Literal["connection", "detached"]
TimelineEvent = Literal[
    "sessionOpened",
    "sessionClosed",
    "turnStarted",
    "turnEnded",
    "recallStarted",
    "recallFastReady",
    "recallSettled",
    "recallDelivered",
    "recallEnded",
    "transcriptReset",
    "compactionStarted",
    "compactionEnded",
    "extractionDecided",
    "runStarted",
    "runEnded",
]


@frozen(kw_only=True, eq=False, repr=False)
class SessionOpenParams(Wire):
    """Opens a session, new or known: one conversation, which owns its recalls."""

    session_id: Identifier | None = None
    """Id chosen by the client, at most 256 characters; absent: the daemon makes one."""
    workspace: str | None = None
    """The folder that is worked on: a `file:` URI or an absolute path."""
    workspaces: tuple[str, ...] = ()
    """Several folders: the first is the one written to, all are read."""
    role: Role = "driver"
    """A driver starts, polls and reports; an observer only looks."""
    lifetime: Lifetime = "connection"
    """`connection`: ends with its driver's connection; `detached`: by `session/close`, the death
    of `ownerPid`, or idleness."""
    owner_pid: int | None = None
    """With `detached`: the process whose death ends the session."""
    private: bool = False
    """Nothing of this session is written to disk."""
    title: str | None = None
    """What the client calls it."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionOpenResult(Wire):
    """The session is open."""

    session_id: Identifier
    """Its id."""
    resumed: bool
    """Whether it was known before."""
    last_message_id: str | None = None
    """The last message that the daemon has: send what follows."""
    workspace_key: str | None = None
    """Canonical id of the workspace (M2); absent: no project, user scope only."""
    notes_path: str | None = None
    """Where the session's notes are; absent in a private session."""
    memory_roots: tuple[MemoryRoot, ...]
    """Folders that are searched."""
    untrusted_roots: tuple[str, ...]
    """Folders that were found but are not searched until the user trusts them (M3)."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionCloseParams(Wire):
    """Closes a session and ends its recalls."""

    session_id: Identifier
    """The session."""
    reason: str | None = None
    """Why, for the log."""
    wait_ms: Milliseconds = 0
    """Wait so long, at most 15000, for a running extraction before it is cancelled."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionListParams(Wire):
    """Lists open and resumable sessions."""

    workspace: str | None = None
    """Only those of this workspace."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionSummary(Wire):
    """A session in the list."""

    session_id: Identifier
    """Its id."""
    open: bool
    """Whether it is open now; else it can be resumed."""
    title: str | None = None
    """What its client calls it."""
    workspace: str | None = None
    """The folder that is worked on."""
    workspace_key: str | None = None
    """Canonical id of the workspace."""
    lifetime: Lifetime = "connection"
    """What ends it."""
    role: Role | None = None
    """Role of this connection in it; absent: none."""
    drivers: Count = 0
    """Connections that drive it."""
    observers: Count = 0
    """Connections that look on."""
    opened: Time
    """When it was first opened."""
    last_active: Time
    """When something last happened in it."""
    notes_path: str | None = None
    """Where its notes are."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionListResult(Wire):
    """Open and resumable sessions, the latest first."""

    sessions: tuple[SessionSummary, ...]
    """The sessions."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionTimelineParams(Wire):
    """Asks what happened in a session, and when."""

    session_id: Identifier
    """The session."""
    cursor: str | None = None
    """Where the page before ended."""


@frozen(kw_only=True, eq=False, repr=False)
class TimelineEntry(Wire):
    """Something that happened: ids, paths and figures, never content."""

    at: Time
    """When."""
    event: TimelineEvent
    """What."""
    lane: Identifier | None = None
    """The lane."""
    turn_id: Identifier | None = None
    """The turn."""
    recall_id: Identifier | None = None
    """The recall."""
    state: RecallState | None = None
    """State of the recall after this."""
    stage: Stage | None = None
    """Stage that was ready or delivered."""
    point: DeliveryPoint | None = None
    """Where it was delivered."""
    strategy: Strategy | None = None
    """Who chose the documents."""
    delivery_id: Identifier | None = None
    """The delivery."""
    paths: tuple[str, ...] = ()
    """Documents that were delivered."""
    since_start_ms: Milliseconds | None = None
    """Time since the recall or run was started."""
    run_id: Identifier | None = None
    """The extraction run."""
    decision: str | None = None
    """What was decided about an extraction."""
    outcome: str | None = None
    """How a run ended."""
    reason: str | None = None
    """Why."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionTimelineResult(Wire):
    """A page of what happened, oldest first."""

    entries: tuple[TimelineEntry, ...]
    """What happened."""
    cursor: str | None = None
    """Where the next page begins; absent: this was the last."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionLostParams(Wire):
    """The daemon was replaced and the session did not survive: open it again."""

    session_id: Identifier
    """The session."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionRoleChangedParams(Wire):
    """Another connection drives the session now; this one looks on."""

    session_id: Identifier
    """The session."""
    role: Role = "observer"
    """Role of this connection now."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionPurgeParams(Wire):
    """Removes what is on disk of a session."""

    session_id: Identifier
    """The session."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionPurgeResult(Wire):
    """What was removed."""

    removed: tuple[Removed, ...]
    """Notes, versions, conflict copies, cursor, index rows."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionStatusParams(Wire):
    """Asks how a session is."""

    session_id: Identifier
    """The session."""


@frozen(kw_only=True, eq=False, repr=False)
class SessionStatusResult(Wire):
    """How a session is."""

    session_id: Identifier
    """The session."""
    workspace: str | None = None
    """The folder that is worked on; absent: none."""
    turn_id: Identifier | None = None
    """The turn that is going on in the main lane."""
    recall: LiveRecall | None = None
    """The live recall of the main lane; absent: none."""
    extraction: ExtractionStatus | None = None
    """How its extraction is; absent: the daemon writes no notes."""
    notes: NotesStatus | None = None
    """Its notes; absent: there can be none."""
