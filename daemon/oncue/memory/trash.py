"""Forgotten memories: moved to a folder beside the root, kept 30 days, put back on request (M4).

`<name>-<random>.md` lies there with `<same>.json`, which says where it came from and when.
Everything here blocks; call it under the root's lock (writing.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from oncue.memory import files, names, writing
from oncue.memory.files import UnfitFileError
from oncue.memory.roots import Root
from oncue_protocol.errors import RevisionConflict

FOLDER = "trash"
DAY_S = 86_400.0


@frozen
class Thrown:
    """One memory in the trash."""

    name: str
    """File name in the trash folder."""
    path: str
    """Where it is now, absolute."""
    relative: str
    """Where it was below its root."""
    thrown_at: float
    """Seconds since 1970 UTC."""


def throw(root: Root, relative: str, now: float, revision: str) -> Thrown:
    """Move a file of `root` to the trash. Raises OSError where it cannot be moved: then it is
    where it was."""
    *parents, name = relative.split("/")
    stem = names.slug(name.rsplit(".", 1)[0])
    kept = f"{stem}-{secrets.token_hex(4)}"
    note = {"version": 1, "path": relative, "thrownAt": now, "sha256": revision}
    with (
        files.opened_folder(root, tuple(parents)) as source,
        files.made_folder(root.home, (FOLDER,)) as bin_,
    ):
        writing.replace_at(bin_, f"{kept}.json", json.dumps(note).encode(), None)
        try:
            os.rename(name, f"{kept}.md", src_dir_fd=source, dst_dir_fd=bin_)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(f"{kept}.json", dir_fd=bin_)
            raise
        os.fsync(source)
        os.fsync(bin_)
    return Thrown(f"{kept}.md", f"{root.home.path}/{FOLDER}/{kept}.md", relative, now)


def restore(root: Root, name: str) -> str:
    """Put a thrown file back to where it was; its path below the root. Raises
    `RevisionConflict` where something else is there now, FileNotFoundError where it is not in
    the trash, `UnfitFileError` where its note names no place inside the root."""
    with files.opened_folder(root.home, (FOLDER,)) as bin_:
        note = _note(bin_, name)
        relative = str(note.get("path", ""))
        if names.problem_with(relative) is not None:
            raise UnfitFileError("name", "the trash does not say where this file came from")
        *parents, target = relative.split("/")
        with files.made_folder(root, tuple(parents)) as folder:
            data, _ = writing.current(root, relative)
            if data is not None:
                raise RevisionConflict(
                    f"{root.absolute(relative)} exists again: forget or rename it first",
                    revision=files.revision(data),
                )
            os.rename(name, target, src_dir_fd=bin_, dst_dir_fd=folder)
            os.fsync(folder)
        with contextlib.suppress(OSError):
            os.unlink(_sidecar(name), dir_fd=bin_)
        os.fsync(bin_)
    return relative


def listed(root: Root) -> list[Thrown]:
    """What is in the trash, newest first. Never raises."""
    found = []
    try:
        with files.opened_folder(root.home, (FOLDER,)) as bin_:
            for name in _names(bin_):
                if name.endswith(".md") and not name.startswith("."):
                    note = _note(bin_, name)
                    at = note.get("thrownAt")
                    found.append(
                        Thrown(
                            name,
                            f"{root.home.path}/{FOLDER}/{name}",
                            str(note.get("path", "")),
                            float(at) if isinstance(at, int | float) else 0.0,
                        )
                    )
    except (OSError, UnfitFileError):
        return found
    return sorted(found, key=lambda thrown: (-thrown.thrown_at, thrown.name))


def purge(root: Root, now: float, days: float) -> int:
    """Remove what has lain there longer than `days`, and what a crash left; how many files.
    A file without a readable note counts from its own change time. Never raises."""
    removed = 0
    try:
        with files.opened_folder(root.home, (FOLDER,)) as bin_:
            present = set(_names(bin_))
            for name in sorted(present):
                if name.startswith(files.TEMPORARY) or (
                    name.endswith(".json") and f"{name[:-5]}.md" not in present
                ):
                    removed += _remove(bin_, name) if _age(bin_, name, now) > DAY_S / 24 else 0
                elif name.endswith(".md"):
                    at = _note(bin_, name).get("thrownAt")
                    age = now - at if isinstance(at, int | float) else _age(bin_, name, now)
                    if age > days * DAY_S:
                        removed += _remove(bin_, name) + _remove(bin_, _sidecar(name))
    except (OSError, UnfitFileError):
        return removed
    return removed


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _sidecar(name: str) -> str:
    return f"{name.rsplit('.', 1)[0]}.json"


def _note(bin_: int, name: str) -> Mapping[str, Any]:
    try:
        data, _ = files.read_at(bin_, _sidecar(name))
        note = json.loads(data)
    except (OSError, UnfitFileError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _age(bin_: int, name: str, now: float) -> float:
    try:
        return now - os.stat(name, dir_fd=bin_, follow_symlinks=False).st_ctime
    except OSError:
        return 0.0


def _remove(bin_: int, name: str) -> int:
    try:
        os.unlink(name, dir_fd=bin_)
    except OSError:
        return 0
    return 1
