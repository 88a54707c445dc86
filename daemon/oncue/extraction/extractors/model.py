"""The `model` extractor: a model edits the notes with one tool, in a few rounds (X19, X21, D65).

It works over any `ports.Generator` and holds no lock. Whatever fails, the notes stay as they were:
what was edited in earlier rounds of a run that fails is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
import trio
from attrs import define, field

from oncue.extraction.extractors import model_prompt
from oncue.extraction.extractors.model_edits import Answer, Draft
from oncue.notes_ports import (
    Extracted,
    ExtractionFailedError,
    NoteBudgets,
    NotesView,
    Snapshot,
)
from oncue.ports import Generator
from oncue_protocol import (
    ModelGenerateParams,
    ModelGenerateResult,
    ModelMessage,
    ToolCall,
    ToolResult,
)

MAX_ROUNDS = 5
"""One to edit, one to end, and some for what was refused."""
MAX_CALLS = 24
"""A round: two for each section; a model that calls more is not editing."""
MAX_OUTPUT_TOKENS = 8_192
"""Four sections anew; what most models can write in one answer."""
MAX_ECHO_CHARS = 65_536
"""Of a call's text that is sent back to the model; more was refused anyhow."""

log = structlog.get_logger(__name__)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WORD = re.compile(r"[A-Za-z]{1,40}")


@define(eq=False)
class ModelExtractor:
    """notes_ports.Extractor over a model."""

    generator: Callable[[], Generator | None]
    """The model of this moment; None: there is none."""
    prompt: Callable[[NotesView], str] | None = None
    """The user's own prompt, filled in (X24); our rules are put behind it."""
    in_thread: Callable[..., Awaitable[Any]] = field(default=trio.to_thread.run_sync)
    """How work of more than a few milliseconds is done: rendering a long conversation, and
    looking at long edits. A test without threads passes another."""

    async def extract(
        self, snapshot: Snapshot, notes: NotesView, budgets: NoteBudgets, deadline_s: float
    ) -> Extracted:
        """One run. Raises ExtractionFailedError: no model, an error of it, no time left, or
        success that was claimed without an edit."""
        outcome: Extracted | str = f"the model was not done within {deadline_s:g} s"
        deadline = trio.current_time() + deadline_s
        with trio.CancelScope(deadline=deadline):
            outcome = await self._run(snapshot, Draft(notes, budgets), deadline)
        if isinstance(outcome, str):
            raise ExtractionFailedError(outcome)
        return outcome

    async def _run(self, snapshot: Snapshot, draft: Draft, deadline: float) -> Extracted | str:
        """The rounds; a text says why the run failed."""
        generator = self.generator()
        if generator is None:
            return "there is no model to ask"
        system, user = await self.in_thread(_opening, snapshot, draft, self.prompt)
        messages = [
            ModelMessage(role="system", text=system),
            ModelMessage(role="user", text=user),
        ]
        for left in range(MAX_ROUNDS - 1, -1, -1):
            answer = await _ask(generator, messages, deadline)
            if isinstance(answer, str):
                return answer
            if not answer.tool_calls:
                objection = await self.in_thread(draft.objection)
                if objection is None or not left:
                    return _ended(draft, answer.text, objection)
                messages.append(ModelMessage(role="assistant", text=_said(answer) or "Done."))
                messages.append(ModelMessage(role="user", text=f"Not yet: {objection}."))
                continue
            calls = _echoed(answer.tool_calls, left)
            answers = await self.in_thread(_answers, draft, answer.tool_calls)
            messages.append(
                ModelMessage(role="assistant", text=_said(answer), tool_calls=tuple(calls))
            )
            results = tuple(
                ToolResult(call_id=call.id, text=one.text, is_error=not one.accepted)
                for call, one in zip(calls, answers, strict=True)
            )
            messages.append(ModelMessage(role="tool", tool_results=results))
            log.debug(
                "extraction.model_round",
                left=left,
                calls=len(calls),
                refused=sum(not one.accepted for one in answers),
            )
        # The last answer was calls again: what is good of them stands.
        return _ended(draft, None, await self.in_thread(draft.objection))


def _opening(
    snapshot: Snapshot, draft: Draft, prompt: Callable[[NotesView], str] | None
) -> tuple[str, str]:
    return (
        model_prompt.system(draft.view, MAX_ROUNDS, prompt),
        model_prompt.user(snapshot, draft.view, draft.budgets),
    )


async def _ask(
    generator: Generator, messages: list[ModelMessage], deadline: float
) -> ModelGenerateResult | str:
    """One answer; a text says why there is none. Of an exception its class and, where it has one,
    its reason in one word are told: a text of another room's may hold anything (T10)."""
    request = ModelGenerateParams(
        purpose="extract",
        messages=tuple(messages),
        tools=(model_prompt.TOOL,),
        max_output_tokens=MAX_OUTPUT_TOKENS,
        deadline_ms=max(0, round((deadline - trio.current_time()) * 1000)),
    )
    try:
        return await generator.generate(request)
    except Exception as error:
        reason = getattr(error, "reason", None)
        known = isinstance(reason, str) and _WORD.fullmatch(reason)
        return f"the model could not answer ({type(error).__name__}{f': {reason}' * bool(known)})"


def _ended(draft: Draft, text: str | None, objection: str | None) -> Extracted | str:
    """What a run came to (X10): edits, or the explicit no-op; anything else is a failure."""
    if objection is not None:
        return objection
    edits = draft.edits()
    if edits:
        return Extracted(edits)
    if draft.refused:  # it meant to add something: that is not nothing (D65)
        return f"the model made no edit that could be carried out ({draft.refused} refused)"
    if draft.is_edited or is_nothing(text):  # an edit that changes nothing: it was right already
        return Extracted((), nothing_to_add=True)
    return f"the model neither edited the notes nor said {model_prompt.NOTHING_TO_ADD}"


def is_nothing(text: str | None) -> bool:
    """Whether a text is the explicit no-op: alone on its last line, however it is quoted."""
    lines = (text or "")[-200:].strip().splitlines()
    return bool(lines) and lines[-1].strip(" \t`*_\"'.") == model_prompt.NOTHING_TO_ADD


def _said(answer: ModelGenerateResult) -> str:
    return (answer.text or "")[:MAX_ECHO_CHARS].strip()


def _answers(draft: Draft, calls: tuple[ToolCall, ...]) -> list[Answer]:
    return [
        draft.apply(call)
        if number < MAX_CALLS
        else Answer(f"refused: more than {MAX_CALLS} calls in one answer", accepted=False)
        for number, call in enumerate(calls)
    ]


def _echoed(calls: tuple[ToolCall, ...], left: int) -> list[ToolCall]:
    """The calls as they are sent back: under ids, names and arguments that any API accepts."""
    echoed: list[ToolCall] = []
    for number, call in enumerate(calls):
        known = _NAME.fullmatch(call.id) and all(call.id != other.id for other in echoed)
        flat = isinstance(call.input, dict) and all(
            isinstance(value, str) and len(value) <= MAX_ECHO_CHARS for value in call.input.values()
        )
        echoed.append(
            ToolCall(
                id=call.id if known else f"again_{MAX_ROUNDS - left}_{number}",
                name=call.name if _NAME.fullmatch(call.name) else "unknown",
                input=call.input if flat else {},
            )
        )
    return echoed
