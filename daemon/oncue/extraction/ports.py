"""What a run needs of the store: `store.claims` and `store.cursors` stand behind it.

Everything blocks and is called in worker threads. Where the store cannot be used it raises
`StoreUnavailable`; where somebody with a higher token took over, `LostClaimError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from oncue.notes_ports import Extractor, Notes
from oncue.store.leases import Claim, Cursor, Held


class Leases(Protocol):
    """`store.claims.Claims`."""

    def claim(self, name: str) -> Claim | Held: ...
    def beat(self, claim: Claim) -> bool: ...
    def release(self, claim: Claim) -> bool: ...


class CursorStore(Protocol):
    """`store.cursors.Cursors`."""

    def lease_name(self, session_id: str) -> str: ...
    def load(self, session_id: str) -> Cursor | None: ...
    def reconcile(self, claim: Claim, session_id: str, revision: str | None) -> Cursor | None: ...
    def intend(
        self, claim: Claim, session_id: str, range_key: str, cursor: Cursor, revision: str
    ) -> None: ...
    def commit(
        self,
        claim: Claim,
        session_id: str,
        range_key: str,
        cursor: Cursor,
        *,
        publish: Callable[[], str] | None,
        is_wanted: Callable[[], bool],
    ) -> str | None: ...
    def forget(self, session_id: str) -> None: ...
    def purge(self, session_id: str) -> int: ...


@frozen
class Tools:
    """What a session's runs work with, once it is open."""

    leases: Leases
    cursors: CursorStore
    notes: Notes
    extractor: Callable[[], Extractor]
    """Asked at each run: the settings may have changed."""
