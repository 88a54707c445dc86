"""Helpers for tests of clients: a scripted daemon's command, and what it received."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

DAEMON = Path(__file__).with_name("scripted_daemon.py")
Script = dict[str, list[list[dict[str, Any]]]]


def scripted(script: Script | None = None) -> list[str]:
    """Command of a daemon that reacts as `scripted_daemon` says."""
    return [sys.executable, "-I", str(DAEMON), json.dumps(script or {})]


def delivery(text: str = "remembered", placement: str = "prepend") -> dict[str, Any]:
    """A delivery as it is on the wire."""
    return {
        "deliveryId": "d1",
        "placement": placement,
        "text": text,
        "documents": [],
        "strategy": "ranked",
        "textTokens": 3,
    }


SESSION_OPEN: list[dict[str, Any]] = [
    {
        "result": {
            "sessionId": "$params.sessionId",
            "resumed": False,
            "memoryRoots": [],
            "untrustedRoots": [],
        }
    }
]
"""Reaction to session/open."""


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return status != "Z"


def open_descriptors() -> int:
    """Of this process."""
    return len(os.listdir("/proc/self/fd"))


def real_daemon() -> list[str]:
    """Command of the real daemon, whatever ONCUE_COMMAND says."""
    return [sys.executable, "-m", "oncue", "serve", "--stdio"]


def own_folders(folder: Path, **more: str) -> dict[str, str]:
    """An environment in which a real daemon touches nothing outside `folder`."""
    names = ("HOME", "ONCUE_CONFIG_DIR", "ONCUE_DATA_DIR", "ONCUE_STATE_DIR", "ONCUE_RUNTIME_DIR")
    made = {name: str(folder / name.lower()) for name in names}
    for path in made.values():
        Path(path).mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONCUE_")}
    return {**kept, **made, **more}
