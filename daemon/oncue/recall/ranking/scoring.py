"""The score of a candidate: BM25F with a few additions (memory.md §3, pure).

    score = BM25F + 0.3 × best section + 0.3 × neighbouring words + 0.3 × character 4-grams

Every part is a sum over the query's words of something that is never negative, so matching one
word more never lowers a score; nothing in it depends on the candidates' order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from attrs import frozen

from oncue.ports import Document
from oncue.recall.ranking.confidence import Evidence
from oncue.recall.ranking.prepared import PreparedDocument, grams, prepare_document
from oncue.text.analyzer import Word

_WEIGHTS = (3.0, 2.0, 3.0, 1.0)  # of name, description, keywords, body
_K1 = 1.2
_B = 0.75
_SECTION = _PAIR = _GRAMS = 0.3
_SECTION_LENGTH = 64.0
"""Terms of a usual section: a constant, so that a score does not depend on the candidates."""
_ALIKE = 0.6
"""Share of a word's 4-grams from which on it counts as a misspelling or a part of a compound."""
_MONTH_TERMS = (
    "",
    "januari",
    "februari",
    "march",
    "april",
    "",
    "june",
    "juli",
    "august",
    "septemb",
    "octob",
    "novemb",
    "decemb",
)
"""The terms of the months' English names, from 1. No May: it means something else."""


@frozen
class RankQuery:
    """A query as the ranker reads it."""

    words: tuple[Word, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms to ask the index for, and to give document frequencies of; any may match."""
        return tuple(dict.fromkeys(term for word in self.words for term in word.terms))


@frozen
class Corpus:
    """What the index knows of all documents that were searched."""

    documents: int
    """How many there are."""
    frequencies: Mapping[str, int]
    """Query term → documents that hold it, in any field; absent: none."""
    average_lengths: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Average number of terms of each of `FIELDS`; 0: unknown, the candidates' average is taken."""


@frozen
class Candidate:
    """A document that the index found, with its prepared text."""

    document: Document
    prepared: PreparedDocument

    @classmethod
    def of(cls, document: Document) -> Candidate:
        """A candidate prepared here and now, for callers without a cache."""
        return cls(document, prepare_document(document))


@frozen
class Match:
    """A candidate that holds a word of the query, and where; one value a word of the query."""

    document: Document
    score: float
    matched: tuple[bool, ...]
    in_head: tuple[bool, ...]
    alike: tuple[float, ...]
    neighbours: int


class Scoring:
    """One query's weights over one corpus."""

    def __init__(self, query: RankQuery, candidates: Sequence[Candidate], corpus: Corpus) -> None:
        self.words = query.words
        self.documents = max(corpus.documents, 1)
        self.dates = {c.document.path: _date_terms(c.document.modified) for c in candidates}
        self.averages = _averages(corpus.average_lengths, candidates)
        self.frequencies = [self._frequency(word, corpus) for word in self.words]
        self.idf = [self._idf(frequency) for frequency in self.frequencies]
        self.grams = [grams(word.surface) for word in self.words]

    def _frequency(self, word: Word, corpus: Corpus) -> int:
        dated = sum(not dates.isdisjoint(word.terms) for dates in self.dates.values())
        known = max(corpus.frequencies.get(term, 0) for term in word.terms)
        return min(max(known, dated), self.documents)

    def _idf(self, frequency: int) -> float:
        """Lucene's: never negative."""
        return math.log(1.0 + (self.documents - frequency + 0.5) / (frequency + 0.5))

    def match(self, candidate: Candidate) -> Match | None:
        """A candidate's score; None if no word of the query is in it. 4-grams and dates only add
        to what a word has found: alone they give false hits."""
        prepared = candidate.prepared
        dates = self.dates[candidate.document.path]
        lexical = [
            any(term in counts for counts in prepared.counts for term in word.terms)
            for word in self.words
        ]
        if not any(lexical):
            return None
        dated = [not dates.isdisjoint(word.terms) for word in self.words]
        matched = tuple(a or b for a, b in zip(lexical, dated, strict=True))
        head = tuple(
            any(term in counts for counts in prepared.counts[:3] for term in word.terms)
            for word in self.words
        )
        alike = tuple(
            1.0 if found else _share(pieces, prepared.grams)
            for found, pieces in zip(matched, self.grams, strict=True)
        )
        neighbours = self._neighbours(prepared)
        score = (
            self._fields(prepared, dated)
            + _SECTION * max((self._section(*section) for section in prepared.sections), default=0)
            + _PAIR * sum((self.idf[at] + self.idf[at + 1]) / 2 for at in neighbours)
            + _GRAMS
            * sum(
                idf * share
                for idf, share, pieces in zip(self.idf, alike, self.grams, strict=True)
                if pieces
            )
        )
        return Match(candidate.document, round(score, 9), matched, head, alike, len(neighbours))

    def _fields(self, prepared: PreparedDocument, dated: list[bool]) -> float:
        norms = [
            1.0 - _B + _B * length / average
            for length, average in zip(prepared.lengths, self.averages, strict=True)
        ]
        total = 0.0
        for word, idf, in_date in zip(self.words, self.idf, dated, strict=True):
            weight = 1.0 if in_date else 0.0
            for at, counts in enumerate(prepared.counts):
                occurrences = sum(counts.get(term, 0) for term in word.terms)
                if occurrences:
                    weight += _WEIGHTS[at] * occurrences / norms[at]
            total += idf * weight * (_K1 + 1.0) / (weight + _K1)
        return total

    def _section(self, counts: Mapping[str, int], length: int) -> float:
        norm = _K1 * (1.0 - _B + _B * length / _SECTION_LENGTH)
        total = 0.0
        for word, idf in zip(self.words, self.idf, strict=True):
            occurrences = sum(counts.get(term, 0) for term in word.terms)
            total += idf * occurrences * (_K1 + 1.0) / (occurrences + norm)
        return total

    def _neighbours(self, prepared: PreparedDocument) -> list[int]:
        """Where two words that are neighbours in the query are so in the document."""
        return [
            at
            for at, (one, other) in enumerate(pairwise(self.words))
            if any((a, b) in prepared.pairs for a in one.terms for b in other.terms)
        ]

    def evidence(self, match: Match, lead: float) -> Evidence:
        """What speaks for a match, in numbers that mean the same for every query."""
        counted = [
            at
            for at, word in enumerate(self.words)
            if match.matched[at] or not (word.optional or self._covered(match.matched, at))
        ]
        total = sum(self.idf[at] for at in counted) or 1.0
        mass = sum(
            self.idf[at]
            * (1.0 if match.matched[at] else match.alike[at] if match.alike[at] >= _ALIKE else 0.0)
            for at in counted
        )
        found = [at for at in counted if match.matched[at]]
        rarest = self._idf(1)
        return Evidence(
            share=mass / total,
            rarity=min(max(self.idf[at] for at in found) / rarest, 1.0) if rarest > 0 else 1.0,
            head=sum(self.idf[at] for at in found if match.in_head[at]) / total,
            lead=lead,
            length=math.log2(1 + len(counted)),
            found=math.log2(1 + len(found)),
            neighbours=match.neighbours / max(len(counted) - 1, 1),
        )

    def _covered(self, matched: tuple[bool, ...], at: int) -> bool:
        """Whether a pair of characters straddles two words that were found: 据库 in 数据库迁移."""
        surface = self.words[at].surface
        if len(surface) != 2 or surface.isascii() or not 0 < at < len(matched) - 1:
            return False
        before, after = self.words[at - 1].surface, self.words[at + 1].surface
        return (
            matched[at - 1]
            and matched[at + 1]
            and before.endswith(surface[0])
            and after.startswith(surface[1])
        )


def _share(pieces: list[str], known: frozenset[str]) -> float:
    """The share of a word's 4-grams that a document holds; 0 below what means anything."""
    if not pieces:
        return 0.0
    share = sum(piece in known for piece in pieces) / len(pieces)
    return share if share >= _ALIKE else 0.0


def _averages(known: tuple[float, ...], candidates: Sequence[Candidate]) -> tuple[float, ...]:
    """Average lengths, at least 1 term: an empty field must not blow up its neighbours'."""
    return tuple(
        max(
            average
            if average > 0
            else sum(c.prepared.lengths[at] for c in candidates) / len(candidates),
            1.0,
        )
        for at, average in enumerate(known)
    )


def _date_terms(modified: float) -> frozenset[str]:
    """A document's date as the words one would ask for it with. No `may`, no bare day: they mean
    something else in most queries."""
    try:
        date = datetime.fromtimestamp(modified, UTC) if modified > 0 else None
    except (OverflowError, ValueError, OSError):
        date = None
    if date is None:
        return frozenset()
    month = _MONTH_TERMS[date.month]
    return frozenset(filter(None, (f"{date:%Y}", f"{date:%Y%m%d}", month)))
