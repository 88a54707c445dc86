"""What the runs of a session work with: its notes file, claims and cursors, and an extractor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio
from structlog import get_logger

from oncue.extraction.extractors.model import ModelExtractor
from oncue.extraction.extractors.outline import OutlineExtractor
from oncue.extraction.ports import Tools
from oncue.memories import Memories
from oncue.notes import overrides, places
from oncue.notes.file import NotesFile
from oncue.notes.template import substitute
from oncue.notes_ports import Extractor, NotesView
from oncue.session import Session
from oncue.store.claims import Claims
from oncue.store.cursors import Cursors
from oncue.store.sessions_db import SessionsDb

log = get_logger("oncue.notes")


class Notebooks:
    """One a daemon. Notes lie beside the memories of the session's workspace."""

    def __init__(
        self,
        *,
        config: Path,
        data: Path,
        state: Path,
        memories: Memories,
        retention_days: int,
        wall: Callable[[], float],
    ) -> None:
        self._config = config
        self._data = data
        self._memories = memories
        self._retention_days = retention_days
        self._wall = wall
        database = SessionsDb(state)
        self.claims = Claims(database)
        self.cursors = Cursors(database, self.claims)
        self._swept: set[str] = set()

    async def notes_of(self, session: Session) -> NotesFile:
        """The notes file of a session, which need not exist. Files of sessions that nobody wrote
        to for `notesRetentionDays` go when their folder is first used."""
        library = await self._memories.of(session)
        return await trio.to_thread.run_sync(self._opened, library.workspace_key, session.id)

    async def tools_of(self, session: Session) -> Tools:
        """What runs of this session work with."""
        notes = await self.notes_of(session)
        prompt, warning = await trio.to_thread.run_sync(overrides.load_prompt, self._config)
        if warning is not None:
            log.warning("prompt override not used", where="prompt.md")

        def extractor() -> Extractor:
            if session.settings.extraction.extractor == "outline":
                return OutlineExtractor()
            return ModelExtractor(
                session.generator, None if prompt is None else _prompt(prompt, notes.path)
            )

        return Tools(leases=self.claims, cursors=self.cursors, notes=notes, extractor=extractor)

    def _opened(self, project_key: str | None, session_id: str) -> NotesFile:
        template, warning = overrides.load_template(self._config)
        if warning is not None:
            log.warning("template override not used", where="template.md")
        folder = places.folder_of(self._data, project_key)
        if folder.path not in self._swept:
            self._swept.add(folder.path)
            try:
                places.expire(folder, days=self._retention_days, now=self._wall())
            except OSError as error:
                log.warning("old notes not removed", error=type(error).__name__)
        return NotesFile(folder, session_id, template)


def _prompt(text: str, path: str) -> Callable[[NotesView], str]:
    return lambda view: substitute(text, {"currentNotes": view.text, "notesPath": path})
