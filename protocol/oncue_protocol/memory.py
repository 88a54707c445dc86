"""Memory files: list, search, read, write, forget, purge (protocol.md, Memory; pure).

These methods take `sessionId` or `workspace` to say which workspace is meant; with neither,
the one workspace of this connection's open sessions, else -32602.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .base import (
    Count,
    DocumentType,
    Identifier,
    MemoryType,
    Milliseconds,
    Origin,
    Scope,
    Time,
    Trust,
    Wire,
    WrittenBy,
)

RemovedKind = Literal[
    "file", "trash", "version", "conflict", "index", "export", "notes", "cursor", "session"
]


@frozen(kw_only=True, eq=False, repr=False)
class MemoryRoot(Wire):
    """A folder of memory files."""

    scope: Scope
    """`user`: all workspaces; `project`: this one."""
    path: str
    """Absolute path."""
    writable: bool
    """Whether `memory/write` may write there."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryDocument(Wire):
    """What is known of a memory file without its body."""

    path: str
    """Absolute path of the file."""
    title: str
    """Its name."""
    description: str
    """What it is about, in one line."""
    type: DocumentType
    """What kind of memory it is."""
    scope: Scope
    """`user`: all workspaces; `project`: this one."""
    origin: Origin
    """Whose folder it lies in: mine, this repository's, another agent's."""
    trust: Trust
    """Whether the user trusts that folder or approved this file."""
    written_by: WrittenBy
    """Who wrote it."""
    sha256: str
    """Of the file's bytes, lower-case hexadecimal."""
    revision: str
    """What `ifRevision` is compared with."""
    age_ms: Milliseconds
    """Time since the file was changed."""
    modified: Time
    """When the file was changed."""
    score: float | None = None
    """In a search: the ranker's score."""
    confidence: float | None = None
    """In a search: how likely it is that the document is relevant, 0 to 1."""
    snippet: str | None = None
    """In a search: the passage that matched."""
    truncated: bool = False
    """Whether the snippet was cut."""
    keywords: tuple[str, ...] = ()
    """Words under which it should be found."""
    usage_scenarios: tuple[str, ...] = ()
    """When it is of use."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryListParams(Wire):
    """Lists memory files, newest first."""

    session_id: Identifier | None = None
    """The session whose workspace is meant."""
    workspace: str | None = None
    """The workspace that is meant."""
    scope: Scope | None = None
    """Only this scope."""
    cursor: str | None = None
    """Where the page before ended."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryListResult(Wire):
    """A page of memory files."""

    documents: tuple[MemoryDocument, ...]
    """The files."""
    total: Count
    """How many there are in all pages."""
    cursor: str | None = None
    """Where the next page begins; absent: this was the last."""


@frozen(kw_only=True, eq=False, repr=False)
class MemorySearchParams(Wire):
    """Searches memory files with the ranker of a recall."""

    query: str
    """What is looked for."""
    session_id: Identifier | None = None
    """The session whose workspace is meant."""
    workspace: str | None = None
    """The workspace that is meant."""
    scope: Scope | None = None
    """Only this scope."""
    cursor: str | None = None
    """Where the page before ended."""


@frozen(kw_only=True, eq=False, repr=False)
class MemorySearchResult(Wire):
    """A page of memory files, best first."""

    documents: tuple[MemoryDocument, ...]
    """The files."""
    total: Count
    """How many were found in all pages."""
    cursor: str | None = None
    """Where the next page begins; absent: this was the last."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryReadParams(Wire):
    """Reads one memory file."""

    path: str
    """The file, inside the memory roots."""
    session_id: Identifier | None = None
    """The session whose workspace is meant."""
    workspace: str | None = None
    """The workspace that is meant."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryReadResult(Wire):
    """A memory file."""

    document: MemoryDocument
    """What is known of it."""
    body: str
    """Its text without the front matter."""
    revision: str
    """What `ifRevision` is compared with."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryDidChangeParams(Wire):
    """Memory files have changed, whoever changed them."""

    added: tuple[str, ...] = ()
    """Absolute paths of new files."""
    changed: tuple[str, ...] = ()
    """Absolute paths of changed files."""
    removed: tuple[str, ...] = ()
    """Absolute paths of files that are gone."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryWriteParams(Wire):
    """Writes a memory file, new or changed."""

    session_id: Identifier | None = None
    """The session whose workspace is meant."""
    workspace: str | None = None
    """The workspace that is meant."""
    scope: Scope
    """Where it is kept: for all workspaces or for this one."""
    type: MemoryType
    """What kind of memory it is."""
    title: str
    """Its name; the file's name is made from it."""
    description: str
    """What it is about, in one line: searches weigh it twice."""
    body: str
    """The memory, in Markdown."""
    keywords: tuple[str, ...] = ()
    """Words under which it should be found: synonyms, other languages, error texts."""
    usage_scenarios: tuple[str, ...] = ()
    """When it is of use, in the words of whoever will ask."""
    path: str | None = None
    """The file to change; absent: a new one."""
    if_revision: str | None = None
    """Write only if the file still has this revision (else 1003 `revisionConflict`)."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryWriteResult(Wire):
    """The memory is on disk."""

    path: str
    """Absolute path of the file."""
    revision: str
    """Its revision now."""
    left_out_of_index: tuple[str, ...] = ()
    """Entries that `MEMORY.md` has no room for any more (M1); they are found all the same."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryForgetParams(Wire):
    """Moves memory files to the trash, where they stay for 30 days."""

    session_id: Identifier | None = None
    """The session whose workspace is meant."""
    workspace: str | None = None
    """The workspace that is meant."""
    path: str | None = None
    """The file; this or `query`."""
    query: str | None = None
    """Files that a search finds; this or `path`."""
    if_revision: str | None = None
    """With `path`: forget only if the file still has this revision."""
    dry_run: bool | None = None
    """Only say what would be removed; absent: true for a query, false for a path."""


@frozen(kw_only=True, eq=False, repr=False)
class ForgottenDocument(Wire):
    """A memory file that was, or would be, moved to the trash."""

    path: str
    """Where it was."""
    title: str
    """Its name."""
    revision: str
    """Its revision when it was found."""
    trash_path: str | None = None
    """Where it is now; absent in a dry run."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryForgetResult(Wire):
    """What was, or would be, removed."""

    removed: tuple[ForgottenDocument, ...]
    """The files."""
    dry_run: bool
    """Whether nothing was done."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryPurgeParams(Wire):
    """Removes every copy of memory files for good."""

    session_id: Identifier | None = None
    """The session whose workspace is meant."""
    workspace: str | None = None
    """The workspace that is meant."""
    path: str | None = None
    """The file; this or `query`."""
    query: str | None = None
    """Files that a search finds; this or `path`."""
    dry_run: bool | None = None
    """Only say what would be removed; absent: true for a query, false for a path."""


@frozen(kw_only=True, eq=False, repr=False)
class Removed(Wire):
    """One kind of copy that was, or would be, removed."""

    kind: RemovedKind
    """What it is."""
    path: str | None = None
    """Where it was, if it was a file."""
    count: Count = 1
    """How many: rows of an index, versions of a file."""


@frozen(kw_only=True, eq=False, repr=False)
class MemoryPurgeResult(Wire):
    """What was, or would be, removed."""

    removed: tuple[Removed, ...]
    """Each copy."""
    dry_run: bool
    """Whether nothing was done."""
