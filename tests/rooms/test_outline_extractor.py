"""The outline extractor in its thread: cancellable, bounded, in nobody's way."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
import trio

from notes_support import BUDGETS, blank, notes_file

sys.path.insert(0, str(Path(__file__).parents[1] / "eval"))

from outline_eval import demo_messages
from outline_sessions import german

from oncue.extraction.extractors import outline
from oncue.extraction.extractors.outline import OutlineExtractor
from oncue.notes import document
from oncue.notes_ports import ExtractionFailedError, NotesView, Snapshot
from oncue_protocol import Message

VIEW = document.view(blank(), None, BUDGETS)


def snapshot(messages: list[Message]) -> Snapshot:
    return Snapshot("s", tuple(messages), "sha")


async def test_4_outline_makes_edits_that_the_notes_take(tmp_path: Path) -> None:
    file = notes_file(tmp_path)
    view: NotesView = file.read(BUDGETS)
    made = await OutlineExtractor().extract(snapshot(german()), view, BUDGETS, 10.0)
    assert made.edits[0].section == "Now" and not made.nothing_to_add
    file.prepare(made.edits, view, BUDGETS).publish()
    again = await OutlineExtractor().extract(snapshot(german()), file.read(BUDGETS), BUDGETS, 10.0)
    assert again.nothing_to_add and again.edits == ()


async def test_X10_nothing_to_add_is_said_in_so_many_words() -> None:
    empty = [Message(id="1", role="system", text="a reminder")]
    made = await OutlineExtractor().extract(snapshot(empty), VIEW, BUDGETS, 10.0)
    assert made.nothing_to_add


class Stuck:
    """A fold that waits for the test."""

    entered = threading.Event()
    go_on = threading.Event()

    def __init__(self, *_: object) -> None:
        self.fed = 0

    def unseen(self, messages: list[Message]) -> list[Message]:
        return messages

    def feed(self, message: Message) -> None:
        self.fed += 1
        type(self).entered.set()
        assert type(self).go_on.wait(30)
        assert self.fed == 1, "went on although nobody waits for it"


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> type[Stuck]:
    Stuck.entered, Stuck.go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(outline, "Fold", Stuck)
    return Stuck


async def test_X14_a_cancelled_outline_ends_at_once_and_folds_no_more(stuck: type[Stuck]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            OutlineExtractor().extract, snapshot(demo_messages()), VIEW, BUDGETS, 1_000.0
        )
        await trio.to_thread.run_sync(stuck.entered.wait)
        nursery.cancel_scope.cancel()
    stuck.go_on.set()


async def test_X13_an_outline_past_its_deadline_gives_up(
    stuck: type[Stuck], autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(ExtractionFailedError, match="not ready within 5 s"):
        await OutlineExtractor().extract(snapshot(german()), VIEW, BUDGETS, 5.0)
    stuck.go_on.set()
