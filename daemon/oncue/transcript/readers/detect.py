"""Whose format a recording is (pure): its first records say so, else its path."""

from __future__ import annotations

import re
from collections import Counter

from oncue_protocol import TranscriptFormat

from . import fields
from .fields import Json
from .lines import LineSplitter, ObjectSplitter, parse

HEAD_BYTES = 256 * 1024
"""Enough of the beginning: the first typed record stands within it unless it is an image."""

_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_MAX_RECORDS = 50
_CODEX_ITEM = re.compile(r"\A(?:message|reasoning|\w+_call|\w+_output)\Z")
_CODEX_LINES = frozenset(
    (
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "compacted",
        "token_usage_record",
    )
)
_FOLDERS: tuple[tuple[str, TranscriptFormat], ...] = (
    ("/.claude/", "claude"),
    ("/.qwen/", "qwen"),
    ("/.gemini/", "gemini"),
    ("/.codex/", "codex"),
)


def detect(path: str, head: bytes) -> TranscriptFormat | None:
    """The format of the file at `path` whose first bytes (`HEAD_BYTES`) are `head`; None: it is
    none of ours. What the records say counts for more than where they lie."""
    if head.startswith(_ZSTANDARD):
        return "codex"
    if is_whole_object(head):
        return "gemini"
    maybe: TranscriptFormat | None = None
    splitter = LineSplitter(Counter())
    for _, line in [*splitter.feed(head), *splitter.close()][:_MAX_RECORDS]:
        record = parse(line)
        if record is None:
            continue
        if (certain := _certain(record)) is not None:
            return certain
        if maybe is None and "type" in record and ("sessionId" in record or "leafUuid" in record):
            maybe = "claude"
    return _by_path(path) or maybe


def is_whole_object(head: bytes) -> bool:
    """Whether the file is one object with a list `messages` rather than lines: old Gemini and
    Qwen sessions, on one line or printed over many, whatever the file is called."""
    splitter = LineSplitter(Counter())
    lines = splitter.feed(head)
    if lines and parse(lines[0][1]) is not None and b'"messages"' not in lines[0][1]:
        return False
    listed = ObjectSplitter(Counter()).feed(head)
    first = parse(listed[0][1]) if listed else None
    return first is not None and "$set" not in first and isinstance(first.get("messages"), list)


def _certain(record: Json) -> TranscriptFormat | None:
    kind = fields.string(record.get("type"))
    message = fields.mapping(record.get("message"))
    if isinstance(record.get("method"), str):
        return "oncue"
    if (kind in _CODEX_LINES and "payload" in record) or "record_type" in record:
        return "codex"
    if "parts" in message or kind == "tool_result" or "systemPayload" in record:
        return "qwen"
    if "$set" in record or "$rewindTo" in record or "projectHash" in record or kind == "gemini":
        return "gemini"
    if "content" in message or (kind and "parentUuid" in record and "message" not in record):
        return "claude"
    bare = "sessionId" not in record and "uuid" not in record
    if bare and (_CODEX_ITEM.match(kind) or ("instructions" in record and "id" in record)):
        return "codex"
    if kind in ("user", "info", "warning", "error") and "content" in record and "id" in record:
        return "gemini"
    return None


def _by_path(path: str) -> TranscriptFormat | None:
    path = path.replace("\\", "/")
    for folder, transcript_format in _FOLDERS:
        if folder in path:
            return transcript_format
    name = path.rpartition("/")[2]
    if name.startswith("rollout-"):
        return "codex"
    return "gemini" if name.startswith("session-") else None
