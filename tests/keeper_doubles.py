"""A conversation, notes and extractors that a test scripts, and a keeper over a real database."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from oncue.extraction.events import Decided, ExtractionEvent, RunEnded, RunStarted
from oncue.extraction.keeper import Keeper
from oncue.extraction.ports import Tools
from oncue.notes_ports import (
    Extracted,
    ExtractionFailedError,
    NoteBudgets,
    NotesMovedError,
    NotesView,
    SectionEdit,
    Snapshot,
)
from oncue.settings import ExtractionSettings
from oncue.store.claims import Claims
from oncue.store.cursors import Cursors
from oncue.store.sessions_db import SessionsDb
from oncue.transcript.state import Applied, Transcript
from oncue_protocol import (
    MemoryExtractParams,
    MemoryExtractResult,
    MemoryWaitParams,
    Message,
    ToolCall,
    ToolResult,
    Usage,
)


def user(message_id: str, text: str = "please") -> Message:
    return Message(id=message_id, role="user", text=text)


def says(message_id: str, context: int | None = None, text: str = "done") -> Message:
    """An assistant message that asks for no tool; `context`: size of the context, exactly."""
    usage = None if context is None else Usage(input_tokens=context)
    return Message(id=message_id, role="assistant", text=text, usage=usage)


def calls(message_id: str, *ids: str, context: int | None = None) -> Message:
    usage = None if context is None else Usage(input_tokens=context)
    asked = tuple(ToolCall(id=one, name="run", input={"command": one}) for one in ids)
    return Message(id=message_id, role="assistant", tool_calls=asked, usage=usage)


def results(message_id: str, *ids: str, text: str = "ok") -> Message:
    answers = tuple(ToolResult(call_id=one, text=text) for one in ids)
    return Message(id=message_id, role="tool", tool_results=answers)


class PaperNotes:
    """ports.Notes in memory; blocking where the test says so."""

    def __init__(self, path: str = "/notes/s.md") -> None:
        self.path = path
        self.text = ""
        self.moves = 0
        """How many more times the file moves between merge and publication."""
        self.published: list[str] = []
        self.prepared = 0
        self.discarded = 0
        self.refuse: Exception | None = None
        self.hold: threading.Event | None = None
        """`publish` waits for it, inside of the commit."""

    def read(self, budgets: NoteBudgets) -> NotesView:
        return NotesView(self.text, (), self.revision_of(self.text), self.text == "")

    @staticmethod
    def revision_of(text: str) -> str | None:
        return f"rev({text})" if text else None

    def prepare(
        self, edits: Sequence[SectionEdit], base: NotesView, budgets: NoteBudgets
    ) -> PaperPrepared:
        if self.refuse is not None:
            raise self.refuse
        self.prepared += 1
        return PaperPrepared(self, self.text + "".join(f"[{e.new_text}]" for e in edits))


@define(eq=False)
class PaperPrepared:
    notes: PaperNotes
    text: str
    conflict_path: str | None = None

    @property
    def changed(self) -> bool:
        return self.text != self.notes.text

    @property
    def revision(self) -> str:
        return str(self.notes.revision_of(self.text))

    def publish(self) -> str:
        if self.notes.hold is not None:
            assert self.notes.hold.wait(10)
        if self.notes.moves:
            self.notes.moves -= 1
            raise NotesMovedError
        self.notes.text = self.text
        self.notes.published.append(self.text)
        return self.revision

    def discard(self) -> None:
        self.notes.discarded += 1


@define(eq=False)
class ScriptedExtractor:
    """Takes `seconds` of (virtual) time, or until `gate` is set; keeps what it saw."""

    seconds: float = 0.0
    gate: trio.Event | None = None
    error: Exception | None = None
    says_nothing: bool = False
    """Claims success without an edit and without the explicit no-op (D65)."""
    adds: bool = True
    seen: list[Snapshot] = field(factory=list)
    deadlines: list[float] = field(factory=list)

    async def extract(
        self, snapshot: Snapshot, notes: NotesView, budgets: NoteBudgets, deadline_s: float
    ) -> Extracted:
        self.seen.append(snapshot)
        self.deadlines.append(deadline_s)
        if self.gate is not None:
            await self.gate.wait()
        await trio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        if self.says_nothing:
            return Extracted(())
        if not self.adds:
            return Extracted((), nothing_to_add=True)
        ids = ",".join(message.id for message in snapshot.messages)
        return Extracted((SectionEdit("Log", ids),))


class Bench:
    """One session's keeper, its conversation, and what it said."""

    def __init__(
        self,
        nursery: trio.Nursery,
        folder: Path,
        extractor: Any = None,
        *,
        session_id: str = "s",
        claims: Claims | None = None,
        notes: Any = None,
        private: bool = False,
        opened: Callable[[], Awaitable[Tools]] | None = None,
        **settings: Any,
    ) -> None:
        self.extractor: Any = extractor or ScriptedExtractor()
        self.notes = notes or PaperNotes()
        self.claims = claims or Claims(SessionsDb(folder))
        self.cursors = Cursors(self.claims.db, self.claims)
        self.tools = Tools(self.claims, self.cursors, self.notes, lambda: self.extractor)
        self.events: list[ExtractionEvent] = []
        self.archived = 0
        self.settings = ExtractionSettings(**settings)
        self.conversation = Transcript(keeps_unsummarised=True)
        self.session_id = session_id
        numbers = itertools.count(1)

        async def tools() -> Tools:
            await trio.lowlevel.checkpoint()
            return self.tools

        self.keeper = Keeper(
            session_id=session_id,
            conversation=self.conversation,
            nursery=nursery,
            opened=opened or tools,
            settings=lambda: self.settings,
            private=private,
            on_event=self.events.append,
            archive=self._archive,
            new_id=lambda: f"{next(numbers)}",
        )

    def _archive(self, tools: Tools) -> None:
        self.archived += 1
        self.notes.text = ""

    def append(self, *messages: Message) -> None:
        outcome = self.conversation.append(messages)
        assert isinstance(outcome, Applied)
        self.keeper.appended()

    def extract(self, trigger: Any = "manual") -> MemoryExtractResult:
        return self.keeper.extract(MemoryExtractParams(session_id=self.session_id, trigger=trigger))

    async def extract_and_wait(self, wait_ms: int, trigger: Any = "manual") -> MemoryExtractResult:
        return await self.keeper.extract_and_wait(
            MemoryExtractParams(session_id=self.session_id, trigger=trigger, wait_ms=wait_ms)
        )

    async def wait(self, wait_ms: int | None = None) -> str:
        params = MemoryWaitParams(session_id=self.session_id, wait_ms=wait_ms)
        return (await self.keeper.wait(params)).outcome

    def decisions(self) -> list[tuple[str, str]]:
        return [(e.decision, e.reason) for e in self.events if isinstance(e, Decided)]

    def starts(self) -> list[RunStarted]:
        return [e for e in self.events if isinstance(e, RunStarted)]

    def ends(self) -> list[RunEnded]:
        return [e for e in self.events if isinstance(e, RunEnded)]

    def outcomes(self) -> list[tuple[str, str | None]]:
        return [(e.outcome, e.reason) for e in self.ends()]

    async def idle(self) -> None:
        """Until no run goes on and none winds down."""
        while True:
            await self.keeper.quiet()
            if self.keeper.status().state != "running":
                return
            await trio.lowlevel.checkpoint()


async def inline(work: Callable[[], Any], **_: Any) -> Any:
    """Stands in for `trio.to_thread.run_sync` on a virtual clock, which would jump while a thread
    works."""
    await trio.lowlevel.checkpoint()
    return work()


FAILS = ExtractionFailedError("the endpoint answered 503")
