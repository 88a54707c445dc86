"""A recorded session on disk: its events, and in a first reading what a player must know before.

The file is streamed, never held: a recording of 20 MB needs no more memory than one of 20 KB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attrs import define, field, frozen

from oncue.replay.errors import ReplayError
from oncue.replay.pace import Clock, Kind, Meter
from oncue.transcript import files, readers
from oncue.transcript.events import (
    Appended,
    Event,
    Note,
    Prompt,
    SessionInfo,
    Steering,
    Subagent,
)
from oncue_protocol import TranscriptFormat

FORMATS: tuple[TranscriptFormat, ...] = ("claude", "qwen", "gemini", "codex", "oncue")
CHUNK_BYTES = 64 * 1024
"""Read at once: about one long line."""
KNOWN = (
    "Claude Code, Qwen Code, Gemini CLI and Codex CLI keep theirs under ~/.claude/projects, "
    "~/.qwen/projects, ~/.gemini/tmp and ~/.codex/sessions"
)


@frozen
class Survey:
    """What a first reading found."""

    info: SessionInfo
    turns: int
    messages: int
    skipped: int
    meter: Meter = field(factory=Meter)


@define
class Recording:
    """One file. Can be read as often as needed."""

    path: Path
    format: TranscriptFormat | None = None
    """None: found out from the file."""

    def events(self) -> Iterator[Event]:
        """All events in order. `ReplayError` where the file cannot be read or is of no known
        format."""
        try:
            head = next(self._chunks(readers.HEAD_BYTES), b"")
            found = self.format or readers.detect(str(self.path), head)
            if found is None:
                raise ReplayError(
                    f"{self.path} is no recording of a format known to oncue; {KNOWN}. If it is "
                    f"one all the same, name it: --format {'|'.join(FORMATS)}"
                )
            reader = readers.reader_for(found, str(self.path), head, source=self._chunks)
            for chunk in self._chunks():
                yield from reader.stream(chunk)
            yield from reader.stream_end()
        except OSError as error:
            raise ReplayError(f"{self.path} cannot be read: {error.strerror or error}") from error

    def _chunks(self, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """The file's bytes; Codex packs old sessions with Zstandard, in one frame or several."""
        return files.chunks(self.path, size)

    def survey(self) -> Survey:
        """Read it once. `ReplayError` as above, and where nobody typed anything."""
        if self.path.is_dir():
            raise ReplayError(
                f"{self.path} is a folder: give one recorded session, a .jsonl or .json file; "
                f"{KNOWN}"
            )
        if not self.path.exists():
            raise ReplayError(f"there is no file {self.path}: give a recorded session; {KNOWN}")
        info, turns, messages, skipped = None, 0, 0, 0
        clock, meter = Clock(), Meter()
        for event in self.events():
            match event:
                case SessionInfo():
                    info = event
                case Prompt(message) | Steering(message) | Appended(message):
                    messages += 1
                    turns += isinstance(event, Prompt)
                    meter.add(clock.advance(message.time), kind_of(event))
                case Note(skip, _):
                    skipped = sum(skip.values())
                case _:
                    pass
        if not turns:
            raise ReplayError(
                f"{self.path} holds no message that a user typed ({messages} messages in all, "
                f"{skipped} lines not understood): there is nothing to recall for; {KNOWN}"
            )
        info = info or SessionInfo(self.path.stem[:256])
        return Survey(info, turns, messages, skipped, meter)


def kind_of(event: Prompt | Steering | Appended) -> Kind:
    """Whose pause comes before `event`."""
    return "thinking" if isinstance(event, Prompt) else "working"


def with_next(events: Iterator[Event]) -> Iterator[tuple[Event, Event | None]]:
    """Each event and the one after it; a subagent's are left out: they have no recalls (T6)."""
    current: Event | None = None
    for event in events:
        if isinstance(event, Subagent):
            continue
        if current is not None:
            yield current, event
        current = event
    if current is not None:
        yield current, None
