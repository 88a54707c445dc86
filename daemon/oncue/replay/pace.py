"""How long a player pauses before each event of a recording (pure).

A recording holds hours of thinking, typing and running tools. `fast` keeps their proportions as
far as one can watch: a fiftieth of each pause, cut off, and all of them shortened once more
where together they would take too long. Only pauses are shortened: whatever is measured, and
whatever a scripted model takes, is real time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from attrs import define, frozen

Speed = Literal["real", "fast", "max"]
Kind = Literal["thinking", "working"]
"""`thinking`: the user reads and types. `working`: the model answers or a tool runs."""

SCALE = 1 / 50
"""Of a recorded pause in `fast`: a tool that ran for half a minute takes 0.6 s."""
WORKING_CAP_S = 0.6
"""Longer is no longer watched with interest."""
THINKING_CAP_S = 0.1
"""Enough to see where a turn begins."""
BUDGET_S = 45.0
"""All pauses of a recording together in `fast`: an hour replays in under a minute."""


@frozen
class Pace:
    """From recorded pauses to played ones."""

    speed: Speed = "fast"
    factor: float = 1.0
    """For `fast`: makes the pauses fit into the budget."""

    def pause(self, recorded_s: float, kind: Kind) -> float:
        """Seconds to pause where the recording has `recorded_s`, never negative."""
        if self.speed == "max" or recorded_s <= 0:
            return 0.0
        if self.speed == "real":
            return recorded_s
        cap = THINKING_CAP_S if kind == "thinking" else WORKING_CAP_S
        return min(recorded_s * SCALE, cap) * self.factor


@define
class Meter:
    """Fed with the pauses of a whole recording, it gives the pace that fits the budget."""

    total_s: float = 0.0
    """Of the pauses in `fast`, before fitting."""
    recorded_s: float = 0.0
    """Of the pauses as recorded."""

    def add(self, recorded_s: float, kind: Kind) -> None:
        self.total_s += Pace().pause(recorded_s, kind)
        self.recorded_s += max(recorded_s, 0.0)

    def pace(self, speed: Speed, budget_s: float = BUDGET_S) -> Pace:
        fits = self.total_s <= budget_s
        return Pace(speed, 1.0 if fits else budget_s / self.total_s)


@define
class Clock:
    """Follows the recording's own times: lines may be older than the one before, or have none."""

    latest: datetime | None = None

    def advance(self, time: str | None) -> float:
        """Seconds since the latest time seen; 0 where the recording does not say."""
        now = parsed(time)
        if now is None:
            return 0.0
        before, self.latest = self.latest, now if self.latest is None else max(now, self.latest)
        return 0.0 if before is None else max((now - before).total_seconds(), 0.0)


def parsed(time: str | None) -> datetime | None:
    """A recorded time; None where there is none or it cannot be read."""
    if not time:
        return None
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
