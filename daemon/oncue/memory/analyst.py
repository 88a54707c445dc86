"""The port through which a document becomes terms (pure).

Whoever ranks decides what a term is, and may leave something with each document to rank it by;
the index keeps both and looks into neither. So memory knows no ranker.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from oncue.ports import Document
from oncue.text import analyzer


@frozen
class Analysed:
    """One document as terms: each field's terms joined by spaces, with repetitions."""

    language: str
    name: str
    description: str
    body: str
    keywords: str
    """Keywords and usage scenarios."""
    prepared: bytes = b""
    """What the ranker wants back with the document."""


class Analyst(Protocol):
    """Turns documents into terms; called in worker threads."""

    @property
    def version(self) -> str:
        """Changes whenever the same document would give something else: then the index analyses
        its documents anew."""
        ...

    def analyse(self, document: Document) -> Analysed:
        """Never raises, whatever the text."""
        ...


@frozen
class PlainAnalyst:
    """Terms of the analyzer, and nothing for a ranker."""

    version: str = "plain-1"

    def analyse(self, document: Document) -> Analysed:
        """See `Analyst`."""
        language = analyzer.detect(f"{document.title}\n{document.description}\n{document.body}")
        keywords = "\n".join((*document.keywords, *document.usage_scenarios))
        return Analysed(
            language,
            analyzer.prepare(document.title, language),
            analyzer.prepare(document.description, language),
            analyzer.prepare(document.body, language),
            analyzer.prepare(keywords, language),
        )
