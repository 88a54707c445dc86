"""One session: the meeting place of transcript, recall and memory.

A session belongs to nobody's connection: a driver starts, polls and reports, an observer looks on.
Every method is dictionary work; what takes time (the workspace's real path, the index, a search)
runs in tasks that outlive the request, and reports back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import trio
from attrs import evolve

from oncue.extraction.events import Decided, ExtractionEvent, RunEnded, RunStarted
from oncue.extraction.keeper import Keeper
from oncue.extraction.ports import Tools
from oncue.models.client import ClientGenerator
from oncue.ports import Finder, Found, Generator, Query, Wall
from oncue.recall.events import Delivered, Ended, FastReady, RecallEvent, Settled, Started
from oncue.recall.recalls import Recalls
from oncue.settings import ConnectionSettings
from oncue.text import marker
from oncue.timeline import Timeline
from oncue.times import rfc3339
from oncue.transcript.state import Applied, Resync, Transcript
from oncue_protocol import (
    MAIN_LANE,
    MemoryExtractionEndedParams,
    NotesStatus,
    OncueOptions,
    RecallEndedParams,
    RecallSettledParams,
    RecallStartParams,
    RequestFailed,
    SessionRoleChangedParams,
    SessionStatusResult,
    SessionSummary,
    TranscriptDidAppendParams,
    TranscriptDidCompactParams,
    TranscriptDidResetParams,
    TranscriptResyncRequiredParams,
    TurnDidEndParams,
)
from oncue_protocol.sessions import Lifetime, Role
from oncue_protocol.transcript import ResetReason

MAX_TRANSCRIPT_LANES = 256
"""Lanes whose messages are kept in sync: subagents of a day; the one unused longest makes room."""


class Client(Protocol):
    """What a session needs of a connection (`wire.peer.Peer` has it)."""

    id: int
    settings: ConnectionSettings
    options: OncueOptions

    @property
    def closed(self) -> bool: ...

    def notify(self, method: str, params: Any = None) -> None: ...

    def wants(self, notification: str) -> bool: ...

    async def request(self, method: str, params: Any, deadline_s: float) -> Any: ...


def no_endpoint(_: Session) -> Generator | None:
    """Where the user has configured no model endpoint."""
    return None


class LateFinder:
    """ports.Finder over memories that may still be opening: a search waits, nobody else does."""

    def __init__(self, opened: Callable[[], Awaitable[Finder]]) -> None:
        self._opened = opened

    async def find(self, query: Query, *, wants_candidates: bool = False) -> Found:
        """See ports.Finder; raises what opening the memories raised."""
        finder = await self._opened()
        return await finder.find(query, wants_candidates=wants_candidates)


class Session:
    """One conversation, from its opening to its close; it may be opened again."""

    def __init__(
        self,
        *,
        session_id: str,
        workspaces: tuple[str, ...],
        lifetime: Lifetime,
        private: bool,
        title: str | None,
        finder: Finder,
        nursery: trio.Nursery,
        wall: Wall,
        settings: ConnectionSettings,
        tools: Callable[[], Awaitable[Tools]],
        endpoint: Callable[[Session], Generator | None] = no_endpoint,
    ) -> None:
        self.id = session_id
        self.workspaces = workspaces
        """As the client names them; the first is the one written to."""
        self.workspace_key: str | None = None
        """Canonical id of the first one, once it is known."""
        self.workspace_paths: tuple[str, ...] = ()
        """Real paths of all of them, once they are known: what an endpoint may be told of."""
        self.notes_path: str | None = None
        """Where its notes are, once that is known; None in a private session."""
        self._notes_revision: str | None = None
        self._endpoint = endpoint
        self._progress: dict[str, list[tuple[Client, int | str]]] = {}
        self.lifetime: Lifetime = lifetime
        self.private = private
        self.title = title
        self.is_open = True
        self.opened = wall()
        self.last_active = self.opened
        self.touched = trio.current_time()
        """When somebody last spoke to it: monotonic, so that neither a set clock nor a night in
        which the machine slept looks like idleness."""
        self.timeline = Timeline()
        self._wall = wall
        self._settings = settings
        self._drivers: dict[int, Client] = {}
        self._observers: dict[int, Client] = {}
        self.transcript = Transcript(keeps_unsummarised=not private and settings.extraction.enabled)
        """The main lane's: what notes are made of."""
        self._transcripts: dict[str, Transcript] = {MAIN_LANE: self.transcript}
        self._turns: dict[str, str | None] = {}
        self.recalls = Recalls(
            session_id=session_id,
            nursery=nursery,
            finder=finder,
            generator=self.generator,
            limits=lambda: self.settings.recall,
            wall=wall,
            on_event=self._on_recall_event,
        )
        self.keeper = Keeper(
            session_id=session_id,
            conversation=self.transcript,
            nursery=nursery,
            opened=tools,
            settings=lambda: self.settings.extraction,
            private=private,
            on_event=self._on_extraction_event,
            archive=lambda opened: opened.notes.archive(),
        )
        self._note("sessionOpened")

    # ---- who is there ----------------------------------------------------------------------

    def touch(self) -> None:
        """Somebody spoke to this session."""
        self.last_active = self._wall()
        self.touched = trio.current_time()

    @property
    def settings(self) -> ConnectionSettings:
        """Those of the newest driver, also after it has left."""
        for client in reversed(self._drivers.values()):
            self._settings = client.settings
            break
        return self._settings

    def join(self, client: Client, role: Role) -> None:
        """Add a connection. A driver of a `connection` session takes over: the older one looks
        on from now on and is told; processes of a `detached` session are all drivers."""
        self.touch()
        if role == "observer":
            if client.id not in self._drivers:
                self._observers[client.id] = client
            return
        if self.lifetime == "connection":
            for other in [c for c in self._drivers.values() if c.id != client.id]:
                del self._drivers[other.id]
                self._observers[other.id] = other
                other.notify("session/roleChanged", SessionRoleChangedParams(session_id=self.id))
        self._observers.pop(client.id, None)
        self._drivers.pop(client.id, None)
        self._drivers[client.id] = client
        self._settings = client.settings
        self.transcript.keeps_unsummarised = not self.private and self.settings.extraction.enabled

    def leave(self, client: Client) -> bool:
        """A connection has ended. True: with it this session ends, because its driver has left, or
        the last one who looked on where nobody ever drove."""
        role = self.role_of(client)
        self._observers.pop(client.id, None)
        self._drivers.pop(client.id, None)
        if role is None or not self.is_open or self.lifetime != "connection":
            return False
        return role == "driver" or not (self._drivers or self._observers)

    def role_of(self, client: Client) -> Role | None:
        """What the connection is in this session."""
        if client.id in self._drivers:
            return "driver"
        return "observer" if client.id in self._observers else None

    def require_driver(self, client: Client) -> None:
        """Only a driver starts, polls and reports. Raises RequestFailed."""
        if client.id not in self._drivers:
            raise RequestFailed(
                f"this connection does not drive session {self.id!r}: "
                "open it with role 'driver' first, or use recall/peek",
                detail={"role": self.role_of(client) or "none"},
            )

    # ---- the transcript --------------------------------------------------------------------

    def append(self, client: Client, params: TranscriptDidAppendParams) -> Applied | Resync:
        """`transcript/didAppend`; a gap is answered by `transcript/resyncRequired`."""
        outcome = self.apply(params)
        if isinstance(outcome, Resync):
            client.notify(
                "transcript/resyncRequired",
                TranscriptResyncRequiredParams(
                    session_id=self.id,
                    lane=params.lane,
                    last_message_id=outcome.last_message_id,
                ),
            )
        return outcome

    def apply(self, params: TranscriptDidAppendParams) -> Applied | Resync:
        """Messages of the client or of a followed file."""
        self.touch()
        transcript = self._transcript(params.lane)
        outcome = transcript.append(params.messages, params.after_message_id)
        if isinstance(outcome, Applied) and outcome.last_message_id is not None:
            self.recalls.message_seen(params.lane, outcome.last_message_id)
            if params.lane == MAIN_LANE:
                self.keeper.appended()
        return outcome

    def did_reset(self, params: TranscriptDidResetParams) -> None:
        """`transcript/didReset`: ids are forgotten, recalls end."""
        self.touch()
        self.forget(params.reason)
        self._turns.clear()
        self.recalls.did_reset()
        self._note("transcriptReset", reason=params.reason)

    def forget(self, reason: ResetReason) -> None:
        """Ids seen before are forgotten; recalls go on."""
        for transcript in self._transcripts.values():
            transcript.reset(rewound=reason == "rewound")
        self.keeper.did_reset(reason)

    def will_compact(self) -> None:
        """`transcript/willCompact`: no delivery until it is done."""
        self.touch()
        self.recalls.will_compact()
        self._note("compactionStarted")

    def did_compact(self, params: TranscriptDidCompactParams) -> None:
        """`transcript/didCompact`: bases are set again, bodies may be recalled again."""
        self.touch()
        for transcript in self._transcripts.values():
            transcript.compact(params.kept_from_message_id, params.context_tokens)
        self.recalls.did_compact(
            lambda message_id: any(t.is_in_context(message_id) for t in self._transcripts.values())
        )
        self.keeper.did_compact()
        self._note("compactionEnded")

    def turn_ended(self, params: TurnDidEndParams) -> None:
        """`turn/didEnd`: the turn is over, and its recall with it."""
        self.touch()
        live = self._turns.get(params.lane)
        if params.turn_id is None or params.turn_id == live:
            self._turns.pop(params.lane, None)
        self._note(
            "turnEnded", lane=params.lane, turn_id=params.turn_id or live, reason=params.reason
        )
        self.recalls.turn_ended(params.lane, params.turn_id, params.reason)
        if params.lane == MAIN_LANE:
            self.keeper.turn_ended()

    # ---- recall ----------------------------------------------------------------------------

    def prepare(self, params: RecallStartParams) -> RecallStartParams:
        """A start as recall shall see it: without text that we injected ourselves (recall.md
        §6)."""
        self.touch()
        if marker.contains(params.query):
            return evolve(params, query=marker.strip(params.query))
        return params

    def close(self, reason: Literal["sessionClosed", "shutdown"]) -> None:
        """End every recall; what is known stays, so that the session can be opened again."""
        if not self.is_open:
            return
        self.is_open = False
        self.recalls.close(reason)
        self.keeper.close(reason)
        self.transcript.keeps_unsummarised = False  # a closed session keeps its tail alone
        self._turns.clear()
        self._note("sessionClosed", reason=reason)
        self._drivers.clear()
        self._observers.clear()

    def reopen(self, *, lifetime: Lifetime, title: str | None) -> None:
        """Open again what was closed: messages and what is in front of the model are known."""
        self.lifetime = lifetime
        self.title = title or self.title
        if not self.is_open:
            self.is_open = True
            self.recalls.reopen()
            self.keeper.reopen()
            self._note("sessionOpened", reason="resumed")
        self.touch()

    # ---- looks -----------------------------------------------------------------------------

    @property
    def last_message_id(self) -> str | None:
        """Newest message of the main lane."""
        return self._transcripts[MAIN_LANE].last_message_id

    def status(self) -> SessionStatusResult:
        """`session/status`."""
        lag = self.keeper.lag
        notes = None
        if self.notes_path is not None:
            notes = NotesStatus(
                path=self.notes_path,
                revision=self._notes_revision,
                lag_messages=lag.messages,
                lag_tokens=lag.tokens,
            )
        return SessionStatusResult(
            session_id=self.id,
            workspace=self.workspaces[0] if self.workspaces else None,
            turn_id=self._turns.get(MAIN_LANE),
            recall=self.recalls.live(),
            extraction=self.keeper.status(),
            notes=notes,
        )

    def summary(self, client: Client) -> SessionSummary:
        """This session in `session/list`, as `client` sees it."""
        return SessionSummary(
            session_id=self.id,
            open=self.is_open,
            title=self.title,
            workspace=self.workspaces[0] if self.workspaces else None,
            workspace_key=self.workspace_key,
            lifetime=self.lifetime,
            role=self.role_of(client),
            drivers=len(self._drivers),
            observers=len(self._observers),
            opened=rfc3339(self.opened),
            last_active=rfc3339(self.last_active),
            notes_path=self.notes_path,
        )

    # ---- inside ----------------------------------------------------------------------------

    def _transcript(self, lane: str) -> Transcript:
        if lane == MAIN_LANE:
            return self._transcripts[MAIN_LANE]
        # The latest used is the last; who comes back after having made room is asked for a resync.
        transcript = self._transcripts.pop(lane, None) or Transcript()
        self._transcripts[lane] = transcript
        if len(self._transcripts) > MAX_TRANSCRIPT_LANES:
            del self._transcripts[next(one for one in self._transcripts if one != MAIN_LANE)]
        return transcript

    def _turn_started(self, lane: str, turn_id: str | None) -> None:
        """A recall has started; one more in the same turn opens no other."""
        known = turn_id is not None and self._turns.get(lane) == turn_id
        self._turns[lane] = turn_id
        if len(self._turns) > MAX_TRANSCRIPT_LANES:
            del self._turns[next(iter(self._turns))]
        if not known:
            self._note("turnStarted", lane=lane, turn_id=turn_id)
            if lane == MAIN_LANE:
                self.keeper.turn_started()

    def generator(self) -> Generator | None:
        """The model that is used now: the user's endpoint, or the one that the newest driver
        lends."""
        if self.settings.model.provider == "http":
            return self._endpoint(self)
        if self.settings.model.provider != "client":
            return None
        for client in reversed(self._drivers.values()):
            if client.options.model_provider and not client.closed:
                return ClientGenerator(client)
        return None

    def _note(self, event: Any, **fields: Any) -> None:
        self.timeline.add(self._wall(), {"event": event, **fields})

    def _tell(self, method: str, params: Any) -> None:
        for client in (*self._drivers.values(), *self._observers.values()):
            if client.wants(method):
                client.notify(method, params)

    def notes_seen(self, path: str | None, revision: str | None) -> None:
        """Where the notes are, and their revision as somebody has just read it."""
        self.notes_path = path
        self._notes_revision = revision

    def report_progress(self, client: Client, token: int | str) -> None:
        """Report the run that goes on under the client's work done token, from now to its end; one
        that is armed from its start."""
        run_id = self.keeper.run_id
        if run_id is None:
            return
        reported = self._progress.setdefault(run_id, [])
        reported.append((client, token))
        if self.keeper.is_running:
            _begin_progress(client, token)

    def _on_extraction_event(self, event: ExtractionEvent) -> None:
        """Into the timeline, to who asked, and to who follows the run's progress."""
        if isinstance(event, Decided):
            self._note(
                "extractionDecided",
                decision=event.decision,
                reason=event.reason,
                run_id=event.run_id,
            )
        elif isinstance(event, RunStarted):
            self._note("runStarted", run_id=event.run_id, reason=event.reason)
            # Whoever is here already asked while it was armed; what was dropped armed has no end.
            followed = self._progress.get(event.run_id, [])
            self._progress = {event.run_id: followed}
            for client, token in followed:
                _begin_progress(client, token)
        elif isinstance(event, RunEnded):
            if event.notes_revision is not None:
                self._notes_revision = event.notes_revision
            self._note(
                "runEnded",
                run_id=event.run_id,
                outcome=event.outcome,
                reason=event.reason,
                since_start_ms=event.duration_ms,
            )
            self._tell(
                "memory/extractionEnded",
                MemoryExtractionEndedParams(
                    session_id=self.id,
                    run_id=event.run_id,
                    outcome=event.outcome,
                    notes_revision=event.notes_revision,
                    conflict_path=event.conflict_path,
                    reason=event.reason,
                ),
            )
            for client, token in self._progress.pop(event.run_id, ()):
                ended = {"kind": "end", "message": event.reason or event.outcome}
                client.notify("$/progress", {"token": token, "value": ended})

    def _on_recall_event(self, event: RecallEvent) -> None:
        """Into the timeline and to who asked. Speculative recalls, one a keystroke, stay out of
        the timeline: they would push everything else out of it."""
        if isinstance(event, Started):
            if not event.speculative:
                self._turn_started(event.lane, event.turn_id)
                self._note(
                    "recallStarted",
                    lane=event.lane,
                    recall_id=event.recall_id,
                    turn_id=event.turn_id,
                )
            return
        common: dict[str, Any] = {
            "lane": event.lane,
            "recall_id": event.recall_id,
            "since_start_ms": event.latency_ms,
        }
        if isinstance(event, FastReady | Settled):
            self._tell(
                "recall/settled",
                RecallSettledParams(
                    session_id=self.id,
                    lane=event.lane,
                    recall_id=event.recall_id,
                    stage=event.stage,
                ),
            )
        if isinstance(event, Ended):
            self._tell("recall/ended", self._ended_params(event))
        if event.speculative:
            return
        if isinstance(event, FastReady):
            self._note("recallFastReady", stage="fast", **common)
        elif isinstance(event, Settled):
            self._note("recallSettled", stage=event.stage, strategy=event.strategy, **common)
        elif isinstance(event, Delivered):
            self._note(
                "recallDelivered",
                stage=event.stage,
                point=event.point,
                strategy=event.delivery.strategy,
                delivery_id=event.delivery.delivery_id,
                paths=tuple(document.path for document in event.delivery.documents),
                **common,
            )
        else:
            self._note(
                "recallEnded",
                state=event.state,
                reason=event.reason,
                stage=event.stage,
                point=event.point,
                strategy=event.strategy,
                **common,
            )

    def _ended_params(self, event: Ended) -> RecallEndedParams:
        return RecallEndedParams(
            session_id=self.id,
            lane=event.lane,
            recall_id=event.recall_id,
            state=event.state,
            reason=event.reason,
            stage=event.stage,
            point=event.point,
            strategy=event.strategy,
            documents=event.documents,
            latency_ms=event.latency_ms,
        )


def _begin_progress(client: Client, token: int | str) -> None:
    begun = {"kind": "begin", "title": "oncue: session notes", "cancellable": False}
    client.notify("$/progress", {"token": token, "value": begun})
