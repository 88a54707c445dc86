"""Where a replay takes place: temporary folders, the memory folder, the daemon's environment.

A replay never writes to the user's own memory, and leaves no notes there: the daemon's data folder
is temporary always, and what it shall remember is copied into it, from the folder that was named or
from the user's own.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from attrs import frozen

from oncue.folders import Folders
from oncue.replay.errors import ReplayError

Scope = Literal["user", "project"]

_DATED = re.compile(r"^(updated|created):[ \t]*([0-9]{4}-[0-9]{2}-[0-9]{2})[ \t]*$", re.MULTILINE)
_HEAD_CHARACTERS = 4096
PROVENANCE = "provenance.jsonl"
MAX_FILE_BYTES = 256 * 1024
"""Larger memory files are refused by the daemon as well (M4)."""


@frozen
class Stage:
    """Everything that a replay's daemon needs to know of its surroundings."""

    root: Path
    """Temporary folder; gone afterwards."""
    environment: Mapping[str, str]
    """The daemon's whole environment."""
    workspace: str | None
    """Folder that the session is opened for."""
    memory: Path | None
    """Folder to copy memory files from; None: the user's own memory is copied."""
    mine: Path | None
    """The user's data folder, where its memory is copied."""
    data: Path
    """The daemon's data folder."""
    shown_memory: str
    """Where memory is read from, for the screen."""


@contextmanager
def build(
    recorded_workspace: str | None, memory: Path | None, name: str | None = None
) -> Iterator[Stage]:
    """Temporary folders for one replay. `ReplayError` where `memory` is no folder."""
    if memory is not None and not memory.is_dir():
        raise ReplayError(
            f"there is no folder {memory}: give --memory a folder of Markdown files (files of all "
            "workspaces in its subfolder user/, all others belong to the project)"
        )
    with tempfile.TemporaryDirectory(prefix="oncue-replay-", ignore_cleanup_errors=True) as made:
        root = Path(made).resolve()
        own = {key: value for key, value in os.environ.items() if not key.startswith("ONCUE_")}
        if command := os.environ.get("ONCUE_COMMAND"):
            own["ONCUE_COMMAND"] = command
        folders = {kind: root / kind for kind in ("config", "data", "state", "runtime")}
        for folder in folders.values():
            folder.mkdir(mode=0o700)
        if memory is None:
            mine = Folders.from_environment(os.environ)
            folders["config"] = mine.config
            workspace, shown = recorded_workspace, f"yours, in {mine.data} (only read)"
            own_data: Path | None = mine.data
        else:
            place = root / "workspace" / (Path(recorded_workspace or "").name or "project")
            place.mkdir(parents=True, mode=0o700)
            own_data = None
            workspace, shown = str(place), name or f"copied from {memory}"
        own |= {f"ONCUE_{kind.upper()}_DIR": str(folder) for kind, folder in folders.items()}
        yield Stage(root, own, workspace, memory, own_data, folders["data"], shown)


def copy_memory(source: Path, roots: Mapping[Scope, Path]) -> int:
    """Copy the Markdown files of `source` into the memory roots that the daemon named; returns
    how many. `user/` goes to the user's scope, all else to the project's; index files stay out.

    The copy keeps its age: the date in its front matter where it has one, else the file's.
    """
    copied = 0
    for path in sorted(source.rglob("*.md")):
        relative = path.relative_to(source)
        if path.is_symlink() or not path.is_file() or path.name == "MEMORY.md":
            continue
        if path.stat().st_size > MAX_FILE_BYTES:
            continue
        scope: Scope = "user" if relative.parts[0] == "user" else "project"
        below = Path(*relative.parts[1:]) if relative.parts[0] in ("user", "project") else relative
        target = roots.get(scope, roots.get("user", source)) / below
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copyfile(path, target)
        target.chmod(0o600)
        age = dated(path) or path.stat().st_mtime
        os.utime(target, (age, age))
        copied += 1
    return copied


def copy_own(mine: Path, data: Path, roots: Iterable[Path]) -> int:
    """Copy the user's memory files into those of `roots` that lie in the daemon's `data` folder,
    with who wrote them (memory.md M3); returns how many. Links are not followed."""
    copied = 0
    for root in roots:
        if not root.is_relative_to(data):
            continue
        source = mine / root.relative_to(data)
        writers = source.parent / PROVENANCE
        if writers.is_file() and not writers.is_symlink():
            root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copyfile(writers, root.parent / PROVENANCE)
        for folder, below, names in os.walk(source):
            below[:] = [name for name in below if not name.startswith(".")]
            for name in names:
                path = Path(folder, name)
                if path.suffix.lower() != ".md" or name.startswith(".") or path.is_symlink():
                    continue
                found = path.stat()
                if found.st_size > MAX_FILE_BYTES:
                    continue
                target = root / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copyfile(path, target)
                target.chmod(0o600)
                os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
                copied += name.casefold() != "memory.md"
    return copied


def dated(path: Path) -> float | None:
    """The date in the front matter, `updated` before `created`, as seconds since 1970."""
    with path.open(encoding="utf-8", errors="replace") as file:
        found = dict(_DATED.findall(file.read(_HEAD_CHARACTERS)))
    day = found.get("updated") or found.get("created")
    try:
        return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() if day else None
    except ValueError:
        return None
