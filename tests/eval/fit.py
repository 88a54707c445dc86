"""Fits the table of `oncue/recall/ranking/confidence.py` on a development set.

    python tests/eval/fit.py --data recall-dev.json

Logistic regression with a small ridge, by Newton's method; every query weighs the same, and so
do its relevant and its irrelevant hits. Each query is seen in stores of several sizes (its
project, everything, its project among many more documents), so that the table does not lean on
one size. Prints the coefficients to paste, and cross-validated figures by project.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import astuple

sys.path.insert(0, str(Path(__file__).parent))

from recall_data import Case, Store, load, stores

from oncue.recall.ranking.confidence import FEATURES, logistic

RIDGE = 0.3
DEPTH = 5
Row = tuple[str, tuple[float, ...], bool, float]
"""Project, features with the constant, relevant, weight."""
SKIPPED = frozenset({"paraphrase", "cross-lingual"})


def rows(cases: Sequence[Case], by_project: dict[str, Store]) -> list[Row]:
    found: list[Row] = []
    for case in cases:
        hits = by_project[case.project].search(case.query, DEPTH)
        labels = [hit.document.path in case.relevant for hit in hits]
        right, wrong = sum(labels), len(labels) - sum(labels)
        for hit, label in zip(hits, labels, strict=True):
            # A wrong document at the head of a silent query is what hurts: it weighs fully.
            weight = 1 / right if label else 1 / wrong
            found.append((case.project, (1.0, *astuple(hit.evidence)), label, weight))
    return found


def fit(data: Sequence[Row]) -> list[float]:
    size = len(FEATURES)
    weights = [0.0] * size
    for _ in range(40):
        gradient = [-RIDGE * w if at else 0.0 for at, w in enumerate(weights)]
        hessian = [[RIDGE if a == b and a else 0.0 for b in range(size)] for a in range(size)]
        for _, x, label, importance in data:
            p = logistic(sum(w * v for w, v in zip(weights, x, strict=True)))
            for a in range(size):
                gradient[a] += importance * (label - p) * x[a]
                for b in range(size):
                    hessian[a][b] += importance * p * (1 - p) * x[a] * x[b]
        step = solve(hessian, gradient)
        weights = [w + s for w, s in zip(weights, step, strict=True)]
        if max(map(abs, step)) < 1e-9:
            break
    return weights


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivots."""
    size = len(right)
    rows_ = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda r: abs(rows_[r][at]))
        rows_[at], rows_[pivot] = rows_[pivot], rows_[at]
        for below in range(at + 1, size):
            factor = rows_[below][at] / rows_[at][at]
            for column in range(at, size + 1):
                rows_[below][column] -= factor * rows_[at][column]
    result = [0.0] * size
    for at in range(size - 1, -1, -1):
        rest = sum(rows_[at][c] * result[c] for c in range(at + 1, size))
        result[at] = (rows_[at][size] - rest) / rows_[at][at]
    return result


def curve(weights: Sequence[float], cases: Sequence[Case], by_project: dict[str, Store]) -> None:
    results = {
        c.id: [
            (
                h.document.path,
                logistic(
                    sum(w * v for w, v in zip(weights, (1.0, *astuple(h.evidence)), strict=True))
                ),
            )
            for h in by_project[c.project].search(c.query, DEPTH)
        ]
        for c in cases
    }
    for silence in (0.6, 0.7, 0.8, 0.9):
        tops = sorted(
            max((p for _, p in results[c.id]), default=0.0) for c in cases if not c.relevant
        )
        threshold = tops[min(int(silence * len(tops) + 0.999), len(tops)) - 1] + 1e-9
        shares = [
            len(c.relevant & {i for i, p in results[c.id] if p >= threshold}) / len(c.relevant)
            for c in cases
            if c.relevant and c.category not in SKIPPED
        ]
        print(
            f"    silence ≥ {silence}: lexical recall {sum(shares) / len(shares):.3f}"
            f" at {threshold:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    documents, cases = load(parser.parse_args().data)
    kinds = [
        stores(documents, pooled=False),
        stores(documents, pooled=True),
        stores(documents, pooled=False, padding=1000),
        stores(documents, pooled=True, padding=10_000),
    ]
    data = [row for by_project in kinds for row in rows(cases, by_project)]
    weights = fit(data)
    for name, weight in zip(FEATURES, weights, strict=True):
        print(f'    "{name}": {weight:.2f},')
    names = ("a store a project", "one store", "padded to 1,025", "one store padded to 10,100")
    for title, by_project in zip(names, kinds, strict=True):
        print(f"  {title}, fitted on all")
        curve(weights, cases, by_project)
    for left_out in sorted({case.project for case in cases}):
        held = fit([row for row in data if row[0] != left_out])
        for title, by_project in zip(names[:2], kinds[:2], strict=True):
            print(f"  {left_out} held out, {title}")
            curve(held, [c for c in cases if c.project == left_out], by_project)


if __name__ == "__main__":
    main()
