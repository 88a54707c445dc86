"""Memory files on disk: read and listed so that no link, pipe or giant gets in the way.

Every open is relative to a folder's descriptor, component by component, `O_NOFOLLOW`; what was
opened is judged by `fstat`, never what a path said before (memory.md M4, M5; T1, I23). Everything
here blocks: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterator

from attrs import frozen

from oncue.memory import names
from oncue.memory.roots import Root

MAX_FILE_BYTES = 256 * 1024
"""A memory of more is a log or a dump: indexed by its name only, and reported (T9)."""
TEMPORARY = ".oncue-tmp-"
"""Prefix of files that are being written; those left by a crash are removed at the next start."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
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


@frozen
class FileProblem:
    """A file that cannot be taken as a memory, or only in part (D53)."""

    path: str
    """Absolute, printable."""
    code: str
    """`link`, `hardLink`, `notRegular`, `owner`, `tooLarge`, `unreadable`, `name`, `tooDeep`,
    `encoding`, `nul`, `yaml`, `alias`, `tag`, `depth`, `tooLong`, `unclosed`, `duplicateKey`."""
    message: str


class UnfitFileError(Exception):
    """The file is not one that may be read."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@frozen
class Listed:
    """A file found by `scan`."""

    relative: str
    signature: Signature
    unfit: str | None = None
    """Code of what keeps it from being read; `tooLarge` is indexed by name."""


@contextlib.contextmanager
def opened_folder(root: Root, parts: tuple[str, ...] = ()) -> Iterator[int]:
    """Descriptor of a folder below the root. Raises OSError where it is missing or a link, and
    `UnfitFileError` where it is not ours."""
    fd = os.open(root.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in (*root.below, *parts):
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


@contextlib.contextmanager
def made_folder(root: Root, parts: tuple[str, ...] = ()) -> Iterator[int]:
    """As `opened_folder`, making what is missing (0700)."""
    os.makedirs(root.base, mode=0o700, exist_ok=True)  # noqa: PTH103 - mode of parents
    fd = os.open(root.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in (*root.below, *parts):
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


def read(root: Root, relative: str) -> tuple[bytes, Signature]:
    """Bytes of a file of this root. Raises `UnfitFileError`, and FileNotFoundError where there
    is none."""
    *parents, name = relative.split("/")
    try:
        with opened_folder(root, tuple(parents)) as folder:
            return read_at(folder, name)
    except OSError as error:
        raise _unfit(error) from None


def read_at(folder: int, name: str) -> tuple[bytes, Signature]:
    """Bytes of the file `name` in an open folder; raises as `read`."""
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        raise _unfit(error) from None
    try:
        found = os.fstat(fd)
        code = judge(found)
        if code is not None:
            raise UnfitFileError(code, MESSAGES[code])
        parts = []
        left = MAX_FILE_BYTES + 1
        while left > 0 and (part := os.read(fd, min(left, 1 << 16))):
            parts.append(part)
            left -= len(part)
        if left <= 0:
            raise UnfitFileError("tooLarge", MESSAGES["tooLarge"])
        return b"".join(parts), Signature.of(found)
    except OSError as error:
        raise _unfit(error) from None
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
    "tooLarge": f"is larger than {MAX_FILE_BYTES} bytes: found by its name only",
    "unreadable": "cannot be read",
    "name": "has a name that is not valid UTF-8",
    "tooDeep": f"lies more than {names.MAX_DEPTH} folders deep",
}


def _unfit(error: OSError) -> Exception:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FileNotFoundError(errno.ENOENT, "no such file")
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnfitFileError("link", MESSAGES["link"])
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR):
        return UnfitFileError("notRegular", MESSAGES["notRegular"])
    return UnfitFileError("unreadable", f"{MESSAGES['unreadable']}: {error.strerror}")


def revision(data: bytes) -> str:
    """Revision of a file: SHA-256 of its bytes, lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def scan(root: Root) -> Generator[Listed, None, None]:
    """Every Markdown file of a root, in no order, unfit ones too. Never raises for one of them.
    Raises FileNotFoundError where there is no such root, `UnfitFileError` where it is not ours.

    A generator, so that whoever calls decides how long a step takes.
    """
    try:
        with opened_folder(root) as folder:
            yield from _scan(folder, "", 1)
    except OSError as error:
        raise _unfit(error) from None


def _scan(folder: int, prefix: str, depth: int) -> Iterator[Listed]:
    below: list[str] = []
    try:
        entries = os.scandir(folder)
    except OSError:
        yield Listed(prefix.rstrip("/"), Signature(0, 0, 0, 0), "unreadable")
        return
    with entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            is_memory = name.casefold().endswith(names.SUFFIXES)
            try:
                if not is_memory:
                    if entry.is_dir(follow_symlinks=False):
                        below.append(name)
                    continue
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if depth == 1 and name == names.INDEX_NAME:
                continue
            signature = Signature.of(found)
            code = judge(found) if is_unicode(name) else "name"
            yield Listed(prefix + name, signature, code)
    for name in below:
        if depth >= names.MAX_DEPTH:
            yield Listed(f"{prefix}{name}", Signature(0, 0, 0, 0), "tooDeep")
            continue
        try:
            fd = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            yield Listed(f"{prefix}{name}", Signature(0, 0, 0, 0), "unreadable")
            continue
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                yield Listed(f"{prefix}{name}", Signature(0, 0, 0, 0), "owner")
            else:
                yield from _scan(fd, f"{prefix}{name}/", depth + 1)
        finally:
            os.close(fd)


def is_unicode(name: str) -> bool:
    """Whether a name can be said in a reply (D33)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def printable(path: str) -> str:
    """A path fit for a message: what cannot be printed becomes U+FFFD."""
    return "".join(c if c.isprintable() else "\ufffd" for c in path)
