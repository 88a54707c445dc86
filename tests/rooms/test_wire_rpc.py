"""The message layer in one process: any messages, in any order, are answered exactly once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from oncue.settings import ConnectionSettings
from oncue.wire.outbox import HIGH_WATER, Outbox
from oncue.wire.peer import Peer, Stage
from oncue.wire.rpc import FIRST_OUTGOING_ID, MAX_HELD, MAX_IN_FLIGHT, MAX_OUTGOING, Rpc, thread
from oncue_protocol import LimitExceeded, RequestFailed
from oncue_protocol.framing import FrameReader

Json = dict[str, Any]


class Box(Outbox):
    """An outbox whose client reads when the test says so."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.frames: list[bytes] = []
        self.is_read = True

    def flush(self) -> None:
        if self.is_read:
            self.frames += [bytes(frame) for frame in self._queue]
            self._queue.clear()
            self.size = 0

    def messages(self) -> list[Any]:
        self.flush()
        bodies = FrameReader().feed(b"".join(self.frames))
        return [json.loads(body) for body in bodies]  # type: ignore[arg-type]


def inline(peer: Peer, params: Json) -> Json:
    return {"got": params}


def fails(peer: Peer, params: Json) -> None:
    raise ValueError("secret text")


async def waits(peer: Peer, params: Json) -> Json:
    await trio.sleep(1)
    return {}


async def at_once(peer: Peer, params: Json) -> None:
    return None


@thread
def in_thread(peer: Peer, params: Json) -> Json:
    return {"thread": True}


def ends(peer: Peer, params: Json) -> None:
    peer.shut_down()


def begins(peer: Peer, params: Any) -> None:
    peer.stage = Stage.SERVING


HANDLERS = {
    "initialize": begins,
    "shutdown": ends,
    "x/inline": inline,
    "x/fails": fails,
    "x/waits": waits,
    "x/atOnce": at_once,
    "x/thread": in_thread,
}


def make(nursery: trio.Nursery, stage: Stage = Stage.SERVING) -> tuple[Peer, Rpc, Box]:
    peer = Peer(1, None, ConnectionSettings())  # type: ignore[arg-type]
    box = Box()
    rpc = Rpc(peer, box)
    peer.link, peer.nursery, peer.stage = rpc, nursery, stage
    rpc.register(HANDLERS)
    return peer, rpc, box


def send(rpc: Rpc, *messages: Any) -> None:
    for message in messages:
        rpc.handle(message if isinstance(message, bytes) else json.dumps(message).encode())


def request(msg_id: Any, method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ids = (
    st.integers(0, 4)
    | st.sampled_from(["0", "1", "x"])
    | st.sampled_from([None, 1.5, True, [], {}])
)
methods = st.sampled_from([*HANDLERS, "$/cancelRequest", "x/unknown", "$/unknown", "initialized"])
messages = st.one_of(
    st.fixed_dictionaries(
        {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0"]), "method": methods},
        optional={"id": ids, "params": json_values | st.fixed_dictionaries({"id": ids})},
    ),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0")}, optional={"id": ids, "result": json_values}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": ids, "error": json_values}),
    json_values,
    st.binary(max_size=20),
)


def is_id(value: Any) -> bool:
    return type(value) in (int, str)


@settings(deadline=None, max_examples=150)
@given(st.lists(messages, max_size=25), st.lists(st.booleans(), min_size=25, max_size=25))
def test_I1_I4_every_request_is_answered_exactly_once(sent: list[Any], pauses: list[bool]) -> None:
    async def run() -> list[Any]:
        async with trio.open_nursery() as nursery:
            _, rpc, box = make(nursery, Stage.NEW)
            for message, pause in zip(sent, pauses, strict=False):
                send(rpc, message)
                if pause:
                    await trio.lowlevel.checkpoint()
            await rpc.wait_idle(60)
            assert rpc.in_flight == 0
        return box.messages()

    answers = trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0.0))
    asked: Counter[tuple[str, Any]] = Counter()
    for message in sent:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            continue
        if isinstance(message.get("method"), str) and is_id(message.get("id")):
            asked[type(message["id"]).__name__, message["id"]] += 1
    answered: Counter[tuple[str, Any]] = Counter()
    for answer in answers:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
        msg_id = answer["id"]
        if msg_id is None:
            duplicate = answer["error"]["data"].get("id")
            if duplicate is None:
                continue
            msg_id = duplicate
        answered[type(msg_id).__name__, msg_id] += 1
    assert answered == asked


async def test_wire1_a_handler_that_is_not_bound_is_refused() -> None:
    async with trio.open_nursery() as nursery:
        _, rpc, _ = make(nursery)

        def handler(peer: Nowhere, params: Json) -> None: ...  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(TypeError, match="x/unbound"):
            rpc.register({"x/unbound": handler})


async def test_house4_an_inline_answer_needs_no_turn_of_the_loop() -> None:
    async with trio.open_nursery() as nursery:
        _, rpc, box = make(nursery)
        with trio.testing.assert_no_checkpoints():
            send(rpc, request(1, "x/inline", a=1))
        assert box.messages() == [{"jsonrpc": "2.0", "id": 1, "result": {"got": {"a": 1}}}]


async def test_wire2_the_scope_is_there_before_the_task() -> None:
    async with trio.open_nursery() as nursery:
        _, rpc, box = make(nursery)
        send(
            rpc,
            request(1, "x/waits"),
            {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}},
        )
        assert rpc.in_flight == 1
        await rpc.wait_idle(5)
        assert [answer["error"]["code"] for answer in box.messages()] == [-32800]


async def test_wire4_answers_after_the_deadline_of_wait_idle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        _, rpc, box = make(nursery)
        send(rpc, request(1, "x/waits"))
        await rpc.wait_idle(0.5)
        assert rpc.in_flight == 1
        await rpc.wait_idle(5)
        assert box.messages()[0]["result"] == {}


async def test_D25_congestion_holds_requests_and_keeps_order() -> None:
    async with trio.open_nursery() as nursery:
        _, rpc, box = make(nursery)
        box.is_read = False
        box.put(b"x" * (HIGH_WATER + 1))
        send(rpc, *(request(i, "x/inline", i=i) for i in range(MAX_IN_FLIGHT + 10)))
        assert rpc.in_flight == MAX_IN_FLIGHT
        assert rpc.counters.refused == 10
        box._queue.popleft()
        box.size -= HIGH_WATER + 1
        box.is_read = True
        assert box.on_drained is not None
        box.on_drained()
        assert rpc.in_flight == 0
        answers = box.messages()
        assert [a["id"] for a in answers if "result" in a] == list(range(MAX_IN_FLIGHT))


async def test_D25_too_many_held_notifications_close_the_connection() -> None:
    async with trio.open_nursery() as nursery:
        _, rpc, box = make(nursery)
        box.is_read = False
        box.put(b"x" * (HIGH_WATER + 1))
        send(rpc, request("first", "x/inline"))
        for _ in range(MAX_HELD):
            send(rpc, {"jsonrpc": "2.0", "method": "x/inline"})
        assert box.closed == "overflow"


async def test_D29_requests_to_the_client_are_bounded_and_fail_with_the_connection() -> None:
    async with trio.open_nursery() as nursery:
        peer, rpc, box = make(nursery)
        failures: list[str] = []

        async def ask() -> None:
            with pytest.raises(RequestFailed):
                await peer.request("x/question", {}, 60)
            failures.append("closed")

        async with trio.open_nursery() as asking:
            for _ in range(MAX_OUTGOING):
                asking.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(LimitExceeded):
                await peer.request("x/question", {}, 60)
            asked = [message["id"] for message in box.messages()]
            assert sorted(asked) == list(range(FIRST_OUTGOING_ID, FIRST_OUTGOING_ID + MAX_OUTGOING))
            peer.closed = True
            rpc.close()
        assert len(failures) == MAX_OUTGOING
        with pytest.raises(RequestFailed):
            await peer.request("x/question", {}, 60)


async def test_D29_nothing_is_left_in_pygls_tables() -> None:
    async with trio.open_nursery() as nursery:
        peer, rpc, _ = make(nursery)
        with pytest.raises(trio.TooSlowError):
            await peer.request("x/question", {}, 0)
        assert rpc._request_futures == {}
        assert rpc._result_types == {}
