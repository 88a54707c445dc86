"""One search: the local index, then the model where there is one; reports, and nothing else.

It runs under the cancel scope of its handle (recalls.py). What fails here never reaches the turn
(R6): a failing local search settles empty, a failing model leaves the ranked list.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
import trio
from attrs import frozen

from oncue.ports import Document, Finder, Found, Generator, Hit, Query
from oncue.recall import selector
from oncue.recall.events import StartSearch
from oncue.settings import RecallSettings
from oncue_protocol import ModelGenerateResult, Strategy

log = structlog.get_logger(__name__)


@frozen
class Prefetch:
    """How the searches of one session are done."""

    session_id: str
    finder: Finder
    generator: Callable[[], Generator | None]
    """The model of this moment; None: there is none."""
    prepare: Callable[[StartSearch, Hit], None]
    """Makes a hit ready to be delivered: a millisecond of work that a poll is spared."""
    fast_ready: Callable[[str, tuple[Hit, ...]], None]
    """Report of the fast stage, by recall id."""
    settled: Callable[[str, tuple[Hit, ...], Strategy], None]
    """The last word, by recall id."""

    async def search(self, order: StartSearch) -> None:
        """Search, and report: once or twice where a model follows, else once."""
        settings = order.settings
        model = None if order.speculative else self._model(order)
        found = await self._find(order, wants_candidates=model is not None)
        if found is None:
            self.settled(order.recall_id, (), "fast" if order.speculative else "ranked")
            return
        hits = tuple(hit for hit in found.hits if _may_show(hit.document, order))
        fast = _confident(hits, settings.fast_min_confidence)[: settings.fast_documents]
        if order.speculative:
            await self._prepared(order, fast)
            self.settled(order.recall_id, fast, "fast")
            return
        ranked = _confident(hits, settings.min_confidence)[: order.limit]
        candidates = [document for document in found.candidates if _may_show(document, order)]
        shown = selector.manifest(candidates, order.recent_tools) if model else None
        if model is None or shown is None or not shown.documents:
            await self._prepared(order, ranked)
            self.settled(order.recall_id, ranked, "ranked")  # nothing slower follows
            return
        await self._prepared(order, fast)
        self.fast_ready(order.recall_id, fast)
        choice = await self._choose(model, shown, order)
        if choice is None:
            await self._prepared(order, ranked)
            self.settled(order.recall_id, ranked, "fallback")
            return
        known = {hit.document.path: hit for hit in hits}
        chosen = tuple(
            # A choice that the ranker did not make carries none of its figures.
            known.get(document.path) or Hit(document, score=0.0, confidence=0.0)
            for document in choice.documents
        )
        await self._prepared(order, chosen)
        self.settled(order.recall_id, chosen, "model")

    async def _prepared(self, order: StartSearch, hits: tuple[Hit, ...]) -> None:
        for hit in hits:
            if _is_cancelled():
                return  # whoever reports now is late, and counted as such
            self.prepare(order, hit)
            await trio.lowlevel.checkpoint()  # others may be served between two documents

    def _model(self, order: StartSearch) -> Generator | None:
        try:
            return self.generator()
        except Exception as error:
            self._warn("recall.no_model", order, error)
            return None

    async def _find(self, order: StartSearch, *, wants_candidates: bool) -> Found | None:
        """None: the search failed or hung, which was logged."""
        settings = order.settings
        limit = settings.fast_documents if order.speculative else order.limit
        if wants_candidates:
            limit = selector.MAX_CANDIDATES  # so that what the model chooses has its figures
        query = Query(
            text=order.query,
            limit=max(1, limit, settings.fast_documents),
            excluded_paths=order.excluded_paths,
            recent_tools=order.recent_tools,
        )
        found: Found | None = None
        try:
            with trio.CancelScope(deadline=order.started + _ceiling_s(settings)) as ceiling:
                found = await self.finder.find(query, wants_candidates=wants_candidates)
        except Exception as error:
            self._warn("recall.search_failed", order, error)
            return None
        if ceiling.cancelled_caught:
            self._warn("recall.search_hung", order, None)
        return found

    async def _choose(
        self, model: Generator, shown: selector.Manifest, order: StartSearch
    ) -> selector.Choice | None:
        """None: the model failed, hung or said nothing usable, which was logged."""
        deadline = order.started + _ceiling_s(order.settings)
        question = selector.request(
            shown,
            order.query,
            recent_tools=order.recent_tools,
            limit=order.limit,
            deadline_ms=max(0, round((deadline - trio.current_time()) * 1000)),
        )
        answer = ModelGenerateResult()
        try:
            with trio.CancelScope(deadline=deadline) as ceiling:
                answer = await model.generate(question)
        except Exception as error:
            self._warn("recall.model_failed", order, error)
            return None
        if ceiling.cancelled_caught:
            self._warn("recall.model_hung", order, None)
            return None
        choice = selector.parse(answer.text, shown, order.limit)
        if choice is None:
            self._warn("recall.model_answer_unusable", order, None)
        return choice

    def _warn(self, event: str, order: StartSearch, error: Exception | None) -> None:
        """One line, by class: a message may hold what was searched for (T10). Nothing at all
        where the handle was cancelled meanwhile: that is no failure (R6)."""
        if _is_cancelled():
            return
        log.warning(
            event,
            session_id=self.session_id,
            recall_id=order.recall_id,
            error=type(error).__name__ if error else None,
            after_ms=round((trio.current_time() - order.started) * 1000),
        )


def _is_cancelled() -> bool:
    return trio.current_effective_deadline() == float("-inf")


def _ceiling_s(settings: RecallSettings) -> float:
    return settings.safety_ceiling_ms / 1000


def _confident(hits: tuple[Hit, ...], minimum: float) -> tuple[Hit, ...]:
    return tuple(hit for hit in hits if hit.confidence >= minimum)


def _may_show(document: Document, order: StartSearch) -> bool:
    """The finder keeps to both rules; a mistake there must not inject anything."""
    return document.trust == "trusted" and document.path not in order.excluded_paths
