"""oncue_client against a scripted daemon, through real pipes and processes."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
import trio
import trio.testing

from clients.client_support import is_running, open_descriptors, scripted
from oncue_client import (
    ConnectionLost,
    DaemonNotStarted,
    UnexpectedAnswer,
    connect,
)
from oncue_protocol import (
    MAIN_LANE,
    InvalidParams,
    ModelGenerateParams,
    ModelGenerateResult,
    OncueError,
    OncueOptions,
    RecallSettledParams,
    RequestCancelled,
    SessionNotFound,
)

DEADLINE = 20.0
"""Generous: nothing here takes a second, but the machine may be busy."""


@pytest.fixture(autouse=True)
async def _deadline(nursery: trio.Nursery) -> None:
    nursery.cancel_scope.deadline = trio.current_time() + DEADLINE


async def received(client: Any) -> list[dict[str, Any]]:
    return list(await client.request("script/received"))


# Life


async def test_it_shakes_hands_and_shuts_down_in_order() -> None:
    frames: list[tuple[str, Any]] = []
    async with connect(
        scripted(), trace=lambda way, body: frames.append((way, json.loads(body)))
    ) as client:
        pid = client.pid
        assert client.capabilities is not None
        assert client.capabilities.protocol_version == 1
        assert is_running(pid)
    sent = [frame["method"] for way, frame in frames if way == "send"]
    assert sent == ["initialize", "initialized", "shutdown", "exit"]
    first = frames[0][1]["params"]
    assert first["processId"] == os.getpid()
    assert first["initializationOptions"]["oncue"]["notifications"] == [
        "recall/settled",
        "recall/ended",
    ]
    assert not is_running(pid)
    assert client.transport.process.returncode == 0


async def test_D14_many_lives_leave_no_descriptor_and_no_process() -> None:
    async with connect(scripted()):
        pass
    before = open_descriptors()
    for _ in range(5):
        async with connect(scripted()) as client:
            pid = client.pid
        assert not is_running(pid)
    assert open_descriptors() == before


async def test_what_is_raised_inside_passes_unchanged_and_the_daemon_ends() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with connect(scripted()) as client:
            raise LookupError("mine")
    assert client.transport.process.returncode == 0


async def test_a_cancelled_scope_around_it_still_shuts_the_daemon_down() -> None:
    with trio.CancelScope() as scope:
        async with connect(scripted()) as client:
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert client.transport.process.returncode == 0


async def test_process_id_may_be_null_or_another() -> None:
    for given in (None, 1):
        async with connect(scripted(), process_id=given) as client:
            assert (await received(client))[0]["params"]["processId"] == given


@pytest.mark.parametrize(
    ("reactions", "how"),
    [
        ({"shutdown": [[]]}, 0),
        ({"shutdown": [[]], "exit": [[]], "$start": [[{"ignoreSigterm": 1}]]}, 0),
        ({"shutdown": [[{"deaf": 1}]]}, -signal.SIGTERM),
        ({"$start": [[{"ignoreSigterm": 1}]], "shutdown": [[{"deaf": 1}]]}, -signal.SIGKILL),
        ({"shutdown": [[{"exit": 7}]]}, 7),
    ],
)
async def test_D07_leaving_is_bounded_whatever_the_daemon_does(
    reactions: dict[str, Any], how: int
) -> None:
    async with connect(scripted(reactions), grace_s=0.3) as client:
        pass
    code = client.transport.process.returncode
    assert code in ((0, 1) if how == 0 else (how,))
    assert not is_running(client.pid)


# A daemon that does not start, or dies


async def test_a_command_that_is_not_there() -> None:
    with pytest.raises(DaemonNotStarted, match="no-such-program") as caught:
        async with connect(["no-such-program", "serve"]):
            pass
    assert "ONCUE_COMMAND" in str(caught.value)


async def test_a_daemon_that_dies_before_its_answer_tells_its_last_words() -> None:
    script = {"$start": [[{"stderr": "no database\nat all\n"}, {"exit": 3}]]}
    with pytest.raises(DaemonNotStarted) as caught:
        async with connect(scripted(script)):
            pass
    assert "exit code 3" in str(caught.value)
    assert "at all" in str(caught.value)


async def test_a_daemon_that_never_answers_initialize() -> None:
    with pytest.raises(DaemonNotStarted, match=r"within 0\.2 s"):
        async with connect(scripted({"initialize": [[]]}), handshake_s=0.2, grace_s=0.3):
            pass


async def test_a_daemon_that_refuses_initialize() -> None:
    error = {"code": -32603, "message": "not today", "data": {}}
    with pytest.raises(DaemonNotStarted, match="not today"):
        async with connect(scripted({"initialize": [[{"error": error}]]})):
            pass


async def test_something_that_is_no_oncue_daemon() -> None:
    with pytest.raises(DaemonNotStarted, match="no oncue daemon"):
        async with connect(scripted({"initialize": [[{"result": {"capabilities": {}}}]]})):
            pass
    with pytest.raises(DaemonNotStarted, match="no frame"):
        async with connect(scripted({"initialize": [[{"raw": "hello, world\r\n"}]]})):
            pass


@pytest.mark.parametrize(
    ("death", "words"),
    [
        ([{"stderr": "ouch\n"}, {"exit": 9}], ["exit code 9", "ouch"]),
        ([{"signal": 9}], ["signal 9"]),
        ([{"raw": "Content-Length: x\r\n\r\n"}, {"deaf": 1}], ["no frame"]),
        ([{"closeStdout": 1}, {"deaf": 1}], ["closed its output"]),
    ],
)
async def test_a_dying_daemon_fails_every_request_in_flight(
    death: list[dict[str, Any]], words: list[str]
) -> None:
    lost: list[ConnectionLost] = []
    async with connect(scripted({"die": [death]}), grace_s=0.3) as client:

        async def ask(method: str) -> None:
            with pytest.raises(ConnectionLost) as caught:
                await client.request(method)
            lost.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, "held")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ask, "die")
        assert client.lost is not None
        with pytest.raises(ConnectionLost):
            await client.daemon_status()
        client.notify_nowait("turn/didEnd", None)  # harmless
    assert len(lost) == 6
    assert len({id(error) for error in lost}) == 6
    for word in words:
        assert word in str(lost[0])


async def test_an_answer_just_before_death_still_counts() -> None:
    script = {"last": [[{"result": "words"}, {"exit": 0}]]}
    async with connect(scripted(script)) as client:
        assert await client.request("last") == "words"


async def test_a_daemon_that_stops_reading_is_found_out() -> None:
    async with connect(scripted({"close": [[{"closeStdin": 1}]]}), grace_s=0.3) as client:
        await client.notify("close")
        with pytest.raises(ConnectionLost, match="closed its input"):
            await client.request("x", {"big": "x" * 2_000_000})


async def test_stderr_goes_to_a_function_line_by_line() -> None:
    lines: list[str] = []
    script = {"say": [[{"stderr": "one\ntwo\nhalf"}, {"result": None}]]}
    async with connect(scripted(script), stderr=lines.append) as client:
        await client.request("say")
    assert lines == ["one", "two", "half"]


async def test_stderr_goes_to_a_file(tmp_path: Any) -> None:
    script = {"say": [[{"stderr": "one\n"}, {"result": None}]]}
    with (tmp_path / "log").open("wb") as file:
        async with connect(scripted(script), stderr=file) as client:
            await client.request("say")
    assert (tmp_path / "log").read_text() == "one\n"


# Requests


async def test_typed_methods_send_camel_case_and_return_classes() -> None:
    script = {
        "recall/start": [
            [{"result": {"recallId": "$params.recallId", "state": "pending"}}],
        ]
    }
    async with connect(scripted(script)) as client:
        result = await client.recall_start(
            session_id="s", query="q", recall_id="r1", wait_ms=5, excluded_paths=["/a"]
        )
        assert (result.recall_id, result.state, result.poll) == ("r1", "pending", None)
        sent = (await received(client))[-1]
    assert sent["params"] == {
        "sessionId": "s",
        "query": "q",
        "recallId": "r1",
        "waitMs": 5,
        "excludedPaths": ["/a"],
    }
    assert type(sent["id"]) is int


async def test_errors_are_the_protocols_classes() -> None:
    error = {
        "code": 1001,
        "message": "no session s",
        "data": {"name": "sessionNotFound", "retryable": False, "detail": {"sessionId": "s"}},
    }
    strange = {"code": 4242, "message": "new"}
    script = {"session/close": [[{"error": error}]], "memory/list": [[{"error": strange}]]}
    async with connect(scripted(script)) as client:
        with pytest.raises(SessionNotFound, match="no session s"):
            await client.session_close(session_id="s")
        with pytest.raises(OncueError) as caught:
            await client.memory_list()
        assert caught.value.code == 4242


async def test_a_result_that_does_not_fit_is_told_with_its_path() -> None:
    script = {"recall/start": [[{"result": {"recallId": 5, "state": "pending"}}]]}
    async with connect(scripted(script)) as client:
        with pytest.raises(UnexpectedAnswer, match=r"recall/start.*result\.recallId"):
            await client.recall_start(session_id="s", query="q")


async def test_answers_in_any_order_go_to_whoever_asked() -> None:
    script = {
        "two": [[{"release": "one", "result": 1}, {"result": 2}]],
        "script/release": [[{"release": "one", "result": 1}]],
    }
    got: dict[str, Any] = {}
    async with connect(scripted(script)) as client, trio.open_nursery() as nursery:

        async def ask(method: str) -> None:
            got[method] = await client.request(method)

        nursery.start_soon(ask, "one")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "two")
    assert got == {"one": 1, "two": 2}


async def test_leaving_a_scope_cancels_the_request_and_drops_the_late_answer() -> None:
    script = {"$/cancelRequest": [[{"release": "slow", "result": "late"}]]}
    async with connect(scripted(script)) as client:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    await client.request("slow")

                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        messages = await received(client)
        asked = next(message for message in messages if message["method"] == "slow")
        assert messages[-1]["params"] == {"id": asked["id"]}
        assert client._rpc.in_flight == 0
        assert client._rpc.late_answers == 1
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.request("never-sent")
        assert "never-sent" not in [m.get("method") for m in await received(client)]


async def test_bug_text_survives_both_ways() -> None:
    text = 'Größe 记忆 🧠 \u2028 \x00 \\ " \r\n'
    script = {"echo": [[{"result": "$params.text"}]]}
    async with connect(scripted(script)) as client:
        assert await client.request("echo", {"text": text}) == text
        assert await client.request("echo", {"text": "half \ud83d"}) == "half \ufffd"


async def test_D25_a_huge_send_to_a_daemon_that_is_writing_deadlocks_nobody() -> None:
    script = {
        "talk": [[{"flood": 8_000_000}, {"result": "done"}]],
        "big": [[{"result": "thanks"}]],
    }
    async with connect(scripted(script)) as client:
        floods = 0

        def count(_: Any) -> None:
            nonlocal floods
            floods += 1

        client.on("flood", count)
        got: list[Any] = []

        async def ask(method: str, params: Any = None) -> None:
            got.append(await client.request(method, params))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "talk")
            for _ in range(4):
                nursery.start_soon(ask, "big", {"text": "x" * 4_000_000})
        assert sorted(got) == ["done"] + ["thanks"] * 4
        assert floods == 800


async def test_many_small_requests_are_all_answered() -> None:
    async with connect(scripted({"echo": [[{"result": "$params.n"}]]})) as client:
        got: list[int] = []

        async def ask(number: int) -> None:
            got.append(await client.request("echo", {"n": number}))

        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(ask, number)
        assert sorted(got) == list(range(500))


# What the daemon sends

SETTLED = {"sessionId": "s", "lane": "main", "recallId": "r", "stage": "fast"}


async def test_notifications_arrive_typed_in_order_until_unsubscribed() -> None:
    script = {
        "go": [[*[{"notify": ["recall/settled", SETTLED]}] * 3, {"result": None}]],
    }
    async with connect(scripted(script)) as client:
        seen: list[RecallSettledParams] = []
        tasks: list[str] = []

        async def later(params: RecallSettledParams) -> None:
            await trio.lowlevel.checkpoint()
            tasks.append(params.recall_id)

        off = client.on("recall/settled", seen.append)
        client.on("recall/settled", later)
        with client.notifications("recall/settled") as arriving:
            await client.request("go")
            first = await anext(arriving)
        assert first == RecallSettledParams(
            session_id="s", lane=MAIN_LANE, recall_id="r", stage="fast"
        )
        assert seen == [first] * 3
        await trio.testing.wait_all_tasks_blocked()
        assert tasks == ["r"] * 3
        off()
        off()
        await client.request("go")
        assert len(seen) == 3
        assert [params async for params in arriving] == [first] * 2


async def test_an_iterator_ends_with_the_connection_and_drops_the_oldest() -> None:
    script = {
        "go": [[{"flood": 11_000_000}, {"result": None}]],
        "die": [[{"exit": 0}]],
    }
    async with connect(scripted(script)) as client:
        arriving = client.notifications("flood")
        await client.request("go")
        assert arriving.dropped == 1100 - 1024
        with pytest.raises(ConnectionLost):
            await client.request("die")
        assert len([params async for params in arriving]) == 1024
        assert [params async for params in client.notifications("flood")] == []


async def test_a_notification_that_nobody_asked_for_is_refused_with_the_remedy() -> None:
    async with connect(scripted(), options=OncueOptions()) as client:
        with pytest.raises(ValueError, match="OncueOptions"):
            client.on("recall/settled", print)
        with pytest.raises(ValueError, match="OncueOptions"):
            client.notifications("memory/didChange")


async def test_a_failing_handler_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    script = {
        "go": [
            [
                {"notify": ["recall/settled", SETTLED]},
                {"notify": ["recall/settled", {"lane": 5}]},
                {"raw": "Content-Length: 2\r\n\r\n[]Content-Length: 3\r\n\r\n{x}"},
                {"raw": 'Content-Length: 38\r\n\r\n{"jsonrpc":"2.0","id":null,"error":{}}'},
                {"result": "on"},
            ]
        ]
    }

    async def bad(_: Any) -> None:
        raise LookupError("later")

    def worse(_: Any) -> None:
        raise LookupError("at once")

    async with connect(scripted(script)) as client:
        client.on("recall/settled", bad)
        client.on("recall/settled", worse)
        assert await client.request("go") == "on"
        await trio.testing.wait_all_tasks_blocked()
    text = caplog.text
    for part in ("at once", "later", "not understood", "no JSON object", "could not read"):
        assert part in text


GENERATE = {"purpose": "select", "messages": [], "maxOutputTokens": 10, "deadlineMs": 1000}


async def test_the_daemons_requests_are_served_once_each() -> None:
    seen: list[ModelGenerateParams] = []

    async def model(params: ModelGenerateParams) -> ModelGenerateResult:
        seen.append(params)
        await trio.lowlevel.checkpoint()
        if len(seen) == 2:
            raise RuntimeError("secret details")
        return ModelGenerateResult(text='{"ids": []}')

    ask = {"request": [2**30, "model/generate", GENERATE]}
    bad = {"request": [2**30 + 2, "model/generate", {"purpose": 1}]}
    other = {"request": ["x", "other/method", None]}
    script = {
        "go": [
            [ask, {"result": None}],
            [ask, {"result": None}],
            [bad, other, {"request": [None, "model/generate", GENERATE]}, {"result": None}],
        ],
    }
    async with connect(scripted(script), model=model) as client:
        assert client.options.model_provider
        asked = (await received(client))[0]["params"]["initializationOptions"]["oncue"]
        assert asked["model"] == {"provider": "client"}
        for _ in range(3):
            await client.request("go")
            await trio.testing.wait_all_tasks_blocked()
        answers = [m for m in await received(client) if "method" not in m]
    assert answers[0] == {"jsonrpc": "2.0", "id": 2**30, "result": {"text": '{"ids": []}'}}
    assert answers[1]["error"]["code"] == -32603
    assert answers[1]["error"]["message"] == "RuntimeError"
    by_id = {answer["id"]: answer["error"]["code"] for answer in answers[2:]}
    assert by_id == {2**30 + 2: InvalidParams.code, "x": -32601, None: -32600}


async def test_D29_a_cancel_of_the_daemon_cancels_the_handler_and_is_answered() -> None:
    cancelled = trio.Event()

    async def model(_: ModelGenerateParams) -> ModelGenerateResult:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    def cancel(number: Any) -> dict[str, Any]:
        return {"notify": ["$/cancelRequest", {"id": number}]}

    script = {
        "go": [
            [
                cancel(2**30),
                {"request": [2**30, "model/generate", GENERATE]},
                {"request": [2**30, "model/generate", GENERATE]},
                cancel(2**30),
                cancel(99),
                cancel(None),
                {"result": None},
            ]
        ]
    }
    async with connect(scripted(script), model=model) as client:
        await client.request("go")
        await trio.testing.wait_all_tasks_blocked()
        answers = [m for m in await received(client) if "method" not in m]
    codes = sorted((str(answer["id"]), answer["error"]["code"]) for answer in answers)
    assert codes == [(str(2**30), RequestCancelled.code), ("None", -32600)]
