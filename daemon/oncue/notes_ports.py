"""What extraction and notes know of each other: plain data, and the ports between them (pure).

`extraction` decides when a run starts and who may commit; `notes` owns the document and its file.
Neither imports the other: the keeper works through these ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from oncue_protocol import Message


@frozen
class Snapshot:
    """A range of one conversation, as an extractor may see it: injected text is stripped (X26),
    long tool results are cut, no tool call is separated from its result (X5)."""

    session_id: str
    messages: tuple[Message, ...]
    """What is not summarised yet, oldest first; never empty."""
    sha256: str
    """Of the messages; with session and last message id the idempotency key of the range."""

    @property
    def last_message_id(self) -> str:
        """Where the range ends."""
        return self.messages[-1].id


@frozen
class SectionEdit:
    """New text for one section (X19)."""

    section: str
    """Title of a section of the template."""
    new_text: str
    """The section's new body; with `old_text`, what stands in its place."""
    old_text: str | None = None
    """Exact text to replace, which must occur once; None: the whole body."""


@frozen
class Extracted:
    """What an extractor made of a snapshot."""

    edits: tuple[SectionEdit, ...]
    nothing_to_add: bool = False
    """The explicit no-op: a success without edits (X10)."""


@frozen
class NoteBudgets:
    """In estimated tokens (X21)."""

    max_section_tokens: int
    max_total_tokens: int


@frozen
class NoteSection:
    """One section of the notes."""

    title: str
    description: str
    """The line in italics that says what belongs there, without the marks."""
    body: str
    tokens: int
    over_budget: bool


@frozen
class NotesView:
    """The notes as they were read."""

    text: str
    """The whole file; the template where there is none yet."""
    sections: tuple[NoteSection, ...]
    revision: str | None
    """SHA-256 of the file's bytes; None: there is no file yet."""
    is_template: bool
    """Nothing was ever written into a section."""


class Prepared(Protocol):
    """New notes, written and synced beside the file, not yet in its place."""

    @property
    def changed(self) -> bool:
        """Whether publishing changes the file."""

    @property
    def revision(self) -> str:
        """What the file's revision will be once it is in place; as it is where nothing changes.
        Noted beside the cursor before publishing, so that a crash in between is recognised."""

    @property
    def conflict_path(self) -> str | None:
        """Copy that holds what lost against the user's own edit of the same section (X23)."""

    def publish(self) -> str:
        """Put it in place: a rename, after a last look that the file is still as it was merged
        with (else it raises `NotesMovedError`); returns the revision. Quick, blocking."""

    def discard(self) -> None:
        """Remove what was prepared. Never raises."""


class NotesMovedError(Exception):
    """The file changed since it was merged: prepare again."""


class NotesRefusedError(Exception):
    """The edits would damage the notes (X20, X22); they stay as they are. The text says why."""


class Notes(Protocol):
    """The notes of one session. Blocking: called in worker threads."""

    @property
    def path(self) -> str:
        """Absolute path of the file, whether it exists or not."""

    def read(self, budgets: NoteBudgets) -> NotesView:
        """The notes now."""

    def archive(self) -> None:
        """Put the notes away, readable but no longer the session's: it was cleared (X8)."""

    def prepare(
        self, edits: Sequence[SectionEdit], base: NotesView, budgets: NoteBudgets
    ) -> Prepared:
        """Merge `edits` of `base` with the file as it is now, condense what is over budget, remove
        secrets, write and sync. Raises `NotesRefusedError`, `OSError`."""


class ExtractionFailedError(Exception):
    """An extractor gave up. The text is fit for logs and clients: no key, no content."""


class Extractor(Protocol):
    """Makes section edits out of a snapshot. Cancellable; raises `ExtractionFailedError` where
    it gives up; of any other exception only the type is told."""

    async def extract(
        self, snapshot: Snapshot, notes: NotesView, budgets: NoteBudgets, deadline_s: float
    ) -> Extracted:
        """`deadline_s`: seconds from now that the whole run may take."""
