"""A session of oncue_client with the real daemon: what is remembered arrives, once, unasked for."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from clients.client_support import own_folders, real_daemon
from oncue_client import Client, Session, connect
from oncue_client.blocking import Client as BlockingClient
from oncue_protocol import (
    Message,
    ModelGenerateParams,
    ModelGenerateResult,
    RecallEndedParams,
    RequestCancelled,
    ToolResult,
)

DEADLINE = 30.0
MEMORIES = {
    "Release steps": ("How to cut a release of the widget", "Tag with v, then run make release."),
    "Release signing key": ("Where the key that signs a release is", "In the vault, slot 9."),
    "Coffee machine": ("Descaling the office espresso machine", "Twice a year, with citric acid."),
}
QUESTION = "how do we cut a release of the widget?"


@asynccontextmanager
async def conversation(
    folder: Path, memories: dict[str, tuple[str, str]] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Session]]:
    workspace = folder / "work"
    workspace.mkdir()
    with trio.fail_after(DEADLINE):
        async with (
            connect(real_daemon(), env=own_folders(folder), **options) as client,
            client.session(workspace=workspace, wait_ms=1000) as session,
        ):
            for title, (description, body) in (MEMORIES if memories is None else memories).items():
                await client.memory_write(
                    session_id=session.session_id,
                    scope="user",
                    type="project",
                    title=title,
                    description=description,
                    body=body,
                )
            yield client, session


def titles(delivery: Any) -> list[str]:
    return [] if delivery is None else [document.title for document in delivery.documents]


async def test_R7_R9_R10_a_memory_is_delivered_before_the_words_and_once(tmp_path: Path) -> None:
    async with conversation(tmp_path) as (client, session):
        ended = client.notifications("recall/ended")
        delivery = await session.user_message(QUESTION)
        assert delivery is not None
        assert delivery.placement == "prepend"
        assert "Release steps" in titles(delivery)
        assert "Coffee machine" not in titles(delivery)
        assert "make release" in delivery.text
        assert await session.tool_results([ToolResult(call_id="c", text="ok")]) is None
        session.turn_end()
        again = await session.user_message(QUESTION)
        assert set(titles(again)).isdisjoint(titles(delivery))
        session.turn_end()
        first: RecallEndedParams = await anext(ended)
        assert (first.state, first.reason, first.point) == ("consumed", "delivered", "userQuery")


async def test_nothing_is_said_where_nothing_matches(tmp_path: Path) -> None:
    async with conversation(tmp_path) as (_, session):
        assert await session.user_message("quantum chromodynamics lattice gauge") is None
        assert session.recall_id is None


async def test_R8_a_slow_model_is_not_waited_for_and_its_choice_comes_after_the_tools(
    tmp_path: Path,
) -> None:
    asked: list[ModelGenerateParams] = []
    may_answer = trio.Event()

    async def model(params: ModelGenerateParams) -> ModelGenerateResult:
        asked.append(params)
        await may_answer.wait()
        manifest = "\n".join(message.text for message in params.messages)
        line = next(line for line in manifest.splitlines() if "Release signing key" in line)
        (name,) = re.findall(r"\bm[0-9]+\b", line)
        return ModelGenerateResult(text=json.dumps({"ids": [name]}))

    async with conversation(tmp_path, model=model) as (client, session):
        await client.workspace_did_change_configuration(
            settings={
                "oncue": {
                    "recall": {"fastDocuments": 1},
                }
            }
        )
        fast = await session.user_message(QUESTION)
        assert titles(fast) == ["Release steps"]
        assert fast is not None
        assert fast.strategy == "fast"
        assert await session.tool_results([ToolResult(call_id="c1")]) is None
        settled = client.notifications("recall/settled")
        may_answer.set()
        assert (await anext(settled)).stage == "refined"
        late = await session.tool_results([ToolResult(call_id="c2")])
        assert late is not None
        assert (late.placement, late.strategy) == ("append", "model")
        assert titles(late) == ["Release signing key"]
        assert [params.purpose for params in asked] == ["select"]


async def test_R4_the_end_of_the_turn_cancels_the_lent_model(tmp_path: Path) -> None:
    begun, cancelled = trio.Event(), trio.Event()

    async def model(_: ModelGenerateParams) -> ModelGenerateResult:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError

    async with conversation(tmp_path, model=model) as (client, session):
        ended = client.notifications("recall/ended")
        await session.start_recall(QUESTION)
        await begun.wait()
        session.turn_end("aborted")
        await cancelled.wait()
        last = await anext(ended)
        assert (last.state, last.reason) == ("cancelled", "abort")


async def test_a_poll_that_waits_can_be_left_and_the_recall_lives_on(tmp_path: Path) -> None:
    async def model(_: ModelGenerateParams) -> ModelGenerateResult:
        await trio.sleep_forever()
        raise AssertionError

    async with conversation(tmp_path, model=model) as (client, session):
        await client.workspace_did_change_configuration(
            settings={"oncue": {"recall": {"fastDocuments": 0}}}
        )
        await session.start_recall(QUESTION)
        with trio.move_on_after(0.1) as left:
            await client.recall_poll(
                session_id=session.session_id, point="toolResult", wait_ms=2000
            )
        assert left.cancelled_caught
        status = await client.session_status(session_id=session.session_id)
        assert status.recall is not None
        assert (status.recall.recall_id, status.recall.state) == (session.recall_id, "pending")


async def test_a_gap_in_the_transcript_is_closed_by_the_client(tmp_path: Path) -> None:
    async with conversation(tmp_path, {}) as (client, session):
        await session.append([Message(id="a", role="user", text="one")])
        # What another part of the program reported without this session's knowledge:
        await client.transcript_did_append(
            session_id=session.session_id,
            after_message_id="nonsense",
            messages=[Message(id="x", role="user", text="lost")],
        )
        session.last_message_id = "x"
        need = client.notifications("transcript/resyncRequired")
        await session.append([Message(id="b", role="assistant", text="two")])
        for _ in range(2):
            assert (await anext(need)).last_message_id == "a"
        opened = await client.session_open(session_id=session.session_id)
        assert opened.resumed
        assert opened.last_message_id == "b"


async def test_a_cancelled_request_raises_nothing_else(tmp_path: Path) -> None:
    async with conversation(tmp_path, {}) as (client, _):
        for _ in range(50):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.request, "memory/search", {"query": "release"})
                    await trio.lowlevel.checkpoint()
                    scope.cancel()
        assert (await client.daemon_status()).clients == 1
        assert RequestCancelled.code == -32800


def test_the_blocking_session(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with (
        BlockingClient(real_daemon(), env=own_folders(tmp_path)) as client,
        client.session(workspace=tmp_path / "work", wait_ms=1000) as session,
    ):
        for title, (description, body) in MEMORIES.items():
            client.memory_write(
                session_id=session.inner.session_id,
                scope="user",
                type="project",
                title=title,
                description=description,
                body=body,
            )
        assert "Release steps" in titles(session.user_message(QUESTION))
        session.turn_end()


@pytest.mark.parametrize("lifetime", ["connection", "detached"])
async def test_the_session_can_be_opened_again_by_id(tmp_path: Path, lifetime: Any) -> None:
    (tmp_path / "work").mkdir()
    with trio.fail_after(DEADLINE):
        async with connect(real_daemon(), env=own_folders(tmp_path)) as client:
            first = await client.session_open(workspace=str(tmp_path / "work"), lifetime=lifetime)
            again = await client.session_open(session_id=first.session_id)
            assert again.resumed
