"""What is no secret though it stands where one might: placeholders, code, words (pure)."""

from __future__ import annotations

import math
import re
from collections import Counter

_STAND_IN = re.compile(
    r"your|example|placeholder|redacted|removed|changeme|change[_-]me|dummy|insert|replace[_-]?|"
    r"x{4}|\*{3}|\.{3}|…|<|\{\{|\$\{|%\(|todo|fake|1234567890|0123456789|abcdefgh|"
    r"test[_-]?(?:key|token|secret|pass)|sample|lorem|secret[_-]?here|my[_-]?(?:secret|token|pass)",
    re.IGNORECASE,
)
_USUAL_WORDS = """
    password passwd pass secret token pwd postgres root admin user guest mysql redis null none
    undefined required optional string hunter2 letmein password1 password123 secret123 pass1234
    test1234 test123
"""
_USUAL = frozenset(_USUAL_WORDS.split())
_TELLING = 48
"""Characters in which a stand-in shows itself: a long random value spells some word by chance."""
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*(?:(?:\.|::|->)[A-Za-z_][\w-]*)+")
_PART = r"(?:[A-Za-z]{2,}[0-9]{0,3}|[0-9]{1,4}|v[0-9]{1,2})"
_WORDS = re.compile(rf"{_PART}(?:[_.:/-]{_PART})*")
_CAMEL = re.compile(r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)*[0-9]{0,2}")
_PAIR = re.compile(r"[A-Za-z_.-]{2,24}[=:](?!=*$)")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_placeholder(value: str) -> bool:
    """Whether a value, of at least one character, stands for one that the reader has to fill in."""
    return (
        value.lower() in _USUAL
        or value[0] in "$%{<[(*"
        or _STAND_IN.search(value) is not None
        or len(set(value)) < 3
    )


def is_random(value: str) -> bool:
    """Whether what follows a known beginning can be a real one."""
    return len(set(value)) >= 8 and _STAND_IN.search(value, 0, _TELLING) is None


def is_mixed(value: str) -> bool:
    """Letters and digits both: words and numbers alone are not credentials."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def is_credible(value: str, name: str, *, quoted: bool) -> bool:
    """Whether the value of something called a password or a key is one, and not code or prose."""
    value = value.rstrip(".:") if not quoted else value
    if len(value) < 8 or is_placeholder(value) or any(c.isspace() for c in value):
        return False
    if (
        value[0] in "/.~&@#="
        or (not quoted and _PAIR.match(value))
        or "://" in value
        or not is_mixed(value)
    ):
        return False
    if (not quoted and _IDENTIFIER.fullmatch(value)) or _CAMEL.fullmatch(value):
        return name.startswith("pass") and quoted and entropy(value) >= 2.75
    if _UUID.fullmatch(value):
        return "token" not in name
    if _WORDS.fullmatch(value):
        return False
    return entropy(value) >= (2.75 if name.startswith(("pass", "pwd", "_p")) else 3.0)


def entropy(value: str) -> float:
    """Shannon's, in bits a character."""
    length = len(value)
    return -sum(n / length * math.log2(n / length) for n in Counter(value).values())
