"""Taking a recall's result: points, stages, tokens, peeks and waits (protocol.md, Recall)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e_driver import notification, request
from e2e_talk import DEPLOY, NOTHING, POSTGRES, Conversation, Talk, titles

# ---- points and stages -----------------------------------------------------------------------


def test_R7_settled_at_userQuery_is_prepended_and_closed(chat: Conversation) -> None:
    recall_id = chat.ready("Deploy rollback", "Deploy freeze")
    answer = chat.poll("userQuery")
    delivery = answer["delivery"]
    assert (answer["stage"], delivery["placement"]) == ("refined", "prepend")
    assert titles(answer) == ["Deploy rollback", "Deploy freeze"]  # in the model's order
    assert delivery["text"].index("Deploy rollback") < delivery["text"].index("Deploy freeze")
    assert delivery["textTokens"] > 0
    again = chat.poll("toolResult")
    ended = {"recallId": recall_id, "state": "consumed", "reason": "delivered"}
    assert again == {"outcome": "none", "recallId": recall_id, "ended": ended}


def test_R8_settled_at_toolResult_is_appended(chat: Conversation) -> None:
    chat.ready()
    answer = chat.poll("toolResult")
    assert answer["delivery"]["placement"] == "append"


def test_recall2_fast_is_sent_once_and_refined_is_minus_fast(
    chat: Conversation, talk: Talk
) -> None:
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    chat.settled(recall_id, "fast")
    fast = titles(chat.poll("userQuery"))
    assert len(fast) == 2
    assert chat.poll("userQuery")["outcome"] == "pending"
    assert chat.poll("toolResult")["outcome"] == "pending"
    talk.choose(question, fast[0], "Vacuum of postgres", fast[1])
    chat.settled(recall_id)
    assert titles(chat.poll("toolResult")) == ["Vacuum of postgres"]
    event = chat.ended(recall_id)
    assert (event["documents"], event["stage"], event["strategy"]) == (3, "refined", "model")


def test_recall2_fast_at_toolResult_is_appended_and_stays_live(
    chat: Conversation, talk: Talk
) -> None:
    recall_id = chat.start()["recallId"]
    talk.ask()
    chat.settled(recall_id, "fast")
    answer = chat.poll("toolResult")
    assert (answer["stage"], answer["delivery"]["placement"]) == ("fast", "append")
    assert chat.call("session/status")["recall"]["recallId"] == recall_id


def test_recall2_without_a_model_there_is_no_fast_stage(chat: Conversation, talk: Talk) -> None:
    talk.configure(model={"provider": "none"})
    recall_id = chat.start()["recallId"]
    chat.settled(recall_id)
    assert talk.seen("recall/settled", stage="fast") == []
    answer = chat.poll()
    assert answer["stage"] == "refined" and answer["delivery"]["strategy"] == "ranked"
    assert len(titles(answer)) == 5


# ---- consumed once ---------------------------------------------------------------------------


def test_R9_a_result_without_text_is_consumed_too(chat: Conversation, talk: Talk) -> None:
    talk.configure(model={"provider": "none"})
    recall_id = chat.start(NOTHING)["recallId"]
    chat.settled(recall_id)
    answer = chat.poll()
    assert answer["outcome"] == "empty"
    assert chat.poll()["outcome"] == "none"
    assert chat.ended(recall_id)["documents"] == 0


def test_R9_a_late_result_is_dropped(chat: Conversation, talk: Talk) -> None:
    chat.start()
    question = talk.ask()
    chat.cancel()
    talk.stopped(question)
    late = talk.result("daemon/status")["counters"]["lateResponses"]
    talk.choose(question, "Deploy freeze")
    assert chat.poll()["outcome"] == "none"
    assert talk.result("daemon/status")["counters"]["lateResponses"] == late + 1


def test_R11_nothing_crosses_into_a_later_turn(chat: Conversation, talk: Talk) -> None:
    chat.ready(turnId="t1")
    chat.end("completed", turnId="t1")
    second = chat.start(POSTGRES, turnId="t2")["recallId"]
    question = talk.ask()
    talk.choose(question, "Vacuum of postgres")
    chat.settled(second)
    assert titles(chat.poll()) == ["Vacuum of postgres"]
    assert chat.poll("toolResult")["outcome"] == "none"


def test_R11_a_turn_end_of_another_turn_leaves_the_recall_alone(chat: Conversation) -> None:
    recall_id = chat.ready(turnId="t2")
    chat.end("aborted", turnId="t1")
    assert titles(chat.poll()) == ["Deploy freeze"]
    assert chat.ended(recall_id)["reason"] == "delivered"


def test_R11_nothing_crosses_into_another_session(
    chat: Conversation, talk: Talk, workspace: Path
) -> None:
    recall_id = chat.ready()
    with talk.conversation(workspace) as other:
        assert other.poll() == {"outcome": "none"}
        assert other.peek() == {"outcome": "none"}
        assert other.error("recall/poll", point="userQuery", recallId=recall_id)["code"] == 1002
        assert other.cancel(recallId=recall_id) is False
        other.tell("transcript/didReset", reason="cleared")
        other.end("aborted")
    assert titles(chat.poll()) == ["Deploy freeze"]


def test_R11_lanes_are_apart(chat: Conversation, talk: Talk) -> None:
    main = chat.start(DEPLOY)["recallId"]
    first = talk.ask()
    sub = chat.start(POSTGRES, lane="sub")["recallId"]
    second = talk.ask()
    assert talk.seen("$/cancelRequest") == []
    talk.choose(second, "Postgres indexes")
    chat.settled(sub)
    talk.choose(first, "Postgres indexes", "Deploy freeze")
    chat.settled(main)
    assert chat.error("recall/poll", point="userQuery", recallId=sub)["code"] == 1002
    assert titles(chat.poll(lane="sub")) == ["Postgres indexes"]
    # What is in front of a subagent is not in front of the main line.
    assert titles(chat.poll()) == ["Postgres indexes", "Deploy freeze"]
    assert chat.ended(sub)["lane"] == "sub"
    chat.end("completed", lane="sub")


def test_R11_the_end_of_a_lanes_turn_is_its_own(chat: Conversation) -> None:
    recall_id = chat.ready()
    chat.end("completed", lane="sub")
    chat.end("aborted", lane="sub")
    assert titles(chat.poll()) == ["Deploy freeze"]
    assert chat.ended(recall_id)["reason"] == "delivered"


# ---- poll tokens -----------------------------------------------------------------------------


def last_result(talk: Talk, msg_id: str) -> bytes:
    """The bytes of a result as they came, without the envelope around it."""
    body = next(raw for raw in reversed(talk.raw) if json.loads(raw).get("id") == msg_id)
    start = body.index(b'"result":')
    return body[start:].rstrip(b"}")


@pytest.mark.parametrize("outcome", ["delivered", "pending", "none", "empty"])
def test_poll_token_again_gives_the_same_answer_byte_for_byte(
    chat: Conversation, talk: Talk, outcome: str
) -> None:
    talk.configure(recall={"fastDocuments": 0})
    if outcome == "delivered":
        chat.ready()
    elif outcome == "pending":
        chat.start()
        talk.ask()
    elif outcome == "empty":
        talk.configure(model={"provider": "none"})
        chat.settled(chat.start(NOTHING)["recallId"])
    found = []
    for _ in range(3):
        msg_id = chat.send_poll(pollToken="hook-1")
        assert talk.response(msg_id)["result"]["outcome"] == outcome
        found.append(last_result(talk, msg_id))
    assert found[0] == found[1] == found[2]
    if outcome == "delivered":
        assert chat.poll(pollToken="hook-2")["outcome"] == "none"


def test_poll_token_outlives_the_next_start_but_not_a_reset(chat: Conversation) -> None:
    chat.ready()
    first = chat.poll(pollToken="hook-1")
    second = chat.ready("Deploy rollback")
    assert chat.poll(pollToken="hook-1") == first
    chat.tell("transcript/didReset", reason="cleared")
    answer = chat.poll(pollToken="hook-1")
    assert answer["outcome"] == "none" and answer["ended"]["recallId"] == second


def test_poll_token_of_a_waiting_start(chat: Conversation, talk: Talk) -> None:
    talk.configure(model={"provider": "none"})
    first = chat.start(waitMs=2_000, pollToken="hook-1", recallId="r1")
    again = chat.start(waitMs=2_000, pollToken="hook-1", recallId="r1")
    assert first["poll"]["outcome"] == "delivered" and again == first
    assert chat.poll(pollToken="hook-1") == first["poll"]
    assert chat.ended("r1")["reason"] == "delivered"


def test_a_start_repeated_with_its_id_starts_nothing(chat: Conversation, talk: Talk) -> None:
    chat.start(recallId="mine")
    talk.ask()
    again = chat.start(recallId="mine")
    assert again == {"recallId": "mine", "state": "pending"}
    assert talk.seen("model/generate") == []


# ---- peek ------------------------------------------------------------------------------------


def test_peek_consumes_nothing(chat: Conversation, talk: Talk) -> None:
    assert chat.peek() == {"outcome": "none"}
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    chat.settled(recall_id, "fast")
    for _ in range(3):
        seen = chat.peek()
        assert seen["stage"] == "fast" and len(titles(seen)) == 2
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    for _ in range(3):
        assert titles(chat.peek()) == ["Deploy freeze"]
    assert chat.call("session/status")["recall"]["state"] == "settled"
    assert titles(chat.poll()) == ["Deploy freeze"]
    assert chat.peek()["ended"]["state"] == "consumed"


# ---- waiting (R16) ---------------------------------------------------------------------------


def test_R16_start_waits_for_the_fast_stage(chat: Conversation, talk: Talk) -> None:
    answer = chat.start(waitMs=2_000)
    assert answer["poll"]["stage"] == "fast" and answer["state"] == "pending"
    talk.choose(talk.ask(), *titles(answer["poll"]))
    chat.settled(answer["recallId"])
    assert chat.poll("toolResult")["outcome"] == "empty"


def test_R16_start_waits_for_settled(chat: Conversation, talk: Talk) -> None:
    talk.configure(model={"provider": "none"})
    answer = chat.start(waitMs=2_000)
    assert answer["poll"]["stage"] == "refined" and answer["state"] == "consumed"


def test_R16_start_waits_until_the_recall_ends(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    waiting = chat.send_start(waitMs=2_000, recallId="r1")
    chat.started.append("r1")
    talk.ask()
    chat.end("aborted")
    answer = talk.response(waiting)["result"]
    assert answer["state"] == "cancelled"
    assert answer["poll"]["ended"]["reason"] == "abort"


def test_R16_start_waits_no_longer_than_asked(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    answer = chat.start(waitMs=30)
    assert answer["poll"] == {"outcome": "pending", "recallId": answer["recallId"]}
    talk.choose(talk.ask(), "Deploy freeze")
    chat.settled(answer["recallId"])
    assert titles(chat.poll("toolResult")) == ["Deploy freeze"]


def test_R16_a_waiting_poll_ends_as_soon_as_it_is_settled(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    chat.start()
    question = talk.ask()
    waiting = chat.send_poll("toolResult", waitMs=2_000)
    talk.choose(question, "Deploy freeze")
    assert titles(talk.response(waiting)["result"]) == ["Deploy freeze"]


def test_R16_a_waiting_poll_is_not_ended_by_a_fast_stage_already_sent(
    chat: Conversation, talk: Talk
) -> None:
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    chat.settled(recall_id, "fast")
    chat.poll()
    waiting = chat.send_poll("toolResult", waitMs=2_000)
    talk.barrier()
    talk.choose(question, "Vacuum of postgres")
    assert titles(talk.response(waiting)["result"]) == ["Vacuum of postgres"]


def test_R16_replaced_while_waiting_takes_nothing_of_the_successor(
    chat: Conversation, talk: Talk
) -> None:
    talk.configure(recall={"fastDocuments": 0})
    first = chat.send_start(waitMs=2_000, recallId="r1")
    talk.ask()
    second = chat.start(POSTGRES)["recallId"]
    chat.started.append("r1")
    assert talk.response(first)["result"]["poll"]["ended"]["reason"] == "newQuery"
    talk.choose(talk.ask(), "Postgres indexes")
    chat.settled(second)
    assert titles(chat.poll()) == ["Postgres indexes"]


def test_R16_waiting_blocks_nobody(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    chat.start()
    talk.ask()
    waiting = [chat.send_poll("toolResult", waitMs=2_000) for _ in range(20)]
    assert chat.peek()["outcome"] == "pending"
    assert chat.cancel() is True
    for msg_id in waiting:
        assert talk.response(msg_id)["result"]["outcome"] == "none"


@pytest.mark.parametrize("what", ["start", "poll"])
def test_R3_cancelRequest_ends_the_wait_and_not_the_recall(
    chat: Conversation, talk: Talk, what: str
) -> None:
    talk.configure(recall={"fastDocuments": 0})
    if what == "start":
        waiting = chat.send_start(waitMs=2_000, recallId="r1")
        question = talk.ask()
    else:
        chat.start(recallId="r1")
        question = talk.ask()
        waiting = chat.send_poll(waitMs=2_000)
    chat.started.append("r1")
    talk.notify("$/cancelRequest", {"id": waiting})
    assert talk.response(waiting)["error"]["code"] == -32800
    assert talk.seen("$/cancelRequest") == []
    talk.choose(question, "Deploy freeze")
    chat.settled("r1")
    assert titles(chat.poll("toolResult")) == ["Deploy freeze"]


def test_R3_cancelRequest_after_the_answer_does_nothing(chat: Conversation, talk: Talk) -> None:
    msg_id = chat.send_start(recallId="r1")
    chat.started.append("r1")
    talk.response(msg_id)
    question = talk.ask()
    talk.notify("$/cancelRequest", {"id": msg_id})
    talk.choose(question, "Deploy freeze")
    chat.settled("r1")
    assert titles(chat.poll()) == ["Deploy freeze"]


# ---- born cancelled --------------------------------------------------------------------------


def test_R4_a_cancel_that_overtakes_its_start(chat: Conversation, talk: Talk) -> None:
    start = request("late", "recall/start", chat.params({"query": DEPLOY, "recallId": "r1"}))
    talk.send(notification("recall/cancel", chat.params({"recallId": "r1"})), start)
    chat.started.append("r1")
    assert talk.response("late")["result"] == {"recallId": "r1", "state": "cancelled"}
    assert chat.ended("r1")["reason"] == "client"
    assert talk.seen("model/generate") == []
    again = chat.start(recallId="r2")
    assert again["state"] == "pending"


def test_R4_an_abort_that_overtakes_its_start(chat: Conversation, talk: Talk) -> None:
    chat.end("aborted", turnId="t1")
    born = chat.start(turnId="t1")
    assert born["state"] == "cancelled"
    assert chat.poll()["ended"]["reason"] == "abort"
    assert chat.start(turnId="t2")["state"] == "pending"
    talk.ask()


def test_R4_early_cancels_are_bounded(chat: Conversation, talk: Talk) -> None:
    for index in range(33):
        chat.tell("recall/cancel", recallId=f"early{index}")
    assert chat.start(recallId="early0")["state"] == "pending"
    talk.ask()
    assert chat.start(recallId="early32")["state"] == "cancelled"
