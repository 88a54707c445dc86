"""The daemon as a whole: composition root, nursery tree, shutdown order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio
from structlog import get_logger

from oncue import logs, proc
from oncue.folders import Folders
from oncue.session import Session
from oncue.sessions import Sessions
from oncue.settings import DaemonSettings
from oncue.settings_load import Problem
from oncue.times import rfc3339
from oncue.version import VERSION
from oncue.wire import descriptors
from oncue.wire.connection import serve_connection
from oncue.wire.handlers import HANDLERS
from oncue.wire.peer import Peer
from oncue.wire.rpc import Rpc
from oncue_protocol import DaemonStatusResult, Health, MemoryDidChangeParams, converter
from oncue_protocol.base import PROTOCOL_VERSION

if TYPE_CHECKING:
    from oncue.extraction.ports import Tools
    from oncue.memory.indexer import Changes
    from oncue.memory.roots import Root
    from oncue.ports import Finder, Generator
    from oncue.services import Services

log = get_logger("oncue.daemon")

WARMED: Final = (
    "session/open",
    "recall/start",
    "recall/poll",
    "recall/cancel",
    "recall/settled",
    "recall/ended",
    "transcript/didAppend",
    "turn/didEnd",
)
"""Methods of every turn: made ready while the first session opens."""
LAST_RESORT_S: Final = 0.9
"""From the end of the last connection to the end of the process, whatever is running: `exit` has
1 s (I6). Tasks and threads that do not stop by then are left behind with it."""


class Daemon:
    """One process: its settings, its connections, its services."""

    sessions: Sessions
    """Lives in the daemon's nursery; made when it starts."""

    def __init__(
        self,
        settings: DaemonSettings,
        folders: Folders,
        handlers: dict[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.settings = settings
        self.setting_problems: tuple[Problem, ...] = ()
        """What was wrong with the user's own settings: clients are told."""
        self.folders = folders
        self._services: Services | None = None
        self._loading = trio.Lock()
        self.handlers = dict(HANDLERS) if handlers is None else handlers
        self.version = VERSION
        self.started = proc.monotonic()
        self.started_at = time.time()
        self.peers: dict[int, Peer] = {}
        self.rpcs: dict[int, Rpc] = {}
        self._peer_count = 0
        self._parent = os.getppid()

    def new_peer(self) -> Peer:
        """A peer for a connection that begins."""
        self._peer_count += 1
        peer = Peer(self._peer_count, self, self.settings.connection)
        self.peers[peer.id] = peer
        return peer

    def watch_client(self, peer: Peer, pid: int) -> None:
        """End `peer` when the process `pid` dies. A pid that means nothing here (an editor in
        another container or on another host) is not watched, unless the process that started us
        is gone as well; end of stdin still ends the connection."""
        who = proc.identity(pid)
        if who is None:
            if os.getppid() == self._parent and self._parent != 1:
                log.warning("client process not visible", pid=pid)
            else:
                peer.end("parent")
            return

        async def watch() -> None:
            await proc.wait_ended(who)
            peer.end("parent")

        peer.nursery.start_soon(watch)

    def stop(self, reason: str) -> None:
        """End every connection soon. Never waits. Recalls end first, while their clients can still
        be told (R12)."""
        self.sessions.shut_down()
        for peer in self.peers.values():
            peer.end(reason)

    def status(self) -> DaemonStatusResult:
        """What `daemon/status` answers; dictionary work only."""
        logged = logs.statistics()
        counters = {"logRecords": logged.written, "logRecordsDropped": logged.dropped}
        for rpc in self.rpcs.values():
            seen = rpc.counters
            for name, value in (
                ("requests", seen.requests),
                ("notifications", seen.notifications),
                ("errors", seen.errors),
                ("cancelled", seen.cancelled),
                ("refused", seen.refused),
                ("lateResponses", seen.late_responses),
            ):
                counters[name] = counters.get(name, 0) + value
        counters |= self.sessions.counters()
        return DaemonStatusResult(
            version=self.version,
            protocol_version=PROTOCOL_VERSION,
            pid=os.getpid(),
            uptime_ms=int((proc.monotonic() - self.started) * 1000),
            clients=len(self.peers),
            sessions=self.sessions.open_count,
            store=self._store_health(),
            model=self._model_health(),
            memory=self._memory_health(),
            counters=counters,
        )

    async def services(self) -> Services:
        """Memory and what else takes time to load. The first caller has it loaded, in a worker
        thread; the loop goes on."""
        if self._services is None:
            async with self._loading:
                if self._services is None:
                    self._services = services = await trio.to_thread.run_sync(self._load)
                    self.nursery.start_soon(services.libraries.run)
        return self._services

    def _load(self) -> Services:
        from oncue import services

        # What structures a method's params is made when they first come, 5 ms each and more; a
        # first recall/start must not pay for that (R1).
        converter.prepare(WARMED)
        return services.build(
            self.folders, self.settings, os.environ, self.nursery, self._memory_changed
        )

    async def _finder_of(self, session: Session) -> Finder:
        return await (await self.services()).memories.finder_of(session)

    async def _tools_of(self, session: Session) -> Tools:
        return await (await self.services()).notebooks.tools_of(session)

    def _endpoint(self, session: Session) -> Generator | None:
        """The user's model endpoint, where it may be told of this session's workspaces."""
        if self._services is None:
            return None
        endpoint = self._services.endpoint
        if not endpoint.usable or not endpoint.may_leave(session.workspace_paths):
            return None
        return endpoint

    def _session_closed(self, session_id: str) -> None:
        if self._services is not None:
            self._services.followers.close(session_id)

    def _store_health(self) -> Health:
        if self._services is None:
            return Health(state="ok", reason="not opened yet: nothing was asked of it")
        store = self._services.store.health
        since = None if store.since is None else rfc3339(store.since)
        return Health(state=store.state, reason=store.reason, since=since)

    def _memory_health(self) -> Health:
        if self._services is None:
            return Health(state="ok", reason="not read yet: nothing was asked of it")
        refused = self._services.libraries.refused()
        if refused:
            return Health(state="degraded", reason="; ".join(refused[:3]))
        problems = self._services.libraries.problems()
        if not problems:
            return Health(state="ok")
        shown = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:3])
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return Health(state="degraded", reason=f"not readable as memories: {shown}{more}")

    def _model_health(self) -> Health:
        """The model of the first connection that uses one."""
        if self._services is not None and any(
            peer.settings.model.provider == "http" for peer in self.peers.values()
        ):
            return self._services.endpoint.health()
        for peer in self.peers.values():
            if peer.options.model_provider and peer.settings.model.provider == "client":
                return Health(state="ok", reason="lent by a client")
        return Health(state="off", reason="no client lends one; recall ranks without")

    def _memory_changed(self, root: Root, changes: Changes) -> None:
        """Tell who asked what the index saw change; a daemon's connections share its memories."""
        params = MemoryDidChangeParams(
            added=tuple(map(root.absolute, changes.added)),
            changed=tuple(map(root.absolute, changes.changed)),
            removed=tuple(map(root.absolute, changes.removed)),
        )
        for peer in self.peers.values():
            if peer.wants("memory/didChange"):
                peer.notify("memory/didChange", params)

    async def serve_stdio(self, read_fd: int, write_fd: int, client_pid: int | None) -> int:
        """Serve one client on two descriptors until it ends; returns the exit code."""
        peer = self.new_peer()
        async with trio.open_nursery() as nursery:
            self._begin(nursery)
            async with trio.open_nursery() as connection:
                rpc: Rpc = await connection.start(self._connect, peer, read_fd, write_fd)
                self.rpcs[peer.id] = rpc
                if client_pid is not None:
                    self.watch_client(peer, client_pid)
                await peer.wait_end()
                _arm_last_resort(peer)
                self.sessions.shut_down()
            nursery.cancel_scope.cancel()
        return peer.exit_code

    def _begin(self, nursery: trio.Nursery) -> None:
        """Start what lives as long as the daemon."""
        self.nursery = nursery
        self.sessions = Sessions(
            nursery=nursery,
            wall=time.time,
            defaults=self.settings.connection,
            open_finder=self._finder_of,
            open_tools=self._tools_of,
            endpoint=self._endpoint,
            on_close=self._session_closed,
        )
        nursery.start_soon(self._signals)
        nursery.start_soon(self.sessions.sweep)

    async def _connect(
        self,
        peer: Peer,
        read_fd: int,
        write_fd: int,
        task_status: trio.TaskStatus[Rpc] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await serve_connection(
                peer,
                self.handlers,
                read_fd=read_fd,
                write_fd=write_fd,
                max_message_bytes=self.settings.daemon.max_message_bytes,
                task_status=task_status,
            )
        finally:
            self.sessions.disconnected(peer)
            self.peers.pop(peer.id, None)
            self.rpcs.pop(peer.id, None)

    async def _signals(self) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, signal.SIGINT) as signals:
            async for number in signals:
                log.info("signal", signal=signal.Signals(number).name)
                self.stop("signal")


def _arm_last_resort(peer: Peer) -> None:
    """Whatever happens now, the process ends in time."""

    def end() -> None:
        time.sleep(LAST_RESORT_S)
        descriptors.give_back()
        os._exit(peer.exit_code)

    threading.Thread(target=end, name="oncue-last-resort", daemon=True).start()
