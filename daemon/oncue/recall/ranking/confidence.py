"""How likely a ranked document is relevant: a logistic function of a few plain features (pure).

Scores of different queries cannot be compared, and "some word matches" is hardly a gate. So the
evidence is put into numbers that mean the same for every query, and one small table turns them
into a probability. `tests/eval/fit.py` fits the table on the development set.
"""

from __future__ import annotations

import math

from attrs import astuple, frozen


@frozen
class Evidence:
    """The features of one query and one document."""

    share: float
    """0..1: share of the query's IDF mass that the document matches."""
    rarity: float
    """0..1: IDF of the rarest matched word against a word of one document only."""
    head: float
    """0..1: share of the query's IDF mass found in name, description or keywords."""
    lead: float
    """Best document: 1 - (runner-up's score / its own), 0..1. Others: how far they are behind
    the best, -1..0."""
    length: float
    """log2(1 + words of the query that count)."""
    found: float
    """log2(1 + words of the query that were found)."""
    neighbours: float
    """Share of the query's neighbouring words that are neighbours in the document too."""


FEATURES = ("constant", "share", "rarity", "head", "lead", "length", "found", "neighbours")

COEFFICIENTS: dict[str, float] = {
    "constant": -8.40,
    "share": 5.14,
    "rarity": 1.26,
    "head": 0.25,
    "lead": 1.43,
    "length": 1.24,
    "found": 0.72,
    "neighbours": 2.29,
}
"""Log-odds added for each unit of a feature."""

_WEIGHTS = tuple(COEFFICIENTS[name] for name in FEATURES)


def confidence(evidence: Evidence) -> float:
    """Probability of relevance, 0..1."""
    features = (1.0, *astuple(evidence))
    return logistic(sum(w * x for w, x in zip(_WEIGHTS, features, strict=True)))


def logistic(value: float) -> float:
    """1 / (1 + e^-value), safe for any finite value."""
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-value))
    grown = math.exp(value)
    return grown / (1.0 + grown)
