"""wire.md §2, rows about requests, parameters, responses and handlers; clients.md §2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e_driver import DAEMON, TEST_DAEMON, Daemon, frame, notification, request


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


EMPTY = {"absent": ..., "null": None, "object": {}, "array": []}


@pytest.mark.parametrize("form", EMPTY)
@pytest.mark.parametrize("method", ["test/ping", "daemon/status"])
def test_wire2_empty_params_are_the_same_in_every_form(
    daemon: Daemon, method: str, form: str
) -> None:
    assert daemon.result(method, EMPTY[form])


@pytest.mark.parametrize("form", EMPTY)
def test_D08_every_empty_form_through_the_whole_life(form: str) -> None:
    with Daemon(DAEMON) as daemon:
        empty = EMPTY[form]
        daemon.send(request(1, "initialize", empty), notification("initialized", empty))
        assert "result" in daemon.response(1)
        daemon.send(notification("$/setTrace", empty))
        daemon.send(notification("workspace/didChangeConfiguration", empty))
        daemon.send(notification("workspace/didChangeWatchedFiles", empty))
        daemon.send(request(2, "shutdown", empty))
        assert daemon.response(2) == {"jsonrpc": "2.0", "id": 2, "result": None}
        daemon.send(notification("exit", empty))
        assert daemon.wait() == 0


@pytest.mark.parametrize("form", EMPTY)
def test_wire2_nested_optional_objects_too(form: str) -> None:
    given = {} if EMPTY[form] is ... else {"oncue": EMPTY[form]}
    with Daemon(DAEMON) as daemon:
        assert daemon.result("initialize", {"initializationOptions": given, "clientInfo": None})
        assert daemon.shutdown() == 0


def ours(**members: Any) -> dict[str, Any]:
    return {"initializationOptions": {"oncue": members}}


OURS = "params.initializationOptions.oncue"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"processId": "12"}, "params.processId"),
    ({"processId": 1.5}, "params.processId"),
    ({"processId": True}, "params.processId"),
    ({"clientInfo": {"name": 5}}, "params.clientInfo.name"),
    ({"clientInfo": {"version": "1"}}, "params.clientInfo.name"),
    ({"workspaceFolders": [{"uri": "file:///a"}, {"uri": 1}]}, "params.workspaceFolders[1].uri"),
    (ours(notifications=[1]), OURS + ".notifications[0]"),
    (ours(modelProvider="yes"), OURS + ".modelProvider"),
    (ours(protocolVersions=[99]), OURS + ".protocolVersions"),
]


def test_wire2_wrong_params_are_32602_with_the_path() -> None:
    with Daemon(DAEMON) as daemon:
        for params, path in WRONG:
            error = daemon.error("initialize", params)
            assert error["code"] == -32602, params
            assert error["data"]["name"] == "invalidParams"
            assert error["data"]["detail"]["path"] == path
            assert path in error["message"]
        daemon.initialize()
        assert daemon.shutdown() == 0


@pytest.mark.parametrize("params", [5, "text", True, [1], ["a", {}]])
def test_wire2_params_that_are_no_object_are_32602(params: Any) -> None:
    with Daemon(DAEMON) as daemon:
        error = daemon.error("initialize", params)
        assert (error["code"], error["data"]["detail"]["path"]) == (-32602, "params")


def test_wire2_unknown_methods(daemon: Daemon) -> None:
    assert daemon.error("nobody/knows")["code"] == -32601
    assert daemon.error("$/unknown")["code"] == -32601
    assert daemon.error("initialized")["code"] == -32601  # a notification, asked for as a request
    daemon.notify("nobody/knows", {"a": 1})
    daemon.notify("$/unknown")
    assert daemon.result("test/ping", {"text": "on"}) == {"pong": "on"}
    assert daemon.frames.empty()


def test_wire2_every_error_has_name_retryable_detail(daemon: Daemon) -> None:
    for method, params in (
        ("nobody/knows", {}),
        ("test/raise", {"text": "x"}),
        ("test/raise", {"as": "LimitExceeded"}),
        ("test/raise", {"as": "JsonRpcMethodNotFound"}),
        ("initialize", {}),
    ):
        error = daemon.error(method, params)
        assert {"name", "retryable", "detail"} <= set(error["data"])


@pytest.mark.parametrize(
    ("method", "params", "cls"),
    [
        ("test/raise", {"text": "canary-4711"}, "ValueError"),
        ("test/raise", {"as": "RecursionError", "text": "canary-4711"}, "RecursionError"),
        ("test/raise", {"as": "SystemExit"}, "SystemExit"),
        ("test/raise", {"as": "KeyboardInterrupt"}, "KeyboardInterrupt"),
        ("test/raiseLater", {"text": "canary-4711"}, "ValueError"),
        ("test/raiseLater", {"text": "canary-4711", "group": True}, "LookupError"),
        ("test/raiseLater", {"as": "SystemExit"}, "SystemExit"),
        ("test/unsayable", {}, "TypeError"),
    ],
)
def test_wire2_what_a_handler_raises_is_32603_with_its_class_only(
    daemon: Daemon, method: str, params: dict[str, Any], cls: str
) -> None:
    error = daemon.error(method, params)
    assert error["code"] == -32603
    assert error["data"]["detail"] == {"exception": cls}
    assert "canary" not in str(error)
    assert "Traceback" not in str(error)
    assert daemon.result("test/ping") == {"pong": ""}


def test_wire2_errors_of_the_protocol_are_sent_as_they_are(daemon: Daemon) -> None:
    error = daemon.error("test/raise", {"as": "LimitExceeded"})
    assert (error["code"], error["message"]) == (1006, "too many canaries")
    assert error["data"]["detail"] == {"limit": "canaries", "value": 1, "sent": 2}
    assert daemon.error("test/raise", {"as": "JsonRpcMethodNotFound"})["code"] == -32601


def test_wire2_failing_notifications_are_silent(daemon: Daemon) -> None:
    daemon.notify("test/raise", {"text": "canary"})
    daemon.notify("test/tellLater", {})
    daemon.notify("test/ping", {"text": "nobody hears it"})
    daemon.notify("$/setTrace", {"value": 5})
    assert daemon.result("test/ping") == {"pong": ""}
    assert daemon.frames.empty()


@pytest.mark.parametrize("msg_id", [1, "1", 0, 2**30])
def test_wire2_a_response_never_touches_a_request_of_the_same_id(
    daemon: Daemon, msg_id: Any
) -> None:
    daemon.send(
        request(msg_id, "test/sleep", {"seconds": 0.2}),
        {"jsonrpc": "2.0", "id": msg_id, "result": {"not": "ours"}},
        {"jsonrpc": "2.0", "id": msg_id, "error": {"code": -32800, "message": "x"}},
    )
    assert daemon.response(msg_id)["result"] == {"slept": 0.2}


def test_D27_an_id_in_flight_is_refused_a_second_time(daemon: Daemon) -> None:
    daemon.send(*[request("same", "test/sleep", {"seconds": 0.2})] * 12)
    answers = [daemon.receive() for _ in range(12)]
    refused, (served,) = answers[:-1], answers[-1:]
    assert served == {"jsonrpc": "2.0", "id": "same", "result": {"slept": 0.2}}
    for answer in refused:
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert answer["error"]["data"]["id"] == "same"
    daemon.send(request("same", "test/ping"))  # free again
    assert "result" in daemon.response("same")


def test_D27_int_and_string_ids_are_different(daemon: Daemon) -> None:
    daemon.send(
        request(5, "test/sleep", {"seconds": 0.1}), request("5", "test/sleep", {"seconds": 0.1})
    )
    answers = [daemon.receive() for _ in range(2)]
    assert {(type(a["id"]), a["id"]) for a in answers} == {(int, 5), (str, "5")}
    assert all("result" in a for a in answers)


def test_wire2_256_in_flight_then_refused_and_retryable(daemon: Daemon) -> None:
    daemon.send(*(request(i, "test/sleep", {"seconds": 0.3}) for i in range(300)))
    answers = [daemon.receive() for _ in range(300)]
    assert sorted(answer["id"] for answer in answers) == list(range(300))
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert len(refused) == 300 - 256
    for error in refused:
        assert (error["code"], error["data"]["retryable"]) == (1006, True)
        assert error["data"]["detail"] == {"limit": "requestsInFlight", "value": 256, "sent": 257}


def test_I9_a_start_refused_for_load_leaves_no_recall_behind(daemon: Daemon) -> None:
    session = daemon.result("session/open", {})["sessionId"]
    busy = [request(i, "test/sleep", {"seconds": 0.5}) for i in range(256)]
    start = request("start", "recall/start", {"sessionId": session, "query": "x", "waitMs": 2_000})
    daemon.send(*busy, start)
    assert daemon.response("start")["error"]["code"] == 1006
    assert "recall" not in daemon.result("session/status", {"sessionId": session})
    for i in range(256):
        daemon.response(i)


def test_wire2_numbers_beyond_64_bits_are_answered(daemon: Daemon) -> None:
    params = {"sessionId": "huge", "lifetime": "detached", "ownerPid": 2**70}
    assert daemon.result("session/open", params)["sessionId"] == "huge"


# Requests of ours to the client


def asked(daemon: Daemon, seconds: float) -> tuple[str, Any]:
    """Start `test/ask`; (its id, the id of our request)."""
    daemon.send(request("ask", "test/ask", {"method": "test/question", "seconds": seconds}))
    question = daemon.receive()
    assert question["method"] == "test/question"
    assert isinstance(question["id"], int)
    assert question["id"] >= 2**30
    return "ask", question["id"]


def test_wire2_requests_of_ours_get_their_answer(daemon: Daemon) -> None:
    ask, msg_id = asked(daemon, 10)
    daemon.send({"jsonrpc": "2.0", "id": msg_id, "result": {"text": "yes"}})
    assert daemon.response(ask)["result"] == {"answer": {"text": "yes"}}


def test_wire2_a_null_result_without_the_member_is_an_answer(daemon: Daemon) -> None:
    """Go's `omitempty` leaves out `result: null`."""
    ask, msg_id = asked(daemon, 10)
    daemon.send({"jsonrpc": "2.0", "id": msg_id})
    assert daemon.response(ask)["result"] == {"answer": None}


@pytest.mark.parametrize(
    "error",
    [{"code": -32601, "message": "no"}, {"code": 5}, {"message": "no code"}, {}, "text", 7, [1]],
)
def test_D29_an_error_reply_of_any_shape_fails_the_request(daemon: Daemon, error: Any) -> None:
    ask, msg_id = asked(daemon, 10)
    daemon.send({"jsonrpc": "2.0", "id": msg_id, "error": error})
    assert daemon.response(ask)["result"]["error"] == "RequestFailed"


@pytest.mark.parametrize(
    "late", [{"result": {}}, {"result": None}, {"error": {"code": -32800, "message": "x"}}]
)
def test_D29_too_late_and_twice(daemon: Daemon, late: dict[str, Any]) -> None:
    ask, msg_id = asked(daemon, 0.05)
    cancel = daemon.receive()
    assert cancel == notification("$/cancelRequest", {"id": msg_id})
    assert daemon.response(ask)["result"]["error"] == "TooSlowError"
    for _ in range(2):
        daemon.send({"jsonrpc": "2.0", "id": msg_id, **late})
    assert daemon.result("test/ping") == {"pong": ""}
    assert daemon.frames.empty()


def test_D29_cancelled_by_the_client_cancels_ours_too(daemon: Daemon) -> None:
    ask, msg_id = asked(daemon, 30)
    daemon.notify("$/cancelRequest", {"id": ask})
    assert daemon.receive() == notification("$/cancelRequest", {"id": msg_id})
    assert daemon.response(ask)["error"]["code"] == -32800
    daemon.send({"jsonrpc": "2.0", "id": msg_id, "result": {}})
    assert daemon.result("test/ping") == {"pong": ""}


@pytest.mark.parametrize("msg_id", [None, 1, -1, 2**30 + 10**6, "1073741824", 1.5, True, {}, []])
def test_D29_responses_to_nothing_are_ignored(daemon: Daemon, msg_id: Any) -> None:
    daemon.send({"jsonrpc": "2.0", "id": msg_id, "result": 1})
    daemon.send({"jsonrpc": "2.0", "id": msg_id, "error": {"code": 1, "message": "x"}})
    daemon.send({"jsonrpc": "2.0", "result": 1})
    assert daemon.result("test/ping") == {"pong": ""}
    assert daemon.frames.empty()


# What each client puts on the wire (clients.md §2)

CLIENTS: dict[str, tuple[str, Any, list[Any]]] = {
    "vscodeJsonrpc": ("Content-Length: {n}\r\n\r\n", ..., [0, 1, 2]),
    "neovim": ("Content-Length: {n}\r\n\r\n", [], [1, 2, 3]),
    "emacs": ("Content-Length: {n}\r\n\r\n", None, [1, 2, 3]),
    "vim": (
        "Content-Length: {n}\r\nContent-Type: application/vim-jsonrpc; charset=utf-8\r\n\r\n",
        ...,
        [1, 2, 3],
    ),
    "lsp4j": ("Content-Length: {n}\r\n\r\n", None, ["1", "2", "3"]),
    "go": ("Content-Length: {n}\r\n\r\n", None, [0, 1, 2]),
    "pygls": (
        "Content-Length: {n}\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        None,
        ["d3b07384-d113-4ec6-8f0b-9e2a2f4a1c1" + str(i) for i in range(3)],
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_clients2_a_whole_life_as_each_client_writes_it(name: str) -> None:
    header, nothing, ids = CLIENTS[name]

    def raw(message: dict[str, Any]) -> bytes:
        body = frame(message).partition(b"\r\n\r\n")[2]
        return header.format(n=len(body)).encode() + body

    with Daemon(DAEMON) as daemon:
        opening = {
            "processId": None,
            "clientInfo": {"name": name, "version": "1"},
            "rootUri": None,
            "workspaceFolders": None if name != "neovim" else [],
            "capabilities": {"workspace": {"configuration": True}, "window": {"x": [1] * 2000}},
            "initializationOptions": nothing if nothing is not ... else {},
            "trace": "off",
            "workDoneToken": "1",
        }
        daemon.write(raw(request(ids[0], "initialize", opening)))
        answer = daemon.response(ids[0])
        assert set(answer) == {"jsonrpc", "id", "result"}
        assert isinstance(answer["result"]["capabilities"], dict)
        assert answer["result"]["serverInfo"]["name"] == "oncue"
        daemon.write(raw(notification("initialized", nothing if name != "neovim" else {})))
        daemon.write(
            raw(
                notification(
                    "workspace/didChangeConfiguration",
                    {"settings": nothing if nothing is not ... else {}},
                )
            )
        )
        daemon.write(raw(request(ids[1], "daemon/status", nothing)))
        assert daemon.response(ids[1])["result"]["clients"] == 1
        daemon.write(raw(request(ids[2], "shutdown", nothing)))
        assert daemon.response(ids[2])["result"] is None
        daemon.write(raw(notification("exit", nothing)))
        assert daemon.wait() == 0
        assert (len(daemon.raw), daemon.notifications) == (3, []), "nothing unasked is sent"
