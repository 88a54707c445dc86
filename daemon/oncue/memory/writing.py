"""Memory files written: a whole version or the one before, and never over another's edit.

Temporary file in the same folder, fsync, rename, fsync of the folder; compare-and-swap on the
revision under a lock that every oncue process takes (memory.md M4; I19, I20). The lock is a
`flock` on the root's own folder, so it leaves no file behind. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator

from oncue.memory import files, names
from oncue.memory.files import TEMPORARY, Signature, UnfitFileError
from oncue.memory.roots import Root
from oncue.safe_files import LOCK_DEADLINE_S, exclusively
from oncue_protocol.errors import RevisionConflict, StoreUnavailable


@contextlib.contextmanager
def locked(root: Root, *, deadline_s: float = LOCK_DEADLINE_S) -> Iterator[int]:
    """The root's folder (made where it is missing), exclusively. Raises `StoreUnavailable` where
    another process holds it too long."""
    with files.made_folder(root) as folder, contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusively(folder, deadline_s=deadline_s))
        except BlockingIOError:
            raise StoreUnavailable(
                f"another process holds the memory folder {root.path}: try again", reason="busy"
            ) from None
        yield folder


def current(root: Root, relative: str) -> tuple[bytes | None, Signature | None]:
    """What is there now; (None, None) where nothing is. Raises `UnfitFileError`."""
    try:
        return files.read(root, relative)
    except FileNotFoundError:
        return None, None


def check_revision(path: str, data: bytes | None, if_revision: str | None) -> None:
    """Compare: a new file must not exist, a change needs the revision that it was made from.
    Raises `RevisionConflict`, which carries the current revision (1003)."""
    found = files.revision(data) if data is not None else None
    if found == if_revision:
        return
    if found is None:
        raise RevisionConflict(f"{path} is gone: write it as a new memory", revision=None)
    if if_revision is None:
        raise RevisionConflict(
            f"{path} exists: read it, then write with ifRevision", revision=found
        )
    raise RevisionConflict(
        f"{path} was changed since it was read: read it again, then write", revision=found
    )


def signature(root: Root, relative: str) -> Signature | None:
    """Signature of whatever is there; None where nothing is."""
    *parents, name = relative.split("/")
    try:
        with files.opened_folder(root, tuple(parents)) as folder:
            return _signature(folder, name)
    except FileNotFoundError:
        return None


def replace(root: Root, relative: str, data: bytes, seen: Signature | None) -> Signature:
    """Put `data` in place of what had the signature `seen` (None: nothing). Call it under the
    lock. Raises OSError as the file system does, then nothing has changed."""
    *parents, name = relative.split("/")
    with files.made_folder(root, tuple(parents)) as folder:
        return replace_at(folder, name, data, seen)


def replace_at(folder: int, name: str, data: bytes, seen: Signature | None) -> Signature:
    """As `replace`, in an open folder."""
    temporary = f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        _still(folder, name, seen)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)
    written = _signature(folder, name)
    return written if written is not None else Signature(0, 0, 0, 0)


def _still(folder: int, name: str, seen: Signature | None) -> None:
    if _signature(folder, name) != seen:
        raise RevisionConflict(
            f"{name} was changed while it was written: read it again",
            revision=_revision(folder, name),
        )


def _signature(folder: int, name: str) -> Signature | None:
    try:
        return Signature.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _revision(folder: int, name: str) -> str | None:
    try:
        return files.revision(files.read_at(folder, name)[0])
    except (OSError, UnfitFileError):
        return None


def remove_leftovers(root: Root) -> int:
    """Temporary files of writers that died, in the root and in the folder around it. Only under
    the root's own lock has no living writer any; how many were removed. Never raises."""
    removed = 0
    try:
        with files.opened_folder(root), locked(root, deadline_s=0.0) as folder:
            for where in _folders(folder, 1):
                removed += _unlink_temporaries(where)
            with files.opened_folder(root.home) as home:
                removed += _unlink_temporaries(home)
    except (OSError, UnfitFileError, StoreUnavailable):
        return removed
    return removed


def _folders(folder: int, depth: int) -> Iterator[int]:
    yield folder
    try:
        with os.scandir(folder) as entries:
            below = [
                e.name
                for e in entries
                if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")
            ]
    except OSError:
        return
    for name in below if depth < names.MAX_DEPTH else ():
        try:
            fd = os.open(name, files.FOLDER, dir_fd=folder)
        except OSError:
            continue
        try:
            yield from _folders(fd, depth + 1)
        finally:
            os.close(fd)


def _unlink_temporaries(folder: int) -> int:
    removed = 0
    try:
        with os.scandir(folder) as entries:
            left = [entry.name for entry in entries if entry.name.startswith(TEMPORARY)]
    except OSError:
        return 0
    for name in left:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
            removed += 1
    return removed
