"""Which memories a session sees: its libraries, opened once, and the search over them."""

from __future__ import annotations

import trio

from oncue.finder import LibraryFinder, Prepared, RankAnalyst
from oncue.memory.libraries import Libraries
from oncue.memory.library import Library
from oncue.memory.workspace import resolve
from oncue.ports import Finder
from oncue.session import Session


class Memories:
    """Libraries by workspace, and finders over them."""

    def __init__(self, libraries: Libraries, analyst: RankAnalyst) -> None:
        self._libraries = libraries
        self._prepared = Prepared(analyst)

    async def open(self, workspaces: tuple[str, ...]) -> Library:
        """The library of these folders: the first is written to, all are read."""
        return await self._libraries.open(*(workspaces or (None,)))

    async def of(self, session: Session) -> Library:
        """The library of a session; notes the canonical id of its workspace."""
        library = await self.open(session.workspaces)
        session.workspace_key = library.workspace_key
        session.workspace_paths = library.workspace_paths
        return library

    async def key_of(self, workspace: str) -> str | None:
        """Canonical id of a folder; None: it is no project."""
        return (await trio.to_thread.run_sync(resolve, workspace)).key

    async def finder_of(self, session: Session) -> Finder:
        """The search over a session's memories."""
        return self.finder(await self.of(session))

    def finder(self, library: Library) -> Finder:
        """The search over a library."""
        return LibraryFinder(library, self._prepared)
