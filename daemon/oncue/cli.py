"""Command line. `serve` is dispatched before anything heavy is imported (wire.md §5)."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of `oncue` and `python -m oncue`; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["serve"]:
        from oncue import serve

        return serve.main(words[1:])
    print("usage: oncue serve --stdio [--clientProcessId PID]", file=sys.stderr)  # noqa: T201
    return 64
