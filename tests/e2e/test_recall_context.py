"""What is in front of the model, and what a recall may bring (R10, R14; protocol.md, Recall)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e_talk import DEPLOY, NOTHING, POSTGRES, Conversation, Json, Talk, titles


def shown(question: Json) -> set[str]:
    """Titles in the manifest that a model was shown."""
    manifest = question["params"]["messages"][-1]["text"]
    return set(re.findall(r"^m\d+ \[\w+\] [\d-]+ (.*?): ", manifest, re.M))


def taken(chat: Conversation, *chosen: str) -> None:
    """Deliver these documents."""
    chat.ready(*chosen)
    assert titles(chat.poll()) == list(chosen)


def offered_now(chat: Conversation) -> set[str]:
    """What a recall could deliver now."""
    chat.start()
    question = chat.talk.ask()
    chat.talk.say(question, '{"ids": []}')
    chat.cancel()
    return shown(question)


# ---- what is in front of the model is not sent again (R10) -----------------------------------


def test_R10_what_was_delivered_is_not_recalled_again(chat: Conversation) -> None:
    assert "Deploy freeze" in offered_now(chat)
    taken(chat, "Deploy freeze")
    assert "Deploy freeze" not in offered_now(chat)


def test_R10_fast_documents_count_as_delivered(chat: Conversation, talk: Talk) -> None:
    recall_id = chat.start()["recallId"]
    talk.ask()
    chat.settled(recall_id, "fast")
    fast = set(titles(chat.poll()))
    chat.end("aborted")
    assert not fast & offered_now(chat)


def test_R10_a_lane_has_a_surfaced_set_of_its_own(chat: Conversation, talk: Talk) -> None:
    taken(chat, "Deploy freeze")
    chat.start(lane="sub")
    assert "Deploy freeze" in shown(talk.ask())
    chat.end("aborted", lane="sub")


@pytest.mark.parametrize("reason", ["cleared", "rewound"])
def test_R10_a_reset_brings_it_back(chat: Conversation, reason: str) -> None:
    taken(chat, "Deploy freeze")
    chat.tell("transcript/didReset", reason=reason)
    assert "Deploy freeze" in offered_now(chat)


@pytest.mark.parametrize(("kept_from", "comes_back"), [("m2", True), ("m1", False), (None, True)])
def test_R10_a_compaction_brings_back_what_went_with_messages_that_are_gone(
    chat: Conversation, kept_from: str | None, comes_back: bool
) -> None:
    chat.append("m1")
    taken(chat, "Deploy freeze")  # it went with m1
    chat.append("m2", "m3", afterMessageId="m1")
    taken(chat, "Deploy rollback")  # and this with m3
    chat.tell("transcript/willCompact")
    chat.tell("transcript/didCompact", keptFromMessageId=kept_from)
    now = offered_now(chat)
    assert ("Deploy freeze" in now) == comes_back
    assert ("Deploy rollback" in now) == (kept_from is None)


def test_R10_no_delivery_during_a_compaction(chat: Conversation, talk: Talk) -> None:
    recall_id = chat.ready("Deploy freeze")
    chat.tell("transcript/willCompact")
    pending = {"outcome": "pending", "recallId": recall_id}
    assert chat.poll() == pending and chat.poll("toolResult") == pending
    assert chat.peek() == pending
    waiting = chat.send_poll("toolResult", waitMs=2_000)
    talk.barrier()
    chat.tell("transcript/didCompact")
    assert titles(talk.response(waiting)["result"]) == ["Deploy freeze"]


def test_R10_the_next_turn_ends_a_compaction_that_never_ended(chat: Conversation) -> None:
    chat.ready("Deploy freeze")
    chat.tell("transcript/willCompact")
    assert chat.poll()["outcome"] == "pending"
    chat.ready("Deploy rollback")
    assert titles(chat.poll()) == ["Deploy rollback"]


def test_R10_a_closed_session_opened_again_knows_what_it_sent(
    chat: Conversation, talk: Talk, workspace: Path
) -> None:
    taken(chat, "Deploy freeze")
    chat.call("session/close")
    again = Conversation(talk, workspace, sessionId=chat.id)
    assert again.opened["resumed"] is True
    again.start()
    assert "Deploy freeze" not in shown(talk.ask())


# ---- what a client may ask for ---------------------------------------------------------------


def test_excluded_paths_are_never_delivered(chat: Conversation, talk: Talk) -> None:
    documents = chat.call("memory/search", query=DEPLOY)["documents"]
    path = {document["title"]: document["path"] for document in documents}
    excluded = [path["Deploy windows"], Path(path["Deploy freeze"]).as_uri(), "file://[no-host"]
    recall_id = chat.start(excludedPaths=excluded)["recallId"]
    assert not {"Deploy windows", "Deploy freeze"} & shown(talk.ask())
    chat.settled(recall_id, "fast")
    assert "Deploy windows" not in titles(chat.poll())
    talk.configure(model={"provider": "none"})
    answer = chat.start(excludedPaths=excluded, waitMs=2_000)["poll"]
    assert not {"Deploy windows", "Deploy freeze"} & set(titles(answer))


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (50, 5)])
def test_limit_is_at_most_the_setting(
    chat: Conversation, talk: Talk, limit: int, count: int
) -> None:
    talk.configure(model={"provider": "none"})
    assert len(titles(chat.start(waitMs=2_000, limit=limit)["poll"])) == count


def test_limit_holds_for_what_a_model_chooses(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    recall_id = chat.start(limit=2)["recallId"]
    talk.choose(talk.ask(), "Deploy freeze", "Deploy rollback", "Deploy approvals")
    chat.settled(recall_id)
    assert titles(chat.poll()) == ["Deploy freeze", "Deploy rollback"]


def test_a_query_of_a_megabyte_is_searched_not_refused(chat: Conversation, talk: Talk) -> None:
    talk.configure(model={"provider": "none"})
    pasted = f"{DEPLOY}\n" + "at com.example.Frame(File.java:1)\n" * 30_000
    answer = chat.start(pasted, waitMs=2_000)
    assert "Deploy windows" in titles(answer["poll"])


def test_a_query_that_is_only_our_own_text_finds_nothing(chat: Conversation, talk: Talk) -> None:
    """Memory never feeds on itself (recall.md §6)."""
    talk.configure(model={"provider": "none"})
    text = chat.start(waitMs=2_000)["poll"]["delivery"]["text"]
    assert chat.start(text, waitMs=2_000)["poll"]["outcome"] == "empty"
    answer = chat.start(f"{text}\n{POSTGRES}", waitMs=2_000)["poll"]
    assert set(titles(answer)) == {"Vacuum of postgres", "Postgres indexes"}


# ---- settings --------------------------------------------------------------------------------


def test_settings_recall_switched_off_finds_nothing(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"enabled": False})
    answer = chat.start(waitMs=2_000)
    assert answer["poll"]["outcome"] == "empty"
    talk.configure(recall={"enabled": True}, model={"provider": "none"})
    assert chat.start(waitMs=2_000)["poll"]["outcome"] == "delivered"


def test_settings_change_later_recalls_only(chat: Conversation, talk: Talk) -> None:
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    talk.configure(recall={"maxDocuments": 1})
    talk.choose(question, "Deploy freeze", "Deploy rollback")
    chat.settled(recall_id)
    assert len(titles(chat.poll())) == 2
    chat.ready("Deploy approvals", "Deploy announcements")
    assert len(titles(chat.poll())) == 1


def test_settings_maximum_of_documents_characters_and_delivery(
    chat: Conversation, talk: Talk, workspace: Path
) -> None:
    talk.configure(model={"provider": "none"}, recall={"maxDocumentChars": 100})
    body = "The quokka protocol is long. " * 60
    document = {"scope": "project", "type": "project", "title": "Quokka", "body": body}
    path = chat.call("memory/write", description="About the quokka", **document)["path"]
    try:
        delivery = chat.start("quokka protocol", waitMs=2_000)["poll"]["delivery"]
        assert delivery["documents"][0]["truncated"] is True
        assert path in delivery["text"] and len(delivery["text"]) < 1_200
        talk.configure(recall={"maxDocumentChars": 20_000, "maxDeliveryChars": 1_000})
        chat.tell("transcript/didReset", reason="cleared")
        delivery = chat.start("quokka protocol", waitMs=2_000)["poll"]["delivery"]
        assert 500 < len(delivery["text"]) <= 1_000
    finally:
        chat.call("memory/forget", path=path, dryRun=False)
        talk.configure(recall={"maxDocumentChars": 1_200, "maxDeliveryChars": 6_000})


def test_R14_minimum_of_query_characters_counts_cjk_by_character(
    chat: Conversation, talk: Talk
) -> None:
    talk.configure(recall={"minimumQueryCharacters": 12}, model={"provider": "none"})
    assert chat.start("deploy it", waitMs=2_000)["poll"]["outcome"] == "empty"
    assert chat.start("deploy production", waitMs=2_000)["poll"]["outcome"] == "delivered"
    talk.configure(model={"provider": "client"})
    chat.start("部署窗口")  # four characters, which count as sixteen: it is searched
    talk.ask()


def test_R14_session_byte_budget(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"sessionByteBudget": 900}, model={"provider": "none"})
    first = chat.start(waitMs=2_000)["poll"]
    assert 0 < len(first["delivery"]["text"].encode()) <= 900
    assert chat.start(waitMs=2_000)["poll"]["outcome"] == "empty"


def test_R15_a_delivery_has_a_fence_of_its_own(chat: Conversation) -> None:
    taken_ids = []
    for title in ("Deploy freeze", "Deploy rollback"):
        chat.ready(title)
        delivery = chat.poll()["delivery"]
        (nonce,) = set(re.findall(r"</?oncue-memory ([0-9a-f]{16})>", delivery["text"]))
        taken_ids.append((delivery["deliveryId"], nonce))
    assert len(set(taken_ids)) == 2 and taken_ids[0][1] != taken_ids[1][1]


# ---- speculative -----------------------------------------------------------------------------


def test_speculative_is_fast_only_never_a_model_nothing_surfaced(
    chat: Conversation, talk: Talk
) -> None:
    typed = chat.start(speculative=True, waitMs=2_000)
    answer = typed["poll"]
    assert answer["stage"] == "fast" and answer["delivery"]["strategy"] == "fast"
    assert 1 <= len(titles(answer)) <= 2
    assert talk.seen("model/generate") == []
    assert set(titles(answer)) <= offered_now(chat)
    assert chat.ended(typed["recallId"])["stage"] == "fast"


def test_speculative_never_touches_the_turn(chat: Conversation, talk: Talk) -> None:
    turn = chat.start(turnId="t1")["recallId"]
    question = talk.ask()
    typed = chat.start("postgres vacuum", speculative=True)["recallId"]
    chat.settled(typed, "fast")
    chat.end("completed", turnId="t0")
    assert chat.call("session/status")["recall"]["recallId"] == turn
    assert chat.call("session/status")["turnId"] == "t1"
    assert "Vacuum of postgres" in titles(chat.poll(recallId=typed))
    talk.choose(question, "Deploy freeze")
    chat.settled(turn)
    assert titles(chat.poll()) == ["Deploy freeze"]
    events = [entry["event"] for entry in chat.call("session/timeline")["entries"]]
    assert events.count("recallStarted") == 1  # a keystroke each would push the rest out


def test_speculative_finds_nothing_where_there_is_nothing(chat: Conversation) -> None:
    assert chat.start(NOTHING, speculative=True, waitMs=2_000)["poll"]["outcome"] == "empty"
