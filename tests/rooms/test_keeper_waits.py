"""Waits on a virtual clock: bounded, event-driven, never for what is stale (X13, X15, I17, D74)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from keeper_doubles import FAILS, Bench, ScriptedExtractor, calls, inline, results, says, user

Clock = trio.testing.MockClock
BUSY = (user("u1"), says("a1", 12_000))


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocking work is done at once: the clock would jump while a thread works."""
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)


async def timed(function: Any, *args: Any) -> tuple[Any, float]:
    begin = trio.current_time()
    answer = await function(*args)
    return answer, trio.current_time() - begin


async def started(bench: Bench) -> None:
    """A run whose extractor works; no time passes."""
    bench.append(*BUSY)
    while not bench.extractor.seen:
        await trio.sleep(0)


async def test_X15_nothing_runs_nothing_is_waited_for(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path)
    assert await timed(bench.wait, 15_000) == ("idle", 0.0)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    assert bench.keeper.status().state == "armed"
    assert await timed(bench.wait, 15_000) == ("idle", 0.0)


@pytest.mark.parametrize(
    ("asked", "setting", "waited"),
    [(None, 15_000, 15.0), (15_000, 15_000, 15.0), (99_000, 15_000, 15.0), (2_000, 15_000, 2.0),
     (None, 4_000, 4.0), (15_000, 4_000, 4.0), (0, 15_000, 0.0)],
)  # fmt: skip
async def test_D74_X15_a_hanging_run_is_waited_for_no_longer_than_asked_and_allowed(
    nursery: trio.Nursery,
    tmp_path: Path,
    autojump_clock: Clock,
    asked: int | None,
    setting: int,
    waited: float,
) -> None:
    bench = Bench(
        nursery, tmp_path, ScriptedExtractor(gate=trio.Event()), extraction_wait_timeout_ms=setting
    )
    await started(bench)
    answer, seconds = await timed(bench.wait, asked)
    assert answer == "stillRunning"
    assert seconds == pytest.approx(waited)
    assert bench.keeper.status().state == "running"
    bench.keeper.close("shutdown")


@pytest.mark.parametrize(
    ("extractor", "outcome"),
    [({}, "settled"), ({"error": FAILS}, "failed"), ({"adds": False}, "settled")],
)
async def test_X15_a_wait_ends_with_the_run(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock, extractor: Any, outcome: str
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=5, **extractor))
    await started(bench)
    answer, seconds = await timed(bench.wait, 15_000)
    assert answer == outcome
    assert seconds < 6


async def test_X13_a_stale_run_is_not_waited_for_even_if_it_beats(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=110))
    await started(bench)
    await trio.sleep(50)
    # It becomes stale during the wait: the wait ends then.
    answer, seconds = await timed(bench.wait, 15_000)
    assert answer == "stale"
    assert seconds < 10.5
    assert (await timed(bench.wait, 15_000))[1] == 0.0
    result, seconds = await timed(bench.extract_and_wait, 15_000, "compaction")
    assert (result.decision, result.outcome, seconds) == ("joined", "stale", 0.0)
    await bench.idle()
    assert bench.outcomes()[0] == ("settled", None)


async def test_X13_the_threshold_is_a_setting(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(
        nursery,
        tmp_path,
        ScriptedExtractor(seconds=110),
        extraction_stale_threshold_ms=3_000,
    )
    await started(bench)
    answer, seconds = await timed(bench.wait, 15_000)
    assert answer == "stale"
    assert seconds == pytest.approx(3.0, abs=0.5)
    bench.keeper.close("shutdown")


async def test_X15_extract_with_a_wait_tells_what_came_of_it(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=5))
    result, seconds = await timed(bench.extract_and_wait, 15_000)
    assert (result.decision, result.reason, result.outcome) == ("skipped", "nothingNew", None)
    bench.append(user("u1"), says("a1", 100))
    result, seconds = await timed(bench.extract_and_wait, 15_000)
    assert (result.decision, result.outcome) == ("started", "settled")
    assert seconds < 6
    assert result.run_id == bench.ends()[0].run_id
    assert result.counters.tokens_at_last_extraction == 100
    bench.append(user("u2"), says("a2", 200))
    result, seconds = await timed(bench.extract_and_wait, 1_000)
    assert (result.decision, result.outcome) == ("started", "stillRunning")
    assert seconds == pytest.approx(1.0)
    result, _ = await timed(bench.extract_and_wait, 0)
    assert (result.decision, result.outcome) == ("joined", None)
    await bench.idle()


async def test_X15_what_is_armed_is_waited_for_by_who_asked_for_it(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", context=100))
    answers: list[Any] = []

    async def ask(wait_ms: int) -> None:
        answers.append(await bench.extract_and_wait(wait_ms))

    nursery.start_soon(ask, 1_000)
    nursery.start_soon(ask, 15_000)
    await trio.sleep(3)
    assert [(a.decision, a.outcome) for a in answers] == [("armed", "stillRunning")]
    bench.append(results("r1", "1"))
    await bench.idle()
    await trio.testing.wait_all_tasks_blocked()
    assert [(a.decision, a.outcome) for a in answers[1:]] == [("armed", "settled")]


async def test_X15_cancelling_a_wait_leaves_the_run_alone(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=5))
    await started(bench)
    with trio.move_on_after(1):
        await bench.wait(15_000)
    assert bench.keeper.status().state == "running"
    await bench.idle()
    assert bench.outcomes() == [("settled", None)]


@pytest.mark.parametrize("how", ["cancel", "reset", "close"])
async def test_X15_a_wait_ends_at_once_when_the_run_is_ended(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock, how: str
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    await started(bench)
    answers: list[Any] = []

    async def wait() -> None:
        answers.append(await timed(bench.wait, 15_000))

    nursery.start_soon(wait)
    await trio.sleep(2)
    if how == "cancel":
        assert bench.keeper.cancel()
    elif how == "reset":
        bench.conversation.reset()
        bench.keeper.did_reset("cleared")
    else:
        bench.keeper.close("sessionClosed")
    await trio.testing.wait_all_tasks_blocked()
    assert [answer for answer, _ in answers] == ["failed"]
    assert answers[0][1] < 2.5


async def test_X15_many_waiters_cost_no_polling(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    await started(bench)
    answers: list[str] = []

    async def wait() -> None:
        answers.append(await bench.wait(15_000))

    for _ in range(200):
        nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.extractor.gate is not None
    bench.extractor.gate.set()
    await bench.idle()
    await trio.testing.wait_all_tasks_blocked()
    assert answers == ["settled"] * 200
