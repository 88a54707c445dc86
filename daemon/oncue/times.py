"""Times as they stand on the wire: RFC 3339, UTC, milliseconds (pure)."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Seconds since 1970 UTC as `2026-01-31T12:00:00.000Z`; what no calendar holds is cut to
    the nearest time that one does."""
    seconds = min(max(seconds, _EARLIEST), _LATEST)
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
