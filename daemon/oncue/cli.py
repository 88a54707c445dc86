"""Command line. `serve` is dispatched before anything heavy is imported (wire.md §5)."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of `oncue` and `python -m oncue`; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["serve"] and not {"-h", "--help"} & set(words):
        from oncue import serve

        return serve.main(words[1:])
    from oncue.commands import oncue

    return oncue.main(args=words, prog_name="oncue")
