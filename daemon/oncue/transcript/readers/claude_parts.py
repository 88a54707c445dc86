"""Parts of Claude Code's records: what identifies a copy, where a record hangs (pure)."""

from __future__ import annotations

from array import array

from attrs import define

from oncue.text import tokens

from . import fields
from .fields import Json


class Branch:
    """Where typed records hang: who is whose nearest message ancestor.

    Every record is noted, noise included, because chains lead through it; so a record costs one
    entry of a dictionary, by the hash of its uuid."""

    def __init__(self) -> None:
        self._nearest: dict[int, int] = {}
        self._ordinals = array("q")
        self._has_child = bytearray()

    def nearest(self, parent: object) -> int | None:
        """Number of the message record that is nearest above a record with this parent."""
        return self._nearest.get(hash(parent)) if isinstance(parent, str) else None

    def has_message_child(self, message: int) -> bool:
        """Whether a message hangs below it already."""
        return bool(self._has_child[message])

    def ordinal(self, message: int) -> int:
        """Ordinal of the message that the record belongs to."""
        return self._ordinals[message]

    def add(self, record: Json, ordinal: int, *, is_message: bool) -> None:
        """Note a record."""
        uuid = record.get("uuid")
        nearest = self.nearest(record.get("parentUuid"))
        if is_message:
            if nearest is not None:
                self._has_child[nearest] = 1
            nearest = len(self._ordinals)
            self._ordinals.append(ordinal)
            self._has_child.append(0)
        if nearest is not None and isinstance(uuid, str):
            self._nearest[hash(uuid)] = nearest


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
