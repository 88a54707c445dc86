"""How asking a model fails (pure).

A text here is ours, word for word: it never holds a key, a header, an address with what stands
before its `@`, or anything that a server said, because servers echo what they were sent (T6, D79).
"""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "off",
    "circuitOpen",
    "deadline",
    "connection",
    "certificate",
    "rateLimited",
    "server",
    "refused",
    "redirect",
    "tooLarge",
    "badAnswer",
]
"""`off`: not configured rightly; `circuitOpen`: it failed too often and is not asked; `refused`: a
4xx."""


class ModelError(Exception):
    """An endpoint could not answer. `str()` says what happened, where, and what to do."""

    def __init__(
        self,
        message: str,
        *,
        reason: Reason,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        """For logs and tests."""
        self.status = status
        """HTTP status, where there was one."""
        self.retry_after_s = retry_after_s
        """Seconds from the failure for which the server, or our breaker, wants to be left alone."""
