"""Claims: leases with a fencing token, an owner and a heartbeat (extraction.md X12-X14; D15-D19).

* A claim gives a token that rises strictly, whatever happens to the database. Whatever is to be
  valid checks inside of its own transaction that the token is still the highest (`fence`).
* A lease is free when it was released, when its owner is dead (pid, start time and boot id, where
  its pids mean something here), or when it has not beaten for 60 s of boot time *and* 20 s of
  monotonic time: a laptop's sleep robs nobody, nor does a clock that jumps.
* A heartbeat of another machine, whose clocks say nothing here, is watched from here for so long.
* Whoever beats is not robbed, however slow it is.

Blocking: for worker threads. Names are free: `extraction/<session>` today, others later.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path

import apsw
from attrs import define, field, frozen

from oncue import proc
from oncue.store.leases import Claim, Held, LostClaimError, Owner
from oncue.store.sessions_db import SessionsDb

STALE_BOOT_S = 60.0
STALE_MONO_S = 20.0
MAX_WATCHED = 1_024
"""Foreign leases watched at once; the oldest is forgotten, and watched anew."""


@frozen
class Clocks:
    """Ports of time, so that tests choose it; seconds."""

    boot: Callable[[], float] = proc.boot_clock
    """Suspend included, the same in every process of this boot."""
    mono: Callable[[], float] = proc.monotonic
    """Suspend excluded."""
    wall: Callable[[], float] = time.time


@frozen
class _Lease:
    token: int
    nonce: str | None
    pid: int
    start: int
    boot: str
    place: str
    beat: int
    beat_boot: float
    beat_mono: float


@frozen
class _Seen:
    token: int
    beat: int
    boot: float
    mono: float


@define(eq=False)
class Claims:
    """The leases of one database, for one process."""

    db: SessionsDb
    clocks: Clocks = Clocks()
    process: proc.Identity = field(factory=proc.current)
    place: str = field(factory=lambda: place())
    is_alive: Callable[[proc.Identity], bool] = proc.is_alive
    stale_boot_s: float = STALE_BOOT_S
    stale_mono_s: float = STALE_MONO_S
    _nonce: str = field(factory=lambda: secrets.token_hex(8), init=False)
    _watched: dict[str, _Seen] = field(factory=dict, init=False)

    def claim(self, name: str) -> Claim | Held:
        """Take the lease, with a token higher than any before; or who holds it. One that this
        very object holds is taken again: whoever asks knows that its former run is over.
        Raises `StoreUnavailable`."""
        found = self.db.read(lambda connection: _lease(connection, name))
        held = self._held(name, found)
        if held is not None:
            return held
        owner = Owner(self.process, self.place, self._nonce)

        def take(connection: apsw.Connection) -> Claim | Held:
            lease = _lease(connection, name)
            if lease is not None and lease != found:
                # Somebody was faster; judge what is there now (D19).
                now_held = self._held(name, lease)
                if now_held is not None:
                    return now_held
            floor = connection.execute("SELECT max(token) FROM floor").get or 0
            last = 0 if lease is None else lease.token
            token = max(int(self.clocks.wall() * 1_000_000), int(floor), last) + 1
            connection.execute(
                "INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET token = excluded.token, nonce = excluded.nonce, "
                "pid = excluded.pid, start = excluded.start, boot = excluded.boot, "
                "place = excluded.place, beat = 0, beat_boot = excluded.beat_boot, "
                "beat_mono = excluded.beat_mono, claimed = excluded.claimed",
                (
                    name,
                    token,
                    owner.nonce,
                    owner.process.pid,
                    owner.process.start,
                    owner.process.boot,
                    owner.place,
                    self.clocks.boot(),
                    self.clocks.mono(),
                    self.clocks.wall(),
                ),
            )
            return Claim(name, token, owner)

        taken = self.db.write(take)
        self._watched.pop(name, None)
        return taken

    def beat(self, claim: Claim) -> bool:
        """Still alive. False: somebody took over, or the lease is gone."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE lease SET beat = beat + 1, beat_boot = ?, beat_mono = ? "
                "WHERE name = ? AND token = ? AND nonce = ?",
                (
                    self.clocks.boot(),
                    self.clocks.mono(),
                    claim.name,
                    claim.token,
                    claim.owner.nonce,
                ),
            )
            return connection.changes() == 1

        return self.db.write(work)

    def release(self, claim: Claim) -> bool:
        """Give it back; the token stays, so that the next one is higher. False: it was not ours
        any more, and nothing changes."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "UPDATE lease SET nonce = NULL WHERE name = ? AND token = ? AND nonce = ?",
                (claim.name, claim.token, claim.owner.nonce),
            )
            return connection.changes() == 1

        return self.db.write(work)

    # ---- inside ----------------------------------------------------------------------------

    def _held(self, name: str, lease: _Lease | None) -> Held | None:
        """Who holds it validly; None: it may be taken."""
        if lease is None or lease.nonce is None or lease.nonce == self._nonce:
            return None
        here = lease.place == self.place
        same_boot = lease.boot == self.process.boot and bool(lease.boot)
        if here:
            who = proc.Identity(lease.pid, lease.start, lease.boot)
            if not self.is_alive(who):
                return None
        if same_boot:
            boot = self.clocks.boot() - lease.beat_boot
            mono = self.clocks.mono() - lease.beat_mono
        else:
            boot, mono = self._watch(name, lease)
        if boot >= self.stale_boot_s and mono >= self.stale_mono_s:
            return None
        return Held(lease.token, lease.pid, max(0.0, boot))

    def _watch(self, name: str, lease: _Lease) -> tuple[float, float]:
        """For how long this lease has not beaten, as seen from here."""
        seen = self._watched.get(name)
        if seen is None or (seen.token, seen.beat) != (lease.token, lease.beat):
            self._watched.pop(name, None)
            seen = _Seen(lease.token, lease.beat, self.clocks.boot(), self.clocks.mono())
            self._watched[name] = seen
            if len(self._watched) > MAX_WATCHED:
                del self._watched[next(iter(self._watched))]
        return self.clocks.boot() - seen.boot, self.clocks.mono() - seen.mono


def fence(connection: apsw.Connection, claim: Claim) -> None:
    """Inside a write transaction: go on only if no higher token was given out. Raises
    LostClaimError."""
    lease = _lease(connection, claim.name)
    if lease is None or (lease.token, lease.nonce) != (claim.token, claim.owner.nonce):
        raise LostClaimError


def place(root: Path = proc.PROC) -> str:
    """Where a pid means something: this machine and its namespace of processes."""
    try:
        namespace = str((root / "self/ns/pid").readlink())
    except OSError:
        namespace = ""
    try:
        machine = Path("/etc/machine-id").read_text("ascii").strip()
    except (OSError, ValueError):
        machine = ""
    return f"{machine or socket.gethostname()}/{namespace}"


def _lease(connection: apsw.Connection, name: str) -> _Lease | None:
    row = connection.execute(
        "SELECT token, nonce, pid, start, boot, place, beat, beat_boot, beat_mono "
        "FROM lease WHERE name = ?",
        (name,),
    ).fetchone()
    return None if row is None else _Lease(*row)
