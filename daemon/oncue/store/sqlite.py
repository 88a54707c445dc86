"""SQLite through apsw, kept away from the event loop (memory.md M6; reliability.md §7, I26-I28).

* Opened on first use, in a worker thread, never at start. One writer at a time, one reader beside
  it; each has a connection of its own.
* Writes are `BEGIN IMMEDIATE` with a deadline of our own on a busy database.
* What is stored is derived: damaged → set aside under another name and built anew; of a newer
  version → left alone; folder not writable → an index in memory. Each shows in `health`, and is
  tried again, so that the end of a fault is the end of its effect.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import apsw
import structlog
import trio
from attrs import define, field

from oncue.store.health import Health
from oncue.store.opening import (
    MINIMUM_LIBRARY,
    DamagedError,
    NewerSchemaError,
    check_schema,
    create_private,
    library_version,
    prepare,
    reader_patience,
    set_aside,
)
from oncue.store.place import shared_file_system
from oncue_protocol.errors import StoreUnavailable

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

BUSY_DEADLINE_S = 5.0
"""Transactions last 50 ms at most, so who waits this long waits for somebody who hangs."""
BUSY_WARNING_S = 1.0
"""A lock held longer than this shows in `health` while it lasts (D35)."""
WAL_ALARM = 64 << 20
"""A log that grows beyond this is pinned by a reader that hangs: index updates pause (D38)."""
RETRY_S = 2.0
"""How often a folder that could not be used is tried again (I28: within 5 s)."""
Mode = Literal["file", "memory"]
Kind = Literal["read", "aside", "write"]
log = structlog.get_logger(__name__)


@define
class _Waiter:
    """Busy handler with a deadline: SQLite asks it whether to go on waiting."""

    store: Store
    until: float = 0.0
    started: float = 0.0

    def arm(self, deadline_s: float) -> None:
        self.started = time.monotonic()
        self.until = self.started + deadline_s

    def __call__(self, count: int) -> bool:
        now = time.monotonic()
        if now >= self.until:
            return False
        if now - self.started > BUSY_WARNING_S:
            self.store.note("degraded", "busy: another process holds the write lock")
        time.sleep(min(0.001 * (1 + count), 0.02))
        return True


@define
class _Opened:
    mode: Mode
    writer: apsw.Connection
    reader: apsw.Connection
    waiter: _Waiter
    opened_at: float


@define(eq=False)
class Store:
    """The database of one daemon. Safe from any task of one trio run."""

    folder: Path | None
    """State folder; None: an index in memory only, by choice."""
    wall: Callable[[], float] = time.time
    shared: Callable[[str], str | None] = shared_file_system
    """Which network file system a folder lies on; a parameter so that tests choose it."""
    _write_turn: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(1), init=False)
    _read_turn: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(1), init=False)
    _open_turn: trio.Lock = field(factory=trio.Lock, init=False)
    _opened: _Opened | None = field(default=None, init=False)
    _health: Health = field(factory=lambda: Health("ok"), init=False)
    _standing: Health | None = field(default=None, init=False)
    """Health that lasts as long as what is open now: shared file system, in memory."""
    _repair: threading.Lock = field(factory=threading.Lock, init=False)
    _closed: bool = field(default=False, init=False)
    _wal_over: bool = field(default=False, init=False)

    generation: int = field(default=0, init=False)
    """Grows whenever another database was opened: what was stored before may not be in it."""

    # --- for everybody -----------------------------------------------------------------------

    @property
    def health(self) -> Health:
        """How the store is now."""
        return self._health

    @property
    def path(self) -> Path | None:
        """The database file; None where there is none by choice."""
        return None if self.folder is None else self.folder / "index.db"

    @property
    def in_memory(self) -> bool:
        """Whether what is stored now goes with the process. False before first use."""
        return self._opened is not None and self._opened.mode == "memory"

    async def read(self, work: Work[T], *, aside: bool = False) -> T:
        """Run `work` in one read transaction; `aside`: beside the writes, for a long read that
        must not hold up searches. Raises `StoreUnavailable`. Cancelled at once; `work` then ends
        by itself."""
        return await self._run(work, "aside" if aside else "read", BUSY_DEADLINE_S)

    async def write(self, work: Work[T], *, deadline_s: float = BUSY_DEADLINE_S) -> T:
        """Run `work` in one write transaction: all of it or nothing. It may run twice (after a
        repair), so it must have no effect but on the database. Raises `StoreUnavailable`."""
        return await self._run(work, "write", deadline_s)

    async def heal(self) -> None:
        """Try again what could not be opened; cheap, and at most every RETRY_S seconds."""
        opened = self._opened
        if (
            self.folder is None
            or opened is None
            or opened.mode == "file"
            or time.monotonic() - opened.opened_at < RETRY_S
        ):
            return
        async with self._open_turn:
            if self._opened is not opened or self._closed:
                return
            await trio.to_thread.run_sync(self._reopen, limiter=self._write_turn)

    async def aclose(self) -> None:
        """Close both connections; later use raises `StoreUnavailable`."""
        with trio.CancelScope(shield=True):
            async with self._open_turn:
                self._closed = True
                opened, self._opened = self._opened, None
                if opened is not None:
                    await trio.to_thread.run_sync(_close, opened, limiter=self._write_turn)

    def note(self, state: Literal["ok", "degraded", "off"], reason: str | None) -> None:
        """Set `health`; one log line a change. Any thread."""
        before = self._health
        if (before.state, before.reason) == (state, reason):
            return
        self._health = Health(state, reason, self.wall())
        report = log.info if state == "ok" else log.warning
        report("store health", state=state, reason=reason)

    # --- one piece of work -------------------------------------------------------------------

    async def _run(self, work: Work[T], kind: Kind, deadline_s: float) -> T:
        if self._opened is None:
            await self._ensure_open()
        turn = self._read_turn if kind == "read" and not self.in_memory else self._write_turn

        done: list[T] = []

        def job() -> None:
            done.append(self._work(work, kind, deadline_s))

        await trio.to_thread.run_sync(job, abandon_on_cancel=True, limiter=turn)
        return done[0]

    async def _ensure_open(self) -> None:
        async with self._open_turn:
            if self._closed:
                raise StoreUnavailable("the store is closed", reason="closed", retryable=False)
            if self._opened is None:
                # Not abandoned: whoever is cancelled here leaves an open store to the next one.
                await trio.to_thread.run_sync(self._open, limiter=self._write_turn)

    def _work(self, work: Work[T], kind: Kind, deadline_s: float) -> T:
        for attempt in (1, 2):
            opened = self._opened
            if opened is None:
                raise StoreUnavailable("the store is closed", reason="closed", retryable=False)
            try:
                if kind == "write":
                    done = self._write(opened, work, deadline_s)
                else:
                    done = _read(opened.reader if kind == "read" else opened.writer, work)
            except (apsw.CorruptError, apsw.NotADBError) as error:
                if attempt == 2 or opened.mode == "memory":
                    raise self._unavailable(error) from None
                self._set_aside_and_reopen(opened, error)
            except apsw.ConnectionClosedError as error:
                with self._repair:  # another thread sets a damaged file aside: wait for the new one
                    replaced = self._opened is not opened
                if attempt == 2 or not replaced:
                    raise self._unavailable(error) from None
            except apsw.Error as error:
                raise self._unavailable(error) from None
            else:
                if kind == "write" and self._health != self._standing:
                    self._recovered()
                return done
        raise AssertionError("unreachable")  # pragma: no cover

    def _write(self, opened: _Opened, work: Work[T], deadline_s: float) -> T:
        if self._wal_over:
            self._check_wal(opened)
        opened.waiter.arm(deadline_s)
        connection = opened.writer
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    connection.execute("ROLLBACK")
            raise
        if opened.mode == "file":
            self._check_wal(opened, raising=False)
        return done

    def _check_wal(self, opened: _Opened, *, raising: bool = True) -> None:
        """A log that cannot be cut because a reader pins it must not grow without bound."""
        try:
            size = Path(f"{self.path}-wal").stat().st_size
        except OSError:
            size = 0
        if size > WAL_ALARM:
            with contextlib.suppress(apsw.Error, OSError):
                opened.waiter.arm(0.0)
                opened.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                size = Path(f"{self.path}-wal").stat().st_size
        self._wal_over = size > WAL_ALARM
        if self._wal_over:
            reason = "busy: a reader in another process pins the write-ahead log"
            self.note("degraded", reason)
            if raising:
                raise StoreUnavailable(f"index updates pause: {reason}", reason="busy")

    def _unavailable(self, error: apsw.Error) -> StoreUnavailable:
        """The protocol's error for SQLite's, noted in `health`."""
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            reason, text = "busy", "another process holds the database"
        elif isinstance(error, apsw.FullError):
            reason, text = "full", "the disk is full"
            self._free_log()
        elif isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
            reason, text = "readOnly", "the database cannot be written"
        elif isinstance(error, apsw.CorruptError | apsw.NotADBError):
            reason, text = "damaged", "the database is damaged"
        elif isinstance(error, apsw.IOError):
            reason, text = "ioError", "the disk reports an error"
        else:
            reason, text = "sqlite", f"SQLite reports {type(error).__name__}"
        self.note("degraded", f"{reason}: {text}")
        return StoreUnavailable(f"{text}: nothing was stored, try again", reason=reason)

    def _free_log(self) -> None:
        opened = self._opened
        if opened is not None and opened.mode == "file":
            opened.waiter.arm(0.0)
            with contextlib.suppress(apsw.Error):
                opened.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _recovered(self) -> None:
        if self._standing is not None:
            self.note(self._standing.state, self._standing.reason)
        elif self._health.state != "ok":
            self.note("ok", None)

    # --- opening -----------------------------------------------------------------------------

    def _open(self) -> None:
        if apsw.SQLITE_VERSION_NUMBER < MINIMUM_LIBRARY or library_version() < MINIMUM_LIBRARY:
            self._open_memory(
                f"SQLite {apsw.sqlite_lib_version()} is older than 3.51.3, which loses data: "
                "index in memory; update apsw"
            )
            return
        if self.folder is None:
            self._open_memory(None)
            return
        try:
            self._open_file(self.folder)
        except NewerSchemaError:
            self._open_memory(
                "newerSchema: the index was written by a newer oncue and is left alone: "
                "index in memory"
            )
        except DamagedError as error:
            self._rebuild(str(error))
        except (OSError, apsw.Error) as error:
            self._open_memory(
                f"readOnly: the state folder {self.folder} cannot be used ({_kind(error)}): "
                "index in memory; mend its permissions or set ONCUE_STATE_DIR"
            )

    def _rebuild(self, why: str) -> None:
        """Set the damaged file aside and open a new one; the files are the truth."""
        assert self.folder is not None  # noqa: S101 - only a file can be damaged
        try:
            kept = set_aside(self.folder, self.wall())
            self._open_file(self.folder)
        except (OSError, apsw.Error, DamagedError, NewerSchemaError) as error:
            self._open_memory(f"damaged: {why}, and it cannot be replaced ({_kind(error)}): "
                              "index in memory")  # fmt: skip
            return
        reason = f"damaged: the index was set aside as {kept} and is rebuilt from the files"
        if self._standing is None:
            self._standing = Health("ok", reason, self.wall())
        self.note(self._standing.state, reason)

    def _open_file(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "index.db"
        create_private(path)
        waiter = _Waiter(self)
        waiter.arm(BUSY_DEADLINE_S)
        shared = self.shared(str(folder))
        opened: list[apsw.Connection] = []
        try:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
            for _ in ("writer", "reader"):
                connection = apsw.Connection(os.path.realpath(path), flags=flags)
                opened.append(connection)
                connection.set_busy_handler(waiter if not opened[1:] else reader_patience())
                prepare(connection, wal=shared is None)
            check_schema(opened[0])
        except BaseException as error:
            for connection in opened:
                connection.close(True)
            if isinstance(error, apsw.CorruptError | apsw.NotADBError):
                raise DamagedError(f"the index is damaged ({type(error).__name__})") from None
            raise
        opened[1].execute("PRAGMA query_only = ON")
        self._standing = None
        if shared is not None:
            self._standing = Health(
                "degraded",
                f"sharedFileSystem: the state folder lies on {shared}: rollback journal, "
                "no write-ahead log",
                self.wall(),
            )
        self.generation += 1
        self._opened = _Opened("file", opened[0], opened[1], waiter, time.monotonic())
        self._recovered()

    def _open_memory(self, reason: str | None) -> None:
        connection = apsw.Connection(":memory:")
        check_schema(connection)
        waiter = _Waiter(self)
        self.generation += 1
        self._opened = _Opened("memory", connection, connection, waiter, time.monotonic())
        state: Literal["ok", "degraded"] = "ok" if reason is None else "degraded"
        self._standing = Health(state, reason, self.wall())
        self.note(state, reason)

    def _reopen(self) -> None:
        """From memory back to the file, if that works now."""
        before, standing = self._opened, self._standing
        assert self.folder is not None  # noqa: S101 - `heal` checked
        if library_version() < MINIMUM_LIBRARY:
            return
        try:
            self._open_file(self.folder)
        except (OSError, apsw.Error, NewerSchemaError, DamagedError):
            self._opened, self._standing = before, standing
            if before is not None:
                before.opened_at = time.monotonic()
            return
        if before is not None:
            before.writer.close(True)

    def _set_aside_and_reopen(self, opened: _Opened, error: Exception) -> None:
        with self._repair:
            if self._opened is not opened:
                return
            _close(opened)
            self._rebuild(f"the index is damaged ({type(error).__name__})")


def _read(connection: apsw.Connection, work: Work[T]) -> T:
    connection.execute("BEGIN")
    try:
        return work(connection)
    finally:
        with contextlib.suppress(apsw.Error):
            connection.execute("COMMIT")


def _kind(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _close(opened: _Opened) -> None:
    for connection in (opened.reader, opened.writer):
        with contextlib.suppress(apsw.Error):
            connection.close(True)
