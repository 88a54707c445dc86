"""The order of candidates, and how sure each is (memory.md §3, pure)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from oncue.ports import Document
from oncue.recall.ranking.confidence import Evidence, confidence
from oncue.recall.ranking.scoring import Candidate, Corpus, Match, RankQuery, Scoring
from oncue.text.analyzer import query_words


@frozen
class Scored:
    """A ranked document."""

    document: Document
    score: float
    """Comparable within one query only."""
    confidence: float
    """0..1: how likely it is relevant."""
    evidence: Evidence = field(repr=False)
    """The features behind `confidence`, for `--explain`."""


def rank_query(text: str) -> RankQuery:
    """Analyse a query's text, of any length."""
    return RankQuery(tuple(query_words(text)))


def rank(
    query: RankQuery,
    candidates: Sequence[Candidate],
    corpus: Corpus,
    limit: int,
    min_confidence: float = 0.0,
) -> list[Scored]:
    """The best candidates, best first, at most `limit`, none that matches no word of the query
    and none below `min_confidence`. Deterministic and independent of the candidates' order."""
    if not query.words or not candidates:
        return []
    scoring = Scoring(query, candidates, corpus)
    matches = [match for match in map(scoring.match, candidates) if match is not None]
    matches.sort(key=_order)
    scored: list[Scored] = []
    for at, match in enumerate(matches[:limit]):
        if at == 0:
            rival = matches[1].score if len(matches) > 1 else 0.0
            lead = 1.0 - rival / match.score
        else:
            lead = match.score / matches[0].score - 1.0
        evidence = scoring.evidence(match, lead)
        sure = confidence(evidence)
        if sure >= min_confidence:
            scored.append(Scored(match.document, match.score, sure, evidence))
    return scored


def _order(match: Match) -> tuple[float, bool, float, str]:
    document = match.document
    return (-match.score, document.type == "notes", -document.modified, document.path)
