"""Every way a recall ends (recall.md §4), through a spawned process.

Each test shows state and reason in the one `recall/ended` (the `chat` fixture counts them), what a
poll says afterwards, and whether the search was stopped: its question to the model is taken back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e_driver import request
from e2e_talk import (
    NOTHING,
    OPTIONS,
    POSTGRES,
    RECALL_DAEMON,
    Conversation,
    Json,
    Talk,
    titles,
)


def searching(chat: Conversation, **members: Any) -> tuple[str, Json]:
    """A recall whose model has been asked and does not answer: its id, and the question."""
    recall_id: str = chat.start(**members)["recallId"]
    return recall_id, chat.talk.ask()


def assert_ended(
    chat: Conversation, recall_id: str, state: str, reason: str, **members: Any
) -> Json:
    """The terminal event, and what polls say from now on."""
    event = chat.ended(recall_id)
    assert (event["state"], event["reason"]) == (state, reason)
    assert event["lane"] == "main" and event["latencyMs"] >= 0
    for name, value in members.items():
        assert event.get(name) == value, (name, event)
    answer = chat.poll(recallId=recall_id)
    ended = {"recallId": recall_id, "state": state, "reason": reason}
    assert answer == {"outcome": "none", "recallId": recall_id, "ended": ended}
    return event


def assert_not_stopped(talk: Talk) -> None:
    assert talk.seen("$/cancelRequest") == []


# ---- a poll delivers, or finds nothing left --------------------------------------------------


def test_recall4_poll_delivers_consumed(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat)
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    assert titles(chat.poll("userQuery")) == ["Deploy freeze"]
    assert_ended(
        chat,
        recall_id,
        "consumed",
        "delivered",
        stage="refined",
        point="userQuery",
        strategy="model",
        documents=1,
    )
    assert_not_stopped(talk)


def test_recall4_poll_finds_nothing_consumed(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat, query=NOTHING)
    talk.say(question, '{"ids": []}')
    chat.settled(recall_id)
    answer = chat.poll("toolResult")
    assert answer["outcome"] == "empty"
    assert answer["ended"]["reason"] == "nothingFound"
    assert_ended(
        chat,
        recall_id,
        "consumed",
        "nothingFound",
        stage="refined",
        point="toolResult",
        strategy="model",
        documents=0,
    )
    assert_not_stopped(talk)


def test_recall4_poll_finds_nothing_left_consumed(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat)
    chat.settled(recall_id, "fast")
    fast = titles(chat.poll("userQuery"))
    talk.choose(question, *fast)
    chat.settled(recall_id)
    answer = chat.poll("toolResult")
    assert answer["outcome"] == "empty"
    assert answer["ended"]["reason"] == "alreadyDelivered"
    assert_ended(chat, recall_id, "consumed", "alreadyDelivered", stage="fast", documents=len(fast))
    assert_not_stopped(talk)


# ---- a new query -----------------------------------------------------------------------------


def test_recall4_new_start_replaces(chat: Conversation, talk: Talk) -> None:
    first, question = searching(chat)
    second = chat.start(POSTGRES)
    assert second["replaced"] == first
    talk.stopped(question)
    event = chat.ended(first)
    assert (event["state"], event["reason"]) == ("replaced", "newQuery")
    assert chat.poll(recallId=first)["ended"]["state"] == "replaced"
    talk.choose(talk.ask(), "Vacuum of postgres")
    chat.settled(second["recallId"])
    assert titles(chat.poll()) == ["Vacuum of postgres"]


def test_recall4_speculative_start_replaces_only_its_like(chat: Conversation, talk: Talk) -> None:
    turn, question = searching(chat)
    typed = chat.start("postg", speculative=True)
    again = chat.start(POSTGRES, speculative=True)
    assert "replaced" not in typed and again["replaced"] == typed["recallId"]
    assert chat.ended(typed["recallId"])["reason"] == "newQuery"
    assert_not_stopped(talk)
    talk.choose(question, "Deploy freeze")
    chat.settled(turn)
    assert titles(chat.poll()) == ["Deploy freeze"]


# ---- the client cancels ----------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_recall4_cancel(chat: Conversation, talk: Talk, named: bool) -> None:
    recall_id, question = searching(chat)
    assert chat.cancel(**({"recallId": recall_id} if named else {})) is True
    talk.stopped(question)
    assert_ended(chat, recall_id, "cancelled", "client", documents=0)
    assert chat.cancel(recallId=recall_id) is False


def test_recall4_cancel_as_notification(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat)
    chat.tell("recall/cancel", recallId=recall_id, reason="Esc")
    talk.stopped(question)
    assert_ended(chat, recall_id, "cancelled", "client")


def test_recall4_cancel_of_a_settled_recall_has_no_search_to_stop(
    chat: Conversation, talk: Talk
) -> None:
    recall_id, question = searching(chat)
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    assert chat.cancel() is True
    assert_ended(chat, recall_id, "cancelled", "client", documents=0)
    assert_not_stopped(talk)


# ---- the turn ends ---------------------------------------------------------------------------

TURN_ENDS = {
    "aborted": "abort",
    "maxSessionTurns": "noSafeDeliveryPoint",
    "turnBudgetExhausted": "noSafeDeliveryPoint",
    "sessionTokenLimit": "noSafeDeliveryPoint",
    "loopDetected": "noSafeDeliveryPoint",
    "error": "noSafeDeliveryPoint",
    "controlSignal": "controlSignal",
    "completed": "noSafeDeliveryPoint",
}


@pytest.mark.parametrize("reason", TURN_ENDS)
def test_recall4_turn_end_while_searching(chat: Conversation, talk: Talk, reason: str) -> None:
    recall_id, question = searching(chat, turnId="t1")
    chat.end(reason, turnId="t1")
    talk.stopped(question)
    assert_ended(chat, recall_id, "cancelled", TURN_ENDS[reason], documents=0)


@pytest.mark.parametrize("reason", TURN_ENDS)
def test_recall4_turn_end_after_the_search(chat: Conversation, talk: Talk, reason: str) -> None:
    recall_id, question = searching(chat)
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    chat.end(reason)
    assert_ended(chat, recall_id, "cancelled", TURN_ENDS[reason], documents=0)
    assert_not_stopped(talk)


def test_recall4_turn_completed_with_all_delivered(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat)
    chat.settled(recall_id, "fast")
    fast = titles(chat.poll())
    talk.choose(question, *fast)
    chat.settled(recall_id)
    chat.end("completed")
    assert_ended(chat, recall_id, "cancelled", "alreadyDelivered", documents=2, stage="fast")


def test_recall4_turn_completed_with_more_to_deliver(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat)
    chat.settled(recall_id, "fast")
    fast = titles(chat.poll())
    talk.choose(question, *fast, "Vacuum of postgres")
    chat.settled(recall_id)
    chat.end("completed")
    assert_ended(chat, recall_id, "cancelled", "noSafeDeliveryPoint", documents=2)


# ---- the chat, the session -------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["cleared", "rewound"])
def test_recall4_reset(chat: Conversation, talk: Talk, reason: str) -> None:
    recall_id, question = searching(chat)
    chat.tell("transcript/didReset", reason=reason)
    talk.stopped(question)
    assert_ended(chat, recall_id, "cancelled", "reset")


def test_recall4_session_close(chat: Conversation, talk: Talk) -> None:
    recall_id, question = searching(chat)
    assert chat.call("session/close", reason="window closed") is None
    talk.stopped(question)
    event = chat.ended(recall_id)
    assert (event["state"], event["reason"]) == ("cancelled", "sessionClosed")
    assert chat.error("recall/poll", point="userQuery")["code"] == 1001


def test_recall4_end_of_the_drivers_connection(
    chat: Conversation, talk: Talk, workspace: Path
) -> None:
    with (
        talk.conversation(workspace, role="observer", sessionId="conn-end") as watched,
        talk.second() as other,
    ):
        other.initialize(OPTIONS)
        driving = Conversation(other, workspace, sessionId="conn-end")
        recall_id, _ = searching(driving)
        other.hang_up()
        event = watched.ended(recall_id)
        assert (event["state"], event["reason"]) == ("cancelled", "sessionClosed")
        assert watched.error("session/status")["code"] == 1001


def test_recall4_death_of_the_owner(talk: Talk, workspace: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    with talk.conversation(workspace, lifetime="detached", ownerPid=owner.pid) as chat:
        recall_id, question = searching(chat)
        owner.kill()
        owner.wait()
        assert owner.stdin is not None
        owner.stdin.close()
        talk.stopped(question)
        event = chat.ended(recall_id)
        assert (event["state"], event["reason"]) == ("cancelled", "sessionClosed")
        assert chat.error("session/status")["code"] == 1001


def test_recall4_idle_limit(talk: Talk, workspace: Path) -> None:
    with talk.conversation(workspace, lifetime="detached") as chat:
        recall_id, question = searching(chat)
        talk.result("test/idle", {"seconds": 0.2})
        try:
            talk.stopped(question)
            event = chat.ended(recall_id)
        finally:
            talk.result("test/idle", {"seconds": 43_200.0})
        assert (event["state"], event["reason"]) == ("cancelled", "sessionClosed")
        assert chat.error("session/status")["code"] == 1001


# ---- time ------------------------------------------------------------------------------------


def test_recall4_lifetime_over_while_searching(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"lifetimeMs": 1_000})
    recall_id, question = searching(chat)
    talk.stopped(question)
    assert_ended(chat, recall_id, "expired", "lifetime", documents=0)


def test_recall4_lifetime_over_after_the_search(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"lifetimeMs": 1_000})
    recall_id, question = searching(chat)
    talk.choose(question, "Deploy freeze")
    event = assert_ended(chat, recall_id, "expired", "lifetime", documents=0)
    assert event["latencyMs"] >= 1_000
    assert_not_stopped(talk)


# ---- the daemon ends -------------------------------------------------------------------------


@pytest.fixture
def alone() -> Iterator[Conversation]:
    """A session of a daemon of its own."""
    with Talk(RECALL_DAEMON) as talk:
        talk.initialize(OPTIONS)
        talk.remember(talk.home / "workspace", {"Deploy freeze": "No production deploy now"})
        yield Conversation(talk, talk.home / "workspace")


def test_recall4_shutdown(alone: Conversation) -> None:
    talk = alone.talk
    recall_id, question = searching(alone)
    talk.send(request("bye", "shutdown"))
    event = alone.ended(recall_id)
    assert (event["state"], event["reason"]) == ("cancelled", "shutdown")
    talk.stopped(question)
    assert talk.response("bye")["result"] is None
    talk.notify("exit")
    assert talk.wait() == 0
    assert [one for one in talk.rest() if one.get("method") == "recall/ended"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_recall4_signal(alone: Conversation, number: signal.Signals) -> None:
    talk = alone.talk
    recall_id, _ = searching(alone)
    os.kill(talk.process.pid, number)
    event = alone.ended(recall_id)
    assert (event["state"], event["reason"]) == ("cancelled", "shutdown")
    assert talk.wait() == 1
    assert [one for one in talk.rest() if one.get("method") == "recall/ended"] == []
