"""The marker around injected text: how a delivery is fenced, and how it is recognised again.

A delivery stands between two lines that carry one nonce, chosen once for the delivery:

    <oncue-memory 0123456789abcdef>
    ...
    </oncue-memory 0123456789abcdef>

Two independent locks keep stored text from closing the fence (recall.md §6, T2, D76): it cannot
know the nonce, and `neutralise` takes from it everything that a reader, strict or kind, could
take for a fence. Whatever reads a transcript calls `strip`, so that memory never feeds on itself
(X26). The lines have no quotes and no line break, so they survive being quoted in JSON.

All functions are pure, total for any `str` (lone surrogates included) and linear in its length.
"""

from __future__ import annotations

import re

FENCE_NAME = "oncue-memory"
MARKER_OPEN = f"<{FENCE_NAME} "
MARKER_CLOSE = f"</{FENCE_NAME} "
NONCE_CHARACTERS = 16
"""Length of a nonce: 64 random bits as lower-case hex. The caller draws it."""

_NONCE = re.compile(rf"[0-9a-f]{{{NONCE_CHARACTERS}}}")

# A fence line as a transcript may hold it: bare, or escaped by whatever quoted it.
_FENCE = re.compile(
    rf"(?:<|&lt;|\\u003[cC])(/?){FENCE_NAME} ([0-9a-f]{{{NONCE_CHARACTERS}}})(?:>|&gt;|\\u003[eE])"
)

# Characters that show nothing, or change how their neighbours show. Ranges rather than a look at
# unicodedata for each character: a translation over a class runs in C. A test compares the two.
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_TAGS = "\U000e0000-\U000e0fff"
_SURROGATES = "\ud800-\udfff"
_INVISIBLE = (
    "\u00ad\u034f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200d\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_HIDDEN = re.compile(f"[{_CONTROLS}{_BIDI}{_TAGS}{_SURROGATES}{_INVISIBLE}]+")
# In a body, joiners (Persian, emoji), soft hyphens and variation selectors are writing.
_DECEPTIVE = re.compile(f"[{_CONTROLS}{_BIDI}{_TAGS}{_SURROGATES}\u2060-\u206f\ufff0-\ufffb]+")
_SPACES = re.compile(r"\s+")

# What may stand between the letters of a look-alike without a kind reader minding.
_GAP = rf"[\s\\{_CONTROLS}{_BIDI}{_TAGS}{_SURROGATES}{_INVISIBLE}]*+"
_ANGLE = (
    r"(?:[<＜﹤‹〈〈❮⟨«]|&(?:lt|LT);?|&#0{0,6}60;?|&#[xX]0{0,6}3[cC];?|%3[cC]|\\u003[cC]|\\x3[cC])"
)
_SLASH = r"(?:[/／⁄∕⧸]|&sol;|&#0{0,6}47;?|&#[xX]0{0,6}2[fF];?|%2[fF])"


def _letter(plain: str, alike: str) -> str:
    """One letter of the fence's name in any case, as a full-width form, a look-alike of another
    script, or a character reference."""
    upper = plain.upper()
    wide = chr(ord(plain) + 0xFEE0) + chr(ord(upper) + 0xFEE0)
    decimal = rf"&#0{{0,6}}(?:{ord(plain)}|{ord(upper)});?"
    hexadecimal = rf"&#[xX]0{{0,6}}(?:{ord(plain):x}|{ord(upper):x});?"
    return rf"(?:[{plain}{upper}{wide}{alike}]|{decimal}|{hexadecimal})"


# Possessive gaps (`*+`) never backtrack, and no gap holds an angle: each character is looked at
# by the one angle before it, so the search is linear.
_NAME = _GAP.join(
    _letter(plain, alike)
    for plain, alike in (("o", "οоОΟ०ⲟ"), ("n", "ոп"), ("c", "сСϲⅽⅭ"), ("u", "υսц"), ("e", "еЕℯΕ"))
)
_LIKE = rf"{_GAP}(?:{_SLASH}{_GAP})*+{_NAME}"
_LOOKALIKE = re.compile(rf"({_ANGLE})(?={_LIKE})")
_NEUTRALISED = re.compile(rf"({_ANGLE})\\(?={_LIKE})")


def open_line(nonce: str) -> str:
    """The line that opens a delivery. `nonce`: 16 lower-case hex digits, else ValueError."""
    return f"{MARKER_OPEN}{_checked(nonce)}>"


def close_line(nonce: str) -> str:
    """The line that closes the delivery opened with the same nonce."""
    return f"{MARKER_CLOSE}{_checked(nonce)}>"


def _checked(nonce: str) -> str:
    if _NONCE.fullmatch(nonce) is None:
        raise ValueError(f"a fence's nonce must be {NONCE_CHARACTERS} lower-case hex digits")
    return nonce


def neutralise(text: str) -> str:
    """`text` with a backslash after every angle that begins something like a fence (D76): in any
    case, with spaces, invisible characters, character references or look-alike letters. Text
    without such a thing comes back as it is; `restore` undoes it exactly."""
    return _LOOKALIKE.sub(r"\1\\", text)


def restore(text: str) -> str:
    """The text that `neutralise` was given (T2: a rendering parses back to the same items)."""
    return _NEUTRALISED.sub(r"\1", text)


def contains(text: str) -> bool:
    """Whether `text` holds any fence line, even a lone one."""
    return FENCE_NAME in text and _FENCE.search(text) is not None


def strip(text: str) -> str:
    """`text` without injected text, and without any fence line (X26).

    From an opening line to the closing line with its nonce everything goes, whatever other fences
    lie between. What was cut counts as injected on the side that is missing: an opening line
    without its end takes the rest, a closing line without its beginning takes what precedes it.
    Idempotent: what is left never joins to a new fence."""
    if FENCE_NAME not in text:
        return text
    fences = list(_FENCE.finditer(text))
    if not fences:
        return text
    # For each fence the next closing line with its nonce, found from the end in one pass.
    closing: dict[str, int] = {}
    closed_at: list[int | None] = [None] * len(fences)
    for at in range(len(fences) - 1, -1, -1):
        slash, nonce = fences[at].groups()
        if slash:
            closing[nonce] = at
        else:
            closed_at[at] = closing.get(nonce)

    kept: list[str] = []
    position = at = 0
    while at < len(fences):
        fence = fences[at]
        if fence.group(1):  # closes what began before this text
            kept.clear()
            position = _after(text, fence.end())
            at += 1
            continue
        kept.append(text[position : fence.start()])
        end = closed_at[at]
        if end is None:
            position = len(text)
            break
        position = _after(text, fences[end].end())
        at = end + 1
    kept.append(text[position:])
    return _joined(kept)


def _after(text: str, position: int) -> int:
    """The position behind a fence line: its line break belongs to it."""
    if text.startswith("\r\n", position):
        return position + 2
    return position + 1 if text.startswith("\n", position) else position


def _joined(pieces: list[str]) -> str:
    """The pieces, each on lines of its own: so that two halves cannot make a fence."""
    joined: list[str] = []
    for piece in filter(None, pieces):
        if joined and not joined[-1].endswith("\n"):
            joined.append("\n")
        joined.append(piece)
    return "".join(joined)


def one_line(text: str) -> str:
    """`text` as one visible line (T2): no C0, C1, bidi, zero-width, tag or other invisible
    characters, no surrogates; white space of any kind becomes one space, none at the ends."""
    spaced = _SPACES.sub(" ", text.replace("\x85", " "))
    return _SPACES.sub(" ", _HIDDEN.sub("", spaced)).strip()


def visible(text: str) -> str:
    """`text`, of several lines, without what hides or reorders: controls other than tab and line
    feed, bidi controls, tag characters, surrogates. CR and CRLF become line feeds."""
    return _DECEPTIVE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
