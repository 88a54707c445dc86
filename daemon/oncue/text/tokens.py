"""Token estimates by script (pure): about 4 characters a token for Latin text, 1 to 1.5 for CJK,
3 for code.

Every character has a weight, so the estimate of a concatenation is the sum of the estimates up to
the rounding of each part, and more text never weighs less.
"""

from __future__ import annotations

import re

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]"
)
_WIDE = re.compile("[\U00010000-\U0010ffff]")
_OTHER = re.compile("[\u0370-\u10ff\u1200-\u2bff]")
_MARKS = re.compile(r"[^\w\s]|\d", re.ASCII)

LATIN, CJK, WIDE, OTHER, MARK = 240, 780, 1_800, 420, 450
"""Thousandths of a token a character."""


def weight(text: str) -> int:
    """Thousandths of a token: additive, monotone."""
    cjk = len(_CJK.findall(text))
    wide = len(_WIDE.findall(text))
    other = len(_OTHER.findall(text))
    rest = len(text) - cjk - wide - other
    marks = sum(1 for mark in _MARKS.finditer(text) if mark.group() < "\x80")
    return cjk * CJK + wide * WIDE + other * OTHER + rest * LATIN + marks * (MARK - LATIN)


def estimate(text: str) -> int:
    """Estimated tokens of `text`, rounded up; 0 for nothing."""
    return -(-weight(text) // 1_000)
