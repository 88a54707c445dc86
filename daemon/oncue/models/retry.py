"""When an HTTP attempt is repeated, and after how long (pure; D68, D69)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from typing import Literal

MAX_ATTEMPTS = 3
"""HTTP requests a logical query, whatever they were for; no layer above repeats (D69)."""
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 8.0

Verdict = Literal["ok", "again", "fail"]

_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,6})?")


def verdict(status: int) -> Verdict:
    """What an HTTP status means: 429 and 5xx pass, every other refusal stays one."""
    if 200 <= status < 300:
        return "ok"
    return "again" if status == 429 or status >= 500 else "fail"


def delay_s(attempt: int, jitter: float, asked_s: float | None = None) -> float:
    """Seconds to wait after the `attempt`-th attempt (from 1). `jitter`: 0..1, so that daemons
    that failed together do not come back together. `asked_s`: what Retry-After wants at least."""
    backed_off = min(FIRST_DELAY_S * 2.0 ** (attempt - 1), MAX_DELAY_S) * (0.5 + jitter / 2)
    return backed_off if asked_s is None else max(backed_off, asked_s + jitter / 4)


def retry_after_s(headers: Mapping[str, str], wall: float) -> float | None:
    """Seconds that a server asks to be left alone: `Retry-After` as seconds or as a date against
    `wall` (seconds since 1970), or `retry-after-ms`. None: it asks nothing that can be read."""
    exact = headers.get("retry-after-ms", "").strip()
    if _SECONDS.fullmatch(exact):
        return float(exact) / 1000
    asked = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        return float(asked)
    from email.utils import parsedate_to_datetime  # 10 ms, and seldom needed

    try:
        date = parsedate_to_datetime(asked)
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - wall)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
