"""Parts of Claude Code's records: what identifies a copy, where a record hangs (pure)."""

from __future__ import annotations

from attrs import define, field

from oncue.text import tokens

from . import fields
from .fields import Json


@define
class Branch:
    """Where typed records hang: who is whose nearest message ancestor. Uuids as hashes."""

    ancestor: dict[int, int] = field(factory=dict)
    """Record to its nearest message, itself included."""
    ordinals: dict[int, int] = field(factory=dict)
    """Message record to the ordinal of its message."""
    parents: set[int] = field(factory=set)
    """Message records that have a message child."""

    def nearest(self, parent: object) -> int | None:
        return self.ancestor.get(hash(parent)) if isinstance(parent, str) else None

    def add(self, record: Json, ordinal: int, *, is_message: bool) -> None:
        uuid = record.get("uuid")
        nearest = self.nearest(record.get("parentUuid"))
        if is_message and nearest is not None:
            self.parents.add(nearest)
        if not isinstance(uuid, str):
            return
        if is_message:
            self.ancestor[hash(uuid)] = hash(uuid)
            self.ordinals[hash(uuid)] = ordinal
        elif nearest is not None:
            self.ancestor[hash(uuid)] = nearest


@define
class Estimates:
    """What a response is likely to have cost, against placeholders."""

    output: int = 0
    figures: tuple[int, int, int, int] | None = None

    def add(self, text: str) -> None:
        self.output += tokens.estimate(text)


def block_key(record: Json, block: object) -> int | None:
    """What identifies a block in every copy: its call id, or its time and text."""
    if isinstance(block, dict) and block.get("type") == "tool_use":
        call_id = fields.ident(block.get("id"))
        if call_id is not None:
            return hash(("call", call_id))
    when = record.get("timestamp")
    if not isinstance(when, str):
        return None
    if isinstance(block, str):
        return hash((when, block))
    if not isinstance(block, dict):
        return None
    text = block.get("text") or block.get("thinking") or block.get("data")
    if not isinstance(text, str):
        text = fields.compact(block)
    return hash((when, block.get("type") == "thinking", text))


def text_keys(record: Json, texts: list[str]) -> list[int]:
    when = record.get("timestamp")
    return [hash((when, "typed", text)) for text in texts] if isinstance(when, str) else []


def text_of(block: object) -> str:
    if isinstance(block, str):
        return block if block.strip() else ""
    if not isinstance(block, dict) or block.get("type") == "tool_result":
        return ""
    if block.get("type") == "text":
        text = fields.string(block.get("text"))
        return text if text.strip() else ""
    return fields.placeholder(block)


def element(text: str, name: str) -> str:
    """What stands in the element `name`; empty where it is not there."""
    _, found, rest = text.partition(f"<{name}>")
    return rest.partition(f"</{name}>")[0].strip() if found else ""


def is_unknown(block: object) -> bool:
    """Whether a user's block is of a kind that we do not know."""
    if not isinstance(block, dict):
        return not isinstance(block, str)
    return block.get("type") not in ("text", "tool_result") and not fields.placeholder(block)
