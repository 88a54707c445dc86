"""Are the outline's notes worth more than their tokens? `python tests/eval/outline_eval.py`

Reads the demo session, folds it in several runs as the daemon would, and counts the questions
whose facts are in the notes; beside it the same for what a client has without notes: the last 20
messages, whole, and the list of touched files.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import frozen

from oncue.extraction.extractors.outline_fold import Fold
from oncue.extraction.extractors.outline_tools import deed
from oncue.notes import document
from oncue.notes.budget import condensed
from oncue.notes.document import Document
from oncue.notes.edits import apply, check_shrink
from oncue.notes_ports import NoteBudgets
from oncue.replay import demo
from oncue.text import tokens
from oncue.transcript.bodies import kept
from oncue.transcript.readers import reader_for
from oncue_protocol import Message

sys.path.insert(0, str(Path(__file__).parent))

from outline_questions import DEMO, Question
from outline_sessions import CHINESE, GERMAN, chinese, german

BUDGETS = NoteBudgets(2_000, 12_000)
LAST = 20
RUN_TOKENS = 5_000
"""Of messages, from one run to the next: the daemon's default."""


def demo_messages() -> list[Message]:
    """The demo's conversation, as the daemon keeps it."""
    path = Path(demo.__file__ or "").with_name("session.jsonl")
    reader = reader_for("claude", str(path))
    events = reader.feed(path.read_bytes()) + reader.close()
    found = (getattr(event, "message", None) for event in events)
    return [kept(message) for message in found if isinstance(message, Message)]


def text_of(messages: Iterable[Message]) -> str:
    """All that a reader of the messages sees."""
    lines = []
    for message in messages:
        lines.append(message.text)
        lines += [f"{call.name} {call.input}" for call in message.tool_calls]
        lines += [result.text for result in message.tool_results]
    return "\n".join(lines)


def fold(start: Document, messages: Sequence[Message], budgets: NoteBudgets = BUDGETS) -> Document:
    """One run."""
    run = Fold(document.view(start, None, budgets), budgets)
    for message in run.unseen(messages):
        run.feed(message)
    made = run.extracted()
    if made.nothing_to_add:
        return start
    ours = apply(start, made.edits)
    check_shrink(start, ours, budgets)
    return condensed(ours, budgets).document


def notes_of(messages: Sequence[Message], every: int = RUN_TOKENS) -> Document:
    """Notes after runs over ranges of `every` tokens, no call cut from its result."""
    notes = document.repaired(document.new())
    waiting: list[Message] = []
    open_calls: set[str] = set()
    size = 0
    for message in messages:
        waiting.append(message)
        size += tokens.estimate(text_of([message]))
        open_calls |= {call.id for call in message.tool_calls}
        open_calls -= {result.call_id for result in message.tool_results}
        if size >= every and not open_calls:
            notes, waiting, size = fold(notes, waiting), [], 0
    return fold(notes, waiting) if waiting else notes


def without_notes(messages: Sequence[Message]) -> str:
    """What there is without notes."""
    files = {t.path for m in messages for call in m.tool_calls for t in deed(call).touches}
    return text_of(messages[-LAST:]) + "\n" + "\n".join(sorted(files))


def answers(question: Question, text: str) -> bool:
    """Whether every fact is in the text."""
    folded = text.casefold()
    return all(any(way.casefold() in folded for way in ways) for ways in question.facts)


@frozen
class Score:
    """How many questions a text answers."""

    answered: int
    questions: int
    tokens: int
    missed: tuple[str, ...]
    by_kind: dict[str, tuple[int, int]]

    @property
    def share(self) -> float:
        return self.answered / self.questions


def score(text: str, questions: Sequence[Question] = DEMO) -> Score:
    """See `Score`."""
    missed = [question for question in questions if not answers(question, text)]
    asked, lost = Counter(q.kind for q in questions), Counter(q.kind for q in missed)
    return Score(
        len(questions) - len(missed),
        len(questions),
        tokens.estimate(text),
        tuple(question.text for question in missed),
        {kind: (asked[kind] - lost[kind], asked[kind]) for kind in asked},
    )


def main() -> None:
    for name, talk, asked in (("German", german(), GERMAN), ("Chinese", chinese(), CHINESE)):
        found = score(notes_of(talk).text, asked)
        print(f"{name} session, notes alone: {found.share:.2f} of {len(asked)}", *found.missed)
    messages = demo_messages()
    print(f"demo session: {len(messages)} messages, {len(DEMO)} questions")
    for name, text in (
        ("notes alone", notes_of(messages).text),
        (f"last {LAST} messages and touched files", without_notes(messages)),
        ("whole conversation", text_of(messages)),
    ):
        found = score(text)
        kinds = ", ".join(f"{kind} {a}/{of}" for kind, (a, of) in found.by_kind.items())
        print(f"{name:40} {found.share:.2f} with {found.tokens:6} tokens  ({kinds})")
        for question in found.missed:
            print(f"    missed: {question}")


if __name__ == "__main__":
    main()
