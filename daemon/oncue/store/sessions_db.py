"""The database of claims and cursors: `sessions.db` beside the index (extraction.md X12, §5).

Unlike the index it cannot be made again from files, so it is a file of its own and is never
dropped for a schema. Blocking: for worker threads. All of it or nothing, `BEGIN IMMEDIATE`,
deadlines of our own; where it cannot be used, `StoreUnavailable` says why and the next use tries
again.

A damaged file is set aside and a new one begins, in which tokens go on rising. So that nobody who
still holds the old file open can commit there: every use holds `sessions.lock` shared and looks
whether its file is still the one under the name; setting aside takes that lock alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import apsw
import structlog
from attrs import define, field

from oncue.store.opening import (
    MINIMUM_LIBRARY,
    DamagedError,
    NewerSchemaError,
    create_private,
    library_version,
    prepare,
)
from oncue.store.place import shared_file_system
from oncue_protocol.errors import StoreUnavailable

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x4F4E4353
"""`ONCS`."""
DEADLINE_S = 5.0
"""Transactions last 50 ms at most, so who waits this long waits for somebody who hangs."""
PAUSE_S = 0.005
KEPT_DAMAGED = 2
SPARE_TOKENS = 1_000_000
"""A new file's tokens begin one second above all that is known of the old one's."""
log = structlog.get_logger(__name__)


@define(eq=False)
class SessionsDb:
    """One a daemon; safe from any thread."""

    folder: Path
    """State folder; made 0700 on first use."""
    wall: Callable[[], float] = time.time
    shared: Callable[[str], str | None] = shared_file_system
    _connection: apsw.Connection | None = field(default=None, init=False)
    _inode: tuple[int, int] = field(default=(0, 0), init=False)
    _lock_fd: int = field(default=-1, init=False)
    _turn: threading.Lock = field(factory=threading.Lock, init=False)
    _until: float = field(default=0.0, init=False)

    @property
    def path(self) -> Path:
        """The database file."""
        return self.folder / "sessions.db"

    def write(self, work: Work[T], *, deadline_s: float = DEADLINE_S, once: bool = False) -> T:
        """Run `work` in one write transaction. It may run twice, after a repair, unless `once`
        is set: for work with an effect outside of the database."""
        return self._run(work, "BEGIN IMMEDIATE", deadline_s, once=once)

    def read(self, work: Work[T], *, deadline_s: float = DEADLINE_S) -> T:
        """Run `work` in one read transaction."""
        return self._run(work, "BEGIN", deadline_s, once=False)

    def truncate_log(self) -> None:
        """Empty the write-ahead log, so that what was erased is gone from disk. Best effort."""
        with (
            contextlib.suppress(StoreUnavailable, DamagedError, apsw.Error),
            self._in_turn(DEADLINE_S) as connection,
        ):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._turn:
            self._close()
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
                self._lock_fd = -1

    # ---- inside ----------------------------------------------------------------------------

    def _run(self, work: Work[T], begin: str, deadline_s: float, *, once: bool) -> T:
        for attempt in (1, 2):
            try:
                with self._in_turn(deadline_s) as connection:
                    return _transaction(connection, begin, work)
            except (apsw.CorruptError, apsw.NotADBError, DamagedError) as error:
                self._set_aside(error, deadline_s)
                if once or attempt == 2:
                    raise _unavailable(error) from None
            except apsw.Error as error:
                raise _unavailable(error) from None
        raise AssertionError("unreachable")  # pragma: no cover

    @contextlib.contextmanager
    def _in_turn(self, deadline_s: float) -> Iterator[apsw.Connection]:
        """The open connection, ours alone, while nobody sets the file aside."""
        until = time.monotonic() + deadline_s
        if not self._turn.acquire(timeout=deadline_s):
            raise _busy()
        try:
            self._until = until
            self._flock(fcntl.LOCK_SH, until)
            try:
                yield self._current()
            finally:
                fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        finally:
            self._turn.release()

    def _flock(self, kind: int, until: float) -> None:
        try:
            if self._lock_fd < 0:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._lock_fd = os.open(self.folder / "sessions.lock", flags, 0o600)
            while True:
                try:
                    fcntl.flock(self._lock_fd, kind | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise _busy() from None
                    time.sleep(PAUSE_S)
                else:
                    return
        except OSError as error:
            raise _unusable(error) from None

    def _current(self) -> apsw.Connection:
        """The connection, opened again where the file under the name is another one now."""
        if self._connection is not None and self._inode == _inode(self.path):
            return self._connection
        self._close()
        try:
            return self._open()
        except NewerSchemaError:
            raise StoreUnavailable(
                f"{self.path} was written by a newer oncue: update this one to have notes written",
                reason="newerSchema",
                retryable=False,
            ) from None
        except OSError as error:
            raise _unusable(error) from None

    def _open(self) -> apsw.Connection:
        if apsw.SQLITE_VERSION_NUMBER < MINIMUM_LIBRARY or library_version() < MINIMUM_LIBRARY:
            raise StoreUnavailable(
                f"SQLite {apsw.sqlite_lib_version()} is older than 3.51.3, which loses data: "
                "no notes are written; update apsw",
                reason="oldLibrary",
                retryable=False,
            )
        create_private(self.path)
        self._inode = _inode(self.path)  # before it is looked into: it may be found damaged
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
        connection = apsw.Connection(os.path.realpath(self.path), flags=flags)
        try:
            connection.set_busy_handler(self._wait)
            prepare(connection, wal=self.shared(str(self.folder)) is None)
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA cache_size = -1000")
            self._check_schema(connection)
        except BaseException:
            connection.close(True)
            raise
        self._connection = connection
        return connection

    def _check_schema(self, connection: apsw.Connection) -> None:
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        version = connection.pragma("user_version")
        if tables and connection.pragma("application_id") != APPLICATION_ID:
            raise DamagedError("a file of another application")
        if version > SCHEMA_VERSION:
            raise NewerSchemaError
        if not tables:
            floor = self._floor()

            def make(connection: apsw.Connection) -> None:
                if connection.execute("SELECT count(*) FROM sqlite_schema").get:
                    return  # another process was faster
                schema = files("oncue.store").joinpath("sessions.sql").read_text("utf-8")
                connection.execute(schema)
                connection.execute("INSERT INTO floor VALUES (?)", (floor,))
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

            _transaction(connection, "BEGIN IMMEDIATE", make)

    def _floor(self) -> int:
        """Above every token that a file which was set aside may have given out."""
        floor = 0
        for path in self.folder.glob("sessions.damaged-*.db"):
            with contextlib.suppress(OSError, apsw.Error):
                floor = max(floor, int(path.stat().st_mtime * 1_000_000))
                old = apsw.Connection(f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY
                                      | apsw.SQLITE_OPEN_URI)  # fmt: skip
                try:
                    floor = max(floor, int(old.execute("SELECT max(token) FROM floor").get or 0))
                    floor = max(floor, int(old.execute("SELECT max(token) FROM lease").get or 0))
                finally:
                    old.close(True)
        return floor + SPARE_TOKENS if floor else 0

    def _set_aside(self, error: Exception, deadline_s: float) -> None:
        """Rename a damaged file, unless another process has done so already."""
        until = time.monotonic() + deadline_s
        if not self._turn.acquire(timeout=deadline_s):
            raise _busy()
        try:
            self._flock(fcntl.LOCK_EX, until)
            try:
                self._close()
                if self._inode != _inode(self.path):
                    return
                kept = self._rename()
                log.warning("sessions database set aside", kept=kept, reason=type(error).__name__)
            except OSError as problem:
                raise _unusable(problem) from None
            finally:
                fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        finally:
            self._turn.release()

    def _rename(self) -> str:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.wall()))
        number = 0
        while (kept := self.folder / f"sessions.damaged-{stamp}-{number}.db").exists():
            number += 1
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{kept}{suffix}")
        for path in sorted(self.folder.glob("sessions.damaged-*.db"))[:-KEPT_DAMAGED]:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        return kept.name

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close(True)

    def _wait(self, count: int) -> bool:
        """SQLite asks whether to go on waiting for another process."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(min(0.001 * (1 + count), 0.02))
        return True


def _transaction(connection: apsw.Connection, begin: str, work: Work[T]) -> T:
    connection.execute(begin)
    try:
        done = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                connection.execute("ROLLBACK")
        raise
    return done


def _inode(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _busy() -> StoreUnavailable:
    return StoreUnavailable(
        "another process holds the sessions database: nothing was stored, try again", reason="busy"
    )


def _unusable(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"the state folder cannot be used ({error.strerror or type(error).__name__}): "
        "no notes are written; mend its permissions or set ONCUE_STATE_DIR",
        reason="readOnly",
    )


def _unavailable(error: Exception) -> StoreUnavailable:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return _busy()
    if isinstance(error, apsw.FullError):
        reason, text = "full", "the disk is full"
    elif isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        reason, text = "readOnly", "the sessions database cannot be written"
    elif isinstance(error, apsw.CorruptError | apsw.NotADBError | DamagedError):
        reason, text = "damaged", "the sessions database is damaged"
    elif isinstance(error, apsw.IOError):
        reason, text = "ioError", "the disk reports an error"
    else:
        reason, text = "sqlite", f"SQLite reports {type(error).__name__}"
    return StoreUnavailable(f"{text}: nothing was stored, try again", reason=reason)
