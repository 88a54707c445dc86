"""Who wrote which memory: kept beside the root, out of reach of any memory's content (M3).

Not in the index, which is derived and may be lost, and not in the file, which could then claim to
be written by a human. `provenance.jsonl` has one line a write: path, SHA-256, writer, session.
A file that we wrote for a model stays `model` even where somebody edited it since: of two
possible writers the less trusted one is shown. A file that we never wrote is `human`.

Everything here blocks; call `record` under the root's lock (writing.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from attrs import frozen

from oncue.memory import files, writing
from oncue.memory.files import Signature, UnfitFileError
from oncue.memory.roots import Root
from oncue_protocol.base import WrittenBy

NAME = "provenance.jsonl"
MAX_BYTES = 32 << 20
"""Some 200,000 writes; it is rewritten with one line a file long before."""
COMPACT_AT_LINES = 512
"""Rewritten where it has more lines than this and more than twice as many as files."""

_WRITERS: tuple[WrittenBy, ...] = ("human", "model", "import")


@frozen
class Writer:
    """Who wrote a file."""

    written_by: WrittenBy
    session: str | None = None
    """In which session, if it was a model."""


HUMAN = Writer("human")


def load(root: Root) -> tuple[dict[str, Writer], Signature | None]:
    """Writers by relative path, and the signature of what was read (None: there is nothing, or
    it cannot be read). Never raises; broken lines are skipped."""
    try:
        with files.opened_folder(root.home) as home:
            data, signature = _read(home)
    except (OSError, UnfitFileError):
        return {}, None
    return _parse(data), signature


def signature(root: Root) -> Signature | None:
    """What tells whether `load` would give something else. Never raises."""
    try:
        with files.opened_folder(root.home) as home:
            return Signature.of(os.stat(NAME, dir_fd=home, follow_symlinks=False))
    except (OSError, UnfitFileError):
        return None


def record(root: Root, relative: str, sha256: str, writer: Writer, now: float) -> None:
    """Say who writes `relative`, before it is written. Raises OSError where that fails."""
    entry = _line(relative, writer, sha256, now)
    with files.made_folder(root.home) as home:
        try:
            data, seen = _read(home)
        except FileNotFoundError:
            data, seen = b"", None
        known = _parse(data)
        lines = data.count(b"\n")
        if lines > COMPACT_AT_LINES and lines > 2 * len(known):
            data = b"".join(_line(path, known[path], "", now) for path in sorted(known))
            writing.replace_at(home, NAME, data + entry, seen)
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(NAME, flags, 0o600, dir_fd=home)
        try:
            os.write(fd, entry if not data or data.endswith(b"\n") else b"\n" + entry)
            os.fsync(fd)
        finally:
            os.close(fd)


def _line(relative: str, writer: Writer, sha256: str, now: float) -> bytes:
    entry = {"path": relative, "by": writer.written_by, "sha256": sha256, "at": round(now, 3)}
    if writer.session is not None:
        entry["session"] = writer.session
    return json.dumps(entry).encode() + b"\n"


def _read(home: int) -> tuple[bytes, Signature]:
    fd = os.open(NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=home)
    try:
        found = os.fstat(fd)
        code = files.judge(found)
        if code not in (None, "tooLarge") or found.st_size > MAX_BYTES:
            raise UnfitFileError(code or "tooLarge", "provenance cannot be read")
        parts = []
        while part := os.read(fd, 1 << 20):
            parts.append(part)
        return b"".join(parts), Signature.of(found)
    finally:
        os.close(fd)


def _parse(data: bytes) -> dict[str, Writer]:
    found: dict[str, Writer] = {}
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, Mapping):
            continue
        path, by, session = entry.get("path"), entry.get("by"), entry.get("session")
        writer = next((known for known in _WRITERS if known == by), None)
        if isinstance(path, str) and writer is not None:
            found[path] = Writer(writer, session if isinstance(session, str) else None)
    return found
