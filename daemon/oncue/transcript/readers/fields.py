"""Reading members that may be missing, null or of another kind (pure): T1, T5, T7.

No maker promises its format, so nothing here raises: what is not what it should be is as if
it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from oncue.text import marker
from oncue_protocol import Usage

Json = dict[str, Any]

MAX_ID_CHARACTERS = 256
"""Longest id that the protocol takes; a longer one is as good as none."""
MAX_TOKENS = 2**53
"""Larger counts are nonsense, and do not survive JSON elsewhere."""
MAX_NESTING = 64
"""Tool input below this depth is cut, visibly, as the protocol does."""

_PLACEHOLDERS = {
    "image": "[image]",
    "input_image": "[image]",
    "image_url": "[image]",
    "document": "[document]",
    "file": "[file]",
    "input_file": "[file]",
    "audio": "[audio]",
    "input_audio": "[audio]",
    "video": "[video]",
}
_NAMED = frozenset(_PLACEHOLDERS.values())


def mapping(value: object) -> Json:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """`value` if it is a list; a single object or string as a list of one; else empty."""
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, dict | str) else []


def objects(value: object) -> list[Json]:
    """The objects in `value`."""
    return [item for item in items(value) if isinstance(item, dict)]


def string(value: object) -> str:
    """`value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def ident(value: object) -> str | None:
    """`value` if it can be an id."""
    if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARACTERS:
        return value
    return None


def count(value: object) -> int:
    """`value` if it is a plausible number of tokens, else 0."""
    if isinstance(value, int | float) and 0 <= value <= MAX_TOKENS:
        return int(value)
    return 0


def usage(read: int, written: int, cache_read: int = 0, cache_write: int = 0) -> Usage | None:
    """Disjoint figures; None where all are zero (T5). Negative ones, from subtractions, are 0."""
    figures = [max(0, figure) for figure in (read, written, cache_read, cache_write)]
    if not any(figures):
        return None
    return Usage(
        input_tokens=figures[0],
        output_tokens=figures[1],
        cache_read_tokens=figures[2],
        cache_write_tokens=figures[3],
    )


def time(value: object) -> str | None:
    """`value`, a time with an offset, as RFC 3339 in UTC."""
    if not isinstance(value, str) or not 20 <= len(value) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return None
        if value.endswith("Z") and value[10] == "T":
            return value
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return None


def placeholder(block: Json) -> str:
    """What stands for a binary part: `[image]` or the like (T7); empty for other parts."""
    kind = string(block.get("type"))
    if kind in _PLACEHOLDERS:
        return _PLACEHOLDERS[kind]
    for member in ("inlineData", "fileData"):
        if isinstance(block.get(member), dict):
            family = string(block[member].get("mimeType")).partition("/")[0]
            return f"[{family}]" if family in ("image", "audio", "video") else "[file]"
    return ""


def query_of(text: str) -> str:
    """What to recall for: the words, without what we injected and without placeholders."""
    lines = marker.strip(text).split("\n")
    return "\n".join(line for line in lines if line not in _NAMED).strip()


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, one below the other."""
    return "\n".join(part for part in parts if part)


def flat(value: object) -> str:
    """Text of a result in whatever shape it came: string, blocks, object or null."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return joined(map(_flat_block, value))
    return _flat_block(value)


def _flat_block(block: object) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return ""
    if named := placeholder(block):
        return named
    for member in ("text", "output", "content"):
        if isinstance(block.get(member), str):
            return str(block[member])
    return compact(block) if block else ""


def compact(value: object) -> str:
    """`value` as JSON on one line."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return ""


def shallow(value: object, depth: int = MAX_NESTING) -> Any:
    """`value` cut below `depth`, so that whatever handles it later may be recursive."""
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {key: shallow(member, depth - 1) for key, member in value.items()}
    return [shallow(member, depth - 1) for member in value]


def without_spans(text: str, opening: str) -> str:
    """`text` without elements whose tag begins with `opening` (`<ide_`): from `<ide_x` to
    `</ide_x>`. One that begins the text and is never closed takes all of it."""
    at = text.find(opening)
    if at < 0:
        return text
    kept: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while at >= 0 and len(unclosed) < _MAX_UNCLOSED:
        name_end = at + len(opening)
        while name_end < len(text) and (text[name_end].isalnum() or text[name_end] in "_-"):
            name_end += 1
        closing = f"</{text[at + 1 : name_end]}>"
        end = -1 if closing in unclosed else text.find(closing, name_end)
        if end >= 0:
            kept.append(text[position:at])
            position = name_end = end + len(closing)
        elif not unclosed and not kept and text[:at].isspace() | (at == 0):
            return ""
        else:
            unclosed.add(closing)
        at = text.find(opening, name_end)
    kept.append(text[position:])
    return "".join(kept).strip()


_MAX_UNCLOSED = 8
"""Each is looked for once in the whole text; more would make it quadratic."""
