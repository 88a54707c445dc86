"""The local search: the index's candidates, put in order by the ranker (memory.md §3).

Where memory and recall meet, so that neither imports the other: `RankAnalyst` lets the index keep
what the ranker prepares, `LibraryFinder` stands behind `ports.Finder`.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TypeVar

import orjson
import trio
from attrs import define, field, frozen

from oncue.memory import index
from oncue.memory.analyst import Analysed
from oncue.memory.library import Library
from oncue.memory.roots import Root
from oncue.memory.rows import IndexedDocument
from oncue.ports import Document, Found, Hit, Query
from oncue.recall import ranking
from oncue.recall.ranking import Candidate, PreparedDocument, RankQuery

T = TypeVar("T")

FIRST_SCAN_WAIT_S = 2.0
"""A folder that was never indexed has nothing to say: the search (never the turn) waits so long
for its first scan. Later scans are not waited for."""
BEST = 180
RECENT = 20
MANIFEST = BEST + RECENT
"""What a model may choose from (recall.md §7)."""
KEPT_PREPARED = 512
"""Unpacked documents kept: a few sessions' candidates, some 15 MB."""


class RankAnalyst:
    """What the ranker prepares of a document, packed to lie beside it in the index."""

    @cached_property
    def version(self) -> str:
        """See `Analyst`: a digest of what becomes of a text in several languages and shapes, so
        that a changed analyzer or ranker re-indexes by itself."""
        packed = _pack(ranking.prepare_document(_PROBE))
        return f"rank-1-{hashlib.sha256(packed).hexdigest()[:16]}"

    def analyse(self, document: Document) -> Analysed:
        """See `Analyst`."""
        prepared = ranking.prepare_document(document)
        name, description, keywords, body = (
            " ".join(chain.from_iterable([term] * count for term, count in counts.items()))
            for counts in prepared.counts
        )
        return Analysed(prepared.language, name, description, body, keywords, _pack(prepared))


_PROBE = Document(
    path="/probe.md",
    relative_path="probe.md",
    title="Réglages of the retryQueue in `src/carriers/halvex_client.ts`",
    description="Die Häuser wurden gelaufen; went running, children's indices",
    type="project",
    scope="project",
    body="# 配送通知の重複\n\n東京の倉庫で確認した。\n\n## 部署窗口\n\n生产环境只在周一部署。\n\n"
    "- `pnpm build:tracker`, v20.11, HX_429_BURST, C++ и C#\n\nПоследние изменения сервера. "
    "알림이 두 번 전송됨. การแจ้งเตือน",
    keywords=("dead letter", "Zustellung"),
    usage_scenarios=("when deliveries are doubled",),
)


def _pack(prepared: PreparedDocument) -> bytes:
    pairs = sorted(prepared.pairs)
    return orjson.dumps(
        [
            prepared.language,
            prepared.counts,
            prepared.lengths,
            prepared.sections,
            " ".join(one for one, _ in pairs),
            " ".join(other for _, other in pairs),
            " ".join(sorted(prepared.grams)),
        ],
        option=orjson.OPT_NON_STR_KEYS,
    )


def _unpack(packed: bytes) -> PreparedDocument:
    language, counts, lengths, sections, ones, others, grams = orjson.loads(packed)
    name, description, keywords, body = counts
    return PreparedDocument(
        language=language,
        counts=(name, description, keywords, body),
        lengths=tuple(lengths),
        sections=tuple((section, length) for section, length in sections),
        pairs=frozenset(zip(ones.split(" "), others.split(" "), strict=True)) if ones else _NONE,
        grams=frozenset(grams.split(" ")) if grams else frozenset(),
    )


_NONE: frozenset[tuple[str, str]] = frozenset()


@define(eq=False)
class Prepared:
    """Unpacked documents of the last searches, for all finders of a daemon. Any thread."""

    analyst: RankAnalyst
    _kept: OrderedDict[tuple[str, str], PreparedDocument] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def candidate(self, found: IndexedDocument) -> Candidate:
        """A candidate for the ranker, from what lies in the index where that is current."""
        key = (found.document.path, found.document.sha256)
        with self._lock:
            prepared = self._kept.get(key)
            if prepared is not None:
                self._kept.move_to_end(key)
                return Candidate(found.document, prepared)
        prepared = self._prepare(found)
        with self._lock:
            self._kept[key] = prepared
            while len(self._kept) > KEPT_PREPARED:
                self._kept.popitem(last=False)
        return Candidate(found.document, prepared)

    def _prepare(self, found: IndexedDocument) -> PreparedDocument:
        if found.prepared and found.analysis == self.analyst.version:
            return _unpack(found.prepared)
        return ranking.prepare_document(found.document)


@frozen
class _Asked:
    """What one search took out of the index."""

    candidates: index.Candidates
    recent: tuple[IndexedDocument, ...]


@define(eq=False)
class LibraryFinder:
    """`ports.Finder` over one library. Each stage runs in a worker thread; a cancelled search ends
    at once, and what its thread still does changes nothing."""

    library: Library
    prepared: Prepared
    first_scan_wait_s: float = FIRST_SCAN_WAIT_S

    async def find(self, query: Query, *, wants_candidates: bool = False) -> Found:
        """See `ports.Finder`. Raises `StoreUnavailable` where the index cannot be read at all."""
        try:
            words = await _in_thread(ranking.rank_query, query.text)
            roots = tuple(root for root in self.library.roots if query.scope in (None, root.scope))
            asked = await self._ask(roots, words, query, wants_candidates)
            return await _in_thread(self._rank, query, words, asked, wants_candidates)
        finally:
            self.library.refresh_soon()

    async def _ask(
        self, roots: tuple[Root, ...], words: RankQuery, query: Query, recent: bool
    ) -> _Asked:
        store = self.library.store
        ask = partial(_ask, roots=roots, words=words, query=query, recent=recent)
        await self._first_scan()
        generation = store.generation
        asked = await store.read(ask)
        if store.generation == generation:
            return asked
        await self._first_scan()  # it was damaged and begun anew: empty until it was scanned
        return await store.read(ask)

    async def _first_scan(self) -> None:
        for of in self.library.indexes:
            if not await of.scanned():
                self.library.refresh_soon()
                with trio.move_on_after(self.first_scan_wait_s):
                    await of.first_scan.wait()

    def _rank(self, query: Query, words: RankQuery, asked: _Asked, wants_more: bool) -> Found:
        candidates = [self.prepared.candidate(found) for found in asked.candidates.found]
        corpus = _corpus(asked.candidates.corpus, words, candidates)
        allowed = [c for c in candidates if c.document.path not in query.excluded_paths]
        limit = max(query.limit, BEST) if wants_more else query.limit
        scored = ranking.rank(words, allowed, corpus, limit)
        hits = tuple(Hit(s.document, s.score, s.confidence) for s in scored[: query.limit])
        chosen: tuple[Document, ...] = ()
        if wants_more:
            best = [s.document for s in scored[:BEST]]
            recent = [
                found.document
                for found in asked.recent
                if found.document.path not in query.excluded_paths
            ]
            chosen = interleave(best, recent)
        return Found(hits, chosen, corpus.documents)


async def _in_thread(work: Callable[..., T], *args: object) -> T:
    done: list[T] = []

    def job() -> None:
        done.append(work(*args))

    await trio.to_thread.run_sync(job, abandon_on_cancel=True)
    return done[0]


def _ask(
    connection: index.Connection,
    roots: Sequence[Root],
    words: RankQuery,
    query: Query,
    recent: bool,
) -> _Asked:
    known = index.roots_of(connection, roots)
    spare = min(len(query.excluded_paths), index.MAX_CANDIDATES)
    candidates = index.candidates(connection, known, words.terms, index.MAX_CANDIDATES + spare)
    latest = index.recent(connection, known, MANIFEST, query.excluded_paths) if recent else []
    return _Asked(candidates, tuple(latest))


def _corpus(
    known: index.Corpus, words: RankQuery, candidates: Sequence[Candidate]
) -> ranking.Corpus:
    frequencies: Mapping[str, int]
    if known.frequencies is not None:
        frequencies = known.frequencies
    else:
        frequencies = {
            term: sum(
                any(term in counts for counts in candidate.prepared.counts)
                for candidate in candidates
            )
            for term in words.terms
        }
    documents = max(known.documents, 1)
    return ranking.Corpus(
        known.documents,
        frequencies,
        (
            known.name_terms / documents,
            known.description_terms / documents,
            known.keyword_terms / documents,
            known.body_terms / documents,
        ),
    )


def interleave(best: Sequence[Document], recent: Sequence[Document]) -> tuple[Document, ...]:
    """At most MANIFEST documents: the best in their order, and at least RECENT of the most recent
    (as far as there are any) spread evenly among them, none twice."""
    best = best[:BEST]
    known = {document.path for document in best}
    others = [d for d in recent if d.path not in known][: MANIFEST - len(best)]
    chosen: list[Document] = []
    given = 0
    for at, document in enumerate(best, 1):
        chosen.append(document)
        due = at * len(others) // len(best)
        chosen.extend(others[given:due])
        given = due
    chosen.extend(others[given:])
    return tuple(chosen)
