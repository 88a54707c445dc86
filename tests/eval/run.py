"""Recall@5, top-1, MRR and silence of the ranker on a data file.

    python tests/eval/run.py --data recall-dev.json [--min-confidence 0.3] [--explain]

Prints one table for one store a project (as users have it), one for everything in one store, and
the curve of recall against silence for both: no single point tells the truth.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

from recall_data import Case, Store, load, stores

SILENT = "no-result"
LEXICAL = frozenset(
    {"exact", "morphology", "identifier", "chinese", "german", "japanese", "korean",
     "other-script", "mixed", "multi-relevant"}
)  # fmt: skip


def recall_at_5(case: Case, found: Sequence[str]) -> float:
    return len(case.relevant & set(found)) / len(case.relevant)


def reciprocal_rank(case: Case, found: Sequence[str]) -> float:
    return next((1 / (at + 1) for at, id_ in enumerate(found) if id_ in case.relevant), 0.0)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def by_category(cases: Sequence[Case]) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.category].append(case)
        if case.category in LEXICAL:
            groups["= lexical"].append(case)
    return groups


def figures(cases: Sequence[Case], by_project: dict[str, Store], threshold: float) -> Table:
    table = Table(box=None)
    for heading in ("category", "cases", "R@5", "top-1", "MRR@10", "silent"):
        table.add_column(heading, justify="left" if heading == "category" else "right")
    for category, group in sorted(by_category(cases).items()):
        five, ten = [], []
        for case in group:
            hits = by_project[case.project].search(case.query, 10, threshold)
            ten.append([hit.document.path for hit in hits])
            five.append(ten[-1][:5])
        silent = mean([not found for found in five])
        row = [category, str(len(group)), "", "", "", f"{silent:.2f}"]
        if category != SILENT:
            row[2] = f"{mean([recall_at_5(c, f) for c, f in zip(group, five, strict=True)]):.3f}"
            row[4] = f"{mean([reciprocal_rank(c, f) for c, f in zip(group, ten, strict=True)]):.3f}"
            tops = [(c, f) for c, f in zip(group, five, strict=True) if c.top]
            row[3] = f"{mean([f[:1] == [c.top] for c, f in tops]):.2f}" if tops else ""
        table.add_row(*row)
    return table


def curve(cases: Sequence[Case], by_project: dict[str, Store]) -> Table:
    """Recall and silence at each threshold of confidence."""
    results = {case.id: by_project[case.project].search(case.query, 5) for case in cases}
    table = Table(box=None)
    for heading in ("min confidence", "lexical R@5", "paraphrase", "silence", "precision"):
        table.add_column(heading, justify="right")
    for step in range(20):
        threshold = step / 20
        kept = {
            case.id: [h.document.path for h in results[case.id] if h.confidence >= threshold]
            for case in cases
        }
        lexical = [recall_at_5(c, kept[c.id]) for c in cases if c.category in LEXICAL]
        paraphrase = [recall_at_5(c, kept[c.id]) for c in cases if c.category == "paraphrase"]
        silence = [not kept[c.id] for c in cases if c.category == SILENT]
        right = [path in c.relevant for c in cases for path in kept[c.id]]
        table.add_row(
            f"{threshold:.2f}", f"{mean(lexical):.3f}", f"{mean(paraphrase):.3f}",
            f"{mean(silence):.2f}", f"{mean(right):.2f}",
        )  # fmt: skip
    return table


def calibration(cases: Sequence[Case], by_project: dict[str, Store]) -> str:
    """Expected calibration error of the best hits over ten bins."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for case in cases:
        for hit in by_project[case.project].search(case.query, 1):
            right = hit.document.path in case.relevant
            bins[min(int(hit.confidence * 10), 9)].append((hit.confidence, right))
    total = sum(map(len, bins.values()))
    error = sum(
        abs(sum(sure for sure, _ in group) - sum(right for _, right in group))
        for group in bins.values()
    )
    return f"calibration error of the best hit: {error / total:.3f}"


def explain(console: Console, cases: Sequence[Case], by_project: dict[str, Store]) -> None:
    for case in cases:
        console.print(f"[bold]{case.id}[/] {case.category}: {case.query}", highlight=False)
        for hit in by_project[case.project].search(case.query, 3):
            mark = "+" if hit.document.path in case.relevant else "-"
            features = {k: round(v, 2) for k, v in attrs.asdict(hit.evidence).items()}
            console.print(
                f"  {mark} {hit.document.path} {hit.score:.2f} {hit.confidence:.2f} {features}",
                highlight=False, soft_wrap=True, markup=False,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="JSON: docs and cases")
    parser.add_argument("--min-confidence", type=float, default=0.0)
    parser.add_argument("--explain", action="store_true", help="features of each case's best hits")
    arguments = parser.parse_args()
    documents, cases = load(arguments.data)
    console = Console()
    for title, pooled in (("one store a project", False), ("all in one store", True)):
        by_project = stores(documents, pooled=pooled)
        console.rule(title)
        console.print(figures(cases, by_project, arguments.min_confidence))
        console.print(curve(cases, by_project))
        console.print(calibration(cases, by_project))
        if arguments.explain:
            explain(console, cases, by_project)


if __name__ == "__main__":
    main()
