"""The `client` provider: a model that the editor lends (protocol.md, Models)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import define, field
from structlog.testing import capture_logs

from oncue.models.client import ClientGenerator, ModelUnavailableError
from oncue.recall.recalls import Recalls
from oncue.settings import RecallSettings
from oncue_protocol import (
    ModelGenerateParams,
    ModelGenerateResult,
    ModelMessage,
    RecallPollParams,
    RecallStartParams,
)
from recall_doubles import NOW, ScriptedFinder, hits

QUESTION = ModelGenerateParams(
    purpose="select",
    messages=(ModelMessage(role="user", text="which?"),),
    max_output_tokens=64,
    deadline_ms=2_000,
)


CHOICE = ModelGenerateResult(text='{"ids": ["m2"]}')


@define
class ScriptedPeer:
    """A connection whose client answers this, after so long."""

    answer: Any = CHOICE
    seconds: float = 0.0
    closed: bool = False
    asked: list[tuple[str, Any, float]] = field(factory=list)
    cancelled: int = 0

    async def request(self, method: str, params: Any, deadline_s: float) -> Any:
        self.asked.append((method, params, deadline_s))
        try:
            with trio.fail_after(deadline_s):
                await trio.sleep(self.seconds)
        except trio.Cancelled:
            self.cancelled += 1
            raise
        return self.answer


async def test_the_question_goes_out_once_with_its_deadline() -> None:
    peer = ScriptedPeer()
    assert await ClientGenerator(peer).generate(QUESTION) is peer.answer
    assert peer.asked == [("model/generate", QUESTION, 2.5)]


async def test_a_closed_connection_has_no_model() -> None:
    peer = ScriptedPeer(closed=True)
    with pytest.raises(ModelUnavailableError, match="disconnected"):
        await ClientGenerator(peer).generate(QUESTION)
    assert peer.asked == []


@pytest.mark.parametrize("answer", [None, {"text": "x"}, "m2"])
async def test_an_answer_of_another_kind_is_refused(answer: Any) -> None:
    with pytest.raises(ModelUnavailableError, match="must answer"):
        await ClientGenerator(ScriptedPeer(answer)).generate(QUESTION)


async def test_a_client_that_never_answers_is_too_slow(autojump_clock: Any) -> None:
    with pytest.raises(trio.TooSlowError):
        await ClientGenerator(ScriptedPeer(seconds=1e9)).generate(QUESTION)


async def test_recall_through_a_lent_model(nursery: trio.Nursery, autojump_clock: Any) -> None:
    peer = ScriptedPeer(seconds=1)
    recalls = Recalls(
        session_id="s",
        nursery=nursery,
        finder=ScriptedFinder(hits("a", "b", "c")),
        generator=lambda: ClientGenerator(peer),
        limits=RecallSettings,
        wall=lambda: NOW,
        on_event=lambda event: None,
    )
    recalls.start(RecallStartParams(session_id="s", query="q"))
    await trio.sleep(2)
    answer = recalls.poll(RecallPollParams(session_id="s", point="toolResult"))
    assert answer.delivery is not None
    assert [one.path for one in answer.delivery.documents] == ["/m/b.md"]

    peer.seconds = 1e9  # the user types again: the client is told
    recalls.start(RecallStartParams(session_id="s", query="q"))
    await trio.sleep(1)
    recalls.start(RecallStartParams(session_id="s", query="q"))
    await trio.sleep(1)
    assert peer.cancelled == 1

    peer.closed = True  # the editor goes; what the ranker found stands
    with capture_logs() as logs:
        recalls.start(RecallStartParams(session_id="s", query="q"))
        await trio.sleep(1)
    answer = recalls.poll(RecallPollParams(session_id="s", point="toolResult"))
    assert answer.delivery is not None
    assert answer.delivery.strategy == "fallback"
    assert [one["event"] for one in logs] == ["recall.model_failed"]
