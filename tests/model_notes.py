"""Notes, snapshots and scripted models for the tests of the model extractor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import trio
from attrs import define, field

from oncue.extraction.extractors.model import ModelExtractor
from oncue.notes.document import Document, new, parse
from oncue.notes.document import view as view_of
from oncue.notes_ports import NoteBudgets, NotesView, Snapshot
from oncue_protocol import (
    Message,
    ModelGenerateParams,
    ModelGenerateResult,
    ToolCall,
    ToolResult,
)

BUDGETS = NoteBudgets(max_section_tokens=2_000, max_total_tokens=12_000)
BODIES = {
    "Title": "Make the importer survive empty files",
    "Now": "The importer fails on empty files; a fix is being tried.",
    "Task": "- the importer must not crash on empty files\n- keep the command line as it is",
    "Files": "\n".join(f"- src/importer/part{n}.py: part {n} of the format" for n in range(30)),
    "Commands": "```\npytest tests/importer  # fails, 3 times\n```",
    "Problems": "\n".join(f"- attempt {n} failed with IndexError in line {n}" for n in range(30)),
    "Log": "\n".join(f"- turn {n}: looked at part {n}" for n in range(30)),
}


def document(bodies: dict[str, str] | None = None) -> Document:
    """Notes with these bodies."""
    return new().with_contents(BODIES if bodies is None else bodies)


def view(notes: Document, budgets: NoteBudgets = BUDGETS) -> NotesView:
    """What an extractor is given of them."""
    return view_of(notes, None, budgets)


def snapshot(*messages: Message) -> Snapshot:
    """A range of a conversation; by default of four messages."""
    return Snapshot("s", messages or CONVERSATION, "0" * 64)


CONVERSATION = (
    Message(id="1", role="user", text="The importer crashes on empty files, mend it."),
    Message(
        id="2",
        role="assistant",
        text="Looking.",
        tool_calls=(ToolCall(id="c1", name="Bash", input={"command": "pytest -k empty"}),),
    ),
    Message(
        id="3",
        role="tool",
        tool_results=(ToolResult(call_id="c1", text="1 failed", is_error=True),),
    ),
    Message(id="4", role="assistant", text="It reads line 0 of nothing; mended in part0.py."),
)


def edit(section: Any = "Now", text: Any = "Mended.", call_id: str = "e", **more: Any) -> ToolCall:
    """A call of the one tool."""
    return ToolCall(id=call_id, name="edit", input={"section": section, "newText": text, **more})


def calls(*made: ToolCall, text: str | None = None) -> ModelGenerateResult:
    """An answer that calls tools."""
    return ModelGenerateResult(text=text, tool_calls=made)


def says(text: str | None) -> ModelGenerateResult:
    """An answer that ends the run."""
    return ModelGenerateResult(text=text)


Answer = ModelGenerateResult | Exception | float


@define
class ScriptedModel:
    """Answers these, the last one again and again; an exception is raised, a number slept."""

    answers: Sequence[Answer] = ()
    asked: list[ModelGenerateParams] = field(factory=list)

    async def generate(self, request: ModelGenerateParams) -> ModelGenerateResult:
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await trio.sleep(answer)
            return says("late")
        return answer

    def results(self, asked: int = -1) -> list[ToolResult]:
        """What the model was told about its last calls."""
        return list(self.asked[asked].messages[-1].tool_results)


async def inline(function: Callable[..., Any], *given: Any) -> Any:
    """In place of a thread: a virtual clock runs on while threads work."""
    await trio.lowlevel.checkpoint()
    return function(*given)


def extractor(model: ScriptedModel | None, **members: Any) -> ModelExtractor:
    """An extractor over it."""
    return ModelExtractor(lambda: model, in_thread=inline, **members)


def reparsed(notes: Document) -> Document:
    """What the next reader makes of the file."""
    return parse(notes.text, notes.template)
