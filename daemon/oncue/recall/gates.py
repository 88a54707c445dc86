"""What a query must have to be searched for at all (pure)."""

from __future__ import annotations

from oncue.settings import MAX_QUERY_CHARACTERS

_DENSE = (
    (0x1100, 0x11FF),  # Hangul
    (0x2E80, 0x9FFF),  # radicals, Kana, Han
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
DENSE_WEIGHT = 4
"""One character of Han, Kana or Hangul says about what four Latin letters say."""


def query_has(query: str, minimum: int) -> bool:
    """Whether `query` has at least `minimum` characters that are not white space; one of Chinese,
    Japanese or Korean counts as four (R14). 0: always."""
    if minimum <= 0:
        return True
    count = 0
    for character in query:
        if character.isspace():
            continue
        code = ord(character)
        dense = code >= 0x1100 and any(low <= code <= high for low, high in _DENSE)
        count += DENSE_WEIGHT if dense else 1
        if count >= minimum:
            return True
    return False


def cut_query(query: str) -> str:
    """`query`, at most MAX_QUERY_CHARACTERS: a pasted log keeps its beginning and its end."""
    if len(query) <= MAX_QUERY_CHARACTERS:
        return query
    half = MAX_QUERY_CHARACTERS // 2
    return query[: half - 1] + "\n" + query[-half:]
