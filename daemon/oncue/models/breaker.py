"""A circuit breaker: an endpoint that keeps failing is left alone for a while (pure; D68).

```
closed ──3 failures in a row, or Retry-After──▶ open ──time is up──▶ half open: one probe
  ▲                                              ▲                        │
  └──────────────── success ─────────────────────┼── failure: twice as long
```
Times are seconds of any clock that only goes forward; the caller passes them.
"""

from __future__ import annotations

from typing import Literal

from attrs import define

THRESHOLD = 3
"""Queries in a row: one or two may be a restart or a bad network."""
FIRST_PAUSE_S = 10.0
MAX_PAUSE_S = 300.0
"""Doubling from 10 s: half an hour of failure costs about ten probes."""
MAX_RETRY_AFTER_S = 3_600.0
"""A server may ask for more; once an hour is polite enough."""

State = Literal["closed", "open", "halfOpen"]
Admission = Literal["go", "probe", "wait"]


@define
class Breaker:
    """One endpoint's breaker. `admit` before a query, then exactly one of `succeeded`, `failed`,
    `released`."""

    state: State = "closed"
    failures: int = 0
    """Queries that failed in a row."""
    open_until: float = 0.0
    _pause_s: float = FIRST_PAUSE_S

    def admit(self, now: float) -> Admission:
        """Whether a query may go out: `probe` means one attempt and no retries."""
        if self.state == "closed":
            return "go"
        if self.state == "halfOpen" or now < self.open_until:
            return "wait"
        self.state = "halfOpen"
        return "probe"

    def succeeded(self) -> None:
        """The endpoint answered, also to a query that began before it was given up."""
        self.state = "closed"
        self.failures = 0
        self._pause_s = FIRST_PAUSE_S

    def failed(self, now: float, *, probe: bool, retry_after_s: float | None = None) -> None:
        """A query failed. Those that began before the circuit opened count but prolong nothing."""
        self.failures += 1
        asked = now + min(retry_after_s or 0.0, MAX_RETRY_AFTER_S)
        if probe:
            self._pause_s = min(self._pause_s * 2, MAX_PAUSE_S)
            self._open(max(now + self._pause_s, asked))
        elif self.state == "closed" and self.failures >= THRESHOLD:
            self._open(max(now + self._pause_s, asked))
        elif asked > now:
            self._open(max(self.open_until, asked), keep_probe=True)

    def released(self, now: float, *, probe: bool) -> None:
        """A query ended without saying anything about the endpoint: it was cancelled."""
        if probe:
            self._open(now)

    def remaining_s(self, now: float) -> float:
        """Seconds until a probe may go out; 0: now, or the circuit is closed."""
        return max(0.0, self.open_until - now) if self.state == "open" else 0.0

    def _open(self, until: float, *, keep_probe: bool = False) -> None:
        self.open_until = until
        if not (keep_probe and self.state == "halfOpen"):
            self.state = "open"
