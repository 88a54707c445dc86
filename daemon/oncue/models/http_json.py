"""Reading what an endpoint answered: sceptically (pure; D71)."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from oncue.models.errors import ModelError
from oncue_protocol import ToolCall

MAX_BODY_BYTES = 1 << 20
"""The longest useful answer, 8,000 tokens, is 32 KB; more is a runaway or no model at all (T6)."""
MAX_TOOL_CALLS = 32
"""A section each, several times over; the rest is not passed on."""

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.S)
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_KNOWN = (
    "api_error authentication_error billing_error context_length_exceeded insufficient_quota "
    "invalid_api_key invalid_request_error model_not_found not_found_error overloaded_error "
    "permission_error rate_limit_error rate_limit_exceeded request_too_large server_error "
    "timeout_error unsupported_parameter unsupported_value"
)
_CODES = frozenset(_KNOWN.split())


def dump(value: Any) -> bytes:
    """JSON in UTF-8. Halves of surrogate pairs, which broken transcripts hold, become `?`."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def unusable(what: str) -> ModelError:
    """The failure of an answer that is not what its API promises."""
    return ModelError(f"the model endpoint's answer is unusable: {what}", reason="badAnswer")


def load(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; raises ModelError, and nothing else."""
    value: Any = None
    wrong = ""
    try:
        value = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        wrong = "it is empty" if not body.strip() else "it is not JSON"
    if wrong:  # raised here, so that no other exception hangs on to it
        raise unusable(wrong)
    if not isinstance(value, dict):
        raise unusable("it is not a JSON object")
    return value


def error_code(body: bytes) -> str | None:
    """The API's own word for an error, if it is one that we know: nothing a server makes up is
    repeated."""
    try:
        error = orjson.loads(body).get("error")
    except (ValueError, AttributeError):
        return None
    if not isinstance(error, dict):
        return None
    words = (error.get("code"), error.get("type"))
    return next((word for word in words if isinstance(word, str) and word in _CODES), None)


def arguments(value: object) -> Any:
    """A tool call's arguments: JSON in a string (one API), or as they are (the other). What is not
    JSON stays a string, so that whoever checks it can say so."""
    if not isinstance(value, str):
        return value
    fenced = _FENCED.fullmatch(value)
    try:
        return orjson.loads(fenced.group(1) if fenced else value)
    except ValueError:
        return value


def tool_calls(found: list[tuple[object, object, object]]) -> tuple[ToolCall, ...]:
    """Calls from (id, name, arguments); an id that could not be sent back is made anew."""
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for number, (call_id, name, given) in enumerate(found[:MAX_TOOL_CALLS], 1):
        known = isinstance(call_id, str) and _CALL_ID.fullmatch(call_id) and call_id not in seen
        identity = str(call_id) if known else f"call_{number}_{len(seen)}"
        seen.add(identity)
        calls.append(
            ToolCall(
                id=identity, name=name if isinstance(name, str) else "", input=arguments(given)
            )
        )
    return tuple(calls)


def count(value: object) -> int:
    """A token count: anything that is none is 0."""
    return value if type(value) is int and 0 <= value < 1 << 40 else 0
