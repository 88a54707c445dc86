"""One id for one workspace, however it is spelled (memory.md M2, D59).

A workspace comes as a path or `file:` URI: with escapes, drive letters, `\\\\?\\`, slashes at the
end, through symbolic links, in another case where the file system folds case, in NFD. The id is the
real path, with components folded where the file system folds them, in NFC; the key is a readable
slug and a hash of it. Ids are persisted, so nothing here may change without a migration.

Everything but `Workspace` touches the disk: call `resolve` in a worker thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from pathlib import Path
from typing import Literal
from urllib.parse import unquote_to_bytes, urlsplit

from attrs import frozen

from oncue.memory.names import slug

NoProject = Literal["noWorkspace", "fileSystemRoot", "homeFolder", "notAFileUri"]

_DRIVE = re.compile(r"([A-Za-z]):(?:[\\/]|\Z)")
_MOUNTED_DRIVE = re.compile(r"/mnt/[a-z]\Z")


@frozen
class Workspace:
    """Which project is meant."""

    path: str | None
    """Real absolute path, as the file system spells it; None: no project, user scope only."""
    key: str | None
    """Folder name of this project in our data folder: slug and hash; None without a project."""
    identity: str | None
    """What was hashed."""
    why_none: NoProject | None = None
    """Why there is no project, for the reply to say so."""


def resolve(workspace: str | None, *, home: str | None = None) -> Workspace:
    """The workspace behind a path or URI. Never raises: what cannot be a project is none."""
    if workspace is None or not workspace.strip() or "\0" in workspace:
        return Workspace(None, None, None, "noWorkspace")
    path = local_path(workspace)
    if path is None:
        return Workspace(None, None, None, "notAFileUri")
    if not path.startswith("/"):
        return Workspace(None, None, None, "noWorkspace")
    real = os.path.realpath(path)
    identity = _identity(real)
    if not real.strip("/") or _MOUNTED_DRIVE.fullmatch(identity):
        return Workspace(None, None, None, "fileSystemRoot")
    if identity in _homes(home):
        return Workspace(None, None, None, "homeFolder")
    return Workspace(real, key_of(identity), identity)


def key_of(identity: str) -> str:
    """`oncue-9f2b…`: readable, and unique by 64 bits of a hash."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = identity.rstrip("/").rsplit("/", 1)[-1].encode("utf-8", "replace").decode("utf-8")
    ascii_name = slug(name).encode("ascii", "ignore").decode("ascii").strip("-")[:40].strip("-")
    return f"{ascii_name or 'project'}-{digest}"


def local_path(text: str) -> str | None:
    """Absolute POSIX spelling of a path or `file:` URI; None for other schemes. Drive letters
    become `/mnt/<letter>`, where WSL mounts them."""
    if text[:5].casefold() == "file:":
        try:
            parts = urlsplit(text.replace("\\", "/"))
        except ValueError:  # a host like `[x`
            return None
        path = os.fsdecode(unquote_to_bytes(parts.path))
        if "\0" in path:
            return None
        host = parts.netloc.casefold()
        if _DRIVE.match(path.lstrip("/")):
            text = path.lstrip("/")
        elif host not in ("", "localhost"):
            return f"//{host}{path}"
        else:
            text = path
    elif re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        return None
    if text.startswith(("\\\\?\\", "//?/", "\\\\.\\")):
        text = text[4:]
        if text[:4].casefold() in ("unc\\", "unc/"):
            return "//" + text[4:].replace("\\", "/")
    drive = _DRIVE.match(text)
    if drive is not None:
        rest = text[2:].replace("\\", "/").strip("/")
        return f"/mnt/{drive.group(1).lower()}" + (f"/{rest}" if rest else "")
    if text.startswith("\\\\"):
        return text.replace("\\", "/")
    if text == "~" or text.startswith("~/"):
        return os.path.expanduser(text)  # noqa: PTH111 - stays text
    return text


def _homes(home: str | None) -> frozenset[str]:
    known = [home] if home is not None else [str(Path.home()), os.environ.get("HOME", "")]
    return frozenset(_identity(os.path.realpath(path)) for path in known if path)


def _identity(real: str) -> str:
    """Components folded where the file system folds case, all in NFC."""
    parts = [part for part in real.split("/") if part]
    done: list[str] = []
    where = ""
    folded_parent = False
    for part in parts:
        child = f"{where}/{part}"
        folds = _folds_case(where, part, child)
        if folds is None:
            folds = folded_parent or bool(_MOUNTED_DRIVE.fullmatch(where))
        name = unicodedata.normalize("NFC", part)
        done.append(unicodedata.normalize("NFC", name.casefold()) if folds else name)
        where, folded_parent = child, folds
    return "/" + "/".join(done)


def _folds_case(where: str, part: str, child: str) -> bool | None:
    """Whether `where` finds `part` in another case too; None where that cannot be told."""
    other = part.swapcase()
    if other == part or other.casefold() != part.casefold():
        return None
    try:
        here = os.lstat(child)
    except OSError:
        return None
    try:
        there = os.lstat(f"{where}/{other}")
    except OSError:
        return False
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
