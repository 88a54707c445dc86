"""The scenarios of recall.md §5, end to end through a spawned process.

A slow search is one whose question to the model the test has not answered yet.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from e2e_driver import notification, request
from e2e_talk import DEPLOY, OPTIONS, POSTGRES, RECALL_DAEMON, Conversation, Json, Talk, titles

FOLDERS = ("CONFIG", "DATA", "STATE", "RUNTIME")


@contextmanager
def broken_search(talk: Talk, how: str) -> Iterator[None]:
    """While the local search raises or hangs."""
    talk.result("test/search", {"how": how})
    try:
        yield
    finally:
        talk.result("test/search", {"how": "ok"})


@contextmanager
def own_daemon() -> Iterator[Conversation]:
    """A daemon whose log and tasks are looked at."""
    with Talk(RECALL_DAEMON) as talk:
        talk.initialize(OPTIONS)
        talk.remember(talk.home / "workspace")
        with talk.conversation(talk.home / "workspace") as chat:
            yield chat
        assert talk.shutdown() == 0


def warnings_of(talk: Talk) -> list[Json]:
    """What the log holds above `info`, once the process has ended."""
    return [one for one in talk.log_records() if one["level"] not in ("debug", "info")]


def test_recall5_search_done_before_the_model_is_prepared(chat: Conversation, talk: Talk) -> None:
    talk.configure(model={"provider": "none"})
    recall_id = chat.start()["recallId"]
    chat.settled(recall_id)
    answer = chat.poll("userQuery")
    assert answer["outcome"] == "delivered" and answer["stage"] == "refined"
    assert answer["delivery"]["placement"] == "prepend"
    assert answer["delivery"]["strategy"] == "ranked"
    assert chat.ended(recall_id)["reason"] == "delivered"


def test_recall5_slow_search_in_a_turn_that_uses_tools(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    assert chat.poll("userQuery") == {"outcome": "pending", "recallId": recall_id}
    talk.choose(question, "Deploy freeze", "Deploy rollback")
    chat.settled(recall_id)
    answer = chat.poll("toolResult")
    assert titles(answer) == ["Deploy freeze", "Deploy rollback"]
    assert answer["delivery"]["placement"] == "append"
    assert chat.ended(recall_id)["point"] == "toolResult"


def test_recall5_search_slower_than_any_time_limit_of_old(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    for _ in range(3):  # 6 s: the limits of old were 1, 2.5 and 5 s
        assert chat.poll("userQuery", waitMs=2_000)["outcome"] == "pending"
    assert talk.seen("$/cancelRequest") == []
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    assert titles(chat.poll("toolResult")) == ["Deploy freeze"]
    assert chat.ended(recall_id)["latencyMs"] >= 6_000


def test_recall5_slow_search_no_tool_call_fast_stage_off(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    assert chat.poll("userQuery")["outcome"] == "pending"
    chat.end("completed")
    event = chat.ended(recall_id)
    assert event["reason"] == "noSafeDeliveryPoint" and event["documents"] == 0
    talk.stopped(question)


def test_recall5_slow_search_no_tool_call_fast_stage_on(chat: Conversation, talk: Talk) -> None:
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    chat.settled(recall_id, "fast")
    answer = chat.poll("userQuery")
    assert answer["stage"] == "fast" and len(titles(answer)) == 2
    assert answer["delivery"]["placement"] == "prepend"
    assert answer["delivery"]["strategy"] == "fast"
    chat.end("completed")
    event = chat.ended(recall_id)
    assert (event["stage"], event["point"], event["documents"]) == ("fast", "userQuery", 2)
    talk.stopped(question)


def test_recall5_second_message_before_the_first_search_is_done(
    chat: Conversation, talk: Talk
) -> None:
    talk.configure(recall={"fastDocuments": 0})
    first = chat.start(DEPLOY)["recallId"]
    early = talk.ask()
    second = chat.start(POSTGRES)
    assert second["replaced"] == first
    assert chat.ended(first)["state"] == "replaced"
    talk.stopped(early)
    talk.choose(early, "Deploy freeze")  # too late: the daemon has taken the question back
    talk.choose(talk.ask(), "Postgres indexes")
    chat.settled(second["recallId"])
    assert titles(chat.poll()) == ["Postgres indexes"]
    assert chat.poll("toolResult")["outcome"] == "none"
    assert talk.seen("recall/settled", recallId=first) == []


def test_recall5_esc_during_the_search(chat: Conversation, talk: Talk) -> None:
    recall_id = chat.start(turnId="t1")["recallId"]
    question = talk.ask()
    chat.end("aborted", turnId="t1")
    talk.stopped(question)
    talk.choose(question, "Deploy freeze")
    answer = chat.poll("toolResult")
    assert (answer["outcome"], answer["ended"]["reason"]) == ("none", "abort")
    assert chat.ended(recall_id)["documents"] == 0


@pytest.mark.parametrize("how", ["turn", "recall"])
def test_recall5_esc_before_the_start(chat: Conversation, talk: Talk, how: str) -> None:
    if how == "turn":
        chat.end("aborted", turnId="t1")
    else:
        assert chat.cancel(recallId="mine") is False
    answer = chat.start(turnId="t1", recallId="mine", waitMs=2_000)
    assert answer["state"] == "cancelled"
    assert answer["poll"]["outcome"] == "none"
    reason = "abort" if how == "turn" else "client"
    assert chat.ended("mine")["reason"] == reason
    assert talk.seen("model/generate") == []


@pytest.mark.parametrize("how", ["raise", "store"])
def test_recall5_local_search_raises(how: str) -> None:
    with own_daemon() as chat:
        talk = chat.talk
        with broken_search(talk, how):
            recall_id = chat.start(turnId="t1")["recallId"]
            chat.settled(recall_id)
            assert chat.poll()["outcome"] == "empty"
            assert chat.ended(recall_id)["reason"] == "nothingFound"
        chat.end("completed", turnId="t1")
        again = chat.start()["recallId"]  # the daemon serves on
        talk.choose(talk.ask(), "Deploy freeze")
        chat.settled(again)
        assert titles(chat.poll()) == ["Deploy freeze"]
    said = warnings_of(talk)
    assert [one["event"] for one in said] == ["recall.search_failed"]
    assert "canary" not in talk.log and DEPLOY not in talk.log


def test_recall5_local_search_hangs_until_the_safety_ceiling(
    chat: Conversation, talk: Talk
) -> None:
    talk.configure(recall={"safetyCeilingMs": 200})
    with broken_search(talk, "hang"):
        recall_id = chat.start(waitMs=2_000)
        assert recall_id["poll"]["outcome"] == "empty"
    assert chat.ended(recall_id["recallId"])["reason"] == "nothingFound"


@pytest.mark.parametrize("how", ["error", "nonsense", "unknownIds", "hang"])
def test_recall5_model_fails_ranked_fallback(how: str) -> None:
    with own_daemon() as chat:
        talk = chat.talk
        talk.configure(recall={"fastDocuments": 0})
        if how == "hang":
            talk.configure(recall={"safetyCeilingMs": 200})
        recall_id = chat.start(turnId="t1")["recallId"]
        question = talk.ask()
        if how == "error":
            talk.fail(question)
        elif how == "nonsense":
            talk.say(question, "I would rather not say.")
        elif how == "unknownIds":
            talk.say(question, '{"ids": ["m4711", "../../etc/passwd"]}')
        chat.settled(recall_id)
        if how == "hang":
            talk.stopped(question)
        answer = chat.poll("toolResult")
        assert answer["delivery"]["strategy"] == "fallback"
        assert titles(answer)[0] == "Deploy windows" and len(titles(answer)) == 5
        assert chat.ended(recall_id)["strategy"] == "fallback"
    said = warnings_of(talk)
    assert len(said) == 1 and said[0]["event"].startswith("recall.model_"), said


@pytest.mark.parametrize("wait_ms", [0, 2_000])
def test_recall5_two_polls_race_for_one_result(
    chat: Conversation, talk: Talk, wait_ms: int
) -> None:
    talk.configure(recall={"fastDocuments": 0})
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    if not wait_ms:
        talk.choose(question, "Deploy freeze")
        chat.settled(recall_id)
    polls = [chat.send_poll(waitMs=wait_ms) for _ in range(2)]
    if wait_ms:
        talk.choose(question, "Deploy freeze")
    answers = [talk.response(poll)["result"] for poll in polls]
    assert Counter(answer["outcome"] for answer in answers) == {"delivered": 1, "none": 1}
    none = next(answer for answer in answers if answer["outcome"] == "none")
    assert none["ended"]["state"] == "consumed"


def test_recall5_fifty_keystrokes_leave_one_handle_and_no_task(
    chat: Conversation, talk: Talk
) -> None:
    typed = "when may I deploy to production, and who must approve it?!"
    idle = talk.result("test/tasks")["tasks"]
    messages: list[Json] = []
    for index in range(50):
        params = chat.params({"query": typed[: index + 6], "recallId": f"k{index}", "waitMs": 500})
        if index:
            messages.append(
                notification("recall/cancel", chat.params({"recallId": f"k{index - 1}"}))
            )
            messages.append(notification("$/cancelRequest", {"id": f"key-{index - 1}"}))
        messages.append(request(f"key-{index}", "recall/start", params))
    talk.send(*messages)
    chat.started = [f"k{index}" for index in range(50)]
    last = chat.call("session/status")["recall"]
    assert last["recallId"] == "k49"
    for index in range(49):
        answer = talk.response(f"key-{index}")
        assert answer.get("error", {"code": -32800})["code"] == -32800, answer
        assert chat.ended(f"k{index}")["reason"] == "client"
    question = talk.ask()
    assert talk.seen("model/generate") == []  # one question, of the one that lives
    assert titles(talk.response("key-49")["result"]["poll"])
    status = talk.result("daemon/status")["counters"]
    assert status["liveRecalls"] == 1 and status["searches"] == 1
    talk.choose(question, "Deploy freeze")
    chat.settled("k49")
    chat.poll()
    chat.ended("k49")
    while talk.result("test/tasks")["tasks"] > idle + 1:  # but for the one timer of lifetimes
        talk.barrier()
    assert talk.result("daemon/status")["counters"]["searches"] == 0


def test_recall5_nothing_of_it_waits_for_the_model(chat: Conversation, talk: Talk) -> None:
    """R1: while eight questions are unanswered, every look is answered in the order asked."""
    lanes = [f"sub{index}" for index in range(8)]
    for lane in lanes:
        chat.start(lane=lane)
    questions = [talk.ask() for _ in lanes]
    for lane in lanes:
        assert chat.peek(lane=lane)["outcome"] in ("pending", "delivered")
    for lane in lanes:
        assert chat.cancel(lane=lane) is True
    for question in questions:
        talk.stopped(question)


def test_recall5_without_a_workspace_the_users_own_memories_are_found(talk: Talk) -> None:
    talk.configure(recall={"minConfidence": 0}, model={"provider": "none"})
    opened = talk.result("session/open", {})
    assert [root["scope"] for root in opened["memoryRoots"]] == ["user"]
    params = {"sessionId": opened["sessionId"], "query": DEPLOY, "waitMs": 2_000}
    assert talk.result("recall/start", params)["poll"]["outcome"] == "empty"
    talk.result("session/close", {"sessionId": opened["sessionId"]})


def test_recall5_index_of_a_newer_version_delays_no_turn() -> None:
    """The real store this time: it degrades to an index in memory, and no turn notices."""
    with Talk() as first:
        first.initialize({})
        first.remember(first.home / "workspace", {"Deploy freeze": "No deploy now"})
        assert first.shutdown() == 0
        (path,) = first.home.glob("state/*.db")
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 99")
        environment = {f"ONCUE_{name}_DIR": str(first.home / name.lower()) for name in FOLDERS}
        with Talk(env=environment) as talk:
            talk.initialize({"notifications": ["recall/ended"]})
            with talk.conversation(first.home / "workspace") as chat:
                answer = chat.start("deploy now", waitMs=2_000)
                assert titles(answer["poll"]) == ["Deploy freeze"]
                chat.ended(answer["recallId"])
                store = talk.result("daemon/status")["store"]
                assert store["state"] == "degraded" and store["since"]
                assert store["reason"].startswith("newerSchema")
            assert talk.shutdown() == 0
            assert len(warnings_of(talk)) == 1
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA user_version").fetchone() == (99,)
