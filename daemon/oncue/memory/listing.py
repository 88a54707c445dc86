"""Documents as `memory/list`, `search` and `read` show them (pure)."""

from __future__ import annotations

from datetime import UTC, datetime

from oncue.ports import Document
from oncue.text import analyzer
from oncue_protocol import MemoryDocument

MAX_SNIPPET = 400
"""Characters of a passage: a few lines in a list."""
MAX_SNIPPET_LINES = 400
"""Lines of a body that are looked at for a passage."""


def memory_document(
    document: Document,
    now: float,
    *,
    score: float | None = None,
    confidence: float | None = None,
    passage: tuple[str, bool] | None = None,
) -> MemoryDocument:
    """Metadata of a document; its revision is its SHA-256."""
    return MemoryDocument(
        path=document.path,
        title=document.title,
        description=document.description,
        type=document.type,
        scope=document.scope,
        origin=document.origin,
        trust=document.trust,
        written_by=document.written_by,
        sha256=document.sha256,
        revision=document.sha256,
        age_ms=max(0, int((now - document.modified) * 1000)),
        modified=_time(document.modified),
        score=None if score is None else round(score, 4),
        confidence=None if confidence is None else round(confidence, 4),
        snippet=None if passage is None else passage[0],
        truncated=False if passage is None else passage[1],
        keywords=document.keywords,
        usage_scenarios=document.usage_scenarios,
    )


def _time(seconds: float) -> str:
    """RFC 3339 UTC; file systems hold times that calendars do not."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def snippet(body: str, query: str) -> tuple[str, bool]:
    """The passage that holds most of the query's terms, and whether it was cut."""
    wanted = set(analyzer.query_terms(query))
    language = analyzer.detect(body)
    lines = [line.strip() for line in body.split("\n")[:MAX_SNIPPET_LINES]]
    best, best_count = 0, 0
    for at, line in enumerate(lines):
        count = len(wanted.intersection(analyzer.terms(line[:1000], language))) if line else 0
        if count > best_count:
            best, best_count = at, count
    passage = ""
    for line in lines[best:]:
        if len(passage) >= MAX_SNIPPET or (not line and passage):
            break
        passage = f"{passage}\n{line}" if passage else line
    cut = len(passage) > MAX_SNIPPET
    return (passage[: MAX_SNIPPET - 1] + "…" if cut else passage), cut
