"""The player against a scripted daemon: what it sends when, and what it measures."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio

from oncue.replay.commands import DEMO
from oncue.replay.history import Request
from oncue.replay.pace import Pace
from oncue.replay.player import Player
from oncue.replay.recording import Recording
from oncue.replay.report import Totals
from oncue.transcript.events import (
    Appended,
    Compacted,
    Event,
    Note,
    Prompt,
    Reset,
    SessionInfo,
    Steering,
    TurnEnded,
    WillCompact,
)
from oncue_protocol import ToolCall, ToolResult
from rooms.replay_fakes import FakeClient, Notebook, message


def prompt(name: str, second: int, query: str = "why does it hang") -> Prompt:
    return Prompt(message(name, "user", second, text=query), query, f"turn-{name}")


def call(name: str, second: int, *calls: str) -> Appended:
    tools = tuple(ToolCall(id=one, name="Bash", input={}) for one in calls)
    return Appended(message(name, "assistant", second, text="I look", tool_calls=tools))


def result(name: str, second: int, of: str) -> Appended:
    results = (ToolResult(call_id=of, text="ok"),)
    return Appended(message(name, "tool", second, tool_results=results))


def answer(name: str, second: int) -> Appended:
    return Appended(message(name, "assistant", second, text="done"))


async def play(
    events: Iterable[Event], requests: list[Request] | None = None, **daemon: Any
) -> tuple[FakeClient, Notebook, Totals]:
    """Play at a pace of one to ten, on trio's clock."""
    async with trio.open_nursery() as nursery:
        client, notebook = FakeClient(nursery, **daemon), Notebook()
        player = Player(
            client,
            "s",
            notebook,
            pace=Pace("real"),
            on_request=None if requests is None else requests.append,
            now=trio.current_time,
        )
        totals = await player.play(iter(events))
        nursery.cancel_scope.cancel()
    return client, notebook, totals


SLOW_TURN = (
    SessionInfo("s", "/w"),
    prompt("u1", 0),
    call("a1", 1, "c1"),
    result("t1", 2, "c1"),
    call("a2", 3, "c2"),
    result("t2", 5, "c2"),
    answer("a3", 6),
    TurnEnded("completed", "turn-u1"),
    Note({}, 7),
)


async def test_R7_R8_a_slow_search_is_delivered_at_a_tool_result(autojump_clock: object) -> None:
    _, notebook, totals = await play(SLOW_TURN, settle_s=2.6)
    (turn,) = notebook.turns
    assert [(one.stage, one.point, one.round) for one in turn.handed] == [
        ("fast", "userQuery", 0),
        ("refined", "toolResult", 2),
    ]
    assert (turn.state, turn.reason, turn.way) == ("consumed", "delivered", "completed")
    assert turn.settled_ms is not None
    assert math.isclose(turn.settled_ms, 2600)
    assert math.isclose(turn.handed[1].late_ms, 5003), "3 ms went to the fast stage"
    assert (totals.turns, totals.recalls, totals.documents) == (1, 1, 2)
    assert totals.late == 1


async def test_R1_nothing_but_the_fast_stage_is_waited_for(autojump_clock: object) -> None:
    _, notebook, totals = await play(SLOW_TURN, settle_s=4.0)
    assert math.isclose(notebook.turns[0].waited_ms, 3.0)
    assert math.isclose(totals.old_ms, 2500)
    assert totals.old_lost == 1


async def test_the_order_of_messages_is_an_editors(autojump_clock: object) -> None:
    client, _, _ = await play(SLOW_TURN, settle_s=2.5)
    assert client.names() == [
        "transcript/didAppend",
        "recall/start",
        "recall/poll",
        "transcript/didAppend",
        "transcript/didAppend",
        "recall/poll",
        "transcript/didAppend",
        "transcript/didAppend",
        "recall/poll",
        "transcript/didAppend",
        "turn/didEnd",
        "recall/peek",
    ]
    points = [given["point"] for name, given in client.calls if name == "recall/poll"]
    assert points == ["userQuery", "toolResult", "toolResult"]
    after = [given["after_message_id"] for name, given in client.calls if "Append" in name]
    assert after == [None, "u1", "a1", "t1", "a2", "t2"]


async def test_R8_a_parallel_round_is_looked_at_once_after_all_results(
    autojump_clock: object,
) -> None:
    events = (
        prompt("u1", 0),
        call("a1", 1, "c1", "c2"),
        result("t1", 2, "c1"),
        result("t2", 3, "c2"),
        answer("a2", 4),
        TurnEnded("completed", "turn-u1"),
    )
    requests: list[Request] = []
    client, _, _ = await play(events, requests, settle_s=1.5)
    assert client.names().count("recall/poll") == 2
    assert requests[1].entries[-1].message_id == "t2"
    assert requests[1].entries[-1].content[-1] == "<remembered 2>"


async def test_R2_a_second_message_before_any_answer_replaces_the_recall(
    autojump_clock: object,
) -> None:
    events = (
        prompt("u1", 0),
        TurnEnded("completed", "turn-u1"),
        prompt("u2", 1),
        answer("a1", 2),
        TurnEnded("completed", "turn-u2"),
    )
    client, notebook, totals = await play(events, settle_s=[4.0, 0.5])
    assert client.names().count("turn/didEnd") == 1
    first, second = notebook.turns
    assert (first.way, first.state, first.reason) == ("replaced", "replaced", "newQuery")
    assert second.number == 2
    assert totals.turns == 2
    assert totals.old_lost == 0, "what is replaced is not lost"


async def test_R4_an_interrupt_ends_the_recall_and_asks_for_nothing_more(
    autojump_clock: object,
) -> None:
    events = (
        prompt("u1", 0),
        call("a1", 1, "c1"),
        result("t1", 2, "c1"),
        TurnEnded("aborted", "turn-u1"),
    )
    client, notebook, _ = await play(events, settle_s=5.0)
    assert client.names().count("recall/poll") == 1, "results of an aborted turn go nowhere"
    (turn,) = notebook.turns
    assert (turn.way, turn.reason) == ("aborted", "abort")
    assert math.isclose(turn.old().waited_ms, 2003)


async def test_T3_steering_starts_no_recall(autojump_clock: object) -> None:
    events = (
        prompt("u1", 0),
        call("a1", 1, "c1"),
        result("t1", 2, "c1"),
        Steering(message("u2", "user", 3, text="also look there")),
        answer("a2", 4),
        TurnEnded("completed", "turn-u1"),
    )
    client, notebook, _ = await play(events, settle_s=1.5)
    assert client.names().count("recall/start") == 1
    assert notebook.notes == ["steering"]
    assert len(notebook.turns) == 1


async def test_compaction_and_reset_are_passed_on(autojump_clock: object) -> None:
    requests: list[Request] = []
    events = (
        prompt("u1", 0),
        answer("a1", 1),
        TurnEnded("completed", "turn-u1"),
        WillCompact(),
        Compacted(5000, None),
        prompt("u2", 2),
        answer("a2", 3),
        TurnEnded("completed", "turn-u2"),
        Reset("rewound"),
        prompt("u3", 4),
        answer("a3", 5),
        TurnEnded("completed", "turn-u3"),
    )
    client, _, totals = await play(events, requests, settle_s=0.5)
    names = client.names()
    assert names.index("transcript/willCompact") + 1 == names.index("transcript/didCompact")
    assert "transcript/didReset" in names
    assert [request.begins_anew for request in requests] == [True, True, True]
    assert (totals.compactions, totals.resets) == (1, 1)
    after = [given["after_message_id"] for name, given in client.calls if "Append" in name]
    assert after == [None, "u1", "a1", "u2", None, "u3"]


async def test_an_image_alone_starts_no_recall(autojump_clock: object) -> None:
    events = (prompt("u1", 0, query=""), answer("a1", 1), TurnEnded("completed", "turn-u1"))
    client, notebook, totals = await play(events)
    assert "recall/start" not in client.names()
    assert notebook.turns[0].recall_id is None
    assert (totals.turns, totals.recalls) == (1, 0)


async def test_R15_requests_are_prefixes_of_their_successors(autojump_clock: object) -> None:
    requests: list[Request] = []
    second = tuple(
        event
        for event in (
            prompt("v1", 10),
            call("b1", 11, "d1"),
            result("w1", 12, "d1"),
            answer("b2", 13),
            TurnEnded("completed", "turn-v1"),
        )
    )
    await play(SLOW_TURN[1:-1] + second, requests, settle_s=[2.5, 0.5])
    assert len(requests) == 5
    for before, after in pairwise(requests):
        assert after.entries[: len(before.entries)] == before.entries
    blocks = [block for entry in requests[-1].entries for block in entry.content]
    assert [block for block in blocks if block.startswith("<remembered")] == [
        "<remembered 1>",
        "<remembered 2>",
        "<remembered 3>",
        "<remembered 4>",
    ]


async def test_without_an_observer_of_requests_no_history_is_kept(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        client = FakeClient(nursery)
        player = Player(client, "s", Notebook(), pace=Pace("max"), now=trio.current_time)
        await player.play(iter(SLOW_TURN))
        nursery.cancel_scope.cancel()
    assert player._history._entries == []


async def test_a_session_of_20_MB_streams_in_bounded_memory(
    tmp_path: Path, autojump_clock: object
) -> None:
    line = (DEMO / "session.jsonl").read_text("utf-8").splitlines()[1]
    template = json.loads(line)
    file = tmp_path / "large.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for turn in range(400):
            for part, record in enumerate(large_turn(turn)):
                record = {**template, **record, "uuid": f"{turn:08}-{part}", "parentUuid": None}
                out.write(json.dumps(record) + "\n")
    assert file.stat().st_size > 20_000_000
    recording = Recording(file)
    async with trio.open_nursery() as nursery:
        client, notebook = FakeClient(nursery, fast_s=0, settle_s=0), Notebook()
        client.calls = Forgetful()
        player = Player(client, "s", notebook, pace=Pace("max"), now=trio.current_time)
        tracemalloc.start()
        try:
            recording.survey()
            totals = await player.play(recording.events())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        nursery.cancel_scope.cancel()
    assert totals.turns == 400
    assert totals.messages == 1600
    assert peak < 6_000_000


class Forgetful(list[tuple[str, dict[str, Any]]]):
    """Keeps nothing: the recorded calls would be the session."""

    def append(self, item: tuple[str, dict[str, Any]]) -> None:
        pass


def large_turn(turn: int) -> list[dict[str, Any]]:
    """Prompt, call, 50 KB of result, answer."""
    at = f"2026-03-13T{10 + turn // 60 % 12:02}:{turn % 60:02}:00.000Z"
    call_id = f"toolu_{turn}"

    def assistant(name: str, *content: dict[str, Any]) -> dict[str, Any]:
        message = {"id": f"{name}_{turn}", "role": "assistant", "content": list(content)}
        return {"type": "assistant", "timestamp": at, "message": {**message, "stop_reason": "x"}}

    tool = {"type": "tool_use", "id": call_id, "name": "Read", "input": {"file": f"f{turn}"}}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": f"{turn} " * 14_000}
    return [
        {"type": "user", "timestamp": at, "message": {"role": "user", "content": f"read {turn}"}},
        assistant("a", tool),
        {"type": "user", "timestamp": at, "message": {"role": "user", "content": [result]}},
        assistant("b", {"type": "text", "text": f"this was {turn}"}),
    ]
