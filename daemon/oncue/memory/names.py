"""Names of memory files (pure): what a title becomes, and which relative paths may be written.

D61: `..`, absolute names, escapes, NUL, 300 characters, device names, trailing dots. A name from
a client is never handed to the file system before it went through here.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

MAX_NAME_BYTES = 120
"""Of a slug: file systems stop at 255 bytes, encrypted ones at 143; a suffix has to fit too."""
MAX_COMPONENT_BYTES = 200
"""Of a component that a client names itself."""
MAX_DEPTH = 8
"""Folders below a root: memories are flat or nearly so."""
SUFFIXES = (".md", ".markdown")
INDEX_NAME = "MEMORY.md"
"""Derived from the files (M1), so never a memory itself."""

_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
"""Names that Windows keeps for devices, whatever the suffix."""
_RESERVED = _DEVICES | {"memory", "readme"}
"""Those, and names that other tools give a meaning."""
_NOT_WORD = re.compile(r"[\W_]+")


def slug(title: str) -> str:
    """A file name (without suffix) that is harmless on every file system: letters and digits of
    any script, and hyphens. Never empty, never reserved, at most MAX_NAME_BYTES."""
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", title).casefold())
    name = _NOT_WORD.sub("-", text).strip("-")
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        name = _cut(name, MAX_NAME_BYTES - 9) + "-" + _digest(title)
    if not name:
        return f"memory-{_digest(title)}"
    if name in _RESERVED:
        return f"memory-{name}"
    return name


def numbered(name: str, number: int) -> str:
    """The slug with a number, for a second memory of that name."""
    return f"{name}-{number}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def _cut(text: str, size: int) -> str:
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").rstrip("-")


def problem_with(relative: str) -> str | None:
    """Why a relative path (`/` between components) may not be written; None where it may."""
    if "\0" in relative:
        return "contains a NUL character"
    if relative.startswith(("/", "\\")) or (len(relative) > 1 and relative[1] == ":"):
        return "is absolute"
    if "\\" in relative:
        return "contains a backslash"
    components = relative.split("/")
    if len(components) > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} folders deep"
    for component in components:
        if (problem := _problem_with_component(component)) is not None:
            return problem
    if not components[-1].casefold().endswith(SUFFIXES):
        return "does not end in .md"
    if components[-1].casefold() == INDEX_NAME.casefold():
        return f"names {INDEX_NAME}, which is derived from the files"
    return None


def way_out(relative: str) -> str | None:
    """Why a relative path cannot be a memory that exists below a root; None where it can be."""
    components = relative.split("/")
    if "\0" in relative or any(component in ("", ".", "..") for component in components):
        return "has an empty, `.` or `..` component or a NUL character"
    if any(component.startswith(".") for component in components):
        return "has a hidden component"
    if relative == INDEX_NAME:
        return f"is {INDEX_NAME}, which is derived from the files"
    if not components[-1].casefold().endswith(SUFFIXES):
        return "does not end in .md"
    return None


def _problem_with_component(component: str) -> str | None:
    if component in ("", ".", ".."):
        return "has an empty, `.` or `..` component"
    if component.startswith("."):
        return "has a hidden component"
    if component.endswith((".", " ")) or component.startswith(" "):
        return "has a component that begins or ends with a space or ends with a dot"
    if len(component.encode("utf-8", "replace")) > MAX_COMPONENT_BYTES:
        return f"has a component of more than {MAX_COMPONENT_BYTES} bytes"
    if component.split(".", 1)[0].casefold() in _DEVICES:
        return "has a component that is a device name on some systems"
    if any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in component):
        return "has a component with invisible characters"
    if any(c in '<>:"|?*' for c in component):
        return 'has a component with one of < > : " | ? *'
    if "%2e" in component.casefold() or "%2f" in component.casefold():
        return "has percent escapes"
    return None
