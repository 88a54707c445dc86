"""Every row of protocol.md's error table, provoked on the real process.

`Talk` holds each error against `data {name, retryable, detail}`; here is what provokes it, what it
says, and that the next valid request is served as if nothing had been.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e_driver import frame, request
from e2e_talk import DEFAULTS, OPTIONS, POSTGRES, Conversation, Json, Talk, check_error, titles

CANARY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
"""Shaped as a credential, and none."""


@pytest.fixture(autouse=True)
def served_afterwards(chat: Conversation, talk: Talk) -> Iterator[None]:
    """Whatever went wrong: the next valid request is served, and its recall delivered."""
    yield
    talk.configure(**{**DEFAULTS, "model": {"provider": "none"}})
    if not any(one["sessionId"] == chat.id and one["open"] for one in sessions(talk)):
        chat = Conversation(talk, talk.home / "workspace", sessionId=chat.id)
    chat.tell("transcript/didReset", reason="cleared")
    answer = chat.call("recall/start", query=POSTGRES, waitMs=2_000)
    assert "Vacuum of postgres" in titles(answer["poll"])
    chat.ended(answer["recallId"])


def sessions(talk: Talk) -> list[Json]:
    """`session/list`."""
    found: list[Json] = talk.result("session/list")["sessions"]
    return found


def raw_error(talk: Talk, data: bytes) -> Json:
    """The error that answers bytes which are no request: its id is null."""
    talk.write(data)
    answer = talk.response(None)
    check_error(answer["error"])
    error: Json = answer["error"]
    return error


def expect(error: Json, code: int, *, retryable: bool = False, **detail: object) -> Json:
    """An error with this code; returns its data."""
    assert error["code"] == code, error
    data: Json = error["data"]
    assert data["retryable"] is retryable, error
    for name, value in detail.items():
        assert data["detail"][name] == value, error
    return data


# ---- JSON-RPC --------------------------------------------------------------------------------


def test_error_32700_parseError(talk: Talk) -> None:
    for body in (b"{", b'{"jsonrpc": "2.0", "id": 1, "method": "x', b"\xff\xfe", b"NaN", b""):
        expect(raw_error(talk, frame(body)), -32700)


def test_error_32600_invalidRequest(talk: Talk) -> None:
    for body in (b"[]", b"1", b'{"id": 1}', b'{"jsonrpc":"1.0","id":1,"method":"daemon/status"}'):
        expect(raw_error(talk, frame(body)), -32600)
    expect(talk.error("initialize", {}), -32600)


def test_error_32600_id_in_flight(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    chat.start()
    talk.ask()
    waiting = request("twice", "recall/poll", chat.params({"point": "userQuery", "waitMs": 2_000}))
    talk.send(waiting, waiting)
    refused = talk.response(None)["error"]
    assert expect(refused, -32600)["id"] == "twice"
    chat.cancel()
    assert talk.response("twice")["result"]["outcome"] == "none"


def test_error_32601_methodNotFound(talk: Talk) -> None:
    for method in ("recall/poke", "$/unknown", "textDocument/hover", "", "recall/ended"):
        expect(talk.error(method, {}), -32601)


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("recall/start", {}, "params.sessionId"),
        ("recall/start", {"sessionId": "s"}, "params.query"),
        ("recall/start", {"sessionId": "s", "query": 5}, "params.query"),
        ("recall/start", {"sessionId": 5, "query": "x"}, "params.sessionId"),
        ("recall/start", {"sessionId": "s", "query": "x", "waitMs": "1"}, "params.waitMs"),
        ("recall/start", {"sessionId": "s", "query": "x", "waitMs": -1}, "params.waitMs"),
        ("recall/start", {"sessionId": "s", "query": "x", "limit": 1.5}, "params.limit"),
        ("recall/start", {"sessionId": "s", "query": "x", "excludedPaths": "y"}, "params.excluded"),
        ("recall/poll", {"sessionId": "s", "point": "elsewhere"}, "params.point"),
        ("recall/poll", {"sessionId": "s"}, "params.point"),
        ("session/open", {"role": "boss"}, "params.role"),
        ("session/open", {"lifetime": "forever"}, "params.lifetime"),
        ("session/open", {"workspaces": [1]}, "params.workspaces[0]"),
        ("session/timeline", {"sessionId": "s", "cursor": 5}, "params.cursor"),
        ("transcript/follow", {"sessionId": "s", "path": "/x", "format": "vim"}, "params.format"),
        ("memory/write", {"scope": "team"}, "params.scope"),
        ("memory/read", {}, "params.path"),
    ],
)
def test_error_32602_invalidParams_says_where(
    talk: Talk, method: str, params: Json, path: str
) -> None:
    error = talk.error(method, params)
    data = expect(error, -32602)
    assert data["detail"]["path"].startswith(path), error
    assert path in error["message"]


def test_error_32602_relative_paths_and_foreign_schemes(talk: Talk) -> None:
    for workspace in ("relative/folder", "https://example.org/x", "~"):
        answer = talk.request("session/open", {"workspace": workspace})
        if "error" in answer:
            expect(answer["error"], -32602)
        else:  # it is no project: only the user's own memories are read
            scopes = {root["scope"] for root in answer["result"]["memoryRoots"]}
            assert scopes == {"user"}
            talk.result("session/close", {"sessionId": answer["result"]["sessionId"]})


def test_error_32603_internalError_names_the_class_alone(chat: Conversation, talk: Talk) -> None:
    talk.result("test/search", {"how": "raise"})
    try:
        error = chat.error("memory/search", query="secret words")
    finally:
        talk.result("test/search", {"how": "ok"})
    expect(error, -32603, exception="ValueError")
    assert "canary" not in json.dumps(error) and "secret words" not in json.dumps(error)


# ---- LSP -------------------------------------------------------------------------------------


def test_error_32002_serverNotInitialized() -> None:
    with Talk() as early:
        for method in ("daemon/status", "recall/start", "shutdown", "session/open"):
            expect(early.error(method, {}), -32002)
        early.initialize({})
        assert early.result("daemon/status")["clients"] == 1
        assert early.shutdown() == 0


def test_error_32800_requestCancelled(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    chat.start()
    talk.ask()
    waiting = chat.send_poll(waitMs=2_000)
    talk.notify("$/cancelRequest", {"id": waiting})
    expect(talk.response(waiting)["error"], -32800)


def test_error_32802_serverCancelled_and_nothing_after_shutdown() -> None:
    with Talk() as ending:
        ending.initialize(OPTIONS)
        ending.remember(ending.home / "workspace", {"Deploy freeze": "No deploy now"})
        ending.configure(recall={"fastDocuments": 0})
        chat = Conversation(ending, ending.home / "workspace")
        chat.start()
        ending.ask()
        waiting = chat.send_poll(waitMs=2_000)
        assert ending.request("shutdown")["result"] is None
        expect(ending.response(waiting)["error"], -32802, retryable=True)
        expect(chat.error("recall/peek"), -32600)
        ending.notify("exit")
        assert ending.wait() == 0


def test_error_32803_requestFailed(chat: Conversation, talk: Talk) -> None:
    expect(chat.error("memory/read", path="project/never-written.md"), -32803)
    with talk.second() as other:
        other.initialize({})
        error = other.error("recall/poll", chat.params({"point": "userQuery"}))
        expect(error, -32803, role="none")


# ---- ours ------------------------------------------------------------------------------------


def test_error_1001_sessionNotFound(chat: Conversation, talk: Talk) -> None:
    chat.call("session/close")
    for session_id in ("never", chat.id, ""):
        for method, members in (
            ("session/status", {}),
            ("session/timeline", {}),
            ("session/close", {}),
            ("recall/start", {"query": "x"}),
            ("recall/poll", {"point": "userQuery"}),
            ("recall/peek", {}),
            ("recall/cancel", {}),
            ("memory/list", {}),
        ):
            answer = talk.error(method, {"sessionId": session_id, **members})
            if answer["code"] != -32602:  # an empty id is none
                expect(answer, 1001)
                assert "session/open" in answer["message"]


def test_error_1002_recallNotFound(chat: Conversation, talk: Talk) -> None:
    error = chat.error("recall/poll", point="userQuery", recallId="never")
    expect(error, 1002)
    # One that ended is an answer, not an error.
    recall_id = chat.ready("Deploy freeze")
    chat.poll()
    assert chat.poll(recallId=recall_id)["outcome"] == "none"


def test_error_1003_revisionConflict(chat: Conversation) -> None:
    document = {"scope": "user", "type": "feedback", "title": "Tabs", "description": "d"}
    first = chat.call("memory/write", body="one", **document)
    path, old = first["path"], first["revision"]
    now = chat.call("memory/write", body="two", path=path, ifRevision=old, **document)["revision"]
    for method, members in (
        ("memory/write", {**document, "body": "three", "path": path, "ifRevision": old}),
        ("memory/forget", {"path": path, "ifRevision": old, "dryRun": False}),
    ):
        assert expect(chat.error(method, **members), 1003)["revision"] == now
    assert chat.call("memory/read", path=path)["body"].strip() == "two"
    chat.call("memory/forget", path=path, ifRevision=now, dryRun=False)


def test_error_1004_outsideRoots(chat: Conversation, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("canary")
    root = chat.opened["memoryRoots"][0]["path"]
    link = Path(root) / "link.md"
    link.symlink_to(outside)
    document = {"scope": "project", "type": "project", "title": "t", "description": "d"}
    try:
        for path in (
            str(outside),
            "/etc/passwd",
            "../../../etc/passwd.md",
            f"{root}/../../../../x.md",
            outside.as_uri(),
            str(link),
        ):
            for error in (
                chat.error("memory/read", path=path),
                chat.error("memory/write", path=path, body="overwritten", **document),
                chat.error("memory/forget", path=path, dryRun=False),
            ):
                expect(error, 1004)
                assert "canary" not in json.dumps(error)
    finally:
        link.unlink()
    assert outside.read_text() == "canary"
    expect(chat.error("transcript/follow", path=str(outside), format="claude"), 1004)


def test_error_1005_storeUnavailable_of_the_index(chat: Conversation, talk: Talk) -> None:
    talk.result("test/search", {"how": "store"})
    try:
        data = expect(chat.error("memory/search", query="x"), 1005, retryable=True)
        assert data["reason"] == "damaged"
    finally:
        talk.result("test/search", {"how": "ok"})
    assert chat.call("memory/search", query="deploy")["documents"]


def test_error_1005_storeUnavailable_of_the_files(talk: Talk) -> None:
    folder = talk.home / "blocked"
    folder.mkdir()
    with talk.conversation(folder) as blocked:
        root = Path(blocked.opened["memoryRoots"][0]["path"])
        root.parent.mkdir(parents=True)
        root.write_text("in the way")
        document = {"scope": "project", "type": "project", "title": "Quokka", "description": "d"}
        error = blocked.error("memory/write", body="b", **document)
        assert expect(error, 1005, retryable=True)["reason"] == "ioError"
        root.unlink()
        assert blocked.call("memory/write", body="b", **document)["revision"]


def test_error_1006_limitExceeded_lanes(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"enabled": False})
    for index in range(31):
        chat.start(lane=f"lane{index}")
    error = chat.error("recall/start", query="x", lane="one more")
    expect(error, 1006, limit="lanes", value=32, sent=33)
    assert "32" in error["message"]
    chat.start()  # the main line has its place among the 32, whoever came first


def test_error_1006_limitExceeded_requests_in_flight(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"fastDocuments": 0})
    chat.start()
    talk.ask()
    polls = [chat.send_poll(waitMs=2_000) for _ in range(257)]
    expect(
        talk.response(polls[256])["error"],
        1006,
        retryable=True,
        limit="requestsInFlight",
        value=256,
        sent=257,
    )
    chat.cancel()
    for poll in polls[:256]:
        assert talk.response(poll)["result"]["outcome"] == "none"


def test_error_1007_secretRefused(chat: Conversation, talk: Talk) -> None:
    document = {"scope": "project", "type": "project", "title": "Token", "description": "d"}
    before = chat.call("memory/list")["total"]
    for members in (
        {"body": f"use {CANARY} for the API"},
        {"body": "b", "description": f"token {CANARY}"},
        {"body": "b", "keywords": [CANARY]},
    ):
        error = chat.error("memory/write", **{**document, **members})
        data = expect(error, 1007)
        assert data["detail"]["rules"] and CANARY not in json.dumps(error)
    assert chat.call("memory/list")["total"] == before
    assert CANARY not in talk.log
    for path in talk.home.rglob("*"):
        if path.is_file() and not path.is_fifo():
            assert CANARY.encode() not in path.read_bytes(), path


# ---- notifications that are wrong ------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("transcript/didAppend", {}),
        ("transcript/didAppend", {"sessionId": "never", "messages": []}),
        ("transcript/didReset", {"sessionId": "never", "reason": "bored"}),
        ("turn/didEnd", {"sessionId": "never", "reason": "completed"}),
        ("turn/didEnd", []),
        ("recall/cancel", {"sessionId": "never"}),
        ("recall/acknowledge", {"deliveryId": "never", "accepted": True}),
        ("recall/acknowledge", {"deliveryId": 5}),
        ("workspace/didChangeConfiguration", {"settings": None}),
        ("workspace/didChangeConfiguration", {"settings": []}),
        ("no/suchNotification", {"x": 1}),
    ],
)
def test_a_wrong_notification_is_never_answered(talk: Talk, method: str, params: object) -> None:
    talk.notify(method, params)
    talk.barrier()
    assert ("NoneType", None) not in talk._kept


def test_I1_each_of_a_hundred_wrong_requests_gets_one_answer(
    chat: Conversation, talk: Talk
) -> None:
    wrong = [
        request(f"w{index}", *one)
        for index, one in enumerate(
            [
                ("recall/start", {"sessionId": chat.id}),
                ("recall/poll", chat.params({"point": "userQuery", "recallId": "never"})),
                ("session/status", {"sessionId": "never"}),
                ("no/such", {}),
            ]
            * 25
        )
    ]

    before = len(talk.raw)
    talk.send(*wrong)
    for index in range(100):
        assert "error" in talk.response(f"w{index}")
    assert len(talk.raw) - before == 100
