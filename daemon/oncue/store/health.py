"""How the store is, as `daemon/status` says it (I27)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen


@frozen
class Health:
    """State of the store, and why."""

    state: Literal["ok", "degraded", "off"]
    reason: str | None = None
    """What is the matter, or what happened (`ok` after a repair); never content."""
    since: float | None = None
    """Seconds since 1970 UTC; None: since start."""
