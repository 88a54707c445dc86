"""Readers of recorded sessions, one a format; and how a format is recognised (pure)."""

from __future__ import annotations

from oncue_protocol import TranscriptFormat

from .base import Reader, Source
from .claude import ClaudeReader
from .codex import CodexReader
from .detect import HEAD_BYTES, detect, is_whole_object
from .gemini import GeminiReader
from .ours import OursReader
from .qwen import QwenReader

_READERS: dict[TranscriptFormat, type[Reader]] = {
    "claude": ClaudeReader,
    "qwen": QwenReader,
    "gemini": GeminiReader,
    "codex": CodexReader,
    "oncue": OursReader,
}


def reader_for(
    transcript_format: TranscriptFormat,
    name: str = "",
    head: bytes = b"",
    *,
    subagents: bool = False,
    source: Source | None = None,
) -> Reader:
    """A reader for a file of this format.

    `name`: the file's path, looked at for ids alone. `head`: its first bytes, which tell a file
    that is one object from one of JSON lines. `source`: the file's bytes once more, for rewinds.
    """
    whole_object = is_whole_object(head)
    if whole_object and transcript_format in ("qwen", "gemini"):
        return GeminiReader(name, subagents=subagents, source=source, whole_object=True)
    return _READERS[transcript_format](name, subagents=subagents, source=source)


__all__ = ["HEAD_BYTES", "Reader", "Source", "detect", "is_whole_object", "reader_for"]
