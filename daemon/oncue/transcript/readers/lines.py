"""Cutting a growing recording into records: JSON lines, or the messages of one object (pure).

Both splitters are fed chunks of any size and give numbered records, each the bytes of one JSON
value. They hold at most one unfinished record, and none longer than `MAX_RECORD_BYTES`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import orjson

MAX_RECORD_BYTES = 64 * 1024 * 1024
"""A line with several images is 1 to 5 MB; a "line" that never ends must not fill the memory."""

_PADDING = b" \t\r\n\0"
"""NUL: a crash may leave a hole of them in front of the next good record."""
_BOM = b"\xef\xbb\xbf"

Record = tuple[int, bytes]
"""Number of the line (or of the message in the object), from 1, and its bytes."""


class LineSplitter:
    """Splits at LF bytes only: strings may hold U+2028 (T1). Drops BOM, CR, NUL padding and
    blank lines, but counts blank lines, so that a line's number never depends on them."""

    def __init__(self, skipped: Counter[str]) -> None:
        self.number = 0
        self._skipped = skipped
        self._parts: list[bytes] = []
        self._size = 0
        self._overlong = False

    def feed(self, data: bytes) -> list[Record]:
        """The lines that end in `data`."""
        records: list[Record] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._hold(data[start:end])
            records += self._finish()
            start = end + 1
        if start < len(data):
            self._hold(data[start:])
        return records

    def close(self) -> list[Record]:
        """The last line, where the file ends without LF."""
        return self._finish() if self._size or self._overlong else []

    def _hold(self, part: bytes) -> None:
        if self._overlong:
            return
        self._size += len(part)
        if self._size > MAX_RECORD_BYTES:
            self._overlong = True
            self._parts.clear()
        else:
            self._parts.append(part)

    def _finish(self) -> list[Record]:
        self.number += 1
        line = b"".join(self._parts)
        overlong = self._overlong
        self._parts.clear()
        self._size, self._overlong = 0, False
        if overlong:
            self._skipped["overlong"] += 1
            return []
        if self.number == 1:
            line = line.removeprefix(_BOM)
        line = line.strip(_PADDING)
        return [(self.number, line)] if line else []


class ObjectSplitter:
    """Splits one object that has a list `messages`, without ever holding the whole of it: the
    members before the list are record 1 (with the list empty), then comes each message."""

    def __init__(self, skipped: Counter[str]) -> None:
        self.number = 0
        self._skipped = skipped
        self._pending = bytearray()
        self._overlong = False
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._in_list = False
        self._began = False

    def feed(self, data: bytes) -> list[Record]:
        """The messages that end in `data`."""
        records: list[Record] = []
        copied = position = 0
        if self._escaped and data:
            self._escaped = False
            position = 1
        while found := (_INSIDE if self._in_string else _OUTSIDE).search(data, position):
            at, position = found.span()
            sign = data[at : at + 1]
            if self._in_string:
                if sign == b'"':
                    self._in_string = False
                elif position < len(data):
                    position += 1
                else:
                    self._escaped = True
            elif sign == b'"':
                self._in_string = True
            elif sign in b"{[":
                self._depth += 1
                if sign == b"[" and self._depth == 2 and not self._in_list:
                    self._hold(data[copied:at])
                    copied = at
                    if _LIST_KEY.search(self._pending[-_KEY_WINDOW:]):
                        self._pending += b"[]}"
                        records += self._finish()
                        self._in_list = True
                        copied = position
            elif sign in b"}]":
                self._depth -= 1
                if self._in_list and self._depth < 2:
                    self._hold(data[copied:at])
                    copied = position
                    records += self._finish()
                    self._in_list = False
            elif self._in_list and self._depth == 2:
                self._hold(data[copied:at])
                copied = position
                records += self._finish()
        self._hold(data[copied:])
        return records

    def close(self) -> list[Record]:
        """What was cut, and the whole object where it has no list."""
        if self._in_list or not self._began:
            return self._finish()
        return []

    def _hold(self, part: bytes) -> None:
        if not self._in_list and self._began:
            return  # members behind the list: nothing of them is needed
        if len(self._pending) + len(part) > MAX_RECORD_BYTES:
            self._overlong = True
        elif not self._overlong:
            self._pending += part

    def _finish(self) -> list[Record]:
        self._began = True
        record = bytes(self._pending).removeprefix(_BOM).strip(_PADDING)
        self._pending.clear()
        overlong, self._overlong = self._overlong, False
        if not record and not overlong:
            return []
        self.number += 1
        if overlong:
            self._skipped["overlong"] += 1
            return []
        return [(self.number, record)]


def parse(record: bytes) -> dict[str, Any] | None:
    """The JSON object that `record` is, or None."""
    try:
        value = orjson.loads(record)
    except orjson.JSONDecodeError:
        value = _parse_lone_surrogates(record)
    return value if isinstance(value, dict) else None


def _parse_lone_surrogates(record: bytes) -> Any:
    """Agents cut strings between the halves of a character and write the half as an escape,
    which orjson rightly refuses; here it becomes U+FFFD."""
    if not _HALF.search(record):
        return None
    try:
        return orjson.loads(
            json.dumps(json.loads(record), ensure_ascii=False).encode("utf-8", "replace")
        )
    except (ValueError, RecursionError):
        return None


_OUTSIDE = re.compile(rb'["{}\[\],]')
_INSIDE = re.compile(rb'["\\]')
_LIST_KEY = re.compile(rb'"messages"[ \t\r\n]*:[ \t\r\n]*\Z')
_KEY_WINDOW = 64
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
