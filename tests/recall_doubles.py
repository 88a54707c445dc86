"""Test doubles of the recall room: documents, a plain rendering, scripted searches and models."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence

import trio

from oncue.ports import Document, Found, Hit, Query
from oncue.recall.events import Draft
from oncue_protocol import (
    DeliveredDocument,
    Delivery,
    ModelGenerateParams,
    ModelGenerateResult,
)

DAY = 86_400.0
NOW = 1_700_000_000.0
NONCE = "0123456789abcdef"


def document(path: str = "/m/a.md", **members: object) -> Document:
    """A document with defaults that say where it lies."""
    values: dict[str, object] = {
        "path": path,
        "relative_path": path.rsplit("/", 1)[-1],
        "title": f"Title of {path}",
        "description": f"About {path}",
        "type": "project",
        "scope": "project",
        "body": f"Body of {path}",
        "sha256": "0" * 64,
        "modified": NOW - 3 * DAY,
    }
    return Document(**{**values, **members})  # type: ignore[arg-type]


def hit(path: str = "/m/a.md", confidence: float = 0.9, **members: object) -> Hit:
    """A hit that every gate lets through, unless told otherwise."""
    return Hit(document(path, **members), score=1.0, confidence=confidence)


def hits(*names: str, confidence: float = 0.9) -> tuple[Hit, ...]:
    """Hits by file name."""
    return tuple(hit(f"/m/{name}.md", confidence) for name in names)


def plain_pack() -> Callable[[Draft], Delivery | None]:
    """A rendering without a fence: every hit, in order, under a counted id."""
    numbers = itertools.count(1)

    def pack(draft: Draft) -> Delivery | None:
        if draft.max_bytes == 0:
            return None
        return Delivery(
            delivery_id=f"d{next(numbers)}",
            placement=draft.placement,
            text=" ".join(one.document.path for one in draft.hits),
            documents=tuple(
                DeliveredDocument(
                    path=one.document.path,
                    title=one.document.title,
                    description=one.document.description,
                    type=one.document.type,
                    scope=one.document.scope,
                    score=one.score,
                    confidence=one.confidence,
                    origin=one.document.origin,
                    trust=one.document.trust,
                    written_by=one.document.written_by,
                    sha256=one.document.sha256,
                    age_ms=0,
                    modified="2023-11-14T22:13:20Z",
                    truncated=False,
                )
                for one in draft.hits
            ),
            strategy=draft.strategy,
            text_tokens=1,
        )

    return pack


class ScriptedFinder:
    """A search that takes so long, then answers or raises; it remembers what it was asked."""

    def __init__(
        self,
        found: Sequence[Hit] = (),
        *,
        seconds: float = 0.0,
        error: Exception | None = None,
        candidates: Sequence[Document] | None = None,
    ) -> None:
        self.found = tuple(found)
        self.seconds = seconds
        self.error = error
        self.candidates = candidates
        self.queries: list[Query] = []
        self.wanted: list[bool] = []
        self.running = 0
        self.cancelled = 0

    async def find(self, query: Query, *, wants_candidates: bool = False) -> Found:
        self.queries.append(query)
        self.wanted.append(wants_candidates)
        self.running += 1
        try:
            await trio.sleep(self.seconds)
            if self.error is not None:
                raise self.error
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        kept = [one for one in self.found if one.document.path not in query.excluded_paths]
        candidates: tuple[Document, ...] = ()
        if wants_candidates:
            chosen = self.candidates
            candidates = tuple(one.document for one in kept) if chosen is None else tuple(chosen)
        return Found(hits=tuple(kept[: query.limit]), candidates=candidates, total=len(self.found))


class ScriptedModel:
    """A model that takes so long, then says this, or raises."""

    def __init__(
        self,
        text: str | None = '{"ids": ["m1"]}',
        *,
        seconds: float = 0.0,
        error: Exception | None = None,
        answer: Callable[[ModelGenerateParams], Awaitable[ModelGenerateResult]] | None = None,
    ) -> None:
        self.text = text
        self.seconds = seconds
        self.error = error
        self.answer = answer
        self.requests: list[ModelGenerateParams] = []
        self.running = 0

    async def generate(self, request: ModelGenerateParams) -> ModelGenerateResult:
        self.requests.append(request)
        self.running += 1
        try:
            await trio.sleep(self.seconds)
            if self.error is not None:
                raise self.error
            if self.answer is not None:
                return await self.answer(request)
        finally:
            self.running -= 1
        return ModelGenerateResult(text=self.text)
