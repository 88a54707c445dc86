"""Sessions on the real process: opening, resuming, listing, looking (protocol.md, Sessions)."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e_talk import OPTIONS, Conversation, Json, Talk, titles

# ---- open, close, resume ---------------------------------------------------------------------


def test_session_id_is_made_or_chosen(talk: Talk, workspace: Path) -> None:
    with talk.conversation(workspace) as made, talk.conversation(workspace) as other:
        assert made.id != other.id and len(made.id) >= 16
    with talk.conversation(workspace, sessionId="chosen by me, ü 汉") as chosen:
        assert chosen.id == "chosen by me, ü 汉"
    with talk.conversation(workspace, sessionId="x" * 256) as longest:
        assert len(longest.id) == 256
    error = talk.error("session/open", {"sessionId": "x" * 257})
    assert error["code"] == -32602 and "sessionId" in error["message"]


def test_session_open_says_where_it_reads(talk: Talk, workspace: Path) -> None:
    with talk.conversation(workspace) as chat:
        assert chat.opened["resumed"] is False
        assert "lastMessageId" not in chat.opened
        scopes = {root["scope"]: root for root in chat.opened["memoryRoots"]}
        assert set(scopes) == {"project", "user"}
        assert all(
            root["writable"] and Path(root["path"]).is_absolute() for root in scopes.values()
        )
        assert chat.opened["untrustedRoots"] == []


def test_session_names_its_workspace_in_any_form(talk: Talk, workspace: Path) -> None:
    with (
        talk.conversation(workspace) as plain,
        talk.conversation(workspace / "") as slash,
    ):
        assert plain.opened["workspaceKey"] == slash.opened["workspaceKey"]
    as_uri = talk.result("session/open", {"workspace": workspace.as_uri()})
    assert as_uri["workspaceKey"] == plain.opened["workspaceKey"]
    talk.result("session/close", {"sessionId": as_uri["sessionId"]})


def test_session_with_several_workspaces_reads_all_and_writes_the_first(
    talk: Talk, workspace: Path
) -> None:
    second = talk.home / "second"
    talk.remember(second, {"Quokka keeper": "Who keeps the quokka"})
    folders = [str(second), str(workspace)]
    opened = talk.result("session/open", {"workspaces": folders})
    projects = [root for root in opened["memoryRoots"] if root["scope"] == "project"]
    assert [root["writable"] for root in projects].count(True) == 1
    params = {"sessionId": opened["sessionId"], "query": "quokka and postgres vacuum"}
    talk.configure(model={"provider": "none"}, recall={"minConfidence": 0})
    answer = talk.result("recall/start", {**params, "waitMs": 2_000})
    assert {"Quokka keeper", "Vacuum of postgres"} <= set(titles(answer["poll"]))
    talk.result("session/close", {"sessionId": opened["sessionId"]})


def test_session_takes_the_workspace_of_initialize() -> None:
    with Talk() as talk:
        folder = talk.home / "folder"
        folder.mkdir()
        folders = [{"uri": folder.as_uri(), "name": "folder"}]
        talk.initialize({}, workspaceFolders=folders, rootUri=None)
        opened = talk.result("session/open", {})
        other = talk.result("session/open", {"workspace": str(folder)})
        assert opened["workspaceKey"] == other["workspaceKey"]
        assert talk.shutdown() == 0


def test_session_resumes_with_its_last_message(
    chat: Conversation, talk: Talk, workspace: Path
) -> None:
    chat.append("m1", "m2", "m3")
    again = Conversation(talk, workspace, sessionId=chat.id)
    assert again.opened["resumed"] is True
    assert again.opened["lastMessageId"] == "m3"
    chat.call("session/close")
    resumed = Conversation(talk, workspace, sessionId=chat.id)
    assert (resumed.opened["resumed"], resumed.opened["lastMessageId"]) == (True, "m3")
    resumed.append("m4", afterMessageId="m3")
    assert talk.seen("transcript/resyncRequired") == []


def test_session_closed_is_not_found_until_it_is_opened_again(
    chat: Conversation, talk: Talk, workspace: Path
) -> None:
    assert chat.call("session/close") is None
    for method, members in (
        ("session/status", {}),
        ("session/close", {}),
        ("recall/start", {"query": "deploy"}),
        ("recall/peek", {}),
    ):
        assert chat.error(method, **members)["code"] == 1001
    chat.append("m1")  # a notification that comes too late is ignored
    again = Conversation(talk, workspace, sessionId=chat.id)
    assert "lastMessageId" not in again.opened
    assert titles(again.start(waitMs=2_000)["poll"])
    talk.ask()


# ---- looks -----------------------------------------------------------------------------------


def test_session_status_of_a_turn(chat: Conversation, talk: Talk, workspace: Path) -> None:
    idle = chat.call("session/status")
    assert idle["sessionId"] == chat.id and idle["workspace"] == str(workspace)
    assert idle["extraction"]["state"] == "idle"
    assert idle["notes"]["path"].endswith(".md") and "revision" not in idle["notes"]
    assert not idle.keys() & {"turnId", "recall"}
    recall_id = chat.start(turnId="t1")["recallId"]
    question = talk.ask()
    chat.settled(recall_id, "fast")
    status = chat.call("session/status")
    assert status["turnId"] == "t1"
    live = status["recall"]
    assert (live["recallId"], live["state"], live["fastReady"]) == (recall_id, "pending", True)
    assert live["ageMs"] >= 0
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    assert chat.call("session/status")["recall"]["state"] == "settled"
    chat.end("completed", turnId="t1")
    after = chat.call("session/status")
    assert not after.keys() & {"turnId", "recall"}
    assert after["extraction"]["lastDecision"]["reason"] == "belowInitThreshold"


def test_session_status_of_no_session_never_seen(talk: Talk) -> None:
    error = talk.error("session/status", {"sessionId": "never"})
    assert error["code"] == 1001 and "session/open" in error["message"]


def test_session_list_has_open_and_resumable_ones(
    talk: Talk, workspace: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with (
        talk.conversation(workspace, title="The blue one") as here,
        talk.conversation(elsewhere, lifetime="detached") as there,
        talk.conversation(workspace) as gone,
    ):
        gone.call("session/close")
        by_id = {one["sessionId"]: one for one in talk.result("session/list")["sessions"]}
        one = by_id[here.id]
        assert (one["open"], one["role"], one["drivers"]) == (True, "driver", 1)
        assert (one["title"], one["workspace"]) == ("The blue one", str(workspace))
        assert one["opened"] <= one["lastActive"]
        assert by_id[there.id]["lifetime"] == "detached"
        assert by_id[gone.id]["open"] is False and "role" not in by_id[gone.id]
        listed = talk.result("session/list", {"workspace": str(workspace)})["sessions"]
        ids = [one["sessionId"] for one in listed]
        assert here.id in ids and gone.id in ids and there.id not in ids


def test_session_timeline_says_what_happened_when(chat: Conversation, talk: Talk) -> None:
    recall_id = chat.start(turnId="t1")["recallId"]
    question = talk.ask()
    chat.settled(recall_id, "fast")
    fast = chat.poll("userQuery")["delivery"]
    talk.choose(question, "Vacuum of postgres")
    chat.settled(recall_id)
    refined = chat.poll("toolResult")["delivery"]
    chat.end("completed", turnId="t1")
    chat.tell("transcript/willCompact")
    chat.tell("transcript/didCompact")
    chat.tell("transcript/didReset", reason="cleared")
    page = chat.call("session/timeline")
    assert "cursor" not in page
    entries = page["entries"]
    assert [entry["event"] for entry in entries] == [
        "sessionOpened",
        "turnStarted",
        "recallStarted",
        "recallFastReady",
        "recallDelivered",
        "recallSettled",
        "recallDelivered",
        "recallEnded",
        "turnEnded",
        "extractionDecided",
        "compactionStarted",
        "compactionEnded",
        "transcriptReset",
    ]
    times = [entry["at"] for entry in entries]
    assert times == sorted(times)
    delivered = [entry for entry in entries if entry["event"] == "recallDelivered"]
    assert [one["deliveryId"] for one in delivered] == [fast["deliveryId"], refined["deliveryId"]]
    assert [one["point"] for one in delivered] == ["userQuery", "toolResult"]
    assert delivered[1]["paths"] == [refined["documents"][0]["path"]]
    assert delivered[1]["sinceStartMs"] >= delivered[0]["sinceStartMs"]
    ended = next(entry for entry in entries if entry["event"] == "recallEnded")
    assert (ended["state"], ended["reason"]) == ("consumed", "delivered")
    assert "text" not in str(entries) and "quokka" not in str(entries)


def test_session_timeline_comes_in_pages(chat: Conversation, talk: Talk) -> None:
    for index in range(200):
        chat.tell("transcript/didReset", reason="cleared")
        chat.end("completed", turnId=f"t{index}")
        chat.tell("transcript/willCompact")
    entries: list[Json] = []
    cursor: str | None = None
    pages = 0
    while True:
        page = chat.call("session/timeline", **({"cursor": cursor} if cursor else {}))
        entries += page["entries"]
        pages += 1
        cursor = page.get("cursor")
        if cursor is None:
            break
    entries = [entry for entry in entries if entry["event"] != "extractionDecided"]
    assert (pages, len(entries)) == (2, 601)
    turns = [entry["turnId"] for entry in entries if entry["event"] == "turnEnded"]
    assert turns == [f"t{index}" for index in range(200)]
    for wrong in ("-1", "x", "1e3", "٣"):
        assert chat.error("session/timeline", cursor=wrong)["code"] == -32602


def test_daemon_status_counts(chat: Conversation, talk: Talk) -> None:
    before = talk.result("daemon/status")
    assert before["model"]["state"] == "ok" and before["store"]["state"] == "ok"
    assert before["sessions"] >= 1 and before["clients"] == 1
    chat.ready("Deploy freeze")
    chat.poll()
    after = talk.result("daemon/status")
    assert after["counters"]["recalls"] == before["counters"]["recalls"] + 1
    assert after["counters"]["deliveries"] == before["counters"]["deliveries"] + 1
    assert after["counters"]["liveRecalls"] == before["counters"]["liveRecalls"]


def test_memory_methods_take_the_one_workspace_of_the_connection(workspace: Path) -> None:
    with Talk() as talk:
        talk.initialize(OPTIONS)
        folder = talk.home / "one"
        talk.remember(folder, {"Quokka keeper": "Who keeps the quokka"})
        error = talk.error("memory/list", {})
        assert error["code"] == -32602 and "workspace" in error["message"]
        with talk.conversation(folder), talk.conversation(folder):
            listed = talk.result("memory/list", {})
            assert [one["title"] for one in listed["documents"]] == ["Quokka keeper"]
            with talk.conversation(talk.home):
                assert talk.error("memory/list", {})["code"] == -32602
        assert talk.shutdown() == 0


def test_memory_didChange_tells_of_writes_removals_and_edits(talk: Talk, workspace: Path) -> None:
    folder = talk.home / "noted"
    with (
        talk.conversation(folder) as chat,
        talk.second() as other,
        talk.second() as silent,
    ):
        other.initialize({"notifications": ["memory/didChange"]})
        talk.barrier()
        talk.notifications.clear()
        silent.initialize({})
        path = talk.remember(folder, {"Quokka": "About the quokka"})["Quokka"]
        document = {"scope": "project", "type": "project", "title": "Quokka", "description": "d"}
        revision = chat.call("memory/read", path=path)["revision"]
        chat.call("memory/write", path=path, ifRevision=revision, body="more", **document)
        chat.call("memory/forget", path=path, dryRun=False)
        by_hand = Path(path).with_name("by-hand.md")
        by_hand.write_text("# By hand\n\nThe quokka lives on Rottnest.\n")
        chat.call("memory/list")
        for listener in (talk, other):
            told = [listener.expect("memory/didChange")["params"] for _ in range(4)]
            assert told == [
                {"added": [path]},
                {"changed": [path]},
                {"removed": [path]},
                {"added": [str(by_hand)]},
            ]
        assert silent.seen("memory/didChange") == []


@pytest.mark.parametrize("method", ["memory/purge"])
def test_methods_of_later_versions_are_not_found(chat: Conversation, method: str) -> None:
    error = chat.error(method, trigger="manual")
    assert error["code"] == -32601
