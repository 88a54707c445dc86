"""A scripted stand-in for a connected client: a daemon with one lane, on trio's clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import trio

from oncue.replay.report import Decision, Extraction, Handed, Turn
from oncue_protocol import (
    DeliveredDocument,
    Delivery,
    EndedRecall,
    Message,
    RecallPollResult,
    RecallSettledParams,
    RecallStartResult,
)


def document(title: str) -> DeliveredDocument:
    return DeliveredDocument(
        path=f"/memory/{title}.md", title=title, description="", type="project", scope="project",
        score=1.0, confidence=0.9, origin="mine", trust="trusted", written_by="human", sha256="",
        age_ms=0, modified="2026-01-01T00:00:00Z", truncated=False,
    )  # fmt: skip


class FakeClient:
    """Answers as a daemon whose fast stage takes `fast_s` and whose search `settle_s` seconds.

    `calls` holds every message in order; `settle_s` may be a list: one a recall."""

    def __init__(
        self, nursery: trio.Nursery, *, fast_s: float = 0.003, settle_s: float | list[float] = 0.9
    ) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fast_s = fast_s
        self.settles = settle_s if isinstance(settle_s, list) else [settle_s]
        self.handlers: dict[str, Callable[[Any], object]] = {}
        self.live: str | None = None
        self.ended: EndedRecall | None = None
        self.deliveries = 0
        self._nursery = nursery
        self._ready: dict[str, set[str]] = {}
        self._sent: set[str] = set()
        self._changed = trio.Event()
        self._starts = 0

    def on(self, method: str, handler: Callable[[Any], object]) -> Callable[[], None]:
        self.handlers[method] = handler
        return lambda: None

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _end(self, state: Any, reason: Any) -> None:
        if self.live is not None:
            self.ended = EndedRecall(recall_id=self.live, state=state, reason=reason)
            self.live = None

    async def _search(self, recall_id: str, seconds: float, stage: Any) -> None:
        await trio.sleep(seconds)
        if self.live == recall_id:
            self._ready[recall_id].add(stage)
            self.handlers["recall/settled"](
                RecallSettledParams(session_id="s", lane="main", recall_id=recall_id, stage=stage)
            )
            self._changed.set()
            self._changed = trio.Event()

    async def recall_start(self, **given: Any) -> RecallStartResult:
        self.calls.append(("recall/start", given))
        replaced = self.live
        self._end("replaced", "newQuery")
        recall_id = given["recall_id"]
        self.live, self._ready[recall_id] = recall_id, set()
        settle_s = self.settles[self._starts % len(self.settles)]
        self._starts += 1
        self._nursery.start_soon(self._search, recall_id, self.fast_s, "fast")
        if math.isfinite(settle_s):
            self._nursery.start_soon(self._search, recall_id, settle_s, "refined")
        return RecallStartResult(recall_id=recall_id, state="pending", replaced=replaced)

    async def recall_poll(self, *, point: Any, wait_ms: int, **given: Any) -> RecallPollResult:
        self.calls.append(("recall/poll", {"point": point, "wait_ms": wait_ms}))
        recall_id = self.live
        if recall_id is None:
            return RecallPollResult(outcome="none", ended=self.ended)
        with trio.move_on_after(wait_ms / 1000):
            while not self._ready[recall_id]:
                await self._changed.wait()
        ready = self._ready[recall_id]
        if "refined" in ready:
            self._end("consumed", "delivered")
            return self._delivered(recall_id, point, "refined")
        if "fast" in ready and recall_id not in self._sent:
            self._sent.add(recall_id)
            return self._delivered(recall_id, point, "fast")
        return RecallPollResult(outcome="pending", recall_id=recall_id)

    def _delivered(self, recall_id: str, point: Any, stage: Any) -> RecallPollResult:
        self.deliveries += 1
        delivery = Delivery(
            delivery_id=f"d{self.deliveries}",
            placement="prepend" if point == "userQuery" else "append",
            text=f"<remembered {self.deliveries}>",
            documents=(document(f"{stage} of {recall_id}"),),
            strategy="fast" if stage == "fast" else "model",
            text_tokens=10,
        )
        return RecallPollResult(
            outcome="delivered", recall_id=recall_id, stage=stage, delivery=delivery
        )

    async def recall_peek(self, **given: Any) -> RecallPollResult:
        self.calls.append(("recall/peek", given))
        return RecallPollResult(outcome="none", ended=self.ended)

    async def turn_did_end(self, *, reason: Any, **given: Any) -> None:
        self.calls.append(("turn/didEnd", {"reason": reason, **given}))
        self._end("cancelled", "abort" if reason == "aborted" else "noSafeDeliveryPoint")

    async def transcript_did_append(self, **given: Any) -> None:
        self.calls.append(("transcript/didAppend", given))

    async def transcript_will_compact(self, **given: Any) -> None:
        self.calls.append(("transcript/willCompact", given))

    async def transcript_did_compact(self, **given: Any) -> None:
        self.calls.append(("transcript/didCompact", given))

    async def transcript_did_reset(self, **given: Any) -> None:
        self.calls.append(("transcript/didReset", given))
        self._end("cancelled", "reset")


class Notebook:
    """An Observer that remembers."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.notes: list[str] = []
        self.ticks = 0

    def turn_started(self, turn: Turn) -> None:
        pass

    def stage_ready(self, turn: Turn, stage: str) -> None:
        pass

    def handed(self, turn: Turn, handed: Handed) -> None:
        pass

    def turn_ended(self, turn: Turn) -> None:
        self.turns.append(turn)

    def noted(self, what: str, turn: int) -> None:
        self.notes.append(what)

    def extraction(self, run: Extraction) -> None:
        pass

    def decided(self, decision: Decision) -> None:
        pass

    def tick(self, turn: Turn | None, now_s: float) -> None:
        self.ticks += 1


def message(name: str, role: Any, second: int, **given: Any) -> Message:
    minutes, seconds = divmod(second, 60)
    return Message(id=name, role=role, time=f"2026-03-13T10:{minutes:02}:{seconds:02}Z", **given)
