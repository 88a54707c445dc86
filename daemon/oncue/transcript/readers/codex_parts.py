"""Parts of Codex CLI's items: texts, outputs, figures (pure): transcripts.md §5."""

from __future__ import annotations

import re
from typing import Any

import orjson

from oncue_protocol import Usage

from . import fields
from .fields import Json

INJECTED = (
    "<environment_context>",
    "# AGENTS.md",
    "<user_instructions>",
    "<turn_aborted>",
    "<skill>",
    "<user_shell_command>",
    "<subagent_notification>",
)
"""Beginnings of user items that nobody typed."""
_IDE = "# Context from my IDE"
_REQUEST = "My request for Codex"
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:)[ \t]{0,8}(-?\d{1,10})", re.M)
_STATUS_WINDOW = 1_000
"""The exit code stands in the lines before the output, not in what a tool printed."""


def text_of(content: object) -> str:
    """Text of a message's content."""
    texts = []
    for block in fields.items(content):
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            texts.append(fields.string(block.get("text")) or fields.placeholder(block))
    return fields.joined(texts)


def is_unknown(block: object) -> bool:
    """Whether a content block is of a kind that we do not know."""
    if isinstance(block, str):
        return False
    return not isinstance(block, dict) or not (
        isinstance(block.get("text"), str) or fields.placeholder(block)
    )


def request_of(text: str) -> str:
    """The typed words: of a message with an IDE's preamble only "My request for Codex"."""
    if not text.lstrip().startswith(_IDE):
        return text
    _, found, rest = text.partition(_REQUEST)
    return rest.lstrip(":").strip() if found else text


def input_of(item: Json) -> Any:
    """Arguments of a call: JSON text, maybe broken; plain text; or an object."""
    if "arguments" in item:
        given = item["arguments"]
        if not isinstance(given, str):
            return fields.shallow(given)
        try:
            return fields.shallow(orjson.loads(given)) if given else None
        except orjson.JSONDecodeError:
            return {"raw": given}
    for member in ("input", "action"):
        if member in item:
            return fields.shallow(item[member])
    return None


def name_of(item: Json, kind: str) -> str:
    """Name of the tool; built-in ones are named by the item."""
    return fields.string(item.get("name")) or kind.removesuffix("_call")


def output_of(item: Json) -> tuple[str, bool]:
    """Text of an output, and whether it is an error."""
    given = item.get("output")
    if given is None:
        given = item.get("result", item.get("content"))
    is_error = item.get("success") is False or item.get("status") in ("failed", "aborted")
    if isinstance(given, str) and given.startswith('{"'):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            pass
        else:
            if "output" not in given and "content" not in given:
                given = fields.string(item.get("output"))
    if isinstance(given, dict):
        metadata = fields.mapping(given.get("metadata"))
        is_error |= given.get("success") is False or metadata.get("success") is False
        code = metadata.get("exit_code", given.get("exit_code"))
        is_error |= isinstance(code, int) and code != 0
        inner = given.get("content", given.get("output"))
        text = fields.flat(inner if inner is not None else given)
    else:
        text = fields.flat(given)
    found = _EXIT_CODE.search(text, 0, _STATUS_WINDOW)
    is_error |= found is not None and int(found.group(1)) != 0
    return text, is_error or text.lower().startswith("aborted")


def usage_of(given: Json) -> Usage | None:
    """Figures of one request; `input_tokens` holds what was cached."""
    cached = _by_prefix(given, "cached_")
    cache_write = _by_prefix(given, "cache_write_")
    read = fields.count(given.get("input_tokens"))
    return fields.usage(
        read - cached - cache_write, fields.count(given.get("output_tokens")), cached, cache_write
    )


def _by_prefix(given: Json, prefix: str) -> int:
    return max((fields.count(v) for k, v in given.items() if k.startswith(prefix)), default=0)
