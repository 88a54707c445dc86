"""The process's standard descriptors, made safe before anything else is imported.

Light on purpose (os, fcntl, stat, nothing of ours): `take()` is the first thing `serve` does, so
that not even a print at import time can reach the client's stream (wire.md §2, D23).

* stdin and stdout become private descriptors, non-blocking; what used to be fd 0 reads
  `/dev/null`, what used to be fd 1 goes where fd 2 goes.
* O_NONBLOCK belongs to the open file description, which we may share with a shell or an editor:
  where the kernel lets us, a new description is opened through `/proc/self/fd`; else the flag is
  put back on exit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from typing import NamedTuple


class Standard(NamedTuple):
    """What `take` returns: private descriptors, not inherited by children."""

    stdin: int
    stdout: int


_shared: list[tuple[int, int]] = []
"""(descriptor, its flags before us) of the descriptions that we share with others."""


def _reopened(fd: int, flags: int) -> int | None:
    """A new non-blocking description of what `fd` is open on, or None. Sockets have none, and a
    file would start again at its beginning."""
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None


def _private(fd: int, flags: int) -> int:
    """A private, non-blocking descriptor ≥ 3 for `fd`; a closed `fd` behaves like `/dev/null`."""
    try:
        os.fstat(fd)
    except OSError:
        return os.open(os.devnull, flags | os.O_CLOEXEC)
    new = _reopened(fd, flags)
    if new is None:
        new = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
        before = fcntl.fcntl(new, fcntl.F_GETFL)
        if not before & os.O_NONBLOCK:
            fcntl.fcntl(new, fcntl.F_SETFL, before | os.O_NONBLOCK)
            _shared.append((new, before))
    return new


def take() -> Standard:
    """Take stdin and stdout away from everybody else in this process. Call once, first."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    spare = [null]
    while spare[-1] <= 2:  # a closed standard descriptor: keep its number occupied
        spare.append(os.dup(spare[-1]))
    stdin = _private(0, os.O_RDONLY)
    stdout = _private(1, os.O_WRONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    for fd in spare:
        if fd > 2:
            os.close(fd)
    return Standard(stdin, stdout)


def give_back() -> None:
    """Put back the flags of shared descriptions: a shell whose terminal is left non-blocking
    reads end of file at once. Safe at any time, also twice."""
    for fd, flags in _shared:
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def open_stderr() -> tuple[int, bool]:
    """A private descriptor for log records, and whether it never blocks by itself.

    A pipe or terminal is opened anew, non-blocking, a file anew, appending; fds 1 and 2 become
    the new description as well, so that not even C-level output blocks. Where that does not work
    (a socket, another user's terminal) it is a duplicate whose flags stay as they are, and the
    writer has to ask `poll` first.
    """
    try:
        mode = os.fstat(2).st_mode
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), True
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    if stat.S_ISREG(mode):
        flags |= os.O_APPEND
    if not stat.S_ISSOCK(mode):
        with contextlib.suppress(OSError):
            fd = os.open("/proc/self/fd/2", flags)
            os.dup2(fd, 2)
            os.dup2(fd, 1)
            return fd, True
    return fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, 3), False
