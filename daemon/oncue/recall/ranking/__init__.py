"""Ranker: re-orders the index's candidates and says how sure it is of each (memory.md §3). Pure.

    words = rank_query(query.text)              # once a query; `words.terms` is what the index asks
    candidates = [Candidate(document, prepare_document(document)) ...]     # cache by sha256
    scored = rank(words, candidates, corpus, limit=5, min_confidence=0.4)

`Corpus` holds what only the index knows: number of documents, document frequency of the query's
terms, average field lengths in terms. An empty list is an answer: silence.
"""

from oncue.recall.ranking.confidence import FEATURES, confidence
from oncue.recall.ranking.prepared import (
    FIELDS,
    PreparedDocument,
    prepare_document,
)
from oncue.recall.ranking.rank import Scored, rank, rank_query
from oncue.recall.ranking.scoring import Candidate, Corpus, RankQuery

__all__ = [
    "FEATURES",
    "FIELDS",
    "Candidate",
    "Corpus",
    "PreparedDocument",
    "RankQuery",
    "Scored",
    "confidence",
    "prepare_document",
    "rank",
    "rank_query",
]
