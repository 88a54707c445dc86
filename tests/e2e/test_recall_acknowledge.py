"""Acknowledged deliveries, and what a daemon says unasked (protocol.md, Recall and Models)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e_talk import OPTIONS, Conversation, Json, Talk, titles


@pytest.fixture(scope="module")
def acknowledging() -> Iterator[Talk]:
    """A client that says which deliveries the model took."""
    with Talk() as talk:
        talk.initialize({**OPTIONS, "acknowledgeDeliveries": True})
        talk.remember(talk.home / "workspace")
        yield talk
        assert talk.shutdown() == 0


@pytest.fixture
def careful(acknowledging: Talk) -> Iterator[Conversation]:
    """A session of such a client."""
    with acknowledging.conversation(acknowledging.home / "workspace") as chat:
        acknowledging.configure(recall={"fastDocuments": 0})
        yield chat


def offered(chat: Conversation) -> tuple[str, Json]:
    """A recall whose delivery is offered."""
    recall_id = chat.ready("Deploy freeze", "Deploy rollback")
    return recall_id, chat.poll()["delivery"]


def state(chat: Conversation) -> str | None:
    """Of the live recall."""
    live = chat.call("session/status").get("recall")
    return None if live is None else live["state"]


def test_acknowledged_delivery_is_offered_until_accepted(careful: Conversation) -> None:
    recall_id, delivery = offered(careful)
    assert state(careful) == "offered"
    assert careful.poll() == {"outcome": "pending", "recallId": recall_id}
    assert careful.talk.seen("recall/ended") == []
    careful.talk.notify(
        "recall/acknowledge", {"deliveryId": delivery["deliveryId"], "accepted": True}
    )
    event = careful.ended(recall_id)
    assert (event["state"], event["reason"], event["documents"]) == ("consumed", "delivered", 2)
    again = careful.start()["recallId"]
    question = careful.talk.ask()
    assert "Deploy freeze" not in question["params"]["messages"][-1]["text"]  # surfaced
    careful.talk.say(question, '{"ids": []}')
    careful.settled(again)


def test_refused_delivery_is_deliverable_again(careful: Conversation) -> None:
    recall_id, first = offered(careful)
    acknowledge = {"deliveryId": first["deliveryId"], "accepted": False}
    careful.talk.notify("recall/acknowledge", acknowledge)
    assert state(careful) == "settled"
    answer = careful.poll("toolResult")
    assert titles(answer) == ["Deploy freeze", "Deploy rollback"]
    assert answer["delivery"]["deliveryId"] != first["deliveryId"]
    # A late word about the first offer says nothing about the second.
    careful.talk.notify("recall/acknowledge", {**acknowledge, "accepted": True})
    assert state(careful) == "offered"
    careful.talk.notify(
        "recall/acknowledge", {"deliveryId": answer["delivery"]["deliveryId"], "accepted": True}
    )
    assert careful.ended(recall_id)["point"] == "toolResult"


def test_turn_end_without_a_word_surfaces_nothing(careful: Conversation) -> None:
    recall_id, _ = offered(careful)
    careful.end("completed")
    event = careful.ended(recall_id)
    assert (event["state"], event["documents"]) == ("cancelled", 0)
    again = careful.ready("Deploy freeze", "Deploy rollback")
    assert titles(careful.poll()) == ["Deploy freeze", "Deploy rollback"]
    assert again != recall_id


def test_acknowledged_fast_stage_then_refined(careful: Conversation, acknowledging: Talk) -> None:
    acknowledging.configure(recall={"fastDocuments": 2})
    recall_id = careful.start()["recallId"]
    question = acknowledging.ask()
    careful.settled(recall_id, "fast")
    fast = careful.poll()
    assert state(careful) == "offered"
    acknowledging.choose(question, *titles(fast), "Vacuum of postgres")
    careful.settled(recall_id)
    assert careful.poll("toolResult")["outcome"] == "pending"  # the offer stands
    acknowledging.notify(
        "recall/acknowledge", {"deliveryId": fast["delivery"]["deliveryId"], "accepted": True}
    )
    assert titles(careful.poll("toolResult")) == ["Vacuum of postgres"]


# ---- notifications ---------------------------------------------------------------------------


def test_notifications_only_where_asked_for() -> None:
    with Talk() as talk:
        talk.initialize({"modelProvider": True, "model": {"provider": "client"}})
        workspace = talk.home / "workspace"
        talk.remember(workspace, {"Deploy freeze": "No deploy now"})
        chat = Conversation(talk, workspace)
        recall_id = chat.start("deploy now")["recallId"]
        talk.choose(talk.ask(), "Deploy freeze")
        while chat.call("session/status")["recall"]["state"] != "settled":
            talk.barrier()
        assert titles(chat.poll(recallId=recall_id)) == ["Deploy freeze"]
        chat.append("m9", afterMessageId="m8")  # this one is always sent
        talk.expect("transcript/resyncRequired")
        assert talk.notifications == []
        assert talk.shutdown() == 0


@pytest.mark.parametrize("provided", [False, True])
def test_models_model_is_asked_only_where_it_was_lent_and_wanted(provided: bool) -> None:
    options = {"modelProvider": provided, "notifications": ["recall/settled", "recall/ended"]}
    if not provided:
        options["model"] = {"provider": "client"}
    with Talk() as talk:
        talk.initialize(options)
        workspace = talk.home / "workspace"
        talk.remember(workspace, {"Deploy freeze": "No deploy now"})
        chat = Conversation(talk, workspace)
        answer = chat.start("deploy freeze now", waitMs=2_000)
        assert answer["poll"]["delivery"]["strategy"] == "ranked"
        assert talk.seen("model/generate") == []
        assert talk.shutdown() == 0
