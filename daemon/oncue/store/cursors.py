"""How far each session's notes reach, and the one fenced commit of notes and cursor (X9, X12, §5).

A commit is one write transaction: the token is still the highest, the range is not applied yet, the
notes are put in their place (a rename; everything slow was done before), the cursor moves. A range
is applied once in effect: what is about to be published is noted before, with the revision that the
notes will have, so that after a crash in between the cursor follows the notes. Blocking.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import apsw
from attrs import asdict, define, frozen

from oncue.store.claims import Claims, fence
from oncue.store.leases import Claim, Cursor, NotWantedError
from oncue.store.sessions_db import SessionsDb

KEPT_RANGES = 32
"""Idempotency keys kept a session: a run is repeated at once or not at all."""
LEASE_PREFIX = "extraction/"


@frozen
class Known:
    """A session that has a cursor."""

    session_id: str
    updated: float
    """Seconds since 1970 UTC."""


@define(eq=False)
class Cursors:
    """Cursors of one database."""

    db: SessionsDb
    claims: Claims

    def lease_name(self, session_id: str) -> str:
        """Name of the lease of a session's extraction."""
        return LEASE_PREFIX + session_id

    def load(self, session_id: str) -> Cursor | None:
        """The cursor; None: there is none, or it is damaged. Raises `StoreUnavailable`."""
        return self.db.read(lambda connection: _load(connection, session_id))

    def reconcile(self, claim: Claim, session_id: str, revision: str | None) -> Cursor | None:
        """The cursor, for who has just claimed the session. A run that died between the notes'
        write and the cursor's is finished here: `revision` is that of the notes now. Raises
        LostClaimError, `StoreUnavailable`."""

        def work(connection: apsw.Connection) -> Cursor | None:
            fence(connection, claim)
            row = connection.execute(
                "SELECT range, revision, data, ids FROM intent WHERE session = ?", (session_id,)
            ).fetchone()
            if row is not None:
                if row[1] == revision:
                    cursor = _decode(row[2], row[3])
                    if cursor is not None:
                        _store(connection, session_id, claim.token, cursor, self._now())
                        _apply(connection, session_id, row[0], claim.token)
                connection.execute("DELETE FROM intent WHERE session = ?", (session_id,))
            return _load(connection, session_id)

        return self.db.write(work)

    def intend(
        self, claim: Claim, session_id: str, range_key: str, cursor: Cursor, revision: str
    ) -> None:
        """Note what is about to be published. Raises LostClaimError, `StoreUnavailable`."""

        def work(connection: apsw.Connection) -> None:
            fence(connection, claim)
            connection.execute(
                "INSERT OR REPLACE INTO intent VALUES (?, ?, ?, ?, ?, ?)",
                (session_id, claim.token, range_key, revision, _encode(cursor), cursor.ids),
            )

        self.db.write(work)

    def commit(
        self,
        claim: Claim,
        session_id: str,
        range_key: str,
        cursor: Cursor,
        *,
        publish: Callable[[], str] | None,
        is_wanted: Callable[[], bool],
    ) -> str | None:
        """Notes and cursor, or neither. `publish` puts the notes in place and returns their
        revision, None: they stay as they are. Returns the revision; None where nothing was
        published, or the range was applied before. Raises LostClaimError, NotWantedError,
        `StoreUnavailable`, and what `publish` raises."""

        def work(connection: apsw.Connection) -> str | None:
            fence(connection, claim)
            known = connection.execute(
                "SELECT 1 FROM applied WHERE session = ? AND range = ?", (session_id, range_key)
            ).get
            if not is_wanted():
                raise NotWantedError
            # The cursor's row before the rename: what can fail, fails before it.
            _store(connection, session_id, claim.token, cursor, self._now())
            _apply(connection, session_id, range_key, claim.token)
            connection.execute("DELETE FROM intent WHERE session = ?", (session_id,))
            return publish() if publish is not None and not known else None

        return self.db.write(work, once=True)

    def forget(self, session_id: str) -> None:
        """The conversation was cleared: nothing of it is summarised. Tokens go on rising."""

        def work(connection: apsw.Connection) -> None:
            for table in ("cursor", "intent", "applied"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (session_id,))  # noqa: S608

        self.db.write(work)

    def purge(self, session_id: str) -> int:
        """Every row of the session is gone, from disk too; how many there were. A run that is
        going on anywhere loses its claim."""

        def work(connection: apsw.Connection) -> int:
            rows = 0
            for table in ("cursor", "intent", "applied"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (session_id,))  # noqa: S608
                rows += connection.changes()
            name = self.lease_name(session_id)
            connection.execute(
                "UPDATE floor SET token = max(token, coalesce("
                "(SELECT token FROM lease WHERE name = ?), 0))",
                (name,),
            )
            connection.execute("DELETE FROM lease WHERE name = ?", (name,))
            return rows + connection.changes()

        removed = self.db.write(work)
        self.db.truncate_log()
        return removed

    def known(self, limit: int = 1_000) -> tuple[Known, ...]:
        """Sessions with a cursor, the latest first."""
        rows = self.db.read(
            lambda connection: connection.execute(
                "SELECT session, updated FROM cursor ORDER BY updated DESC LIMIT ?", (limit,)
            ).fetchall()
        )
        return tuple(Known(str(session), float(str(updated))) for session, updated in rows)

    def _now(self) -> float:
        return self.claims.clocks.wall()


def _encode(cursor: Cursor) -> str:
    values = asdict(cursor)
    del values["ids"]
    return json.dumps(values)


def _decode(data: str, ids: bytes) -> Cursor | None:
    try:
        values: dict[str, Any] = json.loads(data)
        return Cursor(**values, ids=ids)
    except (ValueError, TypeError):
        return None


def _checksum(data: str, ids: bytes) -> str:
    return hashlib.sha256(data.encode() + b"\0" + ids).hexdigest()


def _store(
    connection: apsw.Connection, session_id: str, token: int, cursor: Cursor, now: float
) -> None:
    data = _encode(cursor)
    connection.execute(
        "INSERT OR REPLACE INTO cursor VALUES (?, ?, ?, ?, ?, ?)",
        (session_id, token, data, cursor.ids, _checksum(data, cursor.ids), now),
    )


def _load(connection: apsw.Connection, session_id: str) -> Cursor | None:
    row = connection.execute(
        "SELECT data, ids, sha256 FROM cursor WHERE session = ?", (session_id,)
    ).fetchone()
    if row is None or _checksum(row[0], row[1]) != row[2]:
        return None
    return _decode(row[0], row[1])


def _apply(connection: apsw.Connection, session_id: str, range_key: str, token: int) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO applied VALUES (?, ?, ?)", (session_id, range_key, token)
    )
    connection.execute(
        "DELETE FROM applied WHERE session = ?1 AND range NOT IN ("
        "SELECT range FROM applied WHERE session = ?1 ORDER BY token DESC LIMIT ?2)",
        (session_id, KEPT_RANGES),
    )
