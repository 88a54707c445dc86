"""The evaluation's data and stores: documents and cases from a JSON file, an index in memory.

The index gives the ranker exactly what the daemon's gives it: candidates that hold a term, and
document frequencies and average lengths over the whole store.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import frozen

from oncue.ports import Document
from oncue.recall.ranking import (
    FIELDS,
    Candidate,
    Corpus,
    RankQuery,
    Scored,
    prepare_document,
    rank,
    rank_query,
)

CANDIDATES = 200


@frozen
class Case:
    id: str
    category: str
    query: str
    relevant: frozenset[str]
    top: str | None

    @property
    def project(self) -> str:
        return self.id.split("-")[0]


def load(path: Path) -> tuple[list[Document], list[Case]]:
    """Documents (their path is their id) and cases of a data file (shared form of the data)."""
    data = json.loads(path.read_text("utf-8"))
    documents = [
        Document(
            path=d["id"],
            relative_path=f"{d['id']}.md",
            title=d["title"],
            description=d["description"],
            type=d["type"],
            scope="project",
            body=d["body"],
            keywords=tuple(d.get("keywords", ())),
        )
        for d in data["docs"]
    ]
    cases = [
        Case(
            c["id"],
            c["category"],
            c["query"],
            frozenset(c["relevantIds"]),
            c.get("expectedTopId"),
        )
        for c in data["cases"]
    ]
    return documents, cases


class Store:
    """All documents of one memory store."""

    def __init__(self, documents: Iterable[Document], padding: int = 0) -> None:
        """`padding`: so many further documents of which no query asks anything."""
        self.candidates = [Candidate(d, prepare_document(d)) for d in documents]
        self.padding = padding
        self.holders: dict[str, list[int]] = defaultdict(list)
        for at, candidate in enumerate(self.candidates):
            for term in set().union(*candidate.prepared.counts):
                self.holders[term].append(at)
        total = max(len(self.candidates), 1)
        lengths = [sum(c.prepared.lengths[f] for c in self.candidates) for f in range(len(FIELDS))]
        name, description, keywords, body = (length / total for length in lengths)
        self.average_lengths = (name, description, keywords, body)

    def corpus(self, query: RankQuery) -> Corpus:
        return Corpus(
            documents=len(self.candidates) + self.padding,
            frequencies={term: len(self.holders.get(term, ())) for term in query.terms},
            average_lengths=self.average_lengths,
        )

    def search(self, text: str, limit: int = 5, min_confidence: float = 0.0) -> list[Scored]:
        query = rank_query(text)
        found = Counter(at for term in query.terms for at in self.holders.get(term, ()))
        best = sorted(found, key=lambda at: (-found[at], at))[:CANDIDATES]
        candidates = [self.candidates[at] for at in best]
        return rank(query, candidates, self.corpus(query), limit, min_confidence)


def stores(documents: Sequence[Document], *, pooled: bool, padding: int = 0) -> dict[str, Store]:
    """Project → store: one a project, or the same store of everything for each."""
    projects = sorted({document.path.split("-")[0] for document in documents})
    if pooled:
        everything = Store(documents, padding)
        return dict.fromkeys(projects, everything)
    return {
        project: Store([d for d in documents if d.path.startswith(f"{project}-")], padding)
        for project in projects
    }
