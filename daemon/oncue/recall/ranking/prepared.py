"""What the ranker needs of a document, computed once for each version of its text (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from attrs import frozen

from oncue.ports import Document
from oncue.text.analyzer import Word, document_language, document_words

FIELDS = ("name", "description", "keywords", "body")
"""The order of all tuples that hold one value a field. `keywords` holds usage scenarios too."""

_MAX_BODY = 65_536
"""Characters of a body that are ranked: more of one document does not make it more relevant, and
200 candidates must be prepared within a query."""
_MIN_SECTION_TERMS = 24
"""Paragraphs below one heading are put together until they hold so many terms."""
GRAM = 4
_MIN_GRAM_WORD = 5
_HEADING = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n[ \t]*\n")

Counts = Mapping[str, int]


@frozen
class PreparedDocument:
    """One document's text as terms. Depends on its title, description, keywords, usage scenarios
    and body alone, so it may be cached under the file's sha256."""

    language: str
    counts: tuple[Counts, Counts, Counts, Counts]
    """Term → occurrences, for each of `FIELDS`."""
    lengths: tuple[int, int, int, int]
    """Terms of each field."""
    sections: tuple[tuple[Counts, int], ...]
    """The body's sections: counts and length of each."""
    pairs: frozenset[tuple[str, str]]
    """Neighbouring terms, within a field."""
    grams: frozenset[str]
    """Character 4-grams of all words of five letters and more."""


def prepare_document(document: Document) -> PreparedDocument:
    """Analyse a document (about 1 ms for a body of 2 KB)."""
    body = document.body[:_MAX_BODY]
    language = document_language(document.title, document.description, body)
    keywords = "\n".join((*document.keywords, *document.usage_scenarios))
    sections = [document_words(text, language) for text in _sections(body)]
    head = [
        document_words(text, language) for text in (document.title, document.description, keywords)
    ]
    fields = [*head, [word for section in sections for word in section]]
    name, description, keyword, whole = (_counts(words) for words in fields)
    words = [word for field in fields for word in field]
    return PreparedDocument(
        language=language,
        counts=(name, description, keyword, whole),
        lengths=(len(fields[0]), len(fields[1]), len(fields[2]), len(fields[3])),
        sections=tuple((_counts(section), len(section)) for section in _merged(sections)),
        pairs=frozenset(
            (one.terms[0], other.terms[0]) for field in fields for one, other in pairwise(field)
        ),
        grams=frozenset(gram for word in words for gram in grams(word.surface)),
    )


def grams(word: str) -> list[str]:
    """The character 4-grams of a word of at least five letters; none for a shorter one."""
    if len(word) < _MIN_GRAM_WORD:
        return []
    return [word[at : at + GRAM] for at in range(len(word) - GRAM + 1)]


def _counts(words: Iterable[Word]) -> Counts:
    return Counter(word.terms[0] for word in words)


def _sections(body: str) -> list[str]:
    """The body cut at its headings, and there at its blank lines."""
    starts = [0, *(match.start() for match in _HEADING.finditer(body)), len(body)]
    return [
        paragraph
        for start, end in pairwise(starts)
        for paragraph in _PARAGRAPH.split(body[start:end])
    ]


def _merged(sections: list[list[Word]]) -> list[list[Word]]:
    """Short neighbours put together: a bullet alone is no section."""
    merged: list[list[Word]] = []
    for section in filter(None, sections):
        if merged and len(merged[-1]) < _MIN_SECTION_TERMS:
            merged[-1] = merged[-1] + section
        else:
            merged.append(section)
    return merged
