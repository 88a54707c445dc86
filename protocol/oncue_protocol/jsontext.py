"""JSON in and out (pure).

Read with orjson. Its limits are the protocol's: UTF-8 without byte order mark, no NaN or
Infinity, nesting to 1024, numbers that a double can hold. Integers outside 64 bits become doubles,
as they do in JavaScript. What JavaScript writes and orjson refuses is mended: half a surrogate
pair (`"\\ud83d"`) is read, and written, as U+FFFD.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from .errors import ParseError

_ESCAPE = re.compile(
    rb"\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def loads(body: bytes | bytearray | memoryview) -> Any:
    """The value of a body. Raises `ParseError` with what is wrong and where."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        problem = error
    text = bytes(body)
    if _HALF.search(text):
        try:
            return orjson.loads(_mend(text))
        except orjson.JSONDecodeError as error:
            problem = error
    raise ParseError(
        f"the body is not JSON in UTF-8: {problem.msg}",
        detail={"line": problem.lineno, "column": problem.colno},
    )


def dumps(value: Any) -> bytes:
    """The body of a value. NaN and Infinity become null. Raises `TypeError` or `ValueError`
    for what JSON cannot say, `RecursionError` for nesting beyond about 1000."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half a surrogate pair, an integer beyond 64 bits, or nesting beyond 254.
        return _mend(json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii"))


def _mend(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)
