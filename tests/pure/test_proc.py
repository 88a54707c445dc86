"""Who a process is (D03, D04): by a `/proc` of our own making, and by real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from oncue import proc
from oncue.proc import Identity


def fake(
    root: Path, pid: int, *, start: int = 5000, state: str = "S", name: str = "editor"
) -> None:
    """A process in a fake `/proc`."""
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = " ".join(str(n) for n in range(5, 22))
    (folder / "stat").write_text(f"{pid} ({name}) {state} 1 {numbers} {start} 0 0\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot-1\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "self/stat").write_text("")
    return tmp_path


def test_house2_identity_is_pid_start_and_boot(root: Path) -> None:
    fake(root, 42)
    assert proc.identity(42, root) == Identity(42, 5000, "boot-1")


def test_D04_a_recycled_pid_is_another_process(root: Path) -> None:
    fake(root, 42, start=5000)
    who = proc.identity(42, root)
    assert who is not None
    assert proc.is_alive(who, root)
    fake(root, 42, start=9000)
    assert not proc.is_alive(who, root)


def test_D04_another_boot_is_another_process(root: Path) -> None:
    fake(root, 42)
    who = proc.identity(42, root)
    assert who is not None
    (root / "sys/kernel/random/boot_id").write_text("boot-2\n")
    assert not proc.is_alive(who, root)


@pytest.mark.parametrize("state", ["Z", "X", "x"])
def test_D03_a_zombie_is_dead(root: Path, state: str) -> None:
    fake(root, 42)
    who = proc.identity(42, root)
    fake(root, 42, state=state)
    assert who is not None
    assert not proc.is_alive(who, root)
    assert proc.identity(42, root) is None


@pytest.mark.parametrize("name", ["a b", ") Z 1 (", "(((", ")))", "x) Z 9 9 (y", "\n", "é"])
def test_D04_names_cannot_forge_fields(root: Path, name: str) -> None:
    fake(root, 42, name=name)
    assert proc.identity(42, root) == Identity(42, 5000, "boot-1")


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70, 43])
def test_D04_pids_that_are_none(root: Path, pid: int) -> None:
    assert proc.identity(pid, root) is None
    assert not proc.is_alive(Identity(pid, 1, ""), root)


@pytest.mark.parametrize(
    "raw", [b"", b"garbage", b"42 (x", b"42 (x) S 1", b"42 (x) S a " + b"b " * 30]
)
def test_D04_garbage_is_no_process(root: Path, raw: bytes) -> None:
    fake(root, 42)
    (root / "42/stat").write_bytes(raw)
    assert proc.parse_stat(raw) is None
    assert proc.identity(42, root) is None


@given(st.binary(max_size=300))
def test_D04_parse_stat_never_raises(raw: bytes) -> None:
    proc.parse_stat(raw)


def test_house2_without_a_boot_id_start_time_decides(root: Path) -> None:
    (root / "sys/kernel/random/boot_id").unlink()
    fake(root, 42)
    who = proc.identity(42, root)
    assert who == Identity(42, 5000, "")
    assert proc.is_alive(who, root)


def test_house2_without_proc_a_signal_decides(tmp_path: Path) -> None:
    who = proc.identity(os.getpid(), tmp_path)
    assert who == Identity(os.getpid(), 0, "")
    assert proc.is_alive(who, tmp_path)
    assert proc.identity(4_194_303, tmp_path) is None


def test_house2_this_process() -> None:
    who = proc.current()
    assert who.pid == os.getpid()
    assert proc.is_alive(who)
    assert proc.boot_clock() > 0
    assert proc.monotonic() <= proc.monotonic()


SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.mark.parametrize("pidfd", ["pidfd", "noPidfd", "refused"])
async def test_D03_the_watch_sees_the_end_of_a_real_process(
    monkeypatch: pytest.MonkeyPatch, pidfd: str
) -> None:
    monkeypatch.setattr(proc, "POLL_S", 0.01)
    if pidfd == "noPidfd":
        monkeypatch.delattr(os, "pidfd_open")
    elif pidfd == "refused":

        def refuse(_: int) -> int:
            raise PermissionError

        monkeypatch.setattr(os, "pidfd_open", refuse)
    child = subprocess.Popen(SLEEPER)
    who = proc.identity(child.pid)
    assert who is not None
    ended = trio.Event()

    async def watch() -> None:
        await proc.wait_ended(who)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked() if pidfd == "pidfd" else None
        assert not ended.is_set()
        child.kill()
        with trio.fail_after(5):
            await ended.wait()  # though nobody has reaped it
    child.wait()


async def test_D04_the_watch_of_a_recycled_pid_ends_at_once() -> None:
    me = proc.current()
    stranger = Identity(me.pid, me.start - 1, me.boot)
    with trio.fail_after(5):
        await proc.wait_ended(stranger)


async def test_D03_a_cancelled_watch_leaves_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    with trio.move_on_after(0.01):
        await proc.wait_ended(proc.current())
    assert set(os.listdir("/proc/self/fd")) == before
