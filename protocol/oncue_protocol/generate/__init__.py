"""Makes the files in `protocol/schema/` from the classes and the table of methods.

Run `python -m oncue_protocol.generate` after a change; a test checks that they are fresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import json_schema, lua, openrpc, typescript

FOLDER = Path(__file__).resolve().parents[2] / "schema"
"""Where the files lie in a checkout."""


def files() -> Mapping[str, str]:
    """Text of each file by its name."""
    return {
        "oncue.schema.json": json_schema.render(),
        "openrpc.json": openrpc.render(),
        "oncue.ts": typescript.render(),
        "oncue.lua": lua.render(),
    }
