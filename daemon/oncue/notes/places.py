"""Where a session's notes lie, and everything that is kept of them: listed, tidied, removed.

`<data>/projects/<key>/notes/<session>.md`, or `<data>/user/notes/` without a project; beside it
`<session>.conflict-….md` and `<session>.older.md`, and the last versions in `.versions/<session>/`.
All of it 0600 in 0700 folders. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from oncue import safe_files
from oncue.safe_files import FOLDER, TEMPORARY, UnfitFileError

VERSIONS = ".versions"
MAX_STEM = 60
"""Characters of a session's id that a file's name shows; the rest of the name tells it apart."""

_STEM = re.compile(r"[A-Za-z0-9-]{0,60}-[0-9a-f]{16}")
_OURS = re.compile(r"([A-Za-z0-9-]{0,60}-[0-9a-f]{16})(?:\.conflict-[0-9a-f]{12}|\.older)?\.md")


@frozen
class NotesFolder:
    """A folder of notes."""

    base: str
    """The trusted data folder."""
    below: tuple[str, ...]

    @property
    def path(self) -> str:
        """Absolute path, whether it exists or not."""
        return "/".join((self.base.rstrip("/"), *self.below))

    @contextlib.contextmanager
    def opened(self, *parts: str) -> Iterator[int]:
        """Its descriptor, or that of a folder in it. Raises OSError."""
        with _told(self), safe_files.opened_folder(self.base, (*self.below, *parts)) as folder:
            yield folder

    @contextlib.contextmanager
    def made(self, *parts: str) -> Iterator[int]:
        """As `opened`, making what is missing (0700)."""
        with _told(self), safe_files.made_folder(self.base, (*self.below, *parts)) as folder:
            yield folder


@contextlib.contextmanager
def _told(folder: NotesFolder) -> Iterator[None]:
    """Says which folder cannot be used, and what to do."""
    try:
        yield
    except UnfitFileError as error:
        raise OSError(
            0, f"notes folder {safe_files.printable(folder.path)} cannot be used: {error.message}"
        ) from None
    except NotADirectoryError as error:
        raise NotADirectoryError(
            error.errno,
            f"notes folder {safe_files.printable(folder.path)}: a part of it is a file: move it",
        ) from None


def folder_of(data: Path, project_key: str | None) -> NotesFolder:
    """Folder for the notes of a project's sessions; of sessions without one where the key is
    None."""
    below = ("user", "notes") if project_key is None else ("projects", project_key, "notes")
    return NotesFolder(str(data), below)


def stem_of(session_id: str) -> str:
    """A session's file name without suffix: harmless on every file system, and no two sessions'
    alike, whatever their ids."""
    shown = re.sub(r"[^A-Za-z0-9]+", "-", session_id)[:MAX_STEM].strip("-")
    digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{shown or 'session'}-{digest}"


def stems(folder: NotesFolder) -> list[str]:
    """Of all sessions that have anything here."""
    found = set()
    with contextlib.suppress(FileNotFoundError), folder.opened() as opened:
        found = {match[1] for name in names_in(opened) if (match := _OURS.fullmatch(name))}
        found |= {name for name in _names(opened, VERSIONS) if _STEM.fullmatch(name)}
    return sorted(found)


def purge(folder: NotesFolder, session_id: str) -> tuple[str, ...]:
    """Remove every copy of a session's notes: file, versions, conflict copies, what was left out.
    Absolute paths of what was removed. Raises OSError where something could not be."""
    return remove(folder, stem_of(session_id))


def expire(folder: NotesFolder, *, days: int, now: float) -> tuple[str, ...]:
    """Remove the notes of sessions that nothing was written to for `days` (`now`: seconds since
    1970). What was removed."""
    removed: tuple[str, ...] = ()
    for stem in stems(folder):
        newest = max((found.st_mtime for found in _stats(folder, stem)), default=now)
        if newest < now - days * 86_400:
            removed += remove(folder, stem)
    return removed


def _stats(folder: NotesFolder, stem: str) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError), folder.opened() as opened:
        for name in names_in(opened):
            if _is_of(name, stem):
                with contextlib.suppress(OSError):
                    yield os.lstat(name, dir_fd=opened)
    with contextlib.suppress(OSError), folder.opened(VERSIONS, stem) as opened:
        for name in names_in(opened):
            with contextlib.suppress(OSError):
                yield os.lstat(name, dir_fd=opened)


def remove(folder: NotesFolder, stem: str) -> tuple[str, ...]:
    """As `purge`, by the name of the session's file."""
    removed: list[str] = []
    with (
        contextlib.suppress(FileNotFoundError),
        folder.opened() as opened,
        safe_files.exclusively(opened),
    ):
        for name in names_in(opened):
            if _is_of(name, stem):
                os.unlink(name, dir_fd=opened)
                removed.append(f"{folder.path}/{name}")
        with contextlib.suppress(FileNotFoundError):
            with folder.opened(VERSIONS, stem) as versions:
                for name in names_in(versions):
                    os.unlink(name, dir_fd=versions)
                    removed.append(f"{folder.path}/{VERSIONS}/{stem}/{name}")
            os.rmdir(f"{VERSIONS}/{stem}", dir_fd=opened)
        os.fsync(opened)
    return tuple(removed)


def _is_of(name: str, stem: str) -> bool:
    match = _OURS.fullmatch(name)
    return (match is not None and match[1] == stem) or (
        name.startswith(TEMPORARY) and name.endswith(f"-{stem}")
    )


def _names(folder: int, part: str) -> list[str]:
    try:
        fd = os.open(part, FOLDER, dir_fd=folder)
    except OSError:
        return []
    try:
        return names_in(fd)
    finally:
        os.close(fd)


def names_in(folder: int) -> list[str]:
    """Names in an open folder, in order."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def write_beside(folder: int, stem: str, data: bytes) -> tuple[str, int]:
    """A synced temporary file in an open folder: its name, and its descriptor, which is to be
    kept open: while it is locked, nobody tidies the file away. Raises OSError, then there is
    none."""
    while True:
        name = f"{TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}-{stem}"
        fd = os.open(name, safe_files.NEW_FILE, 0o600, dir_fd=folder)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink == 0:  # tidied away before it was locked
                os.close(fd)
                continue
            safe_files.write_all(fd, data)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        return name, fd


def tidy(folder: NotesFolder) -> int:
    """Remove temporary files whose writers are gone; how many. Never raises."""
    removed = 0
    # Not while somebody publishes: for a moment the old file lies under the temporary name.
    with (
        contextlib.suppress(OSError),
        folder.opened() as opened,
        safe_files.exclusively(opened, deadline_s=0.0),
    ):
        removed += _tidied(opened)
        for stem in _names(opened, VERSIONS):
            with contextlib.suppress(OSError), folder.opened(VERSIONS, stem) as versions:
                removed += _tidied(versions)
    return removed


def _tidied(folder: int) -> int:
    removed = 0
    for name in names_in(folder):
        if not name.startswith(TEMPORARY):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name, dir_fd=folder)
                removed += 1
            finally:
                os.close(fd)
    return removed
