"""The tail of one growing transcript: what is new since the last look (blocking; threads only)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from attrs import frozen

from oncue_protocol import Message, TranscriptFormat

from .events import Appended, Event, Prompt, Steering
from .readers import Reader, is_whole_object, reader_for

CHUNK_BYTES = 64 * 1024
"""Read at a time: its events are applied on the main loop, which must stay free (I8)."""

_MARK_BYTES = 64
"""So much before the offset is compared, to see that the file was only appended to."""


@frozen
class Step:
    """What one look at the file brought."""

    events: tuple[Event, ...] = ()
    more: bool = False
    """Whether there is more to read at once."""
    live: bool = False
    """Whether the events happened just now, rather than before we first reached the end."""
    changed: bool = False
    """Whether the file had changed since the look before."""


@frozen
class _Stamp:
    """How a change of the file is seen."""

    device: int
    inode: int
    size: int
    modified_ns: int


class Tail:
    """Reads a file from where it was. A file that was cut, replaced or written anew is read from
    its beginning: ids are stable, so what is known is ignored (T9).

    A session that is one JSON object is written anew each time, and so read anew; only what has
    grown is passed on."""

    def __init__(self, open_file: Callable[[], int], path: str, form: TranscriptFormat) -> None:
        """`open_file`: gives a descriptor that is safe to read; raises as `Confined.open`."""
        self._open = open_file
        self._path = path
        self._format = form
        self._reader: Reader | None = None
        self._rewritten = PurePath(path).suffix == ".json"
        self._stamp: _Stamp | None = None
        self._offset = 0
        self._mark = b""
        self._caught_up = False
        self._settled = True
        self._seen: dict[int, tuple[int, int, int, bool]] = {}
        self.restarts = 0
        """How often the file was begun again."""

    @property
    def offset(self) -> int:
        """Bytes read so far."""
        return self._offset

    @property
    def skipped(self) -> dict[str, int]:
        """Lines and parts passed over, by reason."""
        return dict(self._reader.skipped) if self._reader is not None else {}

    def step(self) -> Step:
        """Look, and read at most one chunk. Raises OSError or OutsideRoots, changing nothing."""
        file = self._open()
        try:
            return self._look(file)
        finally:
            os.close(file)

    def settle(self) -> Step:
        """The file has been quiet: what is known of an unfinished response goes out, once."""
        if self._settled or self._reader is None:
            return Step()
        self._settled = True
        events = self._new(self._reader.settle())
        return Step(events, live=self._caught_up and not self._rewritten)

    def _look(self, file: int) -> Step:
        found = os.fstat(file)
        stamp = _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        before, self._stamp = self._stamp, stamp
        if before is not None and stamp == before and self._offset == stamp.size:
            return Step()
        if before is not None and self._is_other(before, stamp, file):
            self._restart()
        data = os.pread(file, CHUNK_BYTES, self._offset)
        if not data:
            self._caught_up = True
            return Step(changed=stamp != before)
        live = self._caught_up and not self._rewritten
        if self._reader is None:
            self._rewritten |= is_whole_object(data)
            self._reader = reader_for(self._format, self._path, data, source=self._again)
        self._offset += len(data)
        self._mark = (self._mark + data)[-_MARK_BYTES:]
        self._settled = False
        events = self._new(self._reader.feed(data))
        more = self._offset < stamp.size
        self._caught_up |= not more
        return Step(events, more=more, live=live, changed=True)

    def _is_other(self, before: _Stamp, stamp: _Stamp, file: int) -> bool:
        """Whether it is no longer the file that was read so far with something behind it."""
        if (stamp.device, stamp.inode) != (before.device, before.inode):
            return True
        if stamp.size < self._offset:
            return True
        if self._rewritten and stamp != before:
            return self._offset > 0
        return bool(self._mark) and self._mark != os.pread(
            file, len(self._mark), self._offset - len(self._mark)
        )

    def _restart(self) -> None:
        self.restarts += 1
        self._reader = None
        self._offset = 0
        self._mark = b""
        self._caught_up = False

    def _again(self) -> Iterable[bytes]:
        """The bytes once more, for a rewind (T8); none where the file is gone."""
        return self._chunks()

    def _chunks(self) -> Iterator[bytes]:
        try:
            file = self._open()
        except Exception:  # gone or no longer ours: nothing survives, the rewind itself counts
            return
        try:
            position = 0
            while data := os.pread(file, CHUNK_BYTES, position):
                position += len(data)
                yield data
        finally:
            os.close(file)

    def _new(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Events without messages that a file written anew only repeats."""
        if not self._rewritten:
            return tuple(events)
        kept: list[Event] = []
        for event in events:
            if isinstance(event, Prompt | Steering | Appended):
                size = _size(event.message)
                if self._seen.get(hash(event.message.id)) == size:
                    continue
                self._seen[hash(event.message.id)] = size
            kept.append(event)
        return tuple(kept)


def _size(message: Message) -> tuple[int, int, int, bool]:
    return (
        len(message.text),
        len(message.tool_calls),
        sum(len(result.text) + 1 for result in message.tool_results),
        message.usage is not None,
    )
