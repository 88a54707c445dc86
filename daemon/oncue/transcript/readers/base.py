"""What every reader is: fed bytes, it gives events (pure): T1, T8.

The same reader serves a whole file and the tail of a growing one. It never raises, whatever the
bytes, never logs, and keeps nothing of what it has passed on but ids and hashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from oncue_protocol import TranscriptFormat

from ..events import Appended, Event, Note, Prompt, SessionInfo, Steering, Subagent
from .conversation import (
    NOTHING,
    Conversation,
    Emission,
    Survivors,
    unanswered_results,
)
from .fields import Json
from .lines import LineSplitter, ObjectSplitter, Record, parse

Source = Callable[[], Iterable[bytes]]
"""The bytes of the file from the beginning once more, at least up to what was fed. Needed for
rewinds alone: what survived is read again rather than kept."""


class Reader:
    """Base of the readers. Use `feed` for each chunk and `close` at the end of the file; or
    `stream`, which needs no more memory than one record however much a rewind sends again."""

    format: ClassVar[TranscriptFormat]

    def __init__(
        self,
        name: str = "",
        *,
        subagents: bool = False,
        source: Source | None = None,
        whole_object: bool = False,
    ) -> None:
        """`name`: path of the file, only looked at for ids. `subagents`: give their events too
        (T6). `whole_object`: the file is one JSON object with a list `messages`."""
        self.skipped: Counter[str] = Counter()
        self._name = name
        self._subagents = subagents
        self._source = source
        self._whole_object = whole_object
        self._split: LineSplitter | ObjectSplitter = (
            ObjectSplitter(self.skipped) if whole_object else LineSplitter(self.skipped)
        )
        self._out: list[tuple[int, Event | Survivors]] = []
        self._number = 0
        self._session: str | None = None
        self._workspace: str | None = None
        self._is_closed = False
        self._main = Conversation(self._out.append, self.skipped)
        self._setup()

    @property
    def session_id(self) -> str | None:
        """The session, once the file has told it."""
        return self._session

    def feed(self, data: bytes) -> list[Event]:
        """The events of the records that end in `data`."""
        return list(self.stream(data))

    def stream(self, data: bytes) -> Iterator[Event]:
        """As `feed`, one event at a time; to be exhausted before the next call."""
        for record in self._split.feed(data):
            self._take(record)
            yield from self._drain()

    def close(self) -> list[Event]:
        """The file is at its end: what was open closes, and a `Note` comes last."""
        return list(self.stream_end())

    def stream_end(self) -> Iterator[Event]:
        """As `close`, one event at a time."""
        if self._is_closed:
            return
        self._is_closed = True
        for record in self._split.close():
            self._take(record)
            yield from self._drain()
        self._finish()
        yield from self._drain()
        yield Note(dict(+self.skipped), self._split.number)

    def settle(self) -> list[Event]:
        """The file has been quiet for a while: what is known goes out, nothing is closed. A
        response that grows afterwards goes out once more under its id."""
        self._settle()
        return list(self._drain())

    # For the formats.

    def _setup(self) -> None:
        """What a format remembers."""

    def _record(self, number: int, record: Json) -> None:
        raise AssertionError("every format says what a record means")

    def _finish(self) -> None:
        """The end of the file."""
        self._main.end(None)

    def _settle(self) -> None:
        self._main.settle()

    def _identify(self, session_id: str | None, workspace: str | None) -> None:
        """Give `SessionInfo`, once."""
        if self._session is None:
            self._session = session_id or self._stem() or "recording"
            self._workspace = workspace
            info = SessionInfo(self._session, workspace, self.format)
            self._out.append((NOTHING, info))

    def _stem(self) -> str:
        return self._name.replace("\\", "/").rpartition("/")[2].partition(".")[0][:256]

    def _line_id(self, suffix: str = "") -> str:
        """Id of a record that has none: session and line number (T9)."""
        return f"{self._session or 'recording'}:{self._number}{suffix}"

    def _conversation_of(self, session_id: str) -> Conversation:
        """A subagent's conversation, all of whose events are marked as its own."""

        def emit(emission: Emission) -> None:
            event = emission[1]
            if not isinstance(event, Survivors):
                self._out.append((NOTHING, Subagent(session_id, event)))

        emit((NOTHING, SessionInfo(session_id, self._workspace, self.format)))
        return Conversation(emit, self.skipped, is_subagent=True)

    # Passing on.

    def _take(self, record: Record) -> None:
        self._number, line = record
        value = parse(line)
        if value is None:
            self.skipped["bad_line"] += 1
            return
        try:
            self._record(self._number, value)
        except (
            Exception
        ):  # a format we do not know is no reason to stop; a test shows none is known
            self.skipped["failed"] += 1

    def _drain(self) -> Iterator[Event]:
        out = self._out[:]
        self._out.clear()
        for _, event in out:
            if isinstance(event, Survivors):
                yield from self._again(event.ordinals)
            else:
                yield event

    def _again(self, survivors: frozenset[int]) -> Iterator[Event]:
        """Messages that survived a rewind: read again, sent without recalls (T8)."""
        if self._source is None:
            self.skipped["not_sent_again"] += len(survivors)
            return
        unanswered: dict[str, None] = {}
        for ordinal, event in self._second_reading(self._source()):
            if ordinal in survivors and isinstance(event, Prompt | Steering | Appended):
                message = event.message
                for call in message.tool_calls:
                    unanswered[call.id] = None
                for result in message.tool_results:
                    unanswered.pop(result.call_id, None)
                yield Appended(message)
        if closing := unanswered_results(tuple(unanswered)):
            yield Appended(closing)

    def _second_reading(self, chunks: Iterable[bytes]) -> Iterator[tuple[int, Event | Survivors]]:
        """What this reader gave, with ordinals, up to the record before the present one."""
        other = type(self)(self._name, whole_object=self._whole_object)
        for chunk in chunks:
            for record in other._split.feed(chunk):
                if record[0] >= self._number:
                    other._finish()
                    yield from other._out
                    return
                other._take(record)
                yield from other._out
                other._out.clear()
        other._finish()  # the file became shorter meanwhile
        yield from other._out
