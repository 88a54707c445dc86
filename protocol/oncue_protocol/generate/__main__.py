"""Command line of the generator."""

from __future__ import annotations

import sys

from . import FOLDER, files


def main() -> int:
    """Write the files, or with `--check` only say which are stale (exit code 1)."""
    stale = []
    for name, text in files().items():
        path = FOLDER / name
        data = text.encode()
        if path.is_file() and path.read_bytes() == data:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    verb = "stale" if "--check" in sys.argv[1:] else "written"
    sys.stderr.write(f"{verb}: {', '.join(stale) or 'none'}\n")
    return 1 if stale and verb == "stale" else 0


if __name__ == "__main__":
    sys.exit(main())
