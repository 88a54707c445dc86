"""A whole recorded session from its file, in bounded memory: what `oncue replay` reads.

The path is one that the user named, so it is not confined to the agents' folders; following a
session on a client's request is (`follow.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from oncue_protocol import TranscriptFormat

from .events import Event
from .readers import HEAD_BYTES, detect, reader_for

CHUNK_BYTES = 256 * 1024
"""Large enough that Python's share is small, small enough to be no burden."""

_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_MAX_WINDOW = 128 * 1024 * 1024
"""What a frame may ask of memory while it is unpacked: more than any level uses by default."""


class UnknownFormat(ValueError):  # noqa: N818 - it names what is the matter
    """The file is not a recording of an agent that we know."""


def read(
    path: str | Path, transcript_format: TranscriptFormat | None = None, *, subagents: bool = False
) -> Iterator[Event]:
    """The events of the session recorded at `path`, one at a time, a `Note` last.

    `transcript_format`: None: recognised by content. `subagents`: events of subagents too (T6),
    as far as they stand in this file; `subagent_files` names the others. A `.jsonl` that was
    packed meanwhile is found as `.jsonl.zst`, and a plain twin is preferred to a packed one.

    Raises UnknownFormat, or OSError where the file cannot be read; nothing for its content.
    """
    found = _twin(Path(path))
    head = next(chunks(found, HEAD_BYTES), b"")
    known = transcript_format or detect(str(found), head)
    if known is None:
        raise UnknownFormat(
            f"{path} is not a session of Claude Code, Qwen Code, Gemini CLI or Codex CLI, nor our "
            "own JSON lines; if it is one, name its format"
        )
    reader = reader_for(
        known, str(found), head, subagents=subagents, source=lambda: chunks(found, CHUNK_BYTES)
    )
    for chunk in chunks(found, CHUNK_BYTES):
        yield from reader.stream(chunk)
    yield from reader.stream_end()


def chunks(path: Path, size: int) -> Iterator[bytes]:
    """The file's bytes, unpacked where they are a zstandard frame. A damaged frame ends them."""
    with path.open("rb") as file:
        head = file.read(len(_ZSTANDARD))
        file.seek(0)
        if head == _ZSTANDARD:
            yield from _unpacked(file, size)
            return
        while data := file.read(size):
            yield data


def _unpacked(file: BinaryIO, size: int) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    with unpacker.stream_reader(file, read_across_frames=True, closefd=False) as stream:
        while True:
            try:
                data = stream.read(size)
            except zstandard.ZstdError:
                return  # cut or damaged: what came before it counts (T1)
            if not data:
                return
            yield data


def _twin(path: Path) -> Path:
    packed = path.with_name(path.name + ".zst")
    if path.suffix == ".zst":
        plain = path.with_suffix("")
        return plain if plain.is_file() else path
    return packed if not path.exists() and packed.is_file() else path


def subagent_files(path: str | Path) -> list[Path]:
    """Files of the subagents of the session at `path` (T6): beside it and in the folders that
    the agents use, by name. A file beside it may be another session's; its events say whose."""
    path = Path(path)
    session = path.name.partition(".")[0]
    places = [
        path.parent.glob("agent-*.jsonl"),
        (path.parent / session / "subagents").glob("agent-*.jsonl"),
        (path.parent.parent / "subagents" / session).glob("agent-*.jsonl"),
        (path.parent / session).glob("session-*"),
    ]
    found = (file for place in places for file in place if file.is_file())
    return sorted(file for file in found if not file.name.startswith("agent-acompact-"))
