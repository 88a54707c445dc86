"""Who a process is, whether it still lives, and which clock to ask.

A process id alone names nobody: ids are recycled, and a leaked daemon has watched a stranger for
days (D04). An identity is the id together with the process's start time and the id of this boot.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

import trio
from attrs import frozen

PROC = Path("/proc")
POLL_S = 1.0
"""Where there is no pidfd the watched process is looked at this often: death is to be noticed
within 5 s, and a look costs 20 µs."""

_MAX_PID = 1 << 31


@frozen
class Identity:
    """One process, for ever."""

    pid: int
    start: int
    """Start time in clock ticks since boot (field 22 of `/proc/<pid>/stat`); 0: unknown here."""
    boot: str
    """Kernel's boot id; empty where there is none."""


def monotonic() -> float:
    """Seconds that never jump and stand still during suspend: for deadlines."""
    return time.monotonic()


def boot_clock() -> float:
    """Seconds since boot, suspend included: for ages that must mean the same after a laptop has
    slept, and in every process of this boot."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def boot_id(root: Path = PROC) -> str:
    """This boot's id, or "" where the system has none."""
    try:
        return (root / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def parse_stat(raw: bytes) -> tuple[str, int, int] | None:
    """(state letter, parent's pid, start time in ticks) of a `/proc/<pid>/stat` line; None for
    garbage. The second field is a file name in parentheses and may itself hold `) (`."""
    _, closing, rest = raw.rpartition(b")")
    fields = rest.split()
    if not closing or len(fields) < 20:
        return None
    try:
        return fields[0].decode("ascii"), int(fields[1]), int(fields[19])
    except ValueError:
        return None


def _stat(pid: int, root: Path) -> tuple[str, int, int] | None:
    try:
        return parse_stat((root / str(pid) / "stat").read_bytes())
    except (OSError, ValueError):
        return None


def _has_proc(root: Path) -> bool:
    return (root / "self/stat").exists()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def identity(pid: int, root: Path = PROC) -> Identity | None:
    """Who `pid` is now; None when no such process lives (a zombie does not)."""
    if not 0 < pid < _MAX_PID:
        return None
    stat = _stat(pid, root)
    if stat is None:
        alive = not _has_proc(root) and _exists(pid)
        return Identity(pid, 0, "") if alive else None
    state, _, start = stat
    return None if state in "ZXx" else Identity(pid, start, boot_id(root))


def current() -> Identity:
    """This process."""
    pid = os.getpid()
    return identity(pid) or Identity(pid, 0, "")


def is_alive(who: Identity, root: Path = PROC) -> bool:
    """Whether this very process still runs: not a zombie, not another one that got its pid, not
    one of an earlier boot."""
    now = identity(who.pid, root)
    if now is None:
        return False
    if who.boot and now.boot and who.boot != now.boot:
        return False
    return not (who.start and now.start) or who.start == now.start


def _pidfd(who: Identity) -> int | None:
    """A pidfd of this very process, or None where the system refuses one."""
    try:
        fd = os.pidfd_open(who.pid)
    except (OSError, AttributeError):
        return None
    # The pid may have changed hands between the look and the open.
    if is_alive(who):
        return fd
    os.close(fd)
    return None


async def wait_ended(who: Identity) -> None:
    """Return when this process has ended (also when it is not reaped yet)."""
    fd = _pidfd(who)
    if fd is not None:
        try:
            await trio.lowlevel.wait_readable(fd)
        except OSError:
            pass  # a kernel whose pidfd cannot be polled: look instead
        else:
            return
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)
    while is_alive(who):  # noqa: ASYNC110 - the kernel has no event for it here
        await trio.sleep(POLL_S)
