"""The recalls of a session on a virtual clock: nothing waits for a search (recall.md)."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from oncue.ports import Finder, Generator
from oncue.recall.events import Delivered, Ended, FastReady, RecallEvent, Settled, Started
from oncue.recall.recalls import Recalls, random_hex
from oncue.recall.render import parse
from oncue.settings import RecallSettings
from oncue_protocol import (
    ModelGenerateResult,
    RecallCancelParams,
    RecallNotFound,
    RecallPeekParams,
    RecallPollParams,
    RecallPollResult,
    RecallStartParams,
    RecallStartResult,
    SessionNotFound,
)
from recall_doubles import DAY, NOW, ScriptedFinder, ScriptedModel, document, hit, hits


class Desk:
    """A session's recalls with scripted search and model, and what they said."""

    def __init__(
        self,
        nursery: trio.Nursery,
        finder: Finder,
        model: Generator | None = None,
        *,
        acknowledged: bool = False,
        on_event: Callable[[RecallEvent], None] | None = None,
        **settings: Any,
    ) -> None:
        self.nursery = nursery
        self.wall = NOW
        self.events: list[RecallEvent] = []
        gates = {"min_confidence": 0.25, "fast_min_confidence": 0.5}
        self.settings = RecallSettings(**{**gates, **settings})
        self.acknowledged = acknowledged
        numbers = itertools.count(1)
        self.recalls = Recalls(
            session_id="s",
            nursery=nursery,
            finder=finder,
            generator=lambda: model,
            limits=lambda: self.settings,
            wall=lambda: self.wall,
            on_event=on_event or self.events.append,
            new_id=lambda: f"{next(numbers):016x}",
        )

    def start(self, query: str = "how do we deploy?", **members: Any) -> RecallStartResult:
        params = RecallStartParams(session_id="s", query=query, **members)
        return self.recalls.start(params, acknowledged=self.acknowledged)

    async def start_and_wait(self, **members: Any) -> RecallStartResult:
        params = RecallStartParams(session_id="s", query="q", **members)
        return await self.recalls.start_and_wait(params, acknowledged=self.acknowledged)

    def poll(self, point: Any = "userQuery", **members: Any) -> RecallPollResult:
        return self.recalls.poll(RecallPollParams(session_id="s", point=point, **members))

    async def wait(
        self, wait_ms: int, point: Any = "userQuery", **members: Any
    ) -> RecallPollResult:
        params = RecallPollParams(session_id="s", point=point, wait_ms=wait_ms, **members)
        return await self.recalls.poll_and_wait(params)

    def of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.events if isinstance(one, kind)]

    def ends(self) -> list[tuple[str, str]]:
        return [(one.state, one.reason) for one in self.of(Ended)]

    @property
    def tasks(self) -> int:
        return len(self.nursery.child_tasks)


async def settle() -> None:
    """Let everything run that can run without time passing."""
    await trio.testing.wait_all_tasks_blocked()


def names(answer: RecallPollResult) -> list[str]:
    assert answer.delivery is not None
    return [one.path.rsplit("/", 1)[-1][:-3] for one in answer.delivery.documents]


# ---- starting, searching, taking -------------------------------------------------------------


async def test_R1_D63_start_and_poll_never_depend_on_the_search(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(seconds=1e9))
    before = trio.lowlevel.current_statistics()
    answer = desk.start()
    assert answer.state == "pending"
    assert desk.poll().outcome == "pending"
    # Nothing has run in between: no await lies between request and answer.
    assert trio.lowlevel.current_statistics().run_sync_soon_queue_size == 0
    assert before.seconds_to_next_deadline >= 0
    await settle()
    assert desk.poll("toolResult").outcome == "pending"
    nursery.cancel_scope.cancel()


async def test_R7_search_done_before_the_poll_is_delivered_prepended(
    nursery: trio.Nursery,
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a", "b")))
    recall = desk.start(turn_id="t1").recall_id
    await settle()
    answer = desk.poll()
    assert (answer.outcome, answer.stage) == ("delivered", "refined")
    assert answer.delivery is not None
    assert answer.delivery.placement == "prepend"
    assert answer.delivery.strategy == "ranked"
    assert [item.path for item in parse(answer.delivery.text).items] == ["a.md", "b.md"]
    assert [type(one) for one in desk.events] == [Started, Settled, Delivered, Ended]
    assert not desk.of(FastReady)  # nothing slower follows: no fast stage
    assert desk.poll().ended is not None
    assert desk.poll(recall_id=recall).outcome == "none"
    await settle()
    assert desk.tasks == 0


async def test_R8_slow_search_is_delivered_at_the_first_tool_result(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a"), seconds=12.0))
    desk.start()
    await settle()
    assert desk.poll("userQuery").outcome == "pending"
    await trio.sleep(11)
    assert desk.poll("toolResult").outcome == "pending"
    await trio.sleep(2)  # no cut-off (R5)
    answer = desk.poll("toolResult")
    assert answer.delivery is not None
    assert answer.delivery.placement == "append"
    (ended,) = desk.of(Ended)
    assert (ended.point, ended.latency_ms) == ("toolResult", 13_000)


async def test_R6_failing_search_settles_empty_with_one_warning(nursery: trio.Nursery) -> None:
    desk = Desk(nursery, ScriptedFinder(error=OSError("/home/me/secret.md is broken")))
    with capture_logs() as logs:
        desk.start()
        await settle()
    assert desk.poll().outcome == "empty"
    assert [(one["event"], one["log_level"]) for one in logs] == [
        ("recall.search_failed", "warning")
    ]
    assert "secret" not in str(logs)
    assert desk.ends() == [("consumed", "nothingFound")]


async def test_R5_hanging_search_settles_empty_at_the_ceiling(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(seconds=1e9))
    with capture_logs() as logs:
        desk.start()
        await trio.sleep(29.9)
        assert desk.poll().outcome == "pending"
        await trio.sleep(0.2)
    assert desk.poll().outcome == "empty"
    assert [one["event"] for one in logs] == ["recall.search_hung"]


async def test_R6_a_cancellation_is_not_logged(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    class FailsWhenCancelled:
        async def find(self, query: Any, *, wants_candidates: bool = False) -> Any:
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("index closed under us")

    finder = ScriptedFinder(seconds=1e9)
    desk = Desk(nursery, finder)
    rude = Desk(nursery, FailsWhenCancelled())
    with capture_logs() as logs:
        desk.start()
        rude.start()
        await settle()
        desk.recalls.turn_ended("main", None, "aborted")
        rude.recalls.turn_ended("main", None, "aborted")
        await settle()
    assert logs == []
    assert finder.cancelled == 1
    assert desk.ends() == rude.ends() == [("cancelled", "abort")]
    await settle()
    assert desk.tasks == 0


async def test_a_mistake_of_ours_takes_down_nothing(nursery: trio.Nursery) -> None:
    class Broken:
        async def find(self, query: Any, *, wants_candidates: bool = False) -> Any:
            return object()

    desk = Desk(nursery, Broken())
    with capture_logs() as logs:
        desk.start()
        await settle()
    assert [one["event"] for one in logs] == ["recall.search_broke"]
    assert desk.poll().outcome == "empty"


# ---- two stages and the model ----------------------------------------------------------------


async def test_two_stages_with_one_search(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finder = ScriptedFinder(hits("a", "b", "c", "d"), seconds=0.005)
    model = ScriptedModel('{"ids": ["m4", "m1"]}', seconds=3)
    desk = Desk(nursery, finder, model)
    desk.start()
    await trio.sleep(0.01)
    fast = desk.poll("userQuery")
    assert (fast.stage, names(fast)) == ("fast", ["a", "b"])
    assert fast.delivery is not None
    assert fast.delivery.strategy == "fast"
    assert desk.poll("toolResult").outcome == "pending"
    await trio.sleep(3)
    refined = desk.poll("toolResult")
    assert (refined.stage, names(refined)) == ("refined", ["d"])
    assert refined.delivery is not None
    assert refined.delivery.strategy == "model"
    assert len(finder.queries) == 1
    (ended,) = desk.of(Ended)
    assert (ended.strategy, ended.documents) == ("model", 3)


async def test_fast_stage_speaks_only_when_sure(nursery: trio.Nursery) -> None:
    found = (hit("/m/a.md", 0.3), hit("/m/b.md", 0.6), hit("/m/c.md", 0.2))
    model = ScriptedModel(seconds=1e9)
    desk = Desk(nursery, ScriptedFinder(found), model)
    desk.start()
    await settle()
    assert names(desk.poll()) == ["b"]
    plain = Desk(nursery, ScriptedFinder(found))
    plain.start()
    await settle()
    assert names(plain.poll()) == ["a", "b"]
    nursery.cancel_scope.cancel()


async def test_fast_documents_0_switches_the_fast_stage_off(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")), ScriptedModel(seconds=5), fast_documents=0)
    desk.start()
    await settle()
    assert desk.poll().outcome == "pending"
    desk.recalls.turn_ended("main", None, "completed")
    assert desk.ends() == [("cancelled", "noSafeDeliveryPoint")]


async def test_model_may_choose_what_the_ranker_did_not(nursery: trio.Nursery) -> None:
    candidates = [document("/m/x.md"), document("/m/a.md")]
    desk = Desk(nursery, ScriptedFinder(hits("a"), candidates=candidates), ScriptedModel())
    desk.start()
    await settle()
    answer = desk.poll()
    assert names(answer) == ["x"]
    assert answer.delivery is not None
    assert answer.delivery.documents[0].confidence == 0.0


async def test_what_the_model_chooses_keeps_the_rankers_figures(nursery: trio.Nursery) -> None:
    found = tuple(hit(f"/m/{number}.md", 0.9 - number / 100) for number in range(30))
    desk = Desk(nursery, ScriptedFinder(found), ScriptedModel('{"ids": ["m21"]}'))
    desk.start()
    await settle()
    answer = desk.poll()
    assert answer.delivery is not None
    (one,) = answer.delivery.documents
    assert (one.path, one.confidence) == ("/m/20.md", pytest.approx(0.7))


async def test_model_that_chooses_none_is_an_answer(nursery: trio.Nursery) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")), ScriptedModel('{"ids": []}'))
    desk.start()
    await settle()
    assert desk.poll().outcome == "empty"


@pytest.mark.parametrize(
    ("model", "event"),
    [
        (ScriptedModel(error=RuntimeError("quota: key sk-secret")), "recall.model_failed"),
        (ScriptedModel("no idea"), "recall.model_answer_unusable"),
        (ScriptedModel('{"ids": ["m99"]}'), "recall.model_answer_unusable"),
        (ScriptedModel(None), "recall.model_answer_unusable"),
        (ScriptedModel(seconds=1e9), "recall.model_hung"),
    ],
    ids=["raises", "prose", "unknown ids", "silent", "never"],
)
async def test_R6_failing_model_leaves_the_ranked_list(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    model: ScriptedModel,
    event: str,
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a", "b")), model)
    with capture_logs() as logs:
        desk.start()
        await trio.sleep(31)
    answer = desk.poll("toolResult")
    assert names(answer) == ["a", "b"]
    assert answer.delivery is not None
    assert answer.delivery.strategy == "fallback"
    assert [one["event"] for one in logs] == [event]
    assert "secret" not in str(logs)


async def test_the_model_is_told_what_is_left_of_the_ceiling(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    model = ScriptedModel(seconds=26)
    desk = Desk(nursery, ScriptedFinder(hits("a"), seconds=5), model)
    desk.start()
    with capture_logs() as logs:
        await trio.sleep(30.1)
    assert model.requests[0].deadline_ms == 25_000
    assert model.requests[0].purpose == "select"
    assert desk.of(Settled)[0].strategy == "fallback"  # one ceiling for both parts (D70)
    assert [one["event"] for one in logs] == ["recall.model_hung"]


async def test_a_provider_that_cannot_say_whether_it_is_there_is_none(
    nursery: trio.Nursery,
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")))

    def broken() -> Generator | None:
        raise RuntimeError("gone")

    recalls = Recalls(
        session_id="s",
        nursery=nursery,
        finder=ScriptedFinder(hits("a")),
        generator=broken,
        limits=lambda: desk.settings,
        wall=lambda: NOW,
        on_event=desk.events.append,
    )
    with capture_logs() as logs:
        recalls.start(RecallStartParams(session_id="s", query="q"))
        await settle()
    assert [one["event"] for one in logs] == ["recall.no_model"]
    assert desk.of(Settled)[0].strategy == "ranked"
    recalls.close("shutdown")


async def test_without_candidates_the_model_is_not_asked(nursery: trio.Nursery) -> None:
    model = ScriptedModel()
    desk = Desk(nursery, ScriptedFinder(hits("a"), candidates=[]), model)
    desk.start()
    await settle()
    assert desk.of(Settled)[0].strategy == "ranked"
    assert model.requests == []
    desk.recalls.close("shutdown")


async def test_what_must_not_be_shown_is_not_even_if_the_finder_gives_it(
    nursery: trio.Nursery,
) -> None:
    class Careless(ScriptedFinder):
        async def find(self, query: Any, *, wants_candidates: bool = False) -> Any:
            found = await super().find(query, wants_candidates=wants_candidates)
            extra = (hit("/m/no.md"), hit("/m/q.md", trust="quarantined"))
            return type(found)(hits=extra + found.hits)

    desk = Desk(nursery, Careless(hits("a")))
    desk.start(excluded_paths=("/m/no.md",))
    await settle()
    assert names(desk.poll()) == ["a"]


async def test_R10_surfaced_documents_are_excluded_until_a_compaction(
    nursery: trio.Nursery,
) -> None:
    finder = ScriptedFinder(hits("a", "b"))
    desk = Desk(nursery, finder)
    desk.recalls.message_seen("main", "m1")
    for expected in (["a", "b"], None):
        desk.start()
        await settle()
        answer = desk.poll()
        assert (names(answer) if answer.delivery else None) == expected
    assert finder.queries[1].excluded_paths == {"/m/a.md", "/m/b.md"}
    desk.recalls.will_compact()
    desk.recalls.did_compact(lambda message: message != "m1")
    desk.start()
    await settle()
    assert names(desk.poll()) == ["a", "b"]
    desk.recalls.did_reset()
    desk.start()
    await settle()
    assert names(desk.poll()) == ["a", "b"]


# ---- replacing, cancelling, ending -----------------------------------------------------------


async def test_R2_second_query_cancels_the_first_search(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finder = ScriptedFinder(hits("a"), seconds=2)
    desk = Desk(nursery, finder)
    first = desk.start("one")
    await settle()
    second = desk.start("two")
    assert second.replaced == first.recall_id
    await settle()
    assert (finder.running, finder.cancelled) == (1, 1)
    await trio.sleep(3)
    assert desk.poll().recall_id == second.recall_id
    assert desk.ends() == [("replaced", "newQuery"), ("consumed", "delivered")]
    assert desk.poll(recall_id=first.recall_id).outcome == "none"


@pytest.mark.parametrize("ran", [True, False])
@pytest.mark.parametrize("speculative", [True, False])
async def test_50_keystrokes_leave_one_handle_and_no_task(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, ran: bool, speculative: bool
) -> None:
    finder = ScriptedFinder(hits("a"), seconds=3)
    model = ScriptedModel(seconds=10)
    desk = Desk(nursery, finder, model)
    for number in range(50):
        if number:
            params = RecallCancelParams(session_id="s", recall_id=f"k{number - 1}")
            assert desk.recalls.cancel(params)
        desk.start(recall_id=f"k{number}", speculative=speculative)
        if ran:
            await settle()
    await settle()
    statistics = desk.recalls.statistics()
    assert (statistics.ledger.live, statistics.searching, finder.running) == (1, 1, 1)
    assert desk.tasks == 2  # the last search, and the one timer
    desk.recalls.cancel(RecallCancelParams(session_id="s", recall_id="k49"))
    await settle()
    assert (desk.tasks, finder.running, model.running) == (0, 0, 0)
    assert len(desk.of(Started)) == len(desk.of(Ended)) == 50
    assert len(finder.queries) == (50 if ran else 1)


async def test_R4_abort_during_the_model_stops_it(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    model = ScriptedModel(seconds=10)
    desk = Desk(nursery, ScriptedFinder(hits("a")), model)
    desk.start(turn_id="t1")
    await settle()
    assert model.running == 1
    desk.recalls.turn_ended("main", "t1", "aborted")
    await settle()
    assert (model.running, desk.tasks) == (0, 0)
    assert desk.poll("toolResult").outcome == "none"


async def test_R4_abort_before_the_start_searches_nothing(nursery: trio.Nursery) -> None:
    finder = ScriptedFinder(hits("a"))
    desk = Desk(nursery, finder)
    desk.recalls.turn_ended("main", "t1", "aborted")
    assert desk.start(turn_id="t1").state == "cancelled"
    await settle()
    assert finder.queries == []
    assert desk.tasks == 0


async def test_D64_a_late_result_never_reaches_the_next_turn(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    class Shielded(ScriptedFinder):
        async def find(self, query: Any, *, wants_candidates: bool = False) -> Any:
            with trio.CancelScope(shield=True):
                return await super().find(query, wants_candidates=wants_candidates)

    desk = Desk(nursery, Shielded(hits("a"), seconds=5))
    desk.start(turn_id="t1")
    await settle()
    desk.recalls.turn_ended("main", "t1", "completed")
    await trio.sleep(6)
    assert desk.recalls.statistics().ledger.late == 1
    assert not desk.recalls._prepared
    assert desk.poll("userQuery").outcome == "none"
    assert desk.ends() == [("cancelled", "noSafeDeliveryPoint")]


@pytest.mark.parametrize("reason", ["sessionClosed", "shutdown"])
async def test_closing_ends_everything(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, reason: Any
) -> None:
    desk = Desk(nursery, ScriptedFinder(seconds=1e9))
    desk.start()
    desk.start(lane="sub")
    desk.start(speculative=True)
    await settle()
    desk.recalls.close(reason)
    await settle()
    assert desk.tasks == 0
    assert desk.ends() == [("cancelled", reason)] * 3
    with pytest.raises(SessionNotFound):
        desk.start()
    desk.recalls.reopen()
    assert desk.start().state == "pending"
    nursery.cancel_scope.cancel()


async def test_R13_a_recall_nobody_polls_is_forgotten(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")))
    desk.start()
    desk.start(lane="sub")
    await trio.sleep(300)
    assert desk.tasks == 1  # one timer for both
    desk.recalls.message_seen("main", "m1")
    assert desk.poll(lane="sub").outcome == "delivered"
    await trio.sleep(301)
    assert desk.ends() == [("consumed", "delivered"), ("expired", "lifetime")]
    assert desk.tasks == 0


async def test_a_shorter_lifetime_set_later_is_kept(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")))
    desk.start()
    await trio.sleep(1)
    desk.settings = RecallSettings(lifetime_ms=5_000)
    desk.start(lane="sub")
    await trio.sleep(6)
    assert [one.lane for one in desk.of(Ended)] == ["sub"]
    assert desk.recalls.live() is not None
    await trio.sleep(600)
    assert desk.recalls.live() is None
    assert desk.tasks == 0


async def test_D34_starts_that_nobody_polls_leave_nothing(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """10^4 here; the full million is a benchmark."""
    finder = ScriptedFinder(hits("a"))
    desk = Desk(nursery, finder, on_event=lambda event: None)

    async def storm(count: int) -> int:
        for number in range(count):
            desk.start(turn_id=f"t{number}", lane=f"l{number % 8}")
            if number % 8 == 0:
                await trio.lowlevel.checkpoint()
        await trio.sleep(601)
        finder.queries.clear()
        finder.wanted.clear()
        gc.collect()
        return len(gc.get_objects())

    base = await storm(1_000)
    after = await storm(10_000)
    assert after <= base * 1.05
    assert desk.tasks == 0
    statistics = desk.recalls.statistics()
    assert (statistics.ledger.live, statistics.searching, statistics.waiting) == (0, 0, 0)
    assert statistics.ledger.started == statistics.ledger.ended == 11_000
    assert not desk.recalls._prepared
    assert not desk.recalls._waiters


# ---- waiting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("find_s", "model_s", "wait_ms", "outcome", "after_s"),
    [
        (0.02, None, 100, "delivered", 0.02),
        (5.0, None, 100, "pending", 0.1),
        (5.0, None, 99_999, "pending", 2.0),
        (0.02, 5.0, 100, "delivered", 0.02),
        (5.0, None, 0, "pending", 0.0),
    ],
    ids=["settled", "time over", "capped at 2 s", "fast ready", "no wait"],
)
async def test_R16_a_waiting_poll_ends_at_whatever_comes_first(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    find_s: float,
    model_s: float | None,
    wait_ms: int,
    outcome: str,
    after_s: float,
) -> None:
    model = None if model_s is None else ScriptedModel(seconds=model_s)
    desk = Desk(nursery, ScriptedFinder(hits("a"), seconds=find_s), model)
    began = trio.current_time()
    answer = await desk.start_and_wait(wait_ms=wait_ms)
    assert trio.current_time() - began == pytest.approx(after_s)
    if wait_ms == 0:
        assert answer.poll is None
    else:
        assert answer.poll is not None
        assert answer.poll.outcome == outcome
        assert answer.state == ("consumed" if answer.poll.stage == "refined" else "pending")
    assert desk.recalls.statistics().waiting == 0
    desk.recalls.close("shutdown")


@pytest.mark.parametrize("how", ["turn", "cancel", "replaced", "reset", "closed", "lifetime"])
async def test_a_waiting_poll_ends_with_its_recall(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, how: str
) -> None:
    desk = Desk(nursery, ScriptedFinder(seconds=1e9), lifetime_ms=1_000)
    answers: list[RecallPollResult] = []
    recall = desk.start(turn_id="t1").recall_id

    async def wait() -> None:
        answers.append(await desk.wait(2_000, "toolResult"))

    nursery.start_soon(wait)
    await trio.sleep(0.5)
    assert desk.recalls.statistics().waiting == 1
    began = trio.current_time()
    if how == "turn":
        desk.recalls.turn_ended("main", "t1", "error")
    elif how == "cancel":
        desk.recalls.cancel(RecallCancelParams(session_id="s"))
    elif how == "replaced":
        desk.start()
    elif how == "reset":
        desk.recalls.did_reset()
    elif how == "closed":
        desk.recalls.close("sessionClosed")
    else:
        await trio.sleep(0.6)
    await settle()
    assert trio.current_time() - began == pytest.approx(0.6 if how == "lifetime" else 0)
    (answer,) = answers
    assert answer.outcome == "none"
    assert answer.ended is not None
    assert answer.ended.recall_id == recall
    desk.recalls.close("shutdown")


async def test_two_polls_race_for_one_result(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a"), seconds=0.5))
    desk.start()
    answers: list[RecallPollResult] = []

    async def wait() -> None:
        answers.append(await desk.wait(1_000))

    async with trio.open_nursery() as racers:
        for _ in range(8):
            racers.start_soon(wait)
    assert sorted(one.outcome for one in answers) == ["delivered"] + ["none"] * 7


async def test_a_fast_stage_already_sent_does_not_end_a_wait(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a", "b", "c")), ScriptedModel('["m3"]', seconds=1))
    desk.start()
    await settle()
    assert desk.poll().stage == "fast"
    began = trio.current_time()
    answer = await desk.wait(2_000, "toolResult")
    assert names(answer) == ["c"]
    assert trio.current_time() - began == pytest.approx(1)


async def test_cancelled_wait_takes_nothing_and_the_recall_lives_on(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """R3: the owner of the search is the handle, not the request."""
    desk = Desk(nursery, ScriptedFinder(hits("a"), seconds=1))
    with trio.move_on_after(0.1) as scope:
        await desk.start_and_wait(wait_ms=2_000)
    assert scope.cancelled_caught
    assert desk.recalls.statistics().waiting == 0
    assert not desk.recalls._waiters
    await trio.sleep(1)
    assert names(desk.poll("toolResult")) == ["a"]


async def test_compaction_holds_a_waiting_poll_back_until_it_is_over(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")))
    desk.start()
    await settle()
    desk.recalls.will_compact()

    async def end() -> None:
        await trio.sleep(0.3)
        desk.recalls.did_compact(lambda message: True)

    nursery.start_soon(end)
    began = trio.current_time()
    assert names(await desk.wait(1_000)) == ["a"]
    assert trio.current_time() - began == pytest.approx(0.3)


async def test_waiting_start_that_is_replaced_answers_none(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(seconds=1e9))
    answers: list[RecallStartResult] = []

    async def wait() -> None:
        answers.append(await desk.start_and_wait(wait_ms=2_000))

    nursery.start_soon(wait)
    await settle()
    for _ in range(40):  # so often that even its tombstone is gone
        desk.start()
    await settle()
    (answer,) = answers
    assert answer.poll is not None
    assert answer.poll.outcome == "none"
    desk.recalls.close("shutdown")


async def test_the_same_token_side_by_side_gets_the_same_answer(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finder = ScriptedFinder(hits("a"), seconds=0.2)
    desk = Desk(nursery, finder)
    answers: list[RecallStartResult] = []

    async def ask(after: float) -> None:
        await trio.sleep(after)
        answers.append(await desk.start_and_wait(wait_ms=1_000, poll_token="p1"))

    async with trio.open_nursery() as hooks:
        for after in (0.0, 0.1, 0.5):  # first, while it waits, after it
            hooks.start_soon(ask, after)
    assert len(finder.queries) == 1
    assert answers[0].poll is not None
    assert answers[0].poll.outcome == "delivered"
    assert answers[1] is answers[0]
    assert answers[2] is answers[0]
    again = await desk.wait(1_000, poll_token="p1")
    assert again is answers[0].poll


# ---- acknowledgements, speculation, peeking --------------------------------------------------


async def test_refused_delivery_wakes_whoever_waits(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")), acknowledged=True)
    desk.start()
    await settle()
    first = desk.poll()
    assert first.delivery is not None

    async def refuse() -> None:
        assert first.delivery is not None
        await trio.sleep(0.3)
        assert desk.recalls.acknowledge(first.delivery.delivery_id, False)

    nursery.start_soon(refuse)
    began = trio.current_time()
    second = await desk.wait(1_000)
    assert trio.current_time() - began == pytest.approx(0.3)
    assert names(second) == ["a"]
    assert second.delivery is not None
    assert second.delivery.text != first.delivery.text  # a fence of its own
    assert desk.recalls.acknowledge(second.delivery.delivery_id, True)
    assert not desk.recalls.acknowledge("unknown", True)
    assert desk.ends() == [("consumed", "delivered")]


async def test_speculative_recall_asks_no_model_and_surfaces_nothing(
    nursery: trio.Nursery,
) -> None:
    finder = ScriptedFinder((hit("/m/a.md", 0.9), hit("/m/b.md", 0.3), hit("/m/c.md", 0.8)))
    model = ScriptedModel(seconds=1e9)
    desk = Desk(nursery, finder, model)
    turn = desk.start()
    await settle()
    typed = await desk.start_and_wait(speculative=True, wait_ms=500)
    assert typed.poll is not None
    assert (typed.poll.stage, names(typed.poll)) == ("fast", ["a"])
    assert typed.poll.delivery is not None
    assert typed.poll.delivery.strategy == "fast"
    assert len(model.requests) == 1
    assert finder.wanted == [True, False]
    live = desk.recalls.live()
    assert live is not None
    assert (live.recall_id, live.fast_ready) == (turn.recall_id, True)
    assert names(desk.poll()) == ["a", "c"]
    desk.recalls.close("shutdown")


async def test_R16_a_fast_stage_with_nothing_ends_the_wait_at_the_prompt(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    finder = ScriptedFinder((hit("/m/a.md", 0.1),), seconds=0.01)
    desk = Desk(nursery, finder, ScriptedModel(seconds=1.0))
    began = trio.current_time()
    answer = await desk.start_and_wait(wait_ms=500)
    assert answer.poll is not None
    assert answer.poll.outcome == "pending"
    assert trio.current_time() - began == pytest.approx(0.01)
    taken = await desk.wait(2_000, point="toolResult")
    assert names(taken) == ["a"]
    assert trio.current_time() - began == pytest.approx(1.01)


async def test_failing_speculative_search_is_empty(nursery: trio.Nursery) -> None:
    desk = Desk(nursery, ScriptedFinder(error=OSError()))
    with capture_logs():
        recall = desk.start(speculative=True).recall_id
        await settle()
    assert desk.poll(recall_id=recall).outcome == "empty"


async def test_an_observer_peeks_and_takes_nothing(nursery: trio.Nursery) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")))
    desk.start()
    await settle()
    peek = RecallPeekParams(session_id="s")
    assert names(desk.recalls.peek(peek)) == ["a"]
    assert names(desk.recalls.peek(peek)) == ["a"]
    assert names(desk.poll()) == ["a"]
    assert desk.recalls.peek(peek).outcome == "none"


async def test_R15_a_delivery_never_changes_once_made(nursery: trio.Nursery) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a")))
    desk.start()
    await settle()
    first = desk.poll(poll_token="p")
    desk.wall += 40 * DAY
    assert desk.poll(poll_token="p") is first
    with pytest.raises(AttributeError):
        first.delivery.text = "changed"  # type: ignore[union-attr, misc]


async def test_unknown_recall_is_an_error(nursery: trio.Nursery) -> None:
    desk = Desk(nursery, ScriptedFinder())
    with pytest.raises(RecallNotFound):
        desk.poll(recall_id="never")
    with pytest.raises(RecallNotFound):
        await desk.wait(100, recall_id="never")


async def test_I31_same_ids_same_trace() -> None:
    traces = []
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            desk = Desk(nursery, ScriptedFinder(hits("a", "b")), ScriptedModel('["m2"]'))
            desk.start()
            await settle()
            desk.events = [one for one in desk.events if not isinstance(one, Settled)]
            answer = desk.poll()
            traces.append(repr(answer))
            desk.recalls.close("shutdown")
    assert traces[0] == traces[1]


def test_ids_are_16_hex_digits() -> None:
    assert len(random_hex()) == 16
    assert random_hex() != random_hex()


async def test_a_model_answer_may_come_from_anywhere(nursery: trio.Nursery) -> None:
    async def last(request: Any) -> ModelGenerateResult:
        entries = [line for line in request.messages[1].text.splitlines() if line[:1] == "m"]
        return ModelGenerateResult(text=f'{{"ids": ["m{len(entries)}"]}}')

    desk = Desk(nursery, ScriptedFinder(hits("a", "b", "c")), ScriptedModel(answer=last))
    desk.start()
    await settle()
    assert names(desk.poll()) == ["c"]
