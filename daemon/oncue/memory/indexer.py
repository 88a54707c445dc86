"""One root and its rows in the index, kept alike (memory.md M6, M7; D53, D57).

A refresh lists the root, compares signatures, reads what is new or changed and stores it in
transactions of bounded size. One at a time a root; cancellable between batches; searches go on
beside it and never wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import structlog
import trio
from attrs import define, field, frozen

from oncue.memory import files, index, provenance, rows, trash, writing
from oncue.memory.analyst import Analyst
from oncue.memory.files import FileProblem, Listed, Signature, UnfitFileError
from oncue.memory.index import Known
from oncue.memory.provenance import HUMAN, Writer
from oncue.memory.roots import Root
from oncue.memory.rows import Row
from oncue.store.sqlite import Store

LISTING_STEP = 512
"""Files listed in one hop to a thread: some milliseconds."""
READING_STEP_S = 0.02
"""So long one hop reads and analyses: it holds the interpreter, which the event loop needs."""
BATCH_FILES = 32
BATCH_BYTES = 256 * 1024
"""Stored in one transaction: well below 50 ms (I26)."""
RACY_NS = 50_000_000
"""A file changed so shortly before it was listed may change again without its signature showing
it (clock ticks of file systems): it is read again next time."""
RECHECK = Signature(-1, -1, -1, -1)
MAX_PROBLEMS = 1_000
"""Kept a root: enough to see what is wrong, and a hostile folder does not fill the index."""

log = structlog.get_logger(__name__)


MAX_SHOWN = 20
"""Problems told in `daemon/status`; mending some shows the next."""


@frozen
class Changes:
    """What a refresh, a write or a removal changed; relative paths."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@define(eq=False)
class RootIndex:
    """One root's part of the index."""

    root: Root
    store: Store
    analyst: Analyst
    wall: Callable[[], float] = time.time
    trash_days: float = 30.0
    on_change: Callable[[Root, Changes], None] | None = None
    first_scan: trio.Event = field(factory=trio.Event, init=False)
    """Set when the root has been scanned to the end, in this process or another, or cannot be."""
    problems: list[FileProblem] = field(factory=list, init=False)
    refused: str | None = field(default=None, init=False)
    """What the disk said to the last write; None: it went well, or there was none."""
    """What the last refresh could not take as memories, or only in part; at most MAX_SHOWN."""
    _generation: int = field(default=-1, init=False)
    """Of the database that `first_scan` speaks of."""
    _busy: trio.Lock = field(factory=trio.Lock, init=False)
    _started: int = field(default=0, init=False)
    _completed: int = field(default=0, init=False)
    """Number of the last refresh that came to its end; a cancelled one serves nobody."""
    _tidied: bool = field(default=False, init=False)
    _writers: dict[str, Writer] = field(factory=dict, init=False)
    _writers_seen: Signature | None = field(default=None, init=False)

    async def refresh(self) -> Changes:
        """Make the index like the files. Who comes while one is running waits for it and, because
        files may have changed behind it, for one more, which all who wait share. Raises
        `StoreUnavailable` where the index cannot be written; everything else is a problem of a
        file."""
        wanted = self._started + 1
        async with self._busy:
            if self._completed >= wanted:
                return Changes()
            self._started += 1
            try:
                changes = await self._refresh()
            except Exception:
                self.first_scan.set()  # it cannot be: nobody need wait for it
                raise
            self._completed = self._started
            self.first_scan.set()
            return changes

    async def scanned(self) -> bool:
        """Whether the root has been scanned to the end; asked once for each opened database."""
        if self._generation != self.store.generation or not self.first_scan.is_set():
            found = await self.store.read(partial(index.scanned, root=self.root))
            if self._generation != self.store.generation:
                self._generation = self.store.generation
                if self.first_scan.is_set():
                    self.first_scan = trio.Event()
            if found is not None:
                self.first_scan.set()
        return self.first_scan.is_set()

    async def put(self, relative: str, data: bytes, signature: Signature, writer: Writer) -> None:
        """Enter one file that was just written."""
        self._writers[relative] = writer
        row = await trio.to_thread.run_sync(
            rows.row_of, self.root, relative, data, signature, writer, self.analyst
        )
        before = await self.store.write(partial(_exchange, root=self.root, row=row))
        if before is None:
            self._tell(Changes(added=(relative,)))
        elif before != row.document.sha256:  # else a refresh was here first, and has told it
            self._tell(Changes(changed=(relative,)))

    async def drop(self, relative: str) -> None:
        """Take out one file that was just removed."""
        if await self.store.write(partial(_take_out, root=self.root, relative=relative)):
            self._tell(Changes(removed=(relative,)))

    def _tell(self, changes: Changes) -> None:
        if self.on_change is not None:
            self.on_change(self.root, changes)

    def writer_of(self, relative: str) -> Writer:
        """Who wrote a file, as far as the last refresh saw."""
        return self._writers.get(relative, HUMAN)

    # --- one refresh -------------------------------------------------------------------------

    async def _refresh(self) -> Changes:
        await self.store.heal()
        if not self._tidied:
            self._tidied = True
            await trio.to_thread.run_sync(self._tidy)
        await trio.to_thread.run_sync(self._load_writers)
        while True:
            # The index first, then the files: what is written meanwhile is then not yet known, and
            # is read again, instead of known and not listed, which would take it out.
            known = await self.store.read(partial(index.known, root=self.root), aside=True)
            generation = self.store.generation
            listed, problems = await self._list()
            todo, gone = await trio.to_thread.run_sync(self._compare, listed, known)
            found = list(problems)
            changes = await self._store_changed(todo, known, found)
            for start in range(0, len(gone), BATCH_FILES):
                batch = gone[start : start + BATCH_FILES]
                await self.store.write(partial(index.remove, root=self.root, paths=batch))
            if self.store.generation == generation:
                break  # else another database was opened meanwhile: it has to get everything
        kept = found[:MAX_PROBLEMS]
        await self.store.write(
            partial(index.finish_scan, root=self.root, now=self.wall(), problems=kept)
        )
        self.problems = await self.store.read(partial(_problems, root=self.root))
        changes = Changes(changes.added, changes.changed, tuple(gone))
        if changes:
            log.debug(
                "memory folder indexed",
                scope=self.root.scope,
                added=len(changes.added),
                changed=len(changes.changed),
                removed=len(changes.removed),
                problems=len(kept),
            )
            self._tell(changes)
        return changes

    def _tidy(self) -> None:
        """What crashes left, and what has lain in the trash long enough."""
        if not self.root.writable:
            return
        writing.remove_leftovers(self.root)
        trash.purge(self.root, self.wall(), self.trash_days)

    def _load_writers(self) -> None:
        if provenance.signature(self.root) != self._writers_seen:
            self._writers, self._writers_seen = provenance.load(self.root)

    async def _list(self) -> tuple[list[Listed], list[FileProblem]]:
        found: list[Listed] = []
        problems: list[FileProblem] = []
        scan = files.scan(self.root)
        try:
            while step := await trio.to_thread.run_sync(_some, scan):
                for listed in step:
                    if listed.unfit not in (None, "tooLarge"):
                        problems.append(self._problem(listed.relative, listed.unfit or ""))
                    else:
                        found.append(listed)
        except FileNotFoundError:
            return [], []
        except UnfitFileError as error:
            return [], [FileProblem(files.printable(self.root.path), error.code, error.message)]
        finally:
            scan.close()
        return found, problems

    def _problem(self, relative: str, code: str) -> FileProblem:
        path = self.root.absolute(relative)
        return FileProblem(files.printable(path), code, files.MESSAGES[code])

    def _compare(
        self, listed: list[Listed], known: dict[str, Known]
    ) -> tuple[list[Listed], list[str]]:
        """Files to read, and paths that are gone; in a thread, for there may be very many."""
        present = {f.relative for f in listed}
        return (
            [f for f in listed if self._differs(f, known.get(f.relative))],
            [path for path in known if path not in present],
        )

    def _differs(self, listed: Listed, known: Known | None) -> bool:
        return (
            known is None
            or known.signature != listed.signature
            or known.analysis != self.analyst.version
            or known.writer != self._writers.get(listed.relative, HUMAN)
        )

    async def _store_changed(
        self,
        todo: list[Listed],
        known: dict[str, Known],
        problems: list[FileProblem],
    ) -> Changes:
        added: list[str] = []
        changed: list[str] = []
        waiting = iter(todo)
        while step := await trio.to_thread.run_sync(self._read_some, waiting, known):
            problems.extend(step.problems)
            if step.touched:
                await self.store.write(partial(index.touch, changed=step.touched))
            if step.vanished:
                await self.store.write(partial(index.remove, root=self.root, paths=step.vanished))
            for batch in _batches(step.rows):
                await self.store.write(partial(index.put, root=self.root, rows=batch))
                for row in batch:
                    path = row.document.relative_path
                    (changed if path in known else added).append(path)
        return Changes(tuple(added), tuple(changed))

    def _read_some(self, waiting: Iterator[Listed], known: dict[str, Known]) -> _Step | None:
        """Read and analyse files for READING_STEP_S; None when there are no more."""
        until = time.monotonic() + READING_STEP_S
        step = _Step()
        for listed in waiting:
            self._read_one(listed, known.get(listed.relative), step)
            if time.monotonic() >= until:
                break
        return step if step else None

    def _read_one(self, listed: Listed, before: Known | None, step: _Step) -> None:
        path = listed.relative
        writer = self._writers.get(path, HUMAN)
        if listed.unfit == "tooLarge":
            row = rows.row_by_name(
                self.root, path, listed.signature, "tooLarge", writer, self.analyst
            )
            step.rows.append(row)
            return
        try:
            data, signature = files.read(self.root, path)
        except FileNotFoundError:
            step.vanished.append(path)
            return
        except UnfitFileError as error:
            step.problems.append(self._problem(path, error.code))
            step.vanished.append(path)
            return
        if time.time_ns() - max(signature.mtime_ns, signature.ctime_ns) < RACY_NS:
            signature = Signature(signature.mtime_ns, -1, signature.size, signature.inode)
        if (
            before is not None
            and before.sha256 == files.revision(data)
            and before.writer == writer
            and before.analysis == self.analyst.version
        ):
            step.touched.append((before.id, signature))
            return
        step.rows.append(rows.row_of(self.root, path, data, signature, writer, self.analyst))


@define
class _Step:
    """What one hop has read."""

    rows: list[Row] = field(factory=list)
    touched: list[tuple[int, Signature]] = field(factory=list)
    vanished: list[str] = field(factory=list)
    problems: list[FileProblem] = field(factory=list)

    def __bool__(self) -> bool:
        return bool(self.rows or self.touched or self.vanished or self.problems)


def _some(scan: Iterator[Listed]) -> list[Listed]:
    return list(islice(scan, LISTING_STEP))


def _batches(found: list[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    weight = 0
    for row in found:
        if batch and (len(batch) >= BATCH_FILES or weight + row.weight > BATCH_BYTES):
            yield batch
            batch, weight = [], 0
        batch.append(row)
        weight += row.weight
    if batch:
        yield batch


def _problems(connection: index.Connection, root: Root) -> list[FileProblem]:
    return index.problems(connection, index.roots_of(connection, [root]), MAX_SHOWN)


def _exchange(connection: index.Connection, root: Root, row: Row) -> str | None:
    """Enter a row; the SHA-256 of what was there before, if anything was."""
    found = index.by_path(connection, root, row.document.relative_path)
    index.put(connection, root, [row])
    return None if found is None else found.document.sha256


def _take_out(connection: index.Connection, root: Root, relative: str) -> bool:
    """Whether there was something to take out."""
    found = index.by_path(connection, root, relative)
    index.remove(connection, root, [relative])
    return found is not None
