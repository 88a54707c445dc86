"""oncue_client.blocking against a scripted daemon."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from clients.client_support import SESSION_OPEN, delivery, is_running, scripted
from oncue_client import ClientError, ConnectionLost, DaemonNotStarted, RequestTimedOut
from oncue_client.blocking import Client
from oncue_protocol import Message, SessionNotFound, ToolResult


def test_typed_calls_block_and_the_daemon_ends_with_the_block() -> None:
    script = {"recall/start": [[{"result": {"recallId": "r", "state": "pending"}}]]}
    with Client(scripted(script)) as client:
        pid = client.inner.pid
        assert client.recall_start(session_id="s", query="q").recall_id == "r"
        client.turn_did_end(session_id="s", reason="completed")
        client.notify("x", {"a": 1})
        methods = [m["method"] for m in client.request("script/received")]
    assert methods[-3:] == ["recall/start", "turn/didEnd", "x"]
    assert not is_running(pid)
    client.close()
    with pytest.raises(ClientError):
        client.daemon_status()


def test_a_time_out_cancels_at_the_daemon_and_the_next_call_works() -> None:
    with Client(scripted(), timeout=20) as client:
        with pytest.raises(RequestTimedOut, match=r"0\.05 s"):
            client.request("held", timeout=0.05)
        methods = [m["method"] for m in client.request("script/received")]
        assert methods[-2:] == ["held", "$/cancelRequest"]


def test_errors_pass() -> None:
    error = {"code": 1001, "message": "gone", "data": {}}
    script: dict[str, Any] = {
        "session/close": [[{"error": error}]],
        "die": [[{"stderr": "ouch\n"}, {"exit": 4}]],
    }
    with Client(scripted(script), grace_s=0.3) as client:
        with pytest.raises(SessionNotFound, match="gone"):
            client.session_close(session_id="s")
        with pytest.raises(ConnectionLost, match="ouch"):
            client.request("die")
    with pytest.raises(DaemonNotStarted), Client(["no-such-program"]):
        pass
    with pytest.raises(ClientError, match="with"):
        Client(scripted()).daemon_status()


def test_several_threads_share_one_client() -> None:
    got: list[int] = []
    with Client(scripted({"echo": [[{"result": "$params.n"}]]})) as client:

        def ask(start: int) -> None:
            got.extend(client.request("echo", {"n": start + i}) for i in range(20))

        threads = [threading.Thread(target=ask, args=(20 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == list(range(80))


def test_closing_wakes_whoever_waits() -> None:
    outcome: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    begun = threading.Event()
    client = Client(scripted({"recall/peek": [[]]})).start()

    def wait() -> None:
        try:
            begun.set()
            client.request("held")
        except BaseException as error:
            outcome.put(error)

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    client.close()
    thread.join()
    assert isinstance(outcome.get_nowait(), ClientError)


def test_notifications_come_through_a_queue_and_handlers_may_not_call() -> None:
    note = {"notify": ["hello", {"n": 1}]}
    refused: list[BaseException] = []
    with Client(scripted({"go": [[note, note, {"result": None}]]})) as client:

        def handler(_: Any) -> None:
            try:
                client.daemon_status()
            except ClientError as error:
                refused.append(error)

        client.on("hello", handler)
        with client.notifications("hello") as arriving:
            client.request("go")
            assert arriving.get(timeout=5) == {"n": 1}
            assert arriving.get(timeout=5) == {"n": 1}
        client.request("go")
        assert arriving.empty()
    assert "itself" in str(refused[0])


def test_a_session_settles_locally_here_too() -> None:
    poll = {"outcome": "delivered", "stage": "refined", "delivery": delivery("remembered")}
    start = {"recallId": "$params.recallId", "state": "consumed", "poll": poll}
    script = {"session/open": [SESSION_OPEN], "recall/start": [[{"result": start}]]}
    script["session/close"] = [[{"result": None}]]
    with Client(scripted(script)) as client:
        with client.session(session_id="s") as session:
            taken = session.user_message("how?")
            assert taken is not None
            assert taken.text == "remembered"
            session.append([Message(id="a", role="assistant")])
            assert session.tool_results([ToolResult(call_id="c")]) is None
            session.turn_end()
        methods = [m["method"] for m in client.request("script/received")]
    assert methods[2:] == [
        "session/open",
        "transcript/didAppend",
        "recall/start",
        "transcript/didAppend",
        "transcript/didAppend",
        "turn/didEnd",
        "session/close",
    ]
