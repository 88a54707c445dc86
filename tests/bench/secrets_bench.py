"""Recall and false alarms of the secret rules.

    python tests/bench/secrets_bench.py [--seed 1] [--show]

400 synthetic credentials (40 shapes × 10 contexts) and 10,000 harmless lines, made by the seed.
A credential counts as found if nothing of it is left after redaction.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table
from synthetic_secrets import CONTEXTS, Sample, benign, samples

from oncue.text.secrets import find, redact


def missed(sample: Sample) -> bool:
    left = redact(sample.text)
    return any(piece in left for piece in sample.pieces)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--show", action="store_true", help="what was missed and falsely found")
    arguments = parser.parse_args()
    console = Console()
    made = samples(arguments.seed)
    failures = [sample for sample in made if missed(sample)]
    lines = benign(arguments.seed, arguments.lines)
    started = time.perf_counter()
    false = [line for line in lines if find(line)]
    whole = find("\n".join(lines))
    took = time.perf_counter() - started

    table = Table(title=f"{len(made)} credentials, seed {arguments.seed}", box=None)
    for heading in ("context", "samples", "found", "missed shapes"):
        table.add_column(heading)
    counts = Counter(sample.context for sample in made)
    for context in CONTEXTS:
        shapes = sorted(s.shape for s in failures if s.context == context)
        found = counts[context] - len(shapes)
        table.add_row(context, str(counts[context]), str(found), ", ".join(shapes))
    console.print(table)
    console.print(f"recall {1 - len(failures) / len(made):.4f}")
    console.print(f"false alarms: {len(false)} in {len(lines)} lines, {len(whole)} in one text")
    console.print(f"{2 * sum(map(len, lines)) / took / 1e6:.1f} million characters a second")
    if arguments.show:
        for sample in failures:
            console.print(f"[bold]{sample.shape} / {sample.context}[/]")
            console.print(f"{sample.text}\n-> {redact(sample.text)}", markup=False)
        for line in false:
            console.print(f"{[s.rule for s in find(line)]} {line}", markup=False)
        text = "\n".join(lines)
        for secret in whole:
            console.print(f"{secret.rule} {text[secret.start : secret.end]!r}", markup=False)


if __name__ == "__main__":
    main()
