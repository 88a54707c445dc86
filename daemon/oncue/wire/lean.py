"""A lean start: what pygls brings along and a daemon of ours never uses is left out.

Of the half second that `import pygls` takes, most goes into `lsprotocol.types`, which makes 554
attrs classes, and there into generating `__repr__`; the rest into a whole language server.
Measured: 455 ms and 39 MB become 280 ms and 34 MB. Only the daemon's process does this, before
anything imports either package, and a test compares what is left with the original.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import attrs


def prepare() -> None:
    """Import `lsprotocol.types` and `pygls.protocol.json_rpc`; does nothing where they are."""
    if "lsprotocol.types" not in sys.modules:
        _import_types()
    if "pygls.protocol" not in sys.modules:
        _import_json_rpc()


def _import_types() -> None:
    """Without `__repr__` (nobody of ours prints a message) and without slots (each class with
    slots is made twice)."""
    define = attrs.define

    def lean(cls: type[Any] | None = None, **options: Any) -> Any:
        return define(cls, **{**options, "repr": False, "slots": False})

    attrs.define = lean  # type: ignore[assignment]
    try:
        importlib.import_module("lsprotocol.types")
    finally:
        attrs.define = define


def _import_json_rpc() -> None:
    """Without running `pygls/protocol/__init__.py`, which imports the language server."""
    origin = importlib.import_module("pygls").__file__
    if origin is None:
        return
    package = types.ModuleType("pygls.protocol")
    package.__path__ = [str(Path(origin).parent / "protocol")]
    sys.modules["pygls.protocol"] = package
    try:
        importlib.import_module("pygls.protocol.json_rpc")
    finally:
        # Whoever wants the package itself gets the real one, with this json_rpc in it.
        del sys.modules["pygls.protocol"]
