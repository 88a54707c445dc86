"""Copies beside the notes: versions, conflict copies, and what was left out (blocking; I20, I22).

Each is whole or not there. None holds a secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re

from oncue import safe_files
from oncue.notes.places import VERSIONS, NotesFolder, names_in, write_beside
from oncue.safe_files import UnfitFileError

MAX_VERSIONS = 10
"""Kept a session (X23)."""
MAX_OLDER_BYTES = safe_files.MAX_FILE_BYTES
"""Of what was left out of the notes; its own oldest part goes first."""

_VERSION = re.compile(r"([0-9]{6,18})\.md")


def put(folder: int, name: str, stem: str, data: bytes) -> None:
    """A whole file in an open folder, in place of what was there. Raises OSError."""
    temporary, fd = write_beside(folder, stem, data)
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(fd)
    os.fsync(folder)


def add_version(folder: NotesFolder, stem: str, data: bytes) -> None:
    """Keep `data` as the newest version, unless it is that already. Raises OSError."""
    with folder.made(VERSIONS, stem) as versions:
        numbers = _numbers(versions)
        if numbers and _read(versions, _name(numbers[-1])) == data:
            return
        put(versions, _name(numbers[-1] + 1 if numbers else 1), stem, data)
        for number in numbers[: max(0, len(numbers) + 1 - MAX_VERSIONS)]:
            with contextlib.suppress(OSError):
                os.unlink(_name(number), dir_fd=versions)


def newest_version(folder: NotesFolder, stem: str) -> bytes | None:
    """The newest version that can be read; None: there is none."""
    with contextlib.suppress(OSError), folder.opened(VERSIONS, stem) as versions:
        for number in reversed(_numbers(versions)):
            data = _read(versions, _name(number))
            if data is not None:
                return data
    return None


def _name(number: int) -> str:
    return f"{number:06}.md"


def _numbers(versions: int) -> list[int]:
    return sorted(int(m[1]) for name in names_in(versions) if (m := _VERSION.fullmatch(name)))


def _read(folder: int, name: str) -> bytes | None:
    try:
        return safe_files.read_at(folder, name)[0]
    except (OSError, UnfitFileError):
        return None


def add_conflict(folder: int, stem: str, data: bytes) -> tuple[str, bool]:
    """A conflict copy, named by what it holds, so that the same one is kept once. Its name, and
    whether it is new."""
    name = f"{stem}.conflict-{hashlib.sha256(data).hexdigest()[:12]}.md"
    if _read(folder, name) == data:
        return name, False
    put(folder, name, stem, data)
    return name, True


def add_older(folder: int, stem: str, text: str) -> None:
    """What was left out of the notes goes to the end of `<session>.older.md`. Raises OSError."""
    name = f"{stem}.older.md"
    data = (_read(folder, name) or b"") + text.encode("utf-8", "replace")
    if len(data) > MAX_OLDER_BYTES:
        data = data[-MAX_OLDER_BYTES:]
        data = data[data.find(b"\n") + 1 :]
    put(folder, name, stem, data)
