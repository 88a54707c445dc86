"""A mapping that keeps only its newest entries: tombstones, poll tokens, early cancels (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Newest(Generic[K, V]):
    """At most `limit` entries; putting one more forgets the oldest. What nobody fetches must not
    grow for ever (D34), so every map that a client fills is one of these."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[K, V] = {}

    def put(self, key: K, value: V) -> None:
        """Set `key`, now the newest."""
        self._entries.pop(key, None)
        self._entries[key] = value
        while len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]

    def get(self, key: K) -> V | None:
        """The value, if it is still known."""
        return self._entries.get(key)

    def pop(self, key: K) -> V | None:
        """The value, forgotten from now on."""
        return self._entries.pop(key, None)

    def newest(self) -> V | None:
        """The value put last."""
        return self._entries[next(reversed(self._entries))] if self._entries else None

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def values(self) -> Iterator[V]:
        """Oldest first."""
        return iter(self._entries.values())

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
