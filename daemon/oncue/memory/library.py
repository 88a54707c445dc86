"""The memories of one workspace: what `memory/*` does (protocol.md; memory.md M1-M6).

Files are the truth: `read`, `write` and `forget` go to them; `list` and `search` ask the index,
after giving it a moment to catch up with the files. A recall never comes here (finder.py).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
import trio
from attrs import define, evolve, field

from oncue.memory import editing, files, index
from oncue.memory.analyst import Analyst
from oncue.memory.document import describe
from oncue.memory.files import FileProblem
from oncue.memory.front_matter import parse
from oncue.memory.indexer import RootIndex
from oncue.memory.listing import memory_document, snippet
from oncue.memory.manifest import Entry
from oncue.memory.provenance import Writer
from oncue.memory.roots import Root, locate
from oncue.memory.rows import row_of
from oncue.memory.workspace import NoProject, Workspace
from oncue.ports import Finder, Hit, Query
from oncue.store.sqlite import Store
from oncue.text import secrets
from oncue_protocol import (
    ForgottenDocument,
    MemoryDocument,
    MemoryForgetParams,
    MemoryForgetResult,
    MemoryListParams,
    MemoryListResult,
    MemoryReadParams,
    MemoryReadResult,
    MemoryRoot,
    MemorySearchParams,
    MemorySearchResult,
    MemoryWriteParams,
    MemoryWriteResult,
)
from oncue_protocol.base import Scope, WrittenBy
from oncue_protocol.errors import (
    InvalidParams,
    OutsideRoots,
    RequestFailed,
    RevisionConflict,
    SecretRefused,
    StoreUnavailable,
)

PAGE = 50
"""Documents a page: with descriptions and keywords well below the 1 MiB of a result."""
MAX_FOUND = 200
"""A search looks at as many candidates as a recall does."""
MAX_FORGOTTEN = 50
"""A query that forgets more at once is a mistake."""
CATCH_UP_S = 1.0
"""How long `list` and `search` wait for the index to see what was edited."""
MANIFEST_ENTRIES = 5_000
"""Names that `MEMORY.md` may leave out and the reply then lists; beyond this only the rest."""

log = structlog.get_logger(__name__)


@define(eq=False)
class Library:
    """User scope, and project scope where the workspace is a project."""

    workspace: Workspace
    indexes: tuple[RootIndex, ...]
    """Of the roots that are searched; the project's first, if there is one."""
    store: Store
    analyst: Analyst
    wall: Callable[[], float] = time.time
    untrusted_roots: tuple[str, ...] = ()
    """Memory folders that the workspace brings along: seen, never read (M3, D75)."""
    on_use: Callable[[RootIndex], None] = lambda _: None
    """Asks for a refresh in the background."""
    workspace_paths: tuple[str, ...] = ()
    """Real paths of the workspace and of those that are only read."""
    _workspace_noted: bool = field(default=False, init=False)

    # --- what a session says of it ------------------------------------------------------------

    @property
    def workspace_key(self) -> str | None:
        """Canonical id of the workspace; None: no project, user scope only (M2)."""
        return self.workspace.key

    @property
    def why_no_project(self) -> NoProject | None:
        """Why there is user scope only; None where there is a project."""
        return self.workspace.why_none

    @property
    def memory_roots(self) -> tuple[MemoryRoot, ...]:
        """Folders that are searched. None need exist before something is written."""
        return tuple(
            MemoryRoot(scope=root.scope, path=root.path, writable=root.writable)
            for root in self.roots
        )

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that are searched, the project's first."""
        return tuple(of.root for of in self.indexes)

    async def refresh(self) -> None:
        """Make the index like the files now. Raises `StoreUnavailable`."""
        for of in self.indexes:
            await of.refresh()

    def refresh_soon(self) -> None:
        """Ask for a refresh in the background; never waits."""
        for of in self.indexes:
            self.on_use(of)

    async def problems(self, limit: int = 100) -> list[FileProblem]:
        """Files that could not be taken as memories, or only in part (D53)."""

        def ask(connection: index.Connection) -> list[FileProblem]:
            return index.problems(connection, index.roots_of(connection, self.roots), limit)

        return await self.store.read(ask)

    # --- list, search, read --------------------------------------------------------------------

    async def list(self, params: MemoryListParams) -> MemoryListResult:
        """Memories, newest first, a page at a time; the order is stable while files change."""
        await self._catch_up()
        roots = self._scope(params.scope)

        def ask(connection: index.Connection) -> index.Page:
            return index.page(connection, index.roots_of(connection, roots), params.cursor, PAGE)

        try:
            page = await self.store.read(ask)
        except index.BadCursorError:
            raise _bad_cursor() from None
        now = self.wall()
        return MemoryListResult(
            documents=tuple(memory_document(found.document, now) for found in page.found),
            total=page.total,
            cursor=page.cursor,
        )

    async def search(self, params: MemorySearchParams, finder: Finder) -> MemorySearchResult:
        """Memories that a recall would look at, best first, with the passage that matched."""
        start = _offset(params.cursor)
        await self._catch_up()
        found = await finder.find(Query(params.query, limit=MAX_FOUND, scope=params.scope))
        page = found.hits[start : start + PAGE]
        more = start + PAGE < len(found.hits)
        documents = await trio.to_thread.run_sync(self._hits, page, params.query)
        return MemorySearchResult(
            documents=documents,
            total=len(found.hits),
            cursor=str(start + PAGE) if more else None,
        )

    def _hits(self, hits: Sequence[Hit], query: str) -> tuple[MemoryDocument, ...]:
        now = self.wall()
        return tuple(
            memory_document(
                hit.document,
                now,
                score=hit.score,
                confidence=hit.confidence,
                passage=snippet(hit.document.body, query),
            )
            for hit in hits
        )

    async def read(self, params: MemoryReadParams) -> MemoryReadResult:
        """One memory, from its file. Raises `OutsideRoots`, `RequestFailed`."""
        return await trio.to_thread.run_sync(self._read, params.path)

    def _read(self, path: str) -> MemoryReadResult:
        root, relative = locate(self.roots, path)
        with editing.refused(root):
            try:
                data, signature = files.read(root, relative)
            except FileNotFoundError:
                raise editing.missing(root, relative) from None
        writer = self._index_of(root).writer_of(relative)
        row = row_of(root, relative, data, signature, writer, self.analyst)
        body = describe(parse(data), relative, root.scope).body
        return MemoryReadResult(
            document=memory_document(row.document, self.wall()),
            body=body,
            revision=row.document.sha256,
        )

    # --- write, forget -------------------------------------------------------------------------

    async def write(
        self,
        params: MemoryWriteParams,
        *,
        written_by: WrittenBy = "model",
        session_id: str | None = None,
    ) -> MemoryWriteResult:
        """Write a memory, new or changed. `written_by` is what the daemon knows of the caller,
        never what the content says. Raises `RevisionConflict`, `SecretRefused`, `OutsideRoots`,
        `LimitExceeded`, `RequestFailed`, `InvalidParams`, `StoreUnavailable` (disk): then nothing
        was changed."""
        of = self._writable(params)
        relative = None
        if params.path is not None:
            _, relative = locate((of.root,), params.path, new_name=True)
        await trio.to_thread.run_sync(_refuse_secrets, params)
        writer = Writer(written_by, session_id)
        try:
            written = await trio.to_thread.run_sync(
                editing.write, of.root, relative, params, writer, self.wall()
            )
        except StoreUnavailable as error:
            of.refused = error.message  # `daemon/status` says it until a write goes well
            raise
        of.refused = None
        await self._note_workspace(of.root)
        left_out: tuple[str, ...] = ()
        if not written.unchanged:
            left_out = await self._after_change(
                of, partial(of.put, written.relative, written.data, written.signature, writer)
            )
        return MemoryWriteResult(
            path=of.root.absolute(written.relative),
            revision=files.revision(written.data),
            left_out_of_index=left_out,
        )

    async def forget(self, params: MemoryForgetParams, finder: Finder) -> MemoryForgetResult:
        """Move memories to the trash, or say which ones that would be. Raises as `write`."""
        if (params.path is None) == (params.query is None):
            raise InvalidParams(
                "params: needs either `path` or `query`, and not both", path="params"
            )
        if params.path is not None:
            return await self._forget_path(params, params.path)
        await self._catch_up()
        found = await finder.find(Query(params.query or "", limit=MAX_FORGOTTEN))
        removed = []
        for hit in found.hits:
            root, relative = locate(self.roots, hit.document.path)
            if not root.writable:
                continue
            entry = _forgotten(root, relative, hit.document.title, hit.document.sha256)
            if params.dry_run is False:
                try:
                    entry = await self._throw(root, relative, entry)
                except (RevisionConflict, RequestFailed):
                    continue  # edited or removed since it was indexed: not what was asked for
            removed.append(entry)
        return MemoryForgetResult(removed=tuple(removed), dry_run=params.dry_run is not False)

    async def _forget_path(self, params: MemoryForgetParams, path: str) -> MemoryForgetResult:
        root, relative = locate(self.roots, path)
        if not root.writable:
            raise OutsideRoots(
                f"{root.path} is read-only here: open its own workspace",
                detail={"reason": "readOnly"},
            )
        entry = await trio.to_thread.run_sync(self._to_forget, root, relative)
        if params.if_revision not in (None, entry.revision):
            raise RevisionConflict(
                f"{entry.path} was changed since it was read: look again, then forget",
                revision=entry.revision,
            )
        if not params.dry_run:
            entry = await self._throw(root, relative, entry)
        return MemoryForgetResult(removed=(entry,), dry_run=bool(params.dry_run))

    async def _throw(
        self, root: Root, relative: str, entry: ForgottenDocument
    ) -> ForgottenDocument:
        thrown = await trio.to_thread.run_sync(
            editing.throw, root, relative, entry.revision, self.wall()
        )
        of = self._index_of(root)
        await self._after_change(of, partial(of.drop, relative))
        return evolve(entry, trash_path=thrown.path)

    async def restore(self, trash_path: str) -> str:
        """Undo `forget`: put a file back to where it was; its absolute path. Raises
        `RevisionConflict` where something is there now, `RequestFailed` where it is not in the
        trash of this workspace."""
        folder, _, name = trash_path.rpartition("/")
        for of in self.indexes:
            if folder == f"{of.root.home.path}/trash" and name not in ("", ".", ".."):
                relative = await trio.to_thread.run_sync(editing.restore, of.root, name)
                await self._after_change(of, of.refresh)
                return of.root.absolute(relative)
        raise editing.missing(self.roots[0], name)

    # --- helpers -------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Let the index see what was edited; a folder that takes longer goes on in the
        background."""
        try:
            with trio.move_on_after(CATCH_UP_S) as scope:
                await self.refresh()
        except StoreUnavailable:
            return  # the index stays as it was, and `daemon/status` says so
        if scope.cancelled_caught:
            self.refresh_soon()

    async def _after_change(
        self, of: RootIndex, enter: Callable[[], Awaitable[object]]
    ) -> tuple[str, ...]:
        """The file is on disk: enter it, write `MEMORY.md`; what that has no room for. Failures
        from here on are not the write's: the index catches up from the files."""
        try:
            await enter()
            if not await of.scanned():
                with trio.move_on_after(CATCH_UP_S):
                    await of.refresh()
            entries = await self.store.read(partial(_entries, root=of.root))
            made = await trio.to_thread.run_sync(editing.write_manifest, of.root, entries)
        except StoreUnavailable as error:
            log.warning("memory written, index or MEMORY.md not", reason=error.reason)
            return ()
        finally:
            self.on_use(of)
        if made.left_out:
            log.info("MEMORY.md is full", left_out=len(made.left_out), scope=of.root.scope)
        return made.left_out

    async def _note_workspace(self, root: Root) -> None:
        if root.scope != "project" or self._workspace_noted:
            return
        try:
            same = await trio.to_thread.run_sync(editing.write_workspace, root, self.workspace)
        except StoreUnavailable:
            return  # said by whatever is written next
        self._workspace_noted = True
        if not same:
            log.warning("this project's folder names another workspace", key=self.workspace.key)

    def _writable(self, params: MemoryWriteParams) -> RootIndex:
        for of in self.indexes:
            if of.root.scope == params.scope and of.root.writable:
                return of
        raise InvalidParams(
            f"params.scope: there is no project here ({self.workspace.why_none}): "
            "name a workspace, or write to the user scope",
            path="params.scope",
        )

    def _scope(self, scope: Scope | None) -> tuple[Root, ...]:
        return tuple(root for root in self.roots if scope is None or root.scope == scope)

    def _index_of(self, root: Root) -> RootIndex:
        return next(of for of in self.indexes if of.root == root)

    def _to_forget(self, root: Root, relative: str) -> ForgottenDocument:
        with editing.refused(root):
            try:
                data, _ = files.read(root, relative)
            except FileNotFoundError:
                raise editing.missing(root, relative) from None
            except files.UnfitFileError as error:
                if error.code != "tooLarge":
                    raise
                return _forgotten(root, relative, relative, "")
        title = describe(parse(data), relative, root.scope).title
        return _forgotten(root, relative, title, files.revision(data))


def _forgotten(root: Root, relative: str, title: str, revision: str) -> ForgottenDocument:
    return ForgottenDocument(path=root.absolute(relative), title=title, revision=revision)


def _entries(connection: index.Connection, root: Root) -> list[Entry]:
    return [
        Entry(path, title, description)
        for path, title, description in index.newest(connection, root, MANIFEST_ENTRIES)
    ]


def _refuse_secrets(params: MemoryWriteParams) -> None:
    """Credentials never reach a file; the error names rules, never the value (I24)."""
    parts = (
        params.title,
        params.description,
        params.body,
        params.path or "",
        *params.keywords,
        *params.usage_scenarios,
    )
    rules = sorted({secret.rule for part in parts for secret in secrets.find(part)})
    if rules:
        raise SecretRefused(
            f"the memory contains a credential ({', '.join(rules)}): write it without", rules=rules
        )


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 6:
        raise _bad_cursor()
    return int(cursor)


def _bad_cursor() -> InvalidParams:
    return InvalidParams(
        "params.cursor: was not given out here: begin again without it", path="params.cursor"
    )
