"""What claims and cursors hand out: plain data, so that whoever works with it loads no database
(pure)."""

from __future__ import annotations

from attrs import field, frozen

from oncue import proc

BEAT_S = 5.0
"""How often a holder beats: a dozen chances before it is taken for dead."""


@frozen
class Owner:
    """Who holds a claim."""

    process: proc.Identity
    place: str
    """Machine and process namespace: pids compare only within."""
    nonce: str
    """Tells two holders in one process apart."""


@frozen
class Claim:
    """A lease that is ours until somebody has a higher token."""

    name: str
    token: int
    owner: Owner


@frozen
class Held:
    """Somebody else's lease, which is valid."""

    token: int
    pid: int
    silent_s: float
    """Since its last heartbeat: boot time, or since it is watched from here."""


class LostClaimError(Exception):
    """Somebody took over: what this run made must not be committed."""


@frozen
class Cursor:
    """Where the notes of a session stand."""

    processed_through: str
    """Id of the last message that a run worked on."""
    last_summarized: str | None
    """The same, unless a call would lose its result there (X9)."""
    tokens_at_last_extraction: int
    initialised: bool
    notes_revision: str | None
    ids: bytes = field(default=b"", repr=False)
    """Hashed ids of the summarised prefix, one record a message."""


class NotWantedError(Exception):
    """The run was voided (reset, cancel) before it could publish."""
