"""Several connections to one process: drivers, observers, detached sessions, settings apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e_talk import DEFAULTS, OPTIONS, POSTGRES, Conversation, Second, Talk, titles


@pytest.fixture
def other(talk: Talk) -> Iterator[Second]:
    """A second connection, which lends a model as well."""
    with talk.second() as second:
        second.initialize(OPTIONS)
        second.configure(**DEFAULTS)
        yield second


def test_observer_reads_and_peeks_and_takes_nothing(
    chat: Conversation, talk: Talk, other: Second, workspace: Path
) -> None:
    watching = Conversation(other, workspace, sessionId=chat.id, role="observer")
    assert watching.opened["resumed"] is True
    chat.ready("Deploy freeze")
    assert watching.call("session/status")["recall"]["state"] == "settled"
    assert watching.call("session/timeline")["entries"]
    for _ in range(2):
        assert titles(watching.peek()) == ["Deploy freeze"]
    for method, members in (
        ("recall/poll", {"point": "userQuery"}),
        ("recall/start", {"query": "deploy"}),
        ("recall/cancel", {}),
        ("session/close", {}),
        ("transcript/follow", {"path": "/x.jsonl", "format": "claude"}),
    ):
        error = watching.error(method, **members)
        assert error["code"] == -32803 and error["data"]["detail"]["role"] == "observer"
    # Nor do an observer's notifications change anything.
    watching.end("aborted")
    watching.tell("transcript/didReset", reason="cleared")
    watching.tell("recall/cancel")
    watching.append("m1")
    other.barrier()
    assert titles(chat.poll()) == ["Deploy freeze"]
    assert [one["role"] for one in other.result("session/list")["sessions"][:1]] == ["observer"]


def test_observer_is_told_what_it_asked_for(
    chat: Conversation, other: Second, workspace: Path
) -> None:
    watching = Conversation(other, workspace, sessionId=chat.id, role="observer")
    recall_id = chat.ready("Deploy freeze")
    watching.settled(recall_id)
    chat.poll()
    assert watching.ended(recall_id)["reason"] == "delivered"


def test_observer_cannot_change_where_a_session_works(
    chat: Conversation, other: Second, workspace: Path, tmp_path: Path
) -> None:
    Conversation(other, tmp_path, sessionId=chat.id, role="observer")
    assert chat.call("session/status")["workspace"] == str(workspace)
    chat.ready("Deploy freeze")
    assert titles(chat.poll()) == ["Deploy freeze"]


def test_observers_alone_keep_no_session(talk: Talk, other: Second, workspace: Path) -> None:
    before = talk.result("daemon/status")["sessions"]
    Conversation(other, workspace, role="observer")
    assert talk.result("daemon/status")["sessions"] == before + 1
    other.hang_up()
    talk.until(lambda: talk.result("daemon/status")["sessions"] == before)


def test_stranger_may_not_even_peek(chat: Conversation, other: Second) -> None:
    chat.ready("Deploy freeze")
    for method, members in (
        ("recall/peek", {}),
        ("recall/poll", {"point": "userQuery"}),
        ("recall/cancel", {}),
        ("session/close", {}),
    ):
        error = other.error(method, {"sessionId": chat.id, **members})
        assert error["code"] == -32803
    assert titles(chat.poll()) == ["Deploy freeze"]


def test_newest_driver_takes_over_and_the_older_is_told(
    chat: Conversation, talk: Talk, other: Second, workspace: Path
) -> None:
    talk.configure(recall={"fastDocuments": 0})
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    taking = Conversation(other, workspace, sessionId=chat.id)
    changed = talk.expect("session/roleChanged", sessionId=chat.id)["params"]
    assert changed.get("role", "observer") == "observer"
    assert chat.error("recall/poll", point="userQuery")["data"]["detail"] == {"role": "observer"}
    # The recall belongs to its session: it goes on, and the new driver takes it.
    talk.choose(question, "Deploy freeze")
    taking.settled(recall_id)
    assert titles(chat.peek()) == ["Deploy freeze"]
    assert titles(taking.poll()) == ["Deploy freeze"]
    # The next one asks the model of the new driver, which has settings of its own.
    second = taking.start(POSTGRES)["recallId"]
    other.choose(other.ask(), "Postgres indexes")
    taking.settled(second)
    assert talk.seen("model/generate") == []
    # Back again.
    back = Conversation(talk, workspace, sessionId=chat.id)
    other.expect("session/roleChanged", sessionId=chat.id)
    assert titles(back.poll()) == ["Postgres indexes"]


def test_the_older_driver_leaves_and_nothing_happens(
    talk: Talk, other: Second, workspace: Path
) -> None:
    older = Conversation(other, workspace)
    with talk.conversation(workspace, sessionId=older.id) as newer:
        other.expect("session/roleChanged")
        newer.ready("Deploy freeze")
        other.hang_up()
        talk.until(lambda: talk.result("daemon/status")["clients"] == 1)
        assert titles(newer.poll()) == ["Deploy freeze"]


def test_processes_of_a_detached_session_are_all_drivers(
    talk: Talk, other: Second, workspace: Path
) -> None:
    with talk.conversation(workspace, lifetime="detached") as first:
        hook = Conversation(other, workspace, sessionId=first.id, lifetime="detached")
        assert hook.opened["resumed"] is True
        first.ready("Deploy freeze", lender=other, turnId="t1")  # the newest one's model is asked
        first.end("completed", turnId="another")
        assert titles(hook.poll("toolResult")) == ["Deploy freeze"]
        assert first.poll()["ended"]["state"] == "consumed"
        assert talk.seen("session/roleChanged") == []
        listed = {one["sessionId"]: one for one in talk.result("session/list")["sessions"]}
        assert listed[first.id]["drivers"] == 2


def test_detached_session_outlives_its_connections(
    talk: Talk, other: Second, workspace: Path
) -> None:
    hook = Conversation(other, workspace, lifetime="detached")
    hook.append("m1", "m2")
    hook.ready("Deploy freeze")  # with the lent model of the hook itself
    other.hang_up()
    talk.until(lambda: talk.result("daemon/status")["clients"] == 1)
    with talk.conversation(workspace, sessionId=hook.id, lifetime="detached") as next_hook:
        assert next_hook.opened["lastMessageId"] == "m2"
        assert titles(next_hook.poll("toolResult")) == ["Deploy freeze"]


def test_a_lent_model_leaves_with_its_connection(
    talk: Talk, other: Second, workspace: Path
) -> None:
    hook = Conversation(other, workspace, lifetime="detached")
    with talk.conversation(workspace, sessionId=hook.id, role="observer") as watched:
        recall_id = hook.start()["recallId"]
        other.ask()
        other.hang_up()
        watched.settled(recall_id)  # the ranked list stands in (R6)
        assert watched.peek()["delivery"]["strategy"] == "fallback"
        again = Conversation(talk, workspace, sessionId=hook.id, lifetime="detached")
        assert titles(again.poll())


def test_only_the_driver_acknowledges(talk: Talk, workspace: Path) -> None:
    with (
        talk.conversation(workspace, sessionId="ack", role="observer"),
        talk.second() as driver,
    ):
        driver.initialize({**OPTIONS, "acknowledgeDeliveries": True})
        chat = Conversation(driver, workspace, sessionId="ack")
        chat.ready("Deploy freeze")
        delivery = chat.poll()["delivery"]
        word = {"deliveryId": delivery["deliveryId"], "accepted": True}
        talk.notify("recall/acknowledge", word)
        talk.barrier()
        assert chat.call("session/status")["recall"]["state"] == "offered"
        driver.notify("recall/acknowledge", word)
        assert "recall" not in chat.call("session/status")


def test_settings_affect_the_connection_that_sent_them_alone(
    chat: Conversation, talk: Talk, other: Second, workspace: Path
) -> None:
    theirs = Conversation(other, workspace)
    other.configure(recall={"maxDocuments": 1}, model={"provider": "none"})
    assert len(titles(theirs.start(waitMs=2_000)["poll"])) == 1
    chat.ready("Deploy freeze", "Deploy rollback")
    assert len(titles(chat.poll())) == 2
    # A bad value is named, and the old one stays.
    other.configure(recall={"maxDocuments": "many", "fastDocs": 1}, endpoint={"baseUrl": "x"})
    said = [other.expect("window/logMessage")["params"]["message"] for _ in range(3)]
    assert any("recall.maxDocuments" in one for one in said)
    assert any("recall.fastDocs" in one for one in said)
    assert any("endpoint" in one for one in said)
    theirs.tell("transcript/didReset", reason="cleared")
    assert len(titles(theirs.start(waitMs=2_000)["poll"])) == 1
    assert talk.seen("window/logMessage") == []
