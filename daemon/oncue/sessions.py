"""All sessions of the daemon: who opened them, when they end, which can be opened again."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

import trio
from structlog import get_logger

from oncue import proc
from oncue.extraction.ports import Tools
from oncue.ports import Finder, Generator, Wall
from oncue.session import Client, LateFinder, Session
from oncue.settings import ConnectionSettings
from oncue_protocol import LimitExceeded, SessionNotFound, SessionOpenParams

log = get_logger("oncue.sessions")

MAX_OPEN = 1_000
"""Open sessions a daemon: an editor has one a window, hooks one a conversation."""
MAX_CLOSED = 256
"""Closed sessions that can be opened again with what was known of them; the oldest is forgotten."""
IDLE_S = 12 * 3600.0
"""A detached session that nobody spoke to for half a day is over: its agent was killed."""
SWEEP_S = 5.0
"""How often owners and idleness of detached sessions are looked at (parent death: 5 s)."""

OpenFinder = Callable[[Session], Awaitable[Finder]]
OpenTools = Callable[[Session], Awaitable[Tools]]


class Sessions:
    """Registry; every method but `sweep` is dictionary work."""

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        wall: Wall,
        defaults: ConnectionSettings,
        open_finder: OpenFinder,
        open_tools: OpenTools,
        endpoint: Callable[[Session], Generator | None],
        on_close: Callable[[str], None],
    ) -> None:
        self._nursery = nursery
        self._wall = wall
        self._defaults = defaults
        self._open_finder = open_finder
        self._open_tools = open_tools
        self._endpoint = endpoint
        self._on_close = on_close
        self._open: dict[str, Session] = {}
        self._closed: dict[str, Session] = {}
        self._owners: dict[str, proc.Identity] = {}

    def open(
        self,
        client: Client,
        params: SessionOpenParams,
        workspaces: tuple[str, ...],
        fallback: tuple[str, ...] = (),
    ) -> tuple[Session, bool]:
        """(session, whether it was known). `workspaces`: as asked for, by a driver only;
        `fallback`: for a session that has none yet. Raises LimitExceeded."""
        session_id = params.session_id or secrets.token_hex(16)
        session = self._open.get(session_id)
        resumed = session is not None
        if session is None:
            if len(self._open) >= MAX_OPEN:
                raise LimitExceeded(
                    f"{MAX_OPEN} sessions are open; close some with session/close",
                    limit="openSessions",
                    value=MAX_OPEN,
                    sent=MAX_OPEN + 1,
                    retryable=True,
                )
            session = self._closed.pop(session_id, None)
            resumed = session is not None
            if session is None:
                session = self._new(session_id, params, workspaces or fallback)
            else:
                session.reopen(lifetime=params.lifetime, title=params.title)
            self._open[session_id] = session
        if params.role == "driver" and workspaces:
            session.workspaces = workspaces
        elif not session.workspaces:
            session.workspaces = workspaces or fallback
        session.join(client, params.role)
        if params.owner_pid is not None:
            self._own(session_id, params.owner_pid)
        return session, resumed

    def get(self, session_id: str) -> Session:
        """The open session of this id. Raises SessionNotFound."""
        session = self._open.get(session_id)
        if session is None:
            what = "is closed" if session_id in self._closed else "is not known"
            raise SessionNotFound(f"session {session_id!r} {what}; open it with session/open")
        return session

    def driven(self, session_id: str, client: Client) -> Session:
        """The open session of this id, which `client` must drive. Raises SessionNotFound,
        RequestFailed."""
        session = self.get(session_id)
        session.require_driver(client)
        return session

    def close(self, session_id: str) -> None:
        """End a session; it can be opened again. Raises SessionNotFound."""
        session = self.get(session_id)
        del self._open[session_id]
        self._owners.pop(session_id, None)
        session.close("sessionClosed")
        self._on_close(session_id)
        self._closed[session_id] = session
        while len(self._closed) > MAX_CLOSED:
            del self._closed[next(iter(self._closed))]

    def disconnected(self, client: Client) -> None:
        """A connection has ended; sessions that lived with it end."""
        for session in list(self._open.values()):
            if session.leave(client):
                self.close(session.id)

    def shut_down(self) -> None:
        """Every recall ends, `shutdown`."""
        for session in self._open.values():
            session.close("shutdown")

    def of(self, client: Client) -> list[Session]:
        """Open sessions that this connection takes part in."""
        return [s for s in self._open.values() if s.role_of(client) is not None]

    def known(self) -> list[Session]:
        """Open ones and those that can be opened again, the latest first."""
        sessions = (*self._open.values(), *self._closed.values())
        return sorted(sessions, key=lambda s: s.last_active, reverse=True)

    @property
    def open_count(self) -> int:
        """Sessions that are open."""
        return len(self._open)

    def counters(self) -> dict[str, int]:
        """What the recalls of all known sessions came to, for `daemon/status`."""
        total = {"recalls": 0, "deliveries": 0, "lateReports": 0, "searches": 0, "liveRecalls": 0}
        for session in (*self._open.values(), *self._closed.values()):
            seen = session.recalls.statistics()
            total["recalls"] += seen.ledger.started
            total["deliveries"] += seen.ledger.delivered
            total["lateReports"] += seen.ledger.late
            total["searches"] += seen.searching
            total["liveRecalls"] += seen.ledger.live
        return total

    async def sweep(self) -> None:
        """Close detached sessions that idle or whose owner died, as long as the daemon lives."""
        while True:
            await trio.sleep(SWEEP_S)
            now = trio.current_time()
            for session in list(self._open.values()):
                if session.lifetime != "detached":
                    continue
                owner = self._owners.get(session.id)
                if owner is not None and not proc.is_alive(owner):
                    log.info("session closed", reason="owner died", session=session.id)
                    self.close(session.id)
                elif now - session.touched > IDLE_S:
                    log.info("session closed", reason="idle", session=session.id)
                    self.close(session.id)

    def _new(
        self, session_id: str, params: SessionOpenParams, workspaces: tuple[str, ...]
    ) -> Session:
        async def opened() -> Finder:
            return await self._open_finder(session)

        async def tools() -> Tools:
            return await self._open_tools(session)

        session = Session(
            session_id=session_id,
            workspaces=workspaces,
            lifetime=params.lifetime,
            private=params.private,
            title=params.title,
            finder=LateFinder(opened),
            nursery=self._nursery,
            wall=self._wall,
            settings=self._defaults,
            tools=tools,
            endpoint=self._endpoint,
        )
        return session

    def _own(self, session_id: str, pid: int) -> None:
        owner = proc.identity(pid)
        if owner is None:
            log.warning("owner process not visible", session=session_id, pid=pid)
        else:
            self._owners[session_id] = owner
