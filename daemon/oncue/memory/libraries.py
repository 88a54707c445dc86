"""All libraries of a daemon, and the one task that keeps their index fresh (memory.md M7).

There is no timer: a root is refreshed when it is used (a session opens, a recall starts, something
is written), in the background, and not more often than it can bear. So an idle daemon does
nothing, and an edit made with an editor is found at the latest by the recall after next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
import trio
from attrs import define, evolve, field

from oncue.memory.analyst import Analyst, PlainAnalyst
from oncue.memory.files import FileProblem
from oncue.memory.indexer import Changes, RootIndex
from oncue.memory.library import Library
from oncue.memory.roots import Root, project_root, user_root
from oncue.memory.workspace import Workspace, resolve
from oncue.store.sqlite import Store
from oncue_protocol.errors import StoreUnavailable

PAUSE_S = 0.25
"""Least time between two refreshes of a root: a burst of recalls is one."""
SHARE = 4.0
"""A refresh that took t is not repeated for SHARE × t: a large folder gets a fifth of a core."""
BROUGHT_ALONG = (".oncue/memory", ".claude/memory", ".qwen/memory", ".agents/memory")
"""Memory folders that a repository may bring along (T1): only their being there is told."""
MAX_LIBRARIES = 256
"""Kept open; the one unused longest is opened again when it is wanted."""

log = structlog.get_logger(__name__)


@define(eq=False)
class Libraries:
    """Opens libraries; one for each workspace, sharing the user scope."""

    data: Path
    """Folder of memory files."""
    store: Store
    analyst: Analyst = field(factory=PlainAnalyst)
    wall: Callable[[], float] = time.time
    trash_days: float = 30.0
    on_change: Callable[[Root, Changes], None] | None = None
    _indexes: dict[Root, RootIndex] = field(factory=dict, init=False)
    _libraries: dict[str, Library] = field(factory=dict, init=False)
    _wanted: dict[RootIndex, None] = field(factory=dict, init=False)
    _wake: trio.Event = field(factory=trio.Event, init=False)

    async def open(self, workspace: str | None, *also: str) -> Library:
        """The library of a workspace (path or `file:` URI; None: user scope only); memories of the
        workspaces in `also` are read, never written. Reads no memory file and waits for none; asks
        for a refresh in the background."""
        found, untrusted = await trio.to_thread.run_sync(_resolve, workspace, self.data)
        others: dict[str, str] = {}
        for folder in also:
            other, brought = await trio.to_thread.run_sync(_resolve, folder, self.data)
            untrusted += tuple(path for path in brought if path not in untrusted)
            if other.key is not None and other.key != found.key:
                others[other.key] = other.path or ""
        library = self._library(found, untrusted, others)
        library.refresh_soon()
        return library

    def problems(self) -> list[FileProblem]:
        """Files that could not be taken as memories, or only in part, as last seen (D53)."""
        return [problem for of in self._indexes.values() for problem in of.problems]

    def refused(self) -> list[str]:
        """What the disk said where the last write of a memory failed."""
        return [of.refused for of in self._indexes.values() if of.refused is not None]

    async def run(self) -> None:
        """Refresh what is asked for, until cancelled. Nothing that goes wrong with a root ends
        it."""
        async with trio.open_nursery() as nursery:
            busy: set[RootIndex] = set()
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                ready = [of for of in self._wanted if of not in busy]
                for of in ready:
                    del self._wanted[of]
                    busy.add(of)
                    nursery.start_soon(self._serve, of, busy)

    def want(self, of: RootIndex) -> None:
        """Ask for a refresh of a root; never waits."""
        self._wanted[of] = None
        self._wake.set()

    async def _serve(self, of: RootIndex, busy: set[RootIndex]) -> None:
        started = trio.current_time()
        try:
            await of.refresh()
        except StoreUnavailable:
            pass  # the store's health says it; asked for again with the next use
        except Exception as error:
            log.warning("refresh failed", scope=of.root.scope, error=type(error).__name__)
        took = trio.current_time() - started
        await trio.sleep(max(PAUSE_S, SHARE * took))
        busy.discard(of)
        if of in self._wanted:
            self._wake.set()

    def _library(
        self, workspace: Workspace, untrusted: tuple[str, ...], others: Mapping[str, str]
    ) -> Library:
        name = "\0".join((workspace.key or f"\0{workspace.why_none}", *others))
        library = self._libraries.pop(name, None)
        if library is None or library.untrusted_roots != untrusted:
            roots = [user_root(self.data)]
            if workspace.key is not None:
                roots.insert(0, project_root(self.data, workspace.key))
            roots += [evolve(project_root(self.data, key), writable=False) for key in others]
            library = Library(
                workspace,
                tuple(self._index(root) for root in roots),
                self.store,
                self.analyst,
                self.wall,
                untrusted,
                self.want,
                tuple(path for path in (workspace.path, *others.values()) if path),
            )
        self._libraries[name] = library
        while len(self._libraries) > MAX_LIBRARIES:
            gone = self._libraries.pop(next(iter(self._libraries)))
            for of in gone.indexes:
                if of.root.scope == "project":
                    self._indexes.pop(of.root, None)
        return library

    def _index(self, root: Root) -> RootIndex:
        of = self._indexes.get(root)
        if of is None:
            of = self._indexes[root] = RootIndex(
                root, self.store, self.analyst, self.wall, self.trash_days, self.on_change
            )
        return of


def _resolve(workspace: str | None, data: Path) -> tuple[Workspace, tuple[str, ...]]:
    found = resolve(workspace)
    if found.path is None:
        return found, ()
    here = [f"{found.path}/{below}" for below in BROUGHT_ALONG]
    inside = os.path.realpath(data)
    return found, tuple(p for p in here if os.path.lexists(p) and os.path.realpath(p) != inside)
