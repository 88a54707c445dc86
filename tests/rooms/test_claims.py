"""Claims: rising tokens, who may take over and when, and a database that breaks (X12-X14; D15-D19,
D81)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from oncue import proc
from oncue.store.claims import (
    STALE_BOOT_S,
    STALE_MONO_S,
    Claim,
    Claims,
    Clocks,
    Held,
    LostClaimError,
    fence,
    place,
)
from oncue.store.sessions_db import SessionsDb
from oncue_protocol import StoreUnavailable

NAME = "extraction/s"


class Times:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.boot = 1_000.0
        self.mono = 500.0
        self.wall = 1_700_000_000.0

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.boot, lambda: self.mono, lambda: self.wall)

    def pass_(self, seconds: float) -> None:
        self.boot += seconds
        self.mono += seconds
        self.wall += seconds


@pytest.fixture
def times() -> Times:
    return Times()


class Room:
    """Several processes on one state folder, each with its own connection and identity."""

    def __init__(self, folder: Path, times: Times) -> None:
        self.folder = folder
        self.times = times
        self.alive: dict[int, proc.Identity] = {}
        self.made: list[SessionsDb] = []

    def process(
        self, pid: int, *, boot: str = "boot-1", where: str = "here", start: int = 1
    ) -> Claims:
        who = proc.Identity(pid, start, boot)
        self.alive[pid] = who
        db = SessionsDb(self.folder, lambda: self.times.wall)
        self.made.append(db)
        return Claims(
            db,
            self.times.clocks,
            process=who,
            place=where,
            is_alive=lambda other: self.alive.get(other.pid) == other,
        )


@pytest.fixture
def room(tmp_path: Path, times: Times) -> Iterator[Room]:
    made = Room(tmp_path / "state", times)
    yield made
    for db in made.made:
        db.close()


def taken(claims: Claims, name: str = NAME) -> Claim:
    answer = claims.claim(name)
    assert isinstance(answer, Claim)
    return answer


def test_X12_tokens_rise_strictly_and_one_holds(room: Room) -> None:
    one, other = room.process(1), room.process(2)
    first = taken(one)
    held = other.claim(NAME)
    assert held == Held(first.token, 1, 0.0)
    assert one.release(first)
    assert not one.release(first)
    second = taken(other)
    assert second.token > first.token
    assert other.release(second)
    assert taken(one).token > second.token


def test_X12_tokens_rise_when_the_wall_clock_is_set_back(room: Room, times: Times) -> None:
    one = room.process(1)
    tokens = []
    for _ in range(5):
        claim = taken(one)
        tokens.append(claim.token)
        one.release(claim)
        times.wall -= 86_400
    assert tokens == sorted(set(tokens))


def test_names_are_independent(room: Room) -> None:
    one, other = room.process(1), room.process(2)
    taken(one, "extraction/a")
    taken(other, "extraction/b")
    assert isinstance(other.claim("extraction/a"), Held)


def test_X12_a_commit_under_a_lower_token_is_refused(room: Room, times: Times) -> None:
    one, other = room.process(1), room.process(2)
    first = taken(one)
    times.pass_(STALE_BOOT_S)
    second = taken(other)
    with pytest.raises(LostClaimError):
        one.db.write(lambda connection: fence(connection, first))
    assert not one.beat(first)
    assert not one.release(first)
    other.db.write(lambda connection: fence(connection, second))
    other.release(second)
    # Nobody holds it now, and yet it is not the first one's any more.
    with pytest.raises(LostClaimError):
        one.db.write(lambda connection: fence(connection, first))


def test_X12_a_lease_that_nobody_took_over_is_still_good(room: Room, times: Times) -> None:
    one = room.process(1)
    claim = taken(one)
    times.pass_(10 * STALE_BOOT_S)
    one.db.write(lambda connection: fence(connection, claim))
    assert one.beat(claim)


@pytest.mark.parametrize(
    ("boot", "mono", "free"),
    [
        (STALE_BOOT_S - 0.1, STALE_BOOT_S - 0.1, False),
        (STALE_BOOT_S, STALE_BOOT_S, True),
        (STALE_BOOT_S, STALE_MONO_S, True),
        (STALE_BOOT_S, STALE_MONO_S - 0.1, False),
        (600.0, 1.0, False),  # D81: the machine slept
        (1.0, 600.0, False),  # D81: the reverse
        (-600.0, 600.0, False),
    ],
)
def test_X13_D81_take_over_needs_both_clocks(
    room: Room, times: Times, boot: float, mono: float, free: bool
) -> None:
    one, other = room.process(1), room.process(2)
    taken(one)
    times.boot += boot
    times.mono += mono
    assert isinstance(other.claim(NAME), Claim) is free


def test_X13_D81_the_wall_clock_decides_nothing(room: Room, times: Times) -> None:
    one, other = room.process(1), room.process(2)
    taken(one)
    times.wall += 86_400
    assert isinstance(other.claim(NAME), Held)
    times.wall -= 3 * 86_400
    assert isinstance(other.claim(NAME), Held)


def test_D18_X13_a_slow_holder_that_beats_is_never_robbed(room: Room, times: Times) -> None:
    one, other = room.process(1), room.process(2)
    claim = taken(one)
    for _ in range(100):
        times.pass_(STALE_BOOT_S - 1)
        assert isinstance(other.claim(NAME), Held)
        assert one.beat(claim)


def test_D17_X14_a_dead_holder_is_robbed_at_once(room: Room) -> None:
    one, other = room.process(1), room.process(2)
    first = taken(one)
    del room.alive[1]
    assert taken(other).token > first.token


@pytest.mark.parametrize("start", [0, 2, 99])
def test_D15_a_pid_that_another_process_got_is_no_life(room: Room, start: int) -> None:
    one, other = room.process(1), room.process(2)
    taken(one)
    room.alive[1] = proc.Identity(1, start, "boot-1")
    assert isinstance(other.claim(NAME), Claim)


def test_D16_a_holder_of_an_earlier_boot_is_dead(room: Room) -> None:
    one = room.process(1, boot="boot-0")
    taken(one)
    # After the power loss the pid is somebody else's, with the very same start time.
    other = room.process(2)
    room.alive[1] = proc.Identity(1, 1, "boot-1")
    assert isinstance(other.claim(NAME), Claim)


def test_D15_a_pid_of_another_container_tells_nothing(room: Room, times: Times) -> None:
    one, other = room.process(1, where="there"), room.process(2)
    taken(one)
    del room.alive[1]  # as seen from here
    assert isinstance(other.claim(NAME), Held)
    times.pass_(STALE_BOOT_S)
    assert isinstance(other.claim(NAME), Claim)


def test_X13_another_machine_is_watched_by_our_own_clocks(room: Room, times: Times) -> None:
    far = room.process(1, boot="boot-far", where="far")
    other = room.process(2)
    claim = taken(far)
    times.pass_(1_000)  # its clocks say nothing here
    assert isinstance(other.claim(NAME), Held)
    times.pass_(STALE_BOOT_S - 1)
    assert far.beat(claim)
    assert isinstance(other.claim(NAME), Held)
    times.pass_(STALE_BOOT_S - 1)
    assert isinstance(other.claim(NAME), Held)
    times.pass_(1)
    assert isinstance(other.claim(NAME), Claim)


def test_X14_what_this_process_holds_it_may_take_again(room: Room) -> None:
    one = room.process(1)
    assert taken(one).token < taken(one).token


def test_X12_D17_tokens_rise_over_a_damaged_database(room: Room, times: Times) -> None:
    one = room.process(1)
    first = taken(one)
    one.db.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{one.db.path}{suffix}").unlink(missing_ok=True)
    one.db.path.write_bytes(b"no database at all, but long enough to be looked into" * 100)
    times.wall -= 1_000_000  # at the worst moment
    other = room.process(2)
    second = taken(other)
    assert second.token > first.token
    assert list(room.folder.glob("sessions.damaged-*.db"))
    with pytest.raises(LostClaimError):
        one.db.write(lambda connection: fence(connection, first))


def test_X12_who_has_the_old_file_open_cannot_commit_there(room: Room) -> None:
    """The file was set aside by another process while ours was open: we look before each use."""
    one, other = room.process(1), room.process(2)
    first = taken(one)
    assert isinstance(other.claim(NAME), Held)
    other.db._set_aside(apsw.CorruptError("found by another process"), 1.0)
    assert not one.db.path.exists()
    second = taken(other)
    assert second.token > first.token
    with pytest.raises(LostClaimError):
        one.db.write(lambda connection: fence(connection, first))
    assert not one.beat(first)


def test_X12_two_that_find_it_damaged_set_it_aside_once(room: Room) -> None:
    one, other = room.process(1), room.process(2)
    taken(one)
    one.db.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{one.db.path}{suffix}").unlink(missing_ok=True)
    one.db.path.write_bytes(b"x" * 8_192)
    inode = one.db.path.stat().st_ino
    for claims in (one, other):
        with pytest.raises(apsw.NotADBError), claims.db._in_turn(1.0):
            pass
    one.db._set_aside(apsw.NotADBError("one"), 1.0)
    held = taken(one)
    other.db._set_aside(apsw.NotADBError("other"), 1.0)
    assert one.db.path.stat().st_ino != inode
    assert other.claim(NAME) == Held(held.token, 1, 0.0)
    assert len(list(room.folder.glob("sessions.damaged-*.db"))) == 1


def test_a_newer_schema_is_left_alone(room: Room) -> None:
    one = room.process(1)
    one.db.write(lambda connection: connection.execute("PRAGMA user_version = 99"))
    one.db.close()
    with pytest.raises(StoreUnavailable) as caught:
        one.claim(NAME)
    assert caught.value.detail == {"reason": "newerSchema"} or "newer" in caught.value.message


@pytest.mark.parametrize("what", ["file", "readonly"])
def test_a_folder_that_cannot_be_used_is_told_and_heals(
    room: Room, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = room.process(1)
    if what == "file":
        room.folder.write_text("not a folder")
    else:
        room.folder.mkdir()
        real = os.open

        def refused(path: Any, *args: Any, **more: Any) -> int:
            if str(path).endswith("sessions.lock"):
                raise PermissionError(13, "Permission denied")
            return real(path, *args, **more)

        monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StoreUnavailable) as caught:
        one.claim(NAME)
    assert "state folder" in caught.value.message
    monkeypatch.undo()
    if what == "file":
        room.folder.unlink()
    assert isinstance(one.claim(NAME), Claim)


def test_I26_who_waits_for_a_hanging_process_is_told_in_time(room: Room) -> None:
    one = room.process(1)
    taken(one)
    script = (
        "import sys, apsw\n"
        "c = apsw.Connection(sys.argv[1])\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(one.db.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreUnavailable) as caught:
            one.db.write(lambda _: None, deadline_s=0.2)
        assert caught.value.retryable
    finally:
        holder.communicate(timeout=10)
    one.db.write(lambda _: None)


def test_files_are_private(room: Room) -> None:
    taken(room.process(1))
    assert room.folder.stat().st_mode & 0o777 == 0o700
    for path in room.folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_a_place_is_where_pids_mean_something() -> None:
    assert place() == place()
    assert "pid:[" in place() or not Path("/proc/self/ns/pid").exists()
