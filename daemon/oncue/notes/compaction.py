"""What a client keeps of its history when the notes stand for the rest (pure; extraction.md §7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from attrs import frozen

from oncue.notes.budget import shortened
from oncue.notes.document import parse
from oncue.notes.template import DEFAULT, Template
from oncue.notes_ports import NoteBudgets, NotesView
from oncue_protocol import Message

MIN_TAIL_TOKENS = 10_000
"""Kept at least: a model that remembers less of what was just said repeats itself."""
MAX_TAIL_TOKENS = 40_000
"""Extending backwards stops here: more would not be a compaction."""
MIN_TAIL_TEXT_MESSAGES = 5
"""Of user and assistant, with words in them."""

FallbackReason = Literal["noNotes", "notesAreTemplate", "boundaryUnknown", "nothingSummarised"]


@frozen
class CompactionView:
    """The notes, and the first message that stays; or why the client has to compact by itself."""

    notes: str | None = None
    keep_from_message_id: str | None = None
    """None beside notes: nothing of what is known has to stay."""
    fallback_reason: FallbackReason | None = None


@frozen
class Tail:
    """How much of the conversation stays."""

    min_tokens: int = MIN_TAIL_TOKENS
    max_tokens: int = MAX_TAIL_TOKENS
    min_text_messages: int = MIN_TAIL_TEXT_MESSAGES


def compaction_view(
    notes: NotesView,
    messages: Sequence[Message],
    *,
    last_summarized: str | None,
    processed_through: str | None,
    size_of: Callable[[Message], int],
    is_known: Callable[[str], bool] = lambda _: False,
    budgets: NoteBudgets,
    tail: Tail = Tail(),
    template: Template = DEFAULT,
) -> CompactionView:
    """`messages`: what is held of the conversation, oldest first. `is_known`: whether an id was
    seen that is held no longer (then it lies before all of them). `size_of`: tokens of a message.
    """
    if notes.revision is None:
        return CompactionView(fallback_reason="noNotes")
    if notes.is_template:
        return CompactionView(fallback_reason="notesAreTemplate")
    behind = boundary(messages, last_summarized, processed_through, is_known)
    if isinstance(behind, str):
        return CompactionView(fallback_reason=behind)
    start = _extended(messages, behind, size_of, tail)
    kept_from = messages[start].id if start < len(messages) else None
    return CompactionView(cut_notes(notes.text, budgets, template), kept_from)


def boundary(
    messages: Sequence[Message],
    last_summarized: str | None,
    processed_through: str | None,
    is_known: Callable[[str], bool],
) -> int | FallbackReason:
    """Index of the first message that the notes do not stand for."""
    if last_summarized is None and processed_through is None:
        return "nothingSummarised"
    wanted = last_summarized if last_summarized is not None else processed_through
    at = next((n for n in range(len(messages) - 1, -1, -1) if messages[n].id == wanted), None)
    if at is None:
        # Held no longer, so all that is held comes after it.
        return 0 if wanted is not None and is_known(wanted) else "boundaryUnknown"
    behind = at + 1
    if last_summarized is None:
        behind = max((n for n in safe_cuts(messages) if n <= behind), default=0)
    return behind


def safe_cuts(messages: Sequence[Message]) -> list[int]:
    """Indexes before which the conversation can be cut: no result loses its call, and no call
    its result."""
    called: dict[str, int] = {}
    joined = [0] * (len(messages) + 1)
    for number, message in enumerate(messages):
        for call in message.tool_calls:
            called.setdefault(call.id, number)
        for result in message.tool_results:
            first = called.get(result.call_id)
            if first is not None:
                joined[first + 1] += 1
                joined[number + 1] -= 1
    answered = {result.call_id for message in messages for result in message.tool_results}
    for call_id, number in called.items():
        if call_id not in answered:  # still running: its result is to come
            joined[number + 1] += 1
    cuts, depth = [], 0
    for number, change in enumerate(joined):
        depth += change
        if depth == 0:
            cuts.append(number)
    return cuts


def _extended(
    messages: Sequence[Message], behind: int, size_of: Callable[[Message], int], tail: Tail
) -> int:
    start = behind
    size = sum(size_of(message) for message in messages[behind:])
    texts = sum(_has_text(message) for message in messages[behind:])
    while start > 0 and (size < tail.min_tokens or texts < tail.min_text_messages):
        before = messages[start - 1]
        if size + size_of(before) > tail.max_tokens:
            break
        start -= 1
        size += size_of(before)
        texts += _has_text(before)
    return max((n for n in safe_cuts(messages) if n <= start), default=0)


def _has_text(message: Message) -> bool:
    return message.role in ("user", "assistant") and bool(message.text.strip())


def cut_notes(text: str, budgets: NoteBudgets, template: Template = DEFAULT) -> str:
    """The notes, each section within its budget, with a line that says what was left out."""
    document = parse(text, template)
    contents = {
        title: shortened(content, budgets.max_section_tokens * 1_000)
        for title, content in document.contents().items()
    }
    return document.with_contents(contents).text
