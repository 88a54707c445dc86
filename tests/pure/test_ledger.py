"""The ledger's truth table, every row of recall.md §4, and its bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, get_args

import pytest
from attrs import asdict, evolve

from oncue.recall.events import (
    Delivered,
    Ended,
    FastReady,
    Output,
    Settled,
    Started,
    StartSearch,
    StopSearch,
)
from oncue.recall.gates import cut_query, query_has
from oncue.recall.lanes import Handle
from oncue.recall.ledger import Ledger
from oncue.recall.moves import Moves
from oncue.recall.transitions import SHOWN, TRANSITIONS, Move, State
from oncue.settings import MAX_QUERY_CHARACTERS, RecallSettings
from oncue_protocol import (
    LimitExceeded,
    RecallCancelParams,
    RecallEndReason,
    RecallNotFound,
    RecallPollParams,
    RecallPollResult,
    RecallStartParams,
    RecallStartResult,
    SessionNotFound,
    TurnEndReason,
)
from recall_doubles import hits, plain_pack

SETTINGS = RecallSettings()


class Book:
    """A ledger with its clock and all it said."""

    def __init__(self, settings: RecallSettings = SETTINGS, *, acknowledged: bool = False) -> None:
        self.ledger = Ledger(plain_pack())
        self.settings = settings
        self.acknowledged = acknowledged
        self.now = 100.0
        self.said: list[Output] = []
        self._ids = itertools.count(1)

    def start(self, query: str = "how do we deploy?", **members: Any) -> RecallStartResult:
        params = RecallStartParams(session_id="s", query=query, **members)
        answer, out = self.ledger.start(
            params,
            new_id=f"r{next(self._ids)}",
            settings=self.settings,
            now=self.now,
            acknowledged=self.acknowledged,
        )
        self.said += out
        return answer

    def poll(self, point: Any = "userQuery", **members: Any) -> RecallPollResult:
        params = RecallPollParams(session_id="s", point=point, **members)
        answer, out = self.ledger.poll(params, self.now)
        self.said += out
        return answer

    def fast(self, recall_id: str, *names: str) -> None:
        self.said += self.ledger.fast_ready(recall_id, hits(*names), self.now)

    def fast_sent(self, recall_id: str, *names: str) -> None:
        self.fast(recall_id, *names)
        self.poll()

    def settle(self, recall_id: str, *names: str, strategy: Any = "ranked") -> None:
        self.said += self.ledger.settled(recall_id, hits(*names), strategy, self.now)

    def cancel(self, **members: Any) -> bool:
        params = RecallCancelParams(session_id="s", **members)
        cancelled, out = self.ledger.cancel(params, self.now)
        self.said += out
        return cancelled

    def turn_ended(self, reason: TurnEndReason, turn_id: str | None = None) -> None:
        self.said += self.ledger.turn_ended("main", turn_id, reason, self.now)

    def acknowledge(self, delivery_id: str, accepted: bool) -> bool:
        known, out = self.ledger.acknowledge(delivery_id, accepted, self.now)
        self.said += out
        return known

    def of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.said if isinstance(one, kind)]

    def ended(self, recall_id: str) -> Ended:
        (one,) = [one for one in self.of(Ended) if one.recall_id == recall_id]
        assert isinstance(one, Ended)
        return one


def paths(answer: RecallPollResult) -> list[str]:
    assert answer.delivery is not None
    return [one.path for one in answer.delivery.documents]


# ---- the table of transitions ----------------------------------------------------------------


def test_I10_every_state_and_move_is_in_the_table_and_ends_are_final() -> None:
    assert set(TRANSITIONS) == set(get_args(State)) == set(SHOWN)
    moves = set(get_args(Move))
    for state, row in TRANSITIONS.items():
        assert set(row) <= moves
        assert set(row.values()) <= set(TRANSITIONS)
        if state in ("consumed", "cancelled", "replaced", "expired"):
            assert not row
        else:
            ends = (row["cancel"], row["replace"], row["expire"])
            assert ends == ("cancelled", "replaced", "expired")


def handle_in(state: State) -> Handle:
    return Handle(
        recall_id="r1",
        lane="main",
        turn_id=None,
        speculative=False,
        acknowledged=False,
        settings=SETTINGS,
        limit=5,
        started=0.0,
        polled=0.0,
        state=state,
    )


@pytest.mark.parametrize("move", get_args(Move))
@pytest.mark.parametrize("state", get_args(State))
def test_I10_an_illegal_move_changes_nothing(state: State, move: Move) -> None:
    moves = Moves(plain_pack())
    handle = handle_in(state)
    before = asdict(handle, recurse=False)
    target = TRANSITIONS[state].get(move)
    assert moves._move(handle, move) is (target is not None)
    assert handle.state == (target or state)
    if target is None:
        assert asdict(handle, recurse=False) == before
        assert moves._illegal == 1
        out: list[Output] = []
        assert moves._end(handle, move, "client", 1.0, out) is False
        assert out == []


# ---- the truth table of §2 -------------------------------------------------------------------


@pytest.mark.parametrize("point", ["userQuery", "toolResult"])
@pytest.mark.parametrize("fast", ["not ready", "ready", "sent"])
@pytest.mark.parametrize("settled", [None, (), ("a",), ("a", "b"), ("c", "d")])
def test_R7_R8_truth_table(settled: tuple[str, ...] | None, fast: str, point: str) -> None:
    book = Book()
    recall = book.start().recall_id
    if fast != "not ready":
        book.fast(recall, "a")
    if fast == "sent":
        assert book.poll().stage == "fast"
    if settled is not None:
        book.settle(recall, *settled)
    before = len(book.said)
    answer = book.poll(point)
    live = book.ledger.live("main", book.now)
    assert answer.recall_id == recall

    if settled is None:
        assert live is not None
        if fast == "ready":
            assert (answer.outcome, answer.stage) == ("delivered", "fast")
            assert paths(answer) == ["/m/a.md"]
        else:
            assert answer.outcome == "pending"
            assert len(book.said) == before
    else:
        assert live is None
        left = [name for name in settled if not (fast == "sent" and name == "a")]
        if left:
            assert (answer.outcome, answer.stage) == ("delivered", "refined")
            assert paths(answer) == [f"/m/{name}.md" for name in left]
        else:
            assert answer.outcome == "empty"
            reason = "alreadyDelivered" if fast == "sent" else "nothingFound"
            assert answer.ended is not None
            assert answer.ended.reason == book.ended(recall).reason == reason
        again = book.poll(point)
        assert again.outcome == "none"
        assert again.ended is not None
        assert (again.ended.recall_id, again.ended.state) == (recall, "consumed")
    if answer.delivery is not None:
        assert answer.delivery.placement == {"userQuery": "prepend", "toolResult": "append"}[point]


def test_R9_taking_clears_the_handle_and_marks_what_surfaced_in_one_step() -> None:
    book = Book()
    recall = book.start().recall_id
    book.settle(recall, "a", "b")
    book.poll("toolResult")
    assert book.ledger.surfaced() == {"/m/a.md", "/m/b.md"}
    assert book.ledger.live("main", book.now) is None
    book.start()
    assert book.of(StartSearch)[-1].excluded_paths == {"/m/a.md", "/m/b.md"}


def test_R12_terminal_event_says_stage_point_strategy_documents_and_latency() -> None:
    book = Book()
    recall = book.start().recall_id
    book.fast(recall, "a")
    book.poll("userQuery")
    book.now += 2.5
    book.settle(recall, "a", "b", "c", strategy="model")
    book.now += 0.5
    book.poll("toolResult")
    assert book.ended(recall) == Ended(
        lane="main",
        recall_id=recall,
        state="consumed",
        reason="delivered",
        stage="refined",
        point="toolResult",
        strategy="model",
        documents=3,
        latency_ms=3000,
    )
    assert [one.latency_ms for one in book.of(FastReady) + book.of(Settled)] == [0, 2500]
    assert [one.stage for one in book.of(Delivered)] == ["fast", "refined"]


# ---- every way a recall ends (§4) ------------------------------------------------------------

STAGES: dict[str, Callable[[Book, str], None]] = {
    "searching": lambda book, recall: None,
    "fast ready": lambda book, recall: book.fast(recall, "a"),
    "fast sent": lambda book, recall: book.fast_sent(recall, "a"),
    "settled": lambda book, recall: book.settle(recall, "a", "b"),
}

WAYS: list[tuple[str, Callable[[Book], None], str, set[RecallEndReason]]] = [
    ("newQuery", lambda book: (book.start(turn_id="t2"), None)[-1], "replaced", {"newQuery"}),
    ("client", lambda book: (book.cancel(), None)[-1], "cancelled", {"client"}),
    ("aborted", lambda book: book.turn_ended("aborted", "t1"), "cancelled", {"abort"}),
    *(
        (reason, lambda book, reason=reason: book.turn_ended(reason), "cancelled", {end})
        for reason, end in (
            ("maxSessionTurns", "noSafeDeliveryPoint"),
            ("turnBudgetExhausted", "noSafeDeliveryPoint"),
            ("sessionTokenLimit", "noSafeDeliveryPoint"),
            ("loopDetected", "noSafeDeliveryPoint"),
            ("error", "noSafeDeliveryPoint"),
            ("controlSignal", "controlSignal"),
        )
    ),
    (
        "completed",
        lambda book: book.turn_ended("completed", "t1"),
        "cancelled",
        {"noSafeDeliveryPoint", "alreadyDelivered"},
    ),
    (
        "reset",
        lambda book: book.said.extend(book.ledger.did_reset(book.now)),
        "cancelled",
        {"reset"},
    ),
    (
        "sessionClosed",
        lambda book: book.said.extend(book.ledger.close("sessionClosed", book.now)),
        "cancelled",
        {"sessionClosed"},
    ),
    (
        "shutdown",
        lambda book: book.said.extend(book.ledger.close("shutdown", book.now)),
        "cancelled",
        {"shutdown"},
    ),
    (
        "lifetime",
        lambda book: book.said.extend(book.ledger.expire(book.now + 600)),
        "expired",
        {"lifetime"},
    ),
]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("name", "way", "state", "reasons"), WAYS, ids=[way[0] for way in WAYS])
def test_R11_D63_every_way_out_ends_the_recall_and_stops_its_search(
    stage: str, name: str, way: Callable[[Book], None], state: str, reasons: set[str]
) -> None:
    book = Book()
    recall = book.start(turn_id="t1").recall_id
    STAGES[stage](book, recall)
    way(book)
    ended = book.ended(recall)
    assert ended.state == state
    assert ended.reason in reasons
    if name == "completed":
        expected = "alreadyDelivered" if stage == "fast sent" else "noSafeDeliveryPoint"
        assert ended.reason == expected
    stops = [one.recall_id for one in book.of(StopSearch)]
    assert stops == ([] if stage == "settled" else [recall])
    assert ended.documents == (1 if stage == "fast sent" else 0)
    # D64, I13: a late report changes nothing, and the next turn gets nothing of it.
    before = len(book.said)
    book.fast(recall, "x")
    book.settle(recall, "x")
    assert len(book.said) == before
    assert book.ledger.statistics().late == 2
    answer = book.poll(recall_id=recall)
    assert (answer.outcome, answer.delivery) == ("none", None)
    assert answer.ended is not None
    assert (answer.ended.state, answer.ended.reason) == (state, ended.reason)


def test_R11_a_turn_end_for_another_turn_leaves_the_recall_alone() -> None:
    book = Book()
    book.start(turn_id="t2")
    book.turn_ended("aborted", "t1")
    assert book.ledger.live("main", book.now) is not None
    book.turn_ended("completed", None)
    assert book.ledger.live("main", book.now) is None


def test_R11_a_recall_without_a_turn_id_ends_with_whatever_turn_ends() -> None:
    book = Book()
    recall = book.start().recall_id
    book.turn_ended("completed", "t9")
    assert book.ended(recall).state == "cancelled"


def test_R2_I12_replacing_stops_the_older_search_before_the_new_one_starts() -> None:
    book = Book()
    first = book.start()
    second = book.start()
    assert second.replaced == first.recall_id
    kinds = [type(one) for one in book.said]
    assert kinds == [Started, StartSearch, StopSearch, Ended, Started, StartSearch]


def test_R4_abort_that_came_before_the_start_makes_a_cancelled_handle() -> None:
    book = Book()
    book.turn_ended("aborted", "t1")
    answer = book.start(turn_id="t1")
    assert answer.state == "cancelled"
    assert book.ended(answer.recall_id).reason == "abort"
    assert not book.of(StartSearch)
    assert book.start(turn_id="t2").state == "pending"


def test_R4_abort_of_a_turn_whose_recall_is_over_is_not_remembered() -> None:
    book = Book()
    recall = book.start(turn_id="t1").recall_id
    book.settle(recall, "a")
    book.poll()
    book.turn_ended("aborted", "t1")
    assert book.start(turn_id="t1").state == "pending"


def test_R4_cancel_overtakes_its_start() -> None:
    book = Book()
    assert book.cancel(recall_id="mine") is False
    answer = book.start(recall_id="mine")
    assert (answer.recall_id, answer.state) == ("mine", "cancelled")
    assert book.ended("mine").reason == "client"
    assert book.poll(recall_id="mine").outcome == "none"


def test_R4_an_early_abort_or_cancel_counts_once() -> None:
    book = Book()
    book.turn_ended("aborted", "t1")
    assert book.start(turn_id="t1").state == "cancelled"
    assert book.start(turn_id="t1").state == "pending"
    book.cancel(recall_id="c")
    assert book.start(recall_id="c").state == "cancelled"
    for _ in range(33):  # even its tombstone is gone
        book.start()
    assert book.start(recall_id="c").state == "pending"


def test_R4_a_reset_forgets_early_aborts() -> None:
    book = Book()
    book.turn_ended("aborted", "t1")
    book.said += book.ledger.did_reset(book.now)
    assert book.start(turn_id="t1").state == "pending"


def test_completed_turn_that_leaves_refined_documents_had_no_safe_point() -> None:
    for left, reason in (("ab", "noSafeDeliveryPoint"), ("a", "alreadyDelivered")):
        book = Book()
        recall = book.start().recall_id
        book.fast(recall, "a")
        book.poll()
        book.settle(recall, *left)
        book.turn_ended("completed")
        assert book.ended(recall).reason == reason


def test_R4_early_cancels_are_32() -> None:
    book = Book()
    for number in range(33):
        book.cancel(recall_id=f"c{number}")
    assert book.start(recall_id="c0").state == "pending"
    assert book.start(recall_id="c1").state == "cancelled"


# ---- lanes and speculation -------------------------------------------------------------------


def test_lanes_are_independent() -> None:
    book = Book()
    main = book.start().recall_id
    sub = book.start(lane="sub").recall_id
    book.settle(main, "a")
    book.settle(sub, "a")
    assert paths(book.poll()) == ["/m/a.md"]
    assert paths(book.poll(lane="sub")) == ["/m/a.md"]
    with pytest.raises(RecallNotFound):
        book.poll(lane="sub", recall_id=main)


def test_T4_the_33rd_lane_is_refused_with_its_figures() -> None:
    book = Book()
    for number in range(31):
        book.start(lane=f"l{number}")
    said = len(book.said)
    with pytest.raises(LimitExceeded) as caught:
        book.start(lane="one more")
    assert caught.value.detail == {"limit": "lanes", "value": 32, "sent": 33}
    assert len(book.said) == said
    assert book.start(lane="l3").replaced is not None
    assert book.start().state == "pending"  # the place of the main line was kept


def test_an_idle_lane_makes_room_after_ten_minutes_but_main_never_does() -> None:
    book = Book()
    for lane in ["main", *(f"l{number}" for number in range(31))]:
        book.settle(book.start(lane=lane).recall_id, "a")
        book.poll(lane=lane)
    with pytest.raises(LimitExceeded):
        book.start(lane="new")
    book.now += 600
    book.start(lane="new")
    assert book.ledger.surfaced("main") == {"/m/a.md"}
    assert book.ledger.surfaced("l0") == frozenset()
    assert book.ledger.surfaced("l1") == {"/m/a.md"}


@pytest.mark.parametrize("use", ["start", "poll"])
def test_a_lane_in_use_makes_no_room(use: str) -> None:
    book = Book()
    for number in range(31):
        book.settle(book.start(lane=f"l{number}").recall_id, "a")
        book.poll(lane=f"l{number}")
    book.now += 599
    for number in range(30):
        if use == "start":
            book.settle(book.start(lane=f"l{number}").recall_id)
        book.poll(lane=f"l{number}")
    book.now += 1
    book.start(lane="new")  # in place of the 31st
    with pytest.raises(LimitExceeded):
        book.start(lane="one more")
    assert book.ledger.surfaced("l0") == {"/m/a.md"}


def test_a_lane_that_only_had_messages_makes_room_at_once() -> None:
    book = Book()
    for number in range(40):
        book.ledger.message_seen(f"l{number}", "m")
    assert book.ledger.statistics().lanes == 32
    assert book.start(lane="new").state == "pending"


def test_speculative_recall_never_touches_the_turn() -> None:
    book = Book()
    turn = book.start().recall_id
    first = book.start(speculative=True)
    second = book.start(speculative=True)
    assert first.replaced is None
    assert second.replaced == first.recall_id
    assert book.ended(first.recall_id).reason == "newQuery"
    assert book.of(StartSearch)[-1].speculative
    book.fast(second.recall_id, "a")  # a speculative search knows one report only
    book.settle(second.recall_id, "a", "b", "c", strategy="fast")
    answer = book.poll(recall_id=second.recall_id)
    assert (answer.outcome, answer.stage) == ("delivered", "fast")
    assert len(paths(answer)) == 2
    assert book.ledger.surfaced() == frozenset()
    live = book.ledger.live("main", book.now)
    assert live is not None
    assert live.recall_id == turn
    book.turn_ended("completed")
    assert book.poll().ended == book.poll(recall_id=turn).ended


def test_speculative_without_a_fast_stage_finds_nothing() -> None:
    book = Book(RecallSettings(fast_documents=0))
    answer = book.start(speculative=True)
    assert answer.state == "settled"
    assert book.poll(recall_id=answer.recall_id).outcome == "empty"


def test_cancel_without_a_name_takes_the_turns_recall_else_the_speculative_one() -> None:
    book = Book()
    typed = book.start(speculative=True).recall_id
    turn = book.start().recall_id
    assert book.cancel() is True
    assert book.ended(turn).reason == "client"
    assert book.cancel() is True
    assert book.ended(typed).reason == "client"
    assert book.cancel() is False
    assert book.cancel(lane="nowhere") is False


# ---- acknowledgements ------------------------------------------------------------------------


def test_acknowledged_delivery_is_offered_until_accepted() -> None:
    book = Book(acknowledged=True)
    recall = book.start().recall_id
    book.settle(recall, "a")
    answer = book.poll()
    assert answer.delivery is not None
    assert not book.of(Ended)
    assert not book.of(Delivered)
    assert book.ledger.surfaced() == frozenset()
    assert book.poll().outcome == "pending"
    live = book.ledger.live("main", book.now)
    assert live is not None
    assert live.state == "offered"
    assert book.acknowledge(answer.delivery.delivery_id, True)
    assert book.ended(recall).reason == "delivered"
    assert book.ledger.surfaced() == {"/m/a.md"}
    assert not book.acknowledge(answer.delivery.delivery_id, True)
    assert book.poll().outcome == "none"


def test_refused_delivery_is_settled_again() -> None:
    book = Book(acknowledged=True)
    recall = book.start().recall_id
    book.settle(recall, "a")
    first = book.poll()
    assert first.delivery is not None
    assert book.acknowledge(first.delivery.delivery_id, False)
    live = book.ledger.live("main", book.now)
    assert live is not None
    assert live.state == "settled"
    second = book.poll("toolResult")
    assert second.delivery is not None
    assert second.delivery.delivery_id != first.delivery.delivery_id
    assert paths(second) == paths(first)


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("settles", ["never", "while offered", "after"])
def test_acknowledged_fast_stage(accepted: bool, settles: str) -> None:
    book = Book(acknowledged=True)
    recall = book.start().recall_id
    book.fast(recall, "a")
    fast = book.poll()
    assert fast.stage == "fast"
    assert fast.delivery is not None
    assert book.poll().outcome == "pending"
    if settles == "while offered":
        book.settle(recall, "a", "b")
        assert book.poll("toolResult").outcome == "pending"
    assert book.acknowledge(fast.delivery.delivery_id, accepted)
    if settles == "after":
        book.settle(recall, "a", "b")
    answer = book.poll("toolResult")
    if settles == "never":
        assert answer.outcome == ("pending" if accepted else "delivered")
        assert answer.stage == (None if accepted else "fast")
    else:
        assert answer.stage == "refined"
        assert paths(answer) == (["/m/b.md"] if accepted else ["/m/a.md", "/m/b.md"])


def test_turn_end_without_a_word_cancels_and_surfaces_nothing() -> None:
    book = Book(acknowledged=True)
    recall = book.start(turn_id="t1").recall_id
    book.settle(recall, "a")
    answer = book.poll()
    book.turn_ended("completed", "t1")
    assert book.ended(recall).state == "cancelled"
    assert book.ended(recall).documents == 0
    assert answer.delivery is not None
    assert not book.acknowledge(answer.delivery.delivery_id, True)
    assert book.ledger.surfaced() == frozenset()
    book.start(turn_id="t2")
    assert book.of(StartSearch)[-1].excluded_paths == frozenset()


# ---- what the conversation does --------------------------------------------------------------


def test_R10_compaction_forgets_what_went_with_messages_that_are_gone() -> None:
    book = Book()
    for message, name in (("m1", "a"), ("m2", "b")):
        book.ledger.message_seen("main", message)
        book.settle(book.start().recall_id, name)
        book.poll()
    book.ledger.did_compact(lambda message: message == "m2")
    assert book.ledger.surfaced() == {"/m/b.md"}
    book.said += book.ledger.did_reset(book.now)
    assert book.ledger.surfaced() == frozenset()


def test_R10_what_went_with_no_known_message_is_gone_with_a_compaction() -> None:
    book = Book()
    book.settle(book.start().recall_id, "a")
    book.poll()
    book.ledger.did_compact(lambda message: True)
    assert book.ledger.surfaced() == frozenset()


def test_R10_fast_sent_documents_may_come_again_after_a_compaction() -> None:
    book = Book()
    recall = book.start().recall_id
    book.fast(recall, "a")
    book.poll()
    book.ledger.will_compact()
    book.ledger.did_compact(lambda message: False)
    assert book.poll().outcome == "pending"  # a stage goes out once, all the same (I11)
    book.settle(recall, "a", "b")
    assert paths(book.poll("toolResult")) == ["/m/a.md", "/m/b.md"]


def test_R10_after_a_reset_no_message_is_known() -> None:
    book = Book()
    book.ledger.message_seen("main", "m1")
    book.said += book.ledger.did_reset(book.now)
    book.settle(book.start().recall_id, "a")
    book.poll()
    book.ledger.did_compact(lambda message: message == "m1")
    assert book.ledger.surfaced() == frozenset()


@pytest.mark.parametrize("end", ["didCompact", "didReset", "next turn"])
def test_R10_no_delivery_between_willCompact_and_its_end(end: str) -> None:
    book = Book()
    recall = book.start().recall_id
    book.settle(recall, "a")
    book.ledger.will_compact()
    assert book.poll().outcome == "pending"
    assert book.ledger.peek("main", book.now).outcome == "pending"
    book.start(speculative=True)  # no turn
    assert book.poll().outcome == "pending"
    if end == "didCompact":
        book.ledger.did_compact(lambda message: True)
        assert book.poll().outcome == "delivered"
    elif end == "didReset":
        book.said += book.ledger.did_reset(book.now)
        assert book.poll().outcome == "none"
    else:
        book.settle(book.start().recall_id, "a")
        assert book.poll().outcome == "delivered"


def test_R10_an_offer_that_was_compacted_away_surfaces_nothing() -> None:
    book = Book(acknowledged=True)
    book.ledger.message_seen("main", "m1")
    recall = book.start().recall_id
    book.settle(recall, "a")
    answer = book.poll()
    book.ledger.did_compact(lambda message: False)
    assert answer.delivery is not None
    assert book.acknowledge(answer.delivery.delivery_id, True)
    assert book.ended(recall).documents == 1
    assert book.ledger.surfaced() == frozenset()


def test_R13_lifetime_counts_from_the_last_poll() -> None:
    book = Book()
    recall = book.start().recall_id
    book.now += 599
    assert book.poll().outcome == "pending"
    assert book.ledger.next_expiry() == book.now + 600
    book.now += 599
    assert book.ledger.expire(book.now) == []
    book.now += 2
    assert book.ledger.live("main", book.now) is None
    assert book.ledger.peek("main", book.now).outcome == "none"
    answer = book.poll()  # the timer has not fired yet
    assert answer.outcome == "none"
    assert answer.ended is not None
    assert (answer.ended.state, answer.ended.reason) == ("expired", "lifetime")
    assert book.ended(recall).state == "expired"
    assert book.ledger.next_expiry() is None


# ---- asking again ----------------------------------------------------------------------------


def test_the_same_poll_token_gets_the_identical_answer() -> None:
    book = Book()
    recall = book.start().recall_id
    pending = book.poll(poll_token="p0")
    book.settle(recall, "a")
    taken = book.poll(poll_token="p1")
    assert taken.outcome == "delivered"
    assert book.poll(poll_token="p1") is taken
    assert book.poll(poll_token="p0") is pending
    assert book.poll(poll_token="p2").outcome == "none"


def test_poll_tokens_are_64_and_a_reset_forgets_them() -> None:
    book = Book()
    first = book.poll(poll_token="p0")
    for number in range(1, 64):
        book.poll(poll_token=f"p{number}")
    assert book.poll(poll_token="p0") is first
    book.poll(poll_token="p64")
    assert book.poll(poll_token="p0") is not first
    kept = book.poll(poll_token="p64")
    book.said += book.ledger.did_reset(book.now)
    assert book.poll(poll_token="p64") is not kept


def test_a_start_repeated_by_token_or_id_starts_nothing() -> None:
    book = Book()
    first = book.start(poll_token="t")
    assert book.start(poll_token="t") is first
    named = book.start(recall_id="mine")
    assert book.start(recall_id="mine") == evolve(named, replaced=None)
    book.settle("mine", "a")
    assert book.start(recall_id="mine").state == "settled"
    book.poll()
    assert book.start(recall_id="mine").state == "consumed"
    assert len(book.of(StartSearch)) == 2


def test_recall_never_started_is_not_found_and_tombstones_are_32() -> None:
    book = Book()
    with pytest.raises(RecallNotFound):
        book.poll(recall_id="never")
    first = book.start().recall_id
    for _ in range(32):
        book.start()
    assert book.poll(recall_id=first).outcome == "none"
    book.start()
    with pytest.raises(RecallNotFound):
        book.poll(recall_id=first)


def test_peek_takes_nothing() -> None:
    book = Book()
    assert book.ledger.peek("main", book.now).outcome == "none"
    recall = book.start().recall_id
    assert book.ledger.peek("main", book.now).outcome == "pending"
    book.fast(recall, "a")
    assert book.ledger.peek("main", book.now).stage == "fast"
    assert book.poll().stage == "fast"
    book.settle(recall, "a")
    assert book.ledger.peek("main", book.now).outcome == "empty"
    assert book.poll().outcome == "empty"
    book.settle(book.start().recall_id, "b")
    seen = book.ledger.peek("main", book.now)
    assert (seen.outcome, seen.stage) == ("delivered", "refined")
    assert book.poll().outcome == "delivered"


def test_a_closed_ledger_starts_nothing() -> None:
    book = Book()
    book.said += book.ledger.close("sessionClosed", book.now)
    with pytest.raises(SessionNotFound):
        book.start()
    assert book.poll().outcome == "none"


def test_second_reports_are_dropped() -> None:
    book = Book()
    recall = book.start().recall_id
    book.fast(recall, "a")
    book.fast(recall, "b")
    book.settle(recall, "c")
    book.settle(recall, "d")
    book.fast(recall, "e")
    assert paths(book.poll()) == ["/m/c.md"]
    assert book.ledger.statistics().late == 3


def test_R16_a_look_at_the_prompt_does_not_wait_for_a_fast_stage_that_has_nothing() -> None:
    book = Book()
    recall = book.start().recall_id
    prompt = RecallPollParams(session_id="s", point="userQuery")
    tool = RecallPollParams(session_id="s", point="toolResult")
    assert book.ledger.awaited(prompt, book.now) == recall
    book.fast(recall)  # nothing confident enough
    assert book.ledger.awaited(prompt, book.now) is None
    assert book.ledger.awaited(tool, book.now) == recall
    assert book.poll().outcome == "pending"
    book.fast(recall, "a")
    assert book.ledger.statistics().late == 1


# ---- settings --------------------------------------------------------------------------------


def test_limits_of_documents() -> None:
    book = Book()
    recall = book.start(limit=3).recall_id
    book.fast(recall, "a", "b", "c")
    assert len(paths(book.poll())) == 2
    book.settle(recall, *"abcdefg")
    assert paths(book.poll()) == ["/m/c.md"]
    book.settle(book.start().recall_id, *"hijklmn")
    assert len(paths(book.poll())) == 5
    assert book.start(limit=0).state == "pending"
    assert [one.limit for one in book.of(StartSearch)] == [3, 5, 1]


def test_excluded_paths_reach_the_search() -> None:
    book = Book()
    book.start(excluded_paths=("/m/x.md",), recent_tools=("grep",))
    (order,) = book.of(StartSearch)
    assert order.excluded_paths == {"/m/x.md"}
    assert order.recent_tools == ("grep",)


def test_switched_off_recall_is_empty_at_once() -> None:
    book = Book(RecallSettings(enabled=False))
    assert book.start().state == "settled"
    assert not book.of(StartSearch)
    assert book.poll().outcome == "empty"
    assert len(book.of(Ended)) == 1


def test_R14_session_byte_budget() -> None:
    book = Book(RecallSettings(session_byte_budget=10))
    book.settle(book.start().recall_id, "a", "b")
    assert book.poll().outcome == "delivered"  # 15 bytes by this rendering, which ignores it
    assert book.start().state == "settled"
    assert book.poll().outcome == "empty"


def test_R14_budget_that_leaves_no_room_is_not_already_delivered() -> None:
    book = Book(RecallSettings(session_byte_budget=10), acknowledged=True)
    first = book.start(lane="a").recall_id
    second = book.start(lane="b").recall_id
    book.fast(second, "d")
    book.settle(first, "a", "b")
    offered = book.poll(lane="a")
    assert offered.delivery is not None
    book.acknowledge(offered.delivery.delivery_id, True)
    assert book.poll(lane="b").outcome == "pending"
    book.settle(second, "c")
    answer = book.poll(lane="b")
    assert answer.ended is not None
    assert answer.ended.reason == "nothingFound"


@pytest.mark.parametrize(
    ("query", "minimum", "enough"),
    [
        ("", 0, True),
        ("", 1, False),
        ("ok go", 4, True),
        ("ok go", 5, False),
        ("   \u3000 \n", 1, False),
        ("部署", 8, True),
        ("部署", 9, False),
        ("デプロイ", 16, True),
        ("배포", 8, True),
        ("𠮷", 4, True),
        ("é à", 2, True),
    ],
)
def test_R14_minimum_query_characters_count_cjk_by_character(
    query: str, minimum: int, enough: bool
) -> None:
    assert query_has(query, minimum) is enough
    book = Book(RecallSettings(minimum_query_characters=minimum))
    assert book.start(query).state == ("pending" if enough else "settled")


def test_a_pasted_log_keeps_its_beginning_and_its_end() -> None:
    assert cut_query("short") == "short"
    cut = cut_query("a" * MAX_QUERY_CHARACTERS + "b" * MAX_QUERY_CHARACTERS)
    assert len(cut) == MAX_QUERY_CHARACTERS
    assert (cut[0], cut[-1]) == ("a", "b")
