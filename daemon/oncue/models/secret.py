"""A value that shows itself to nobody who does not ask for it by name (pure; T6, D79)."""

from __future__ import annotations

from typing import NoReturn

MIN_SCRUBBED = 8
"""A shorter key is a dummy of a local server (`x`, `ollama`): removing it would hurt texts."""


class Secret:
    """Holds a credential. Printing, formatting, comparing and pickling it gives nothing away."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value, for the one line that puts it into a request."""
        return self._value

    def scrub(self, data: bytes) -> bytes:
        """`data` without the value: servers echo headers (T6)."""
        if len(self._value) < MIN_SCRUBBED:
            return data
        return data.replace(self._value.encode(), b"[secret removed: model key]")

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return repr(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied or pickled")
