"""Who a process is (D04, D15, D16): a pid alone names nobody.

`/proc` is a folder of the test's own where that is enough, so that pids can be recycled and boots
can happen; the last tests watch real processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from oncue import proc
from oncue.proc import Identity

STAT = "{pid} ({name}) {state} 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0 0 0"


class FakeProc:
    """Just as much of `/proc` as is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "self").mkdir(parents=True)
        (root / "self" / "stat").write_text(STAT.format(pid=1, name="x", state="R", start=1))
        self.boot("b-1")

    def boot(self, boot_id: str) -> None:
        folder = self.root / "sys/kernel/random"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "boot_id").write_text(f"{boot_id}\n")

    def runs(self, pid: int, start: int, state: str = "S", name: str = "node") -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(STAT.format(pid=pid, name=name, state=state, start=start))

    def ends(self, pid: int) -> None:
        (self.root / str(pid) / "stat").unlink()


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def test_D04_a_recycled_pid_is_somebody_else(fake: FakeProc) -> None:
    fake.runs(500, start=100)
    who = proc.identity(500, fake.root)
    assert who == Identity(500, 100, "b-1")
    assert proc.is_alive(who, fake.root)
    fake.ends(500)
    assert not proc.is_alive(who, fake.root)
    fake.runs(500, start=90_000)
    assert not proc.is_alive(who, fake.root), "a program that got the pid later"
    fake.runs(500, start=100)
    assert proc.is_alive(who, fake.root)


def test_D16_another_boot_is_another_process(fake: FakeProc) -> None:
    """After a power loss the same pid may even have the same start time."""
    fake.runs(500, start=100)
    who = proc.identity(500, fake.root)
    assert who is not None
    fake.boot("b-2")
    assert not proc.is_alive(who, fake.root)


@pytest.mark.parametrize("state", ["Z", "X", "x"])
def test_D15_a_zombie_is_dead(fake: FakeProc, state: str) -> None:
    fake.runs(500, start=100)
    who = proc.identity(500, fake.root)
    assert who is not None
    fake.runs(500, start=100, state=state)
    assert proc.identity(500, fake.root) is None
    assert not proc.is_alive(who, fake.root)


@pytest.mark.parametrize("state", ["R", "S", "D", "T", "t", "I"])
def test_D15_one_that_is_stopped_or_sleeps_is_alive(fake: FakeProc, state: str) -> None:
    fake.runs(500, start=100, state=state)
    who = proc.identity(500, fake.root)
    assert who is not None
    assert proc.is_alive(who, fake.root)


@pytest.mark.parametrize("pid", [0, -1, -(2**31), 2**31, 2**64, 4_194_305])
def test_D15_numbers_that_name_no_process(fake: FakeProc, pid: int) -> None:
    """`kill(0, 0)` and `kill(-1, 0)` succeed: they name groups."""
    assert proc.identity(pid, fake.root) is None
    assert proc.identity(pid) is None


def test_D15_pid_1_is_what_its_start_time_says(fake: FakeProc) -> None:
    fake.runs(1, start=5)
    who = proc.identity(1, fake.root)
    assert who == Identity(1, 5, "b-1")
    assert not proc.is_alive(Identity(1, 700, "b-1"), fake.root), "recorded in another container"


@pytest.mark.parametrize("name", ["a) S 1 (b", "(((", ")))", "x\ny", ") Z 9 9", "\u200b", ""])
def test_D15_a_name_forges_no_state(fake: FakeProc, name: str) -> None:
    fake.runs(500, start=100, name=name)
    assert proc.identity(500, fake.root) == Identity(500, 100, "b-1")


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0", b"garbage", b"500 (node", b"500 (node) S", b"500 (node) S 1 2", b"\xff" * 4096,
     b"500 (x) S " + b"z " * 40, b"500 (x) S 1 " + b"9" * 5_000 + b" 1" * 30],
)  # fmt: skip
def test_D15_garbage_is_no_process(fake: FakeProc, raw: bytes) -> None:
    fake.runs(500, start=100)
    (fake.root / "500" / "stat").write_bytes(raw)
    found = proc.identity(500, fake.root)
    assert found is None or found.pid == 500
    assert not proc.is_alive(Identity(500, 100, "b-1"), fake.root) or found is not None


def test_D15_without_proc_the_pid_has_to_do(tmp_path: Path) -> None:
    """macOS: no start time is known, so none is compared."""
    nowhere = tmp_path / "nowhere"
    who = proc.identity(os.getpid(), nowhere)
    assert who == Identity(os.getpid(), 0, "")
    assert proc.is_alive(who, nowhere)
    assert proc.is_alive(who), "and one of a time without it is compared by what is known"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    assert proc.identity(dead.pid, nowhere) is None


async def test_D04_a_real_process_is_watched_to_its_end_and_no_further() -> None:
    one = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    who = proc.identity(one.pid)
    assert who is not None
    one.send_signal(signal.SIGSTOP)
    assert proc.is_alive(who), "stopped is alive (D18)"
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(proc.wait_ended, who)
            await trio.lowlevel.checkpoint()
            one.kill()
    assert not proc.is_alive(who), "a zombie, not reaped yet"
    one.wait()
    with trio.fail_after(10):
        await proc.wait_ended(who)
    other.kill()
    other.wait()


async def test_D04_whoever_has_the_pid_now_is_not_waited_for() -> None:
    """The recorded start time is another's: at once, though the pid is alive."""
    mine = proc.current()
    with trio.fail_after(10):
        await proc.wait_ended(Identity(mine.pid, mine.start + 1, mine.boot))
        await proc.wait_ended(Identity(mine.pid, mine.start, "another boot"))
    assert proc.is_alive(mine)


async def test_D04_watching_leaves_no_descriptor() -> None:
    before = os.listdir("/proc/self/fd")
    mine = proc.current()
    for _ in range(50):
        with trio.move_on_after(0.001):
            await proc.wait_ended(mine)
    assert len(os.listdir("/proc/self/fd")) == len(before)
