"""Opening an index file: private, checked, of our version, or refused (memory.md M6; D39, D44)."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import apsw

SCHEMA_VERSION = 1
APPLICATION_ID = 0x4F4E4355
"""`ONCU`: a file of another application is not ours to change."""
MINIMUM_LIBRARY = 3_051_003
"""3.7.0-3.51.2 lose data when several connections write and checkpoint (D40)."""
JOURNAL_LIMIT = 8 << 20
"""What a write-ahead log is cut to after a checkpoint."""
KEPT_DAMAGED = 2
"""Damaged files kept for whoever wants to look; each may be as large as the index."""


class NewerSchemaError(Exception):
    """A newer oncue wrote it: it is left alone."""


class DamagedError(Exception):
    """It is no index of ours, or not whole any more."""


def library_version() -> int:
    """Of the SQLite that is linked, as SQLITE_VERSION_NUMBER."""
    major, minor, patch = (int(part) for part in apsw.sqlite_lib_version().split("."))
    return major * 1_000_000 + minor * 1_000 + patch


def create_private(path: Path) -> None:
    """Make the file 0600 before SQLite opens it. Raises OSError where it is a link or another's."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(1, "the index belongs to another user")
    finally:
        os.close(fd)


def reader_patience() -> Callable[[int], bool]:
    """Readers wait for a writer's commit in rollback mode only, and never long."""

    def wait(count: int) -> bool:
        time.sleep(0.002)
        return count < 1_000

    return wait


def prepare(connection: apsw.Connection, *, wal: bool) -> None:
    """Settings of a connection; the first thing that reads the file."""
    mode = "WAL" if wal else "DELETE"
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = NORMAL" if wal else "PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_LIMIT}")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def check_schema(connection: apsw.Connection) -> None:
    """Make, accept, replace or refuse what is there. The index is derived, so an older schema is
    dropped and built anew in one transaction."""
    version = connection.pragma("user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    owner = connection.pragma("application_id")
    if tables and owner != APPLICATION_ID:
        raise DamagedError("the index is a file of another application")
    if version > SCHEMA_VERSION:
        raise NewerSchemaError
    if version == SCHEMA_VERSION and tables:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.pragma("user_version") != SCHEMA_VERSION:
            _drop_everything(connection)
            schema = files("oncue.store").joinpath("schema.sql").read_text("utf-8")
            connection.execute(schema)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _drop_everything(connection: apsw.Connection) -> None:
    rows = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' "
        "ORDER BY sql NOT LIKE 'CREATE VIRTUAL%', type = 'table' DESC"
    ).fetchall()
    for kind, name in rows:
        quoted = str(name).replace('"', '""')
        if kind in ("table", "view"):
            connection.execute(f'DROP {kind.upper()} IF EXISTS "{quoted}"')


def set_aside(folder: Path, now: float) -> str:
    """Rename a damaged index and what belongs to it; its new name. Keeps KEPT_DAMAGED of them."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    number = 0
    while (folder / (kept := f"index.damaged-{stamp}-{number}.db")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            (folder / f"index.db{suffix}").rename(folder / f"{kept}{suffix}")
    older = sorted(folder.glob("index.damaged-*.db"))[:-KEPT_DAMAGED]
    for path in older:
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return kept
