"""What is wrong in a JSON value, and where: from cattrs' exception groups to paths (pure)."""

from __future__ import annotations

from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    IterableValidationError,
    IterableValidationNote,
)

from .base import MAX_PROBLEMS


class MismatchError(ValueError):
    """One value that does not fit; `path` is filled in on the way out."""


def camel(name: str) -> str:
    """`turn_id` → `turnId`: the name of a member on the wire."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def describe(error: BaseException, root: str) -> list[tuple[str, str]]:
    """(JSON path, problem) for everything wrong in one structuring, in order."""
    found: list[tuple[str, str]] = []
    _collect(error, root, found)
    return found


def sentence(problems: list[tuple[str, str]]) -> str:
    shown = "; ".join(f"{path}: {text}" for path, text in problems[:MAX_PROBLEMS])
    more = len(problems) - MAX_PROBLEMS
    return f"{shown}; and {more} more" if more > 0 else shown


def _collect(error: BaseException, path: str, found: list[tuple[str, str]]) -> None:
    if isinstance(error, ClassValidationError | IterableValidationError):
        for inner in error.exceptions:
            _collect(inner, path + _step(inner), found)
    elif isinstance(error, KeyError):
        found.append((f"{path}.{camel(str(error.args[0]))}", "required, but absent"))
    elif isinstance(error, MismatchError):
        found.append((path, str(error)))
    else:
        found.append((path, f"cannot be read ({type(error).__name__})"))


def _step(error: BaseException) -> str:
    """How the path goes on to this error, from the notes that cattrs leaves on it."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            # An absent member is a KeyError that carries its own name.
            return "" if isinstance(error, KeyError) else f".{camel(note.name)}"
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}"
    return ""
