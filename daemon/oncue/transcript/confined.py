"""Opening a file below the agents' own folders, and nowhere else (I23, T1).

A client names the path, so it is data: it is never opened as it stands. From a folder of ours,
one step at a time, no link is followed; then what was opened is looked at, not its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from attrs import frozen

from oncue_protocol import OutsideRoots

_FOLDERS = (
    ".claude/projects",
    ".qwen/projects",
    ".qwen/tmp",
    ".gemini/tmp",
    ".codex/sessions",
    ".codex/archived_sessions",
)
_SUFFIXES = (".jsonl", ".json")
_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def agent_folders(home: Path | None = None) -> tuple[Path, ...]:
    """Where the agents that we know keep this user's sessions."""
    home = Path.home() if home is None else home
    return tuple(home / folder for folder in _FOLDERS)


@frozen
class Confined:
    """A file below one of the agents' folders, by the way to it. It need not exist yet."""

    root: Path
    """Real path of the agent's folder."""
    steps: tuple[str, ...]

    @property
    def path(self) -> str:
        """Real path of the file."""
        return str(self.root.joinpath(*self.steps))

    def open(self) -> int:
        """A descriptor for reading. Raises FileNotFoundError where the file is not there (yet),
        OutsideRoots where a link leads away or it is no regular file of this user's, else
        OSError."""
        folder = os.open(self.root, _STEP)
        try:
            for step in self.steps[:-1]:
                inner = self._step(step, _STEP, folder)
                os.close(folder)
                folder = inner
            file = self._step(self.steps[-1], _FILE, folder)
        finally:
            os.close(folder)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise _refused("it is not a regular file")
            if found.st_uid != os.getuid():
                raise _refused("it belongs to another user")
            if found.st_nlink > 1:
                raise _refused("it has another name elsewhere (a hard link)")
        except OutsideRoots:
            os.close(file)
            raise
        return file

    def _step(self, name: str, flags: int, folder: int) -> int:
        try:
            return os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            try:
                is_link = stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            except OSError:
                is_link = False
            if is_link:
                raise _refused("a symbolic link lies on the way") from error
            raise


def confine(given: str, roots: Sequence[Path]) -> Confined:
    """The way to the file `given` (absolute path or `file:` URI) below one of `roots`.

    Raises OutsideRoots where it is below none of them; touches nothing but the roots."""
    path = _path_of(given)
    parts = path.split("/")
    if not path.startswith("/") or "\0" in path or ".." in parts:
        raise _refused("the path must be absolute, without `..`")
    plain = Path(path)
    if plain.suffix not in _SUFFIXES:
        raise _refused("a transcript ends in .jsonl or .json")
    for root, real in _spellings(roots):
        if plain.is_relative_to(root) and plain != root:
            return Confined(real, plain.relative_to(root).parts)
    raise _refused("it lies in none of the folders where agents keep their sessions")


def _spellings(roots: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Each root as it is written and as it is: a home may be reached through a link."""
    for root in roots:
        real = Path(os.path.realpath(root))
        yield root, real
        yield real, real


def _path_of(given: str) -> str:
    if not given.startswith("file:"):
        return given
    try:
        return unquote(urlsplit(given).path)
    except ValueError:
        return ""


def _refused(why: str) -> OutsideRoots:
    return OutsideRoots(f"this transcript cannot be followed: {why}")
