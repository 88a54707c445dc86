"""oncue_client.Session: local settling, the transcript's sync, and what a turn may not suffer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from clients.client_support import SESSION_OPEN, Script, delivery, scripted
from oncue_client import Client, ConnectionLost, Session, connect
from oncue_protocol import Message, OncueOptions, ToolResult

DEADLINE = 20.0
RECALL = {"sessionId": "$params.sessionId", "lane": "main", "recallId": "$params.recallId"}
NO_NOTES = OncueOptions()
OPEN_AND_CLOSE: Script = {"session/open": [SESSION_OPEN], "session/close": [[{"result": None}]]}


def started(poll: dict[str, Any] | None = None) -> dict[str, Any]:
    result: dict[str, Any] = {"recallId": "$params.recallId", "state": "pending"}
    if poll is not None:
        result["poll"] = {"recallId": "$params.recallId", **poll}
    return {"result": result}


def settled(stage: str) -> dict[str, Any]:
    return {"notify": ["recall/settled", {**RECALL, "stage": stage}]}


PENDING = {"outcome": "pending"}
FAST = {"outcome": "delivered", "stage": "fast", "delivery": delivery("fast")}
REFINED = {
    "outcome": "delivered",
    "stage": "refined",
    "delivery": delivery("refined", "append"),
}


class Talk:
    """A client, its session, and the frames that passed."""

    def __init__(self, client: Client, session: Session, frames: list[Any]) -> None:
        self.client = client
        self.session = session
        self._frames = frames

    def sent(self, method: str) -> list[Any]:
        return [
            frame.get("params")
            for way, frame in self._frames
            if way == "send" and frame.get("method") == method
        ]

    async def sync(self) -> None:
        """Whatever the daemon has sent has been handled after this."""
        await self.client.request("script/received")


@asynccontextmanager
async def talk(
    script: Script, options: OncueOptions | None = None, **keywords: Any
) -> AsyncIterator[Talk]:
    frames: list[Any] = []
    with trio.fail_after(DEADLINE):
        async with (
            connect(
                scripted({**OPEN_AND_CLOSE, **script}),
                options=options,
                trace=lambda way, body: frames.append((way, json.loads(body))),
            ) as client,
            client.session(session_id="s", **keywords) as session,
        ):
            yield Talk(client, session, frames)


def text_of(message: Any) -> str | None:
    return None if message is None else message.text


async def test_R16_a_delivery_comes_with_the_answer_to_start(tmp_path: Any) -> None:
    script: Script = {"recall/start": [[started(REFINED)]], "session/close": [[{"result": None}]]}
    async with talk(script, workspace=tmp_path) as it:
        assert text_of(await it.session.user_message("how?", message_id="m1")) == "refined"
        assert it.session.recall_id is None
        assert await it.session.tool_results([ToolResult(call_id="c")]) is None
        it.session.turn_end()
        it.session.turn_end("aborted")
        assert it.sent("session/open") == [{"sessionId": "s", "workspace": str(tmp_path)}]
        (start,) = it.sent("recall/start")
        assert (start["query"], start["turnId"], start["waitMs"]) == ("how?", "m1", 30)
        assert it.sent("recall/poll") == []
        append = it.sent("transcript/didAppend")
        assert append[0]["messages"] == [{"id": "m1", "role": "user", "text": "how?"}]
        assert append[1]["afterMessageId"] == "m1"
        assert append[1]["messages"][0]["toolResults"] == [{"callId": "c"}]
        assert it.sent("turn/didEnd")[0] == {
            "sessionId": "s",
            "turnId": "m1",
            "reason": "completed",
        }
    assert it.sent("session/close") == [{"sessionId": "s"}]


async def test_R8_a_slow_recall_is_taken_at_the_first_tool_result_after_it_settled() -> None:
    script: Script = {
        "recall/start": [[started(PENDING)]],
        "settle": [[settled("refined"), {"result": None}]],
        "recall/poll": [[{"result": {**REFINED, "recallId": "$params.recallId"}}]],
    }
    async with talk(script) as it:
        assert await it.session.user_message("how?") is None
        assert await it.session.tool_results([]) is None
        assert it.sent("recall/poll") == []  # local settling: nothing can be there
        recall = {"sessionId": "s", "recallId": it.session.recall_id}
        await it.client.request("settle", recall)
        assert text_of(await it.session.tool_results([])) == "refined"
        (poll,) = it.sent("recall/poll")
        assert (poll["point"], poll["recallId"]) == ("toolResult", recall["recallId"])
        assert await it.session.tool_results([]) is None
        assert len(it.sent("recall/poll")) == 1


async def test_fast_then_refined_are_each_taken_once() -> None:
    script: Script = {
        "recall/start": [[settled("fast"), started(FAST)]],
        "settle": [[settled("refined"), {"result": None}]],
        "recall/poll": [[{"result": {**REFINED, "recallId": "$params.recallId"}}]],
    }
    async with talk(script) as it:
        assert text_of(await it.session.user_message("how?")) == "fast"
        assert await it.session.tool_results([]) is None
        assert it.sent("recall/poll") == []
        await it.client.request("settle", {"sessionId": "s", "recallId": it.session.recall_id})
        assert text_of(await it.session.tool_results([])) == "refined"
        assert it.session.recall_id is None


async def test_what_settles_while_a_poll_is_under_way_is_not_forgotten() -> None:
    script: Script = {
        "recall/start": [[settled("fast"), started(PENDING)]],
        "recall/poll": [
            [{"result": PENDING}, settled("refined")],
            [{"result": {**REFINED, "recallId": "$params.recallId"}}],
        ],
    }
    async with talk(script) as it:
        await it.session.user_message("how?")
        assert await it.session.take("toolResult") is None
        await it.sync()
        assert text_of(await it.session.take("toolResult")) == "refined"


async def test_without_the_notification_every_point_is_polled_while_the_recall_lives() -> None:
    script: Script = {
        "recall/start": [[started()]],
        "recall/poll": [[{"result": PENDING}], [{"result": {"outcome": "empty"}}]],
    }
    async with talk(script, NO_NOTES, wait_ms=0) as it:
        assert await it.session.user_message("how?") is None
        assert await it.session.tool_results([]) is None
        assert await it.session.tool_results([]) is None
        points = [poll["point"] for poll in it.sent("recall/poll")]
        assert points == ["userQuery", "toolResult"]
        assert "waitMs" not in it.sent("recall/start")[0]


async def test_R7_start_and_take_apart_without_any_wait() -> None:
    script: Script = {
        "recall/start": [[started(), settled("refined")]],
        "recall/poll": [[{"result": {**REFINED, "recallId": "$params.recallId"}}]],
    }
    async with talk(script) as it:
        await it.session.start_recall("how?")
        await it.sync()  # the client prepares its model meanwhile
        assert text_of(await it.session.take("userQuery")) == "refined"


async def test_R2_news_of_an_older_recall_is_ignored() -> None:
    script: Script = {
        "recall/start": [[started(PENDING)]],
        "old": [
            [
                {"notify": ["recall/settled", {**RECALL, "recallId": "old", "stage": "fast"}]},
                {"notify": ["recall/settled", {**RECALL, "sessionId": "t", "stage": "fast"}]},
                {
                    "notify": [
                        "recall/ended",
                        {
                            **RECALL,
                            "recallId": "old",
                            "state": "replaced",
                            "reason": "newQuery",
                            "documents": 0,
                            "latencyMs": 1,
                        },
                    ]
                },
                {"result": None},
            ]
        ],
    }
    async with talk(script) as it:
        await it.session.user_message("one")
        await it.session.user_message("two")
        assert len(it.sent("recall/start")) == 2
        await it.client.request("old", {"sessionId": "s", "recallId": it.session.recall_id})
        assert it.session.recall_id is not None
        assert await it.session.take("toolResult") is None
        assert it.sent("recall/poll") == []


async def test_a_recall_that_ended_elsewhere_is_not_polled() -> None:
    ended = {**RECALL, "state": "expired", "reason": "lifetime", "documents": 0, "latencyMs": 1}
    script: Script = {
        "recall/start": [[started(PENDING), settled("fast"), {"notify": ["recall/ended", ended]}]]
    }
    async with talk(script) as it:
        await it.session.user_message("one")
        await it.sync()
        assert it.session.recall_id is None
        assert await it.session.take("toolResult") is None


async def test_R4_leaving_user_message_by_cancellation_cancels_the_recall() -> None:
    async with talk({"recall/start": [[]]}) as it:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(it.session.user_message, "how?")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        it.session.turn_end("aborted")
        await it.sync()
        (start,) = it.sent("recall/start")
        (cancel,) = it.sent("recall/cancel")
        assert cancel["recallId"] == start["recallId"]
        assert it.sent("turn/didEnd")[0]["reason"] == "aborted"


async def test_R6_an_error_of_the_daemon_never_reaches_the_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = {"code": 1005, "message": "disk full", "data": {"name": "storeUnavailable"}}
    script: Script = {
        "recall/start": [[{"error": error}], [settled("fast"), started(PENDING)]],
        "recall/poll": [[{"error": error}]],
    }
    async with talk(script) as it:
        assert await it.session.user_message("one") is None
        assert await it.session.tool_results([]) is None
        assert await it.session.user_message("two") is None
        assert await it.session.tool_results([]) is None
    assert caplog.text.count("the turn goes on: disk full") == 2


async def test_a_lost_daemon_does_reach_the_turn() -> None:
    with pytest.raises(ConnectionLost):
        async with talk({"recall/start": [[{"exit": 1}]]}) as it:
            await it.session.user_message("one")


def messages(*ids: str) -> list[Message]:
    return [Message(id=one, role="user", text=one) for one in ids]


async def test_a_resync_sends_again_what_follows_the_daemons_last_message() -> None:
    need = {"sessionId": "s", "lastMessageId": "$params.last"}
    script: Script = {
        "need": [[{"notify": ["transcript/resyncRequired", need]}, {"result": None}]],
        "all": [[{"notify": ["transcript/resyncRequired", {"sessionId": "s"}]}, {"result": None}]],
    }
    async with talk(script) as it:
        await it.session.append(messages("a", "b"))
        await it.session.append(messages("c"))
        await it.session.append(messages("b"))  # reported again: no new last message
        assert it.session.last_message_id == "c"
        for last, after, ids in (
            ("a", "a", ["b", "c"]),
            ("c", None, None),
            ("unknown", "unknown", ["a", "b", "c"]),
        ):
            before = len(it.sent("transcript/didAppend"))
            await it.client.request("need", {"last": last})
            new = it.sent("transcript/didAppend")[before:]
            if ids is None:
                assert new == []
            else:
                (append,) = new
                assert append["afterMessageId"] == after
                assert [message["id"] for message in append["messages"]] == ids
        await it.client.request("all")
        append = it.sent("transcript/didAppend")[-1]
        assert "afterMessageId" not in append
        assert len(append["messages"]) == 3


async def test_resume_goes_on_from_the_daemons_last_message() -> None:
    opened = {**SESSION_OPEN[0]["result"], "resumed": True, "lastMessageId": "m7"}
    async with talk({"session/open": [[{"result": opened}]]}) as it:
        await it.session.append(messages("m8"))
        assert it.sent("transcript/didAppend")[0]["afterMessageId"] == "m7"
        it.session.reset("rewound")
        await it.session.append(messages("n1"))
        assert "afterMessageId" not in it.sent("transcript/didAppend")[1]
        it.session.will_compact()
        it.session.did_compact(kept_from_message_id="n1", context_tokens=5)
        assert it.sent("transcript/didReset") == [{"sessionId": "s", "reason": "rewound"}]
        assert it.sent("transcript/didCompact") == [
            {"sessionId": "s", "keptFromMessageId": "n1", "contextTokens": 5}
        ]


async def test_a_replaced_daemon_gets_the_session_and_its_transcript_again() -> None:
    script: Script = {
        "lose": [[{"notify": ["session/lost", {"sessionId": "s"}]}, {"result": None}]],
        "recall/start": [[started(REFINED)]],
    }
    async with talk(script) as it:
        await it.session.append(messages("a", "b"))
        await it.client.request("lose")
        assert text_of(await it.session.user_message("how?", message_id="c")) == "refined"
        assert len(it.sent("session/open")) == 2
        again, new = it.sent("transcript/didAppend")[1:]
        assert [message["id"] for message in again["messages"]] == ["a", "b"]
        assert new["afterMessageId"] == "b"


async def test_an_observer_sends_and_takes_nothing() -> None:
    script: Script = {
        "turn": [
            [
                {"notify": ["session/roleChanged", {"sessionId": "s", "role": "observer"}]},
                {"result": None},
            ]
        ]
    }
    async with talk(script) as it:
        await it.client.request("turn")
        assert it.session.role == "observer"
        assert await it.session.user_message("how?") is None
        assert await it.session.tool_results([]) is None
        it.session.turn_end()
    for method in ("transcript/didAppend", "recall/start", "turn/didEnd", "session/close"):
        assert it.sent(method) == []


async def test_a_refused_delivery_is_asked_for_again() -> None:
    options = OncueOptions(acknowledge_deliveries=True, notifications=("recall/settled",))
    script: Script = {
        "recall/start": [[started(REFINED)]],
        "recall/poll": [[{"result": {**REFINED, "recallId": "$params.recallId"}}]],
    }
    async with talk(script, options) as it:
        first = await it.session.user_message("how?")
        assert first is not None
        assert await it.session.take("toolResult") is None
        it.session.acknowledge(first, accepted=False)
        assert text_of(await it.session.take("toolResult")) == "refined"
        assert it.sent("recall/acknowledge") == [{"deliveryId": "d1", "accepted": False}]
