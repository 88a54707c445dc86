"""wire.md §4, and the rows of §2 about cancellation and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e_driver import TEST_DAEMON, Daemon, notification, request


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


@pytest.fixture
def fresh() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


def cancel(msg_id: Any) -> dict[str, Any]:
    return notification("$/cancelRequest", {"id": msg_id})


SLOW = {
    "task": ("test/sleep", {"seconds": 30}),
    "halfInline": ("test/half", {"seconds": 30}),
    "asksTheClient": ("test/ask", {"method": "test/question", "seconds": 30}),
}


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("msg_id", [7, "7", 0, -1])
def test_I7_a_cancel_is_answered_once(daemon: Daemon, kind: str, msg_id: Any) -> None:
    method, params = SLOW[kind]
    daemon.send(request(msg_id, method, params))
    assert daemon.result("test/ping") == {"pong": ""}  # it runs by now
    daemon.send(cancel(msg_id), cancel(msg_id))
    answer = daemon.response(msg_id)
    assert (answer["id"], answer["error"]["code"]) == (msg_id, -32800)
    assert answer["error"]["data"]["name"] == "requestCancelled"
    assert daemon.result("test/ping") == {"pong": ""}
    assert daemon.frames.empty()
    daemon.notifications.clear()


def test_wire2_request_and_cancel_in_one_read(fresh: Daemon) -> None:
    fresh.send(request(1, "test/sleep", {"seconds": 30, "tag": "never"}), cancel(1))
    assert fresh.response(1)["error"]["code"] == -32800
    assert "never" not in fresh.result("test/runs")["runs"]


def test_D28_cancelled_requests_behind_a_slow_one_are_answered_and_not_executed(
    fresh: Daemon,
) -> None:
    slow = request("slow", "test/thread", {"seconds": 1.0, "tag": "slow"})
    pairs: list[dict[str, Any]] = []
    for index in range(30):
        method = ("test/sleep", "test/thread")[index % 2]
        pairs += [request(index, method, {"seconds": 30, "tag": f"r{index}"}), cancel(index)]
    fresh.send(slow, *pairs)
    for index in range(30):
        assert fresh.response(index)["error"]["code"] == -32800
    meanwhile = fresh.result("test/runs")
    assert meanwhile["late"] == 0, "all are answered while the slow one is at work"
    assert fresh.response("slow")["result"] == {"slept": 1.0}
    assert fresh.result("test/runs")["runs"] == ["slow"]
    assert fresh.frames.empty()


def test_wire4_a_result_that_is_ready_wins(daemon: Daemon) -> None:
    """A handler that finishes in spite of the cancel has not been cancelled."""
    daemon.send(request(1, "test/doneInSpite"))
    while "in spite" not in daemon.result("test/runs")["runs"]:
        pass  # its task has not begun yet
    daemon.send(cancel(1))
    assert daemon.response(1)["result"] == {"done": "in spite of it"}


def test_wire4_cancel_of_an_answered_request(daemon: Daemon) -> None:
    daemon.send(request(1, "test/ping"), cancel(1), cancel(1))
    assert "result" in daemon.response(1)
    daemon.send(cancel(1))
    daemon.send(request(1, "test/ping"))
    assert "result" in daemon.response(1)
    assert daemon.frames.empty()


def test_wire4_an_id_is_free_again_after_its_cancel(daemon: Daemon) -> None:
    daemon.send(request(1, "test/sleep", {"seconds": 30}), cancel(1))
    assert daemon.response(1)["error"]["code"] == -32800
    daemon.send(request(1, "test/ping", {"text": "again"}))
    assert daemon.response(1)["result"] == {"pong": "again"}


def test_wire4_the_cancel_of_another_type_of_id_misses(daemon: Daemon) -> None:
    daemon.send(request(1, "test/sleep", {"seconds": 0.2}), cancel("1"), cancel(1.0), cancel(True))
    assert daemon.response(1)["result"] == {"slept": 0.2}


STRANGE = [None, 1, -1, 2**70, 1.5, True, "", "unknown", [], {}, [1], {"id": 1}]


@pytest.mark.parametrize("msg_id", STRANGE)
def test_D30_strange_cancels_are_ignored(daemon: Daemon, msg_id: Any) -> None:
    daemon.send(cancel(msg_id))
    assert daemon.result("test/ping") == {"pong": ""}
    assert daemon.frames.empty()


@pytest.mark.parametrize("params", [..., None, {}, [], [1], 5, "text", {"id": None}])
def test_D30_cancels_without_an_id_are_ignored(daemon: Daemon, params: Any) -> None:
    daemon.notify("$/cancelRequest", params)
    assert daemon.result("test/ping") == {"pong": ""}
    assert daemon.frames.empty()


def test_D30_storm_of_100000_cancels(fresh: Daemon) -> None:
    fresh.send(request("kept", "test/sleep", {"seconds": 0.5}))
    storm = [cancel(STRANGE[i % len(STRANGE)] if i % 3 else i) for i in range(10_000)]
    for _ in range(10):
        fresh.send(*storm)
    assert fresh.result("test/ping", timeout=60) == {"pong": ""}
    assert fresh.response("kept")["result"] == {"slept": 0.5}
    assert fresh.frames.empty()


def test_D30_future_ids_are_not_remembered(daemon: Daemon) -> None:
    daemon.send(cancel("future"), request("future", "test/sleep", {"seconds": 0.05}))
    assert daemon.response("future")["result"] == {"slept": 0.05}


def test_wire4_fifty_pairs_in_one_write_leave_nothing_behind(fresh: Daemon) -> None:
    tasks = fresh.result("test/runs")["tasks"]
    pairs: list[dict[str, Any]] = []
    for index in range(50):
        pairs += [request(index, "test/half", {"seconds": 30}), cancel(index)]
    fresh.send(*pairs)
    codes = [fresh.response(index)["error"]["code"] for index in range(50)]
    assert codes == [-32800] * 50
    assert fresh.result("daemon/status")["counters"]["cancelled"] == 50
    assert fresh.result("test/runs")["tasks"] == tasks
    assert fresh.frames.empty()


def test_wire2_cancel_of_a_running_thread_is_answered_at_once(fresh: Daemon) -> None:
    fresh.send(request(1, "test/thread", {"seconds": 1.0, "tag": "t"}))
    while fresh.result("test/runs")["runs"] != ["t"]:
        pass
    fresh.send(cancel(1))
    assert fresh.response(1)["error"]["code"] == -32800
    assert fresh.result("test/runs")["late"] == 0, "the thread was still at work"
    while fresh.result("test/runs")["late"] == 0:
        pass
    assert fresh.result("test/ping") == {"pong": ""}
    assert fresh.frames.empty(), "its late result is dropped"


def test_wire2_stuck_threads_do_not_make_the_reader_deaf(fresh: Daemon) -> None:
    fresh.send(*(request(i, "test/thread", {"seconds": 60}) for i in range(40)))
    assert fresh.result("test/ping", {"text": "hears"}) == {"pong": "hears"}
    big = "x" * 1_000_000  # needs a thread of the reader's own
    assert fresh.result("test/ping", {"text": big}) == {"pong": big}
    fresh.send(*(cancel(i) for i in range(40)))
    assert {fresh.response(i)["error"]["code"] for i in range(40)} == {-32800}
    assert fresh.shutdown() == 0


def test_wire2_threads_answer(daemon: Daemon) -> None:
    daemon.send(*(request(i, "test/thread", {"seconds": 0.01}) for i in range(50)))
    assert all(daemon.response(i)["result"] == {"slept": 0.01} for i in range(50))
