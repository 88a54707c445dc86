"""Normalisation and scripts, for `analyzer` and `tokens`: what a character belongs to.

Ranges are written out, because `re` knows no scripts; they are meant for text that was
normalised with NFKC (half-width kana, full-width Latin and compatibility ideographs are gone).
"""

from __future__ import annotations

import re
import unicodedata

HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
KANA = "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001b000-\U0001b16f"
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
"""Scripts of South East Asia that put no spaces between words."""
MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0"
    "\u0816-\u082d\u0859-\u085b\u08d3-\u0903\u093a-\u094f\u0951-\u0957\u0962"
    "\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3"
    "\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a81-\u0a83\u0abc-\u0acd"
    "\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04"
    "\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57"
    "\u0d82\u0d83\u0dca-\u0df3"
)
"""Combining marks of the scripts whose words we keep whole: `\\w` leaves them out."""

_NON_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
_SURROGATE = re.compile("[\ud800-\udfff]+")
_LATIN_MARK = re.compile("[\u0300-\u036f]+")
_LIGATURES = str.maketrans(
    {"ß": "ss", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
_CHUNK = 128


def normalise(text: str) -> str:
    """NFKC, with lone surrogates and NUL as spaces. Linear: CPython sorts a run of combining
    marks in quadratic time, so it is given at most a few hundred characters at once, cut where a
    new character begins (T9)."""
    if text.isascii():
        return text.replace("\0", " ")
    text = _SURROGATE.sub(" ", text.replace("\0", " "))
    return _NON_ASCII.sub(lambda match: _normalised_run(match.group()), text)


def _normalised_run(run: str) -> str:
    if len(run) <= _CHUNK:
        return unicodedata.normalize("NFKC", run)
    pieces: list[str] = []
    start = 0
    while start < len(run):
        end = min(start + _CHUNK, len(run))
        last = min(end + _CHUNK, len(run))
        while end < last and _continues(run[end]):
            end += 1
        pieces.append(unicodedata.normalize("NFKC", run[start:end]))
        start = end
    return "".join(pieces)


def _continues(character: str) -> bool:
    """Whether it may compose with the character before it."""
    return unicodedata.combining(character) != 0 or "\u1161" <= character <= "\u11ff"


def without_accents(word: str) -> str:
    """A lower-case word of the Latin or Greek script without its accents (é → e, ß → ss): people
    leave them out when they type. Other scripts are left alone: their marks are letters."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word[:_CHUNK]) + word[_CHUNK:]
    if not ("a" <= decomposed[0] <= "z" or "\u00df" <= decomposed[0] <= "\u03ce"):
        return word
    return _LATIN_MARK.sub("", decomposed).translate(_LIGATURES)
