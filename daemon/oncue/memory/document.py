"""What a memory file says of itself, made fit for an index (pure).

Content decides title, description, type, keywords and dates, and nothing else: origin, trust and
writer come from where the file lies and from provenance.py (memory.md M3).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from attrs import frozen

from oncue.memory.front_matter import Fields, ParsedFile
from oncue.memory.yaml_text import Value
from oncue_protocol.base import DocumentType, Scope

MAX_TITLE = 200
"""A title is one line in a manifest; the rest of a longer one would push others out."""
MAX_DESCRIPTION = 500
MAX_LIST_ITEMS = 50
MAX_ITEM = 200
DEFAULT_TYPE: Mapping[Scope, DocumentType] = {"user": "user", "project": "project"}

_TYPES: tuple[DocumentType, ...] = ("user", "feedback", "project", "reference")
_HEADING = re.compile(r"#{1,6}[ \t]+(\S[^\n]*)")
_SPACE = re.compile(r"\s+")


@frozen
class Described:
    """The searchable side of a memory file."""

    title: str
    description: str
    type: DocumentType
    keywords: tuple[str, ...]
    usage_scenarios: tuple[str, ...]
    created: str | None
    updated: str | None
    body: str


def describe(parsed: ParsedFile, relative_path: str, scope: Scope) -> Described:
    """Title, description and type, with something sensible where the file is silent (M5)."""
    fields = {str(key).casefold().replace("-", "_"): v for key, v in parsed.fields.items()}
    metadata = fields.get("metadata")
    if isinstance(metadata, Mapping):
        fields = {**metadata, **fields}
    heading = _first_heading(parsed.body)
    title = _text(fields.get("name")) or _text(fields.get("title"))
    return Described(
        title=one_line(title or heading or stem_title(relative_path), MAX_TITLE),
        description=one_line(
            _text(fields.get("description")) or _first_prose(parsed.body), MAX_DESCRIPTION
        ),
        type=_type(_text(fields.get("type")), scope),
        keywords=_list(fields.get("keywords", fields.get("tags"))),
        usage_scenarios=_list(fields.get("usage_scenarios", fields.get("usagescenarios"))),
        created=_text(fields.get("created")) or None,
        updated=_text(fields.get("updated")) or None,
        body=parsed.body,
    )


def by_name_only(relative_path: str, scope: Scope) -> Described:
    """For a file that is too large to read: its name is all there is (T9)."""
    title = one_line(stem_title(relative_path), MAX_TITLE)
    return Described(title, "", DEFAULT_TYPE[scope], (), (), None, None, "")


def stem_title(relative_path: str) -> str:
    """`infra/deploy-window_2.md` → `deploy window 2`."""
    stem = relative_path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return _SPACE.sub(" ", stem.replace("-", " ").replace("_", " ")).strip() or relative_path


def one_line(text: str, cap: int) -> str:
    """One line without control, format (bidi, zero-width, tag) and unpaired characters (T2)."""
    head = text[: cap * 4]
    flat = "".join(
        " " if c.isspace() else c
        for c in head
        if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn")
    )
    flat = _SPACE.sub(" ", flat).strip()
    return flat if len(flat) <= cap else flat[: cap - 1].rstrip() + "…"


def title_key(fields: Fields) -> str:
    """The key under which this file keeps its title: what it has, else `name`."""
    for wanted in ("name", "title"):
        for key in fields:
            if key.casefold() == wanted:
                return key
    return "name"


def _type(text: str, scope: Scope) -> DocumentType:
    for known in _TYPES:
        if text.casefold() == known:
            return known
    return DEFAULT_TYPE[scope]


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Sequence):
        return ", ".join(item for item in value if isinstance(item, str)).strip()
    return ""


def _list(value: Value) -> tuple[str, ...]:
    items: list[str] = []
    if isinstance(value, str):
        items = value.split(",") if "," in value else [value]
    elif isinstance(value, Sequence):
        items = [item for item in value if isinstance(item, str)]
    cleaned = (one_line(item, MAX_ITEM) for item in items[:MAX_LIST_ITEMS])
    return tuple(item for item in cleaned if item)


def _first_heading(body: str) -> str:
    for line in body[:4096].split("\n")[:40]:
        hit = _HEADING.match(line)
        if hit is not None:
            return hit.group(1).rstrip("# \t")
    return ""


def _first_prose(body: str) -> str:
    for line in body[:8192].split("\n")[:60]:
        text = line.strip(" \t>*-")
        if text and not text.startswith(("#", "```", "|", "---")) and _HEADING.match(line) is None:
            return text
    return ""
