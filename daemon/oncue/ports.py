"""What the rooms know of each other: plain data, and the ports between them (pure).

`recall` asks a `Finder` for hits and a `Generator` for a choice among them; which room
stands behind a port is decided in `daemon.py` alone. So recall never imports memory,
and memory never imports recall.
"""

from __future__ import annotations

from typing import Protocol

from attrs import field, frozen

from oncue_protocol import ModelGenerateParams, ModelGenerateResult
from oncue_protocol.base import DocumentType, Origin, Scope, Trust, WrittenBy


@frozen
class Document:
    """One memory as the index knows it. `origin`, `trust`, `written_by` and `sha256` are set
    by us from where the file lies and who wrote it, never from its content (memory.md M3)."""

    path: str
    """Absolute path of the file."""
    relative_path: str
    """Path below its memory root: what a reader is shown."""
    title: str
    description: str
    type: DocumentType
    scope: Scope
    body: str
    """Markdown without the front matter."""
    keywords: tuple[str, ...] = ()
    usage_scenarios: tuple[str, ...] = ()
    origin: Origin = "mine"
    trust: Trust = "trusted"
    written_by: WrittenBy = "human"
    written_in: str | None = None
    """The session in which a model wrote it, if one did."""
    sha256: str = ""
    """Of the file's bytes, lower-case hex; also the file's revision."""
    modified: float = 0.0
    """Modification time, seconds since 1970 UTC."""
    size_bytes: int = 0


@frozen
class Hit:
    """A document that a search found."""

    document: Document
    score: float
    """Ranker's score: comparable within one search only."""
    confidence: float
    """0..1: how likely it is that this document is relevant."""


@frozen
class Query:
    """What a search is asked for."""

    text: str
    """The user's words, whole; cutting for ranking is the ranker's business."""
    limit: int
    """At most so many hits, at least 1."""
    excluded_paths: frozenset[str] = frozenset()
    """Never returned: already in front of the model, or excluded by the client."""
    recent_tools: tuple[str, ...] = ()
    scope: Scope | None = None
    """Only this scope; None: all."""


@frozen
class Found:
    """Answer of a search."""

    hits: tuple[Hit, ...]
    """Best first, at most `Query.limit`."""
    candidates: tuple[Document, ...] = ()
    """For a model to choose from (recall.md §7): best by rank and most recent, interleaved;
    at most 200. Empty unless `wants_candidates` was asked for."""
    total: int = field(default=0)
    """How many documents were searched."""


class Finder(Protocol):
    """The local search over the memories of one workspace. Cancellable; never raises for a bad
    file; raises `StoreUnavailable`-like errors where the index cannot be read at all."""

    async def find(self, query: Query, *, wants_candidates: bool = False) -> Found: ...


class Generator(Protocol):
    """A language model, whoever provides it (models/). Raises on failure; cancellable."""

    async def generate(self, request: ModelGenerateParams) -> ModelGenerateResult: ...


class Wall(Protocol):
    """Wall clock, a port so that tests choose the time: seconds since 1970 UTC."""

    def __call__(self) -> float: ...
