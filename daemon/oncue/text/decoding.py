"""Bytes of unknown make to text and back (pure; memory.md M5, D33, D54, D55).

UTF-8 with or without a byte order mark, UTF-16, UTF-32, else Latin-1, which takes anything. Line
ends are `\\n`, `\\r\\n`, `\\r`, or mixed.
"""

from __future__ import annotations

import re
from typing import Literal

from attrs import frozen

Encoding = Literal[
    "utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1"
]
Newline = Literal["\n", "\r\n", "\r"]


@frozen
class Problem:
    """Something about a file that a user should know."""

    code: str
    """Short and stable: `yaml`, `alias`, `tag`, `depth`, `tooLong`, `unclosed`, `duplicateKey`,
    `encoding`, `nul`, and the codes of memory files."""
    message: str
    """What is wrong and where; never the content."""


_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_BOM_OF: dict[Encoding, bytes] = {encoding: bom for bom, encoding in _BOMS}


def decode(data: bytes) -> tuple[str, Encoding, tuple[Problem, ...]]:
    """Text of any bytes, the encoding it was read with, and what was odd. Never raises."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            codec = "utf-8" if encoding == "utf-8-sig" else encoding
            text = data[len(bom) :].decode(codec, "replace")
            return text, encoding, _oddities(text, encoding)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    else:
        if "\0" not in text or (guess := _utf16_without_bom(data)) is None:
            return text, "utf-8", _oddities(text, "utf-8")
        text = data.decode(guess, "replace")
        return text, guess, _oddities(text, guess)
    guess = _utf16_without_bom(data)
    if guess is not None:
        text = data.decode(guess, "replace")
        return text, guess, _oddities(text, guess)
    text = data.decode("latin-1")
    return text, "latin-1", _oddities(text, "latin-1")


def _utf16_without_bom(data: bytes) -> Encoding | None:
    """UTF-16 shows itself by zero bytes in every second place (of mostly Latin text)."""
    head = data[:512]
    if len(head) < 4:
        return None
    half = len(head) // 2
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > half * 0.6 and even < half * 0.1:
        return "utf-16-le"
    if even > half * 0.6 and odd < half * 0.1:
        return "utf-16-be"
    return None


def _oddities(text: str, encoding: Encoding) -> tuple[Problem, ...]:
    found = []
    if encoding not in ("utf-8", "utf-8-sig"):
        found.append(Problem("encoding", f"not UTF-8: read as {encoding}"))
    if "\0" in text:
        found.append(Problem("nul", "contains NUL characters: read without them"))
    return tuple(found)


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes of `text` in a file's encoding; UTF-8 where that encoding cannot hold it."""
    if encoding == "latin-1":
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError:
            return text.encode("utf-8", "replace")
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    return _BOM_OF.get(encoding, b"") + text.encode(codec, "replace")


LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


def newline_of(text: str) -> Newline:
    """The commonest line end of a text."""
    crlf = text.count("\r\n")
    cr, lf = text.count("\r") - crlf, text.count("\n") - crlf
    if crlf > lf and crlf >= cr:
        return "\r\n"
    return "\r" if cr > lf else "\n"


def normalise(text: str) -> str:
    """Line ends as `\\n`, no NUL characters, no blank lines around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip("\n")
