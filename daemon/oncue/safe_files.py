"""Files and folders opened so that no link, pipe or giant gets in the way; every room's (T1, I23).

Every open is relative to a folder's descriptor, component by component, `O_NOFOLLOW`; what was
opened is judged by `fstat`, never by what a path said before. Everything here blocks: call it in
a worker thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator

from attrs import frozen

MAX_FILE_BYTES = 256 * 1024
"""A memory or notes of more is a log or a dump (T9)."""
TEMPORARY = ".oncue-tmp-"
"""Prefix of files that are being written; those left by a crash are removed at the next start."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@frozen
class Signature:
    """What tells without reading that a file is unchanged (M7)."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Signature:
        return cls(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


class UnfitFileError(Exception):
    """The file is not one that may be read."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@contextlib.contextmanager
def opened_folder(base: str, parts: tuple[str, ...] = ()) -> Iterator[int]:
    """Descriptor of the folder `parts` below the trusted folder `base` (links in the path of
    `base` itself are the user's business). Raises OSError where it is missing or a link, and
    `UnfitFileError` where it is not ours."""
    fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            below = _enter(fd, part)
            os.close(fd)
            fd = below
        if os.fstat(fd).st_uid != os.geteuid():
            raise UnfitFileError("owner", "folder belongs to another user")
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def made_folder(base: str, parts: tuple[str, ...] = ()) -> Iterator[int]:
    """As `opened_folder`, making what is missing (0700)."""
    os.makedirs(base, mode=0o700, exist_ok=True)  # noqa: PTH103 - mode of parents
    fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            try:
                below = _enter(fd, part)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=fd)
                below = _enter(fd, part)
            os.close(fd)
            fd = below
        if os.fstat(fd).st_uid != os.geteuid():
            raise UnfitFileError("owner", "folder belongs to another user")
        yield fd
    finally:
        os.close(fd)


def _enter(folder: int, part: str) -> int:
    """Descriptor of a folder in a folder. A link is said to be one: with O_DIRECTORY the kernel
    calls it no folder."""
    try:
        return os.open(part, FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.lstat(part, dir_fd=folder).st_mode):
            raise UnfitFileError("link", MESSAGES["link"]) from None
        raise


def read_at(folder: int, name: str) -> tuple[bytes, Signature]:
    """Bytes of the file `name` in an open folder. Raises `UnfitFileError`, and FileNotFoundError
    where there is none."""
    for _ in range(_ATTEMPTS):
        read = _read_once(folder, name)
        if read is not None:
            return read
    raise UnfitFileError("unreadable", "is replaced all the time while it is read")


_ATTEMPTS = 20
"""A file replaced just while it is opened is read again; more often than this nobody saves."""


def _read_once(folder: int, name: str) -> tuple[bytes, Signature] | None:
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        raise unfit(error) from None
    try:
        found = os.fstat(fd)
        if found.st_nlink == 0:
            return None  # replaced since it was opened
        code = judge(found)
        if code is not None:
            raise UnfitFileError(code, MESSAGES[code])
        # A hard link to a file elsewhere has one link again once it is removed: only if the
        # name still leads to what was opened, and by its one link, was it ours.
        named = os.lstat(name, dir_fd=folder)
        if (named.st_dev, named.st_ino, named.st_nlink) != (found.st_dev, found.st_ino, 1):
            return None
        parts = []
        left = MAX_FILE_BYTES + 1
        while left > 0 and (part := os.read(fd, min(left, 1 << 16))):
            parts.append(part)
            left -= len(part)
        if left <= 0:
            raise UnfitFileError("tooLarge", MESSAGES["tooLarge"])
        return b"".join(parts), Signature.of(found)
    except OSError as error:
        raise unfit(error) from None
    finally:
        os.close(fd)


def judge(found: os.stat_result) -> str | None:
    """Why a file may not be read; None where it may."""
    if stat.S_ISLNK(found.st_mode):
        return "link"
    if not stat.S_ISREG(found.st_mode):
        return "notRegular"
    if found.st_uid != os.geteuid():
        return "owner"
    if found.st_nlink != 1:
        return "hardLink"
    if found.st_size > MAX_FILE_BYTES:
        return "tooLarge"
    return None


MESSAGES = {
    "link": "is a symbolic link, or lies behind one: links are not followed",
    "notRegular": "is not a regular file",
    "owner": "belongs to another user",
    "hardLink": "has more than one hard link",
    "tooLarge": f"is larger than {MAX_FILE_BYTES} bytes",
    "unreadable": "cannot be read",
}


def unfit(error: OSError) -> Exception:
    """What an error of the file system means: nothing there, or nothing that may be read."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FileNotFoundError(errno.ENOENT, "no such file")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnfitFileError("link", MESSAGES["link"])
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR):
        return UnfitFileError("notRegular", MESSAGES["notRegular"])
    return UnfitFileError("unreadable", f"{MESSAGES['unreadable']}: {error.strerror}")


LOCK_DEADLINE_S = 3.0
"""A writer holds a folder's lock for milliseconds; who waits longer waits for a hang."""


@contextlib.contextmanager
def exclusively(folder: int, *, deadline_s: float = LOCK_DEADLINE_S) -> Iterator[None]:
    """Hold the `flock` of an open folder, which every oncue process takes to write there and
    which leaves no file behind. Raises BlockingIOError where another holds it too long. A file
    system without locks is no reason not to write."""
    until = time.monotonic() + deadline_s
    pause = 0.001
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        except OSError:
            break
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_UN)


_NOREPLACE, _EXCHANGE = 1, 2
"""Flags of Linux' renameat2."""


def exchange(folder: int, one: str, other: str) -> bool:
    """Swap two files of an open folder in one step, so that whoever saved over `other` a moment
    ago is not overwritten but can be looked at. False: this system cannot. Raises OSError."""
    return _renameat2(folder, one, other, _EXCHANGE)


def place(folder: int, temporary: str, name: str) -> None:
    """Rename to a name that must be free: raises FileExistsError where it is taken, as far as
    this system can tell in one step."""
    if not _renameat2(folder, temporary, name, _NOREPLACE):
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _renameat2(folder: int, old: str, new: str, flags: int) -> bool:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(folder, os.fsencode(old), folder, os.fsencode(new), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False  # an old kernel, or a file system without it
    raise OSError(code, os.strerror(code), new)


def write_all(fd: int, data: bytes) -> None:
    """All of `data` into a new file, on the disk when this returns."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def revision(data: bytes) -> str:
    """Revision of a file: SHA-256 of its bytes, lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def printable(path: str) -> str:
    """A path fit for a message: what cannot be printed becomes U+FFFD."""
    return "".join(c if c.isprintable() else "\ufffd" for c in path)
