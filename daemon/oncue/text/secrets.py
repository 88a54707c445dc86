"""Credentials in text: where they are and by which rule (X25, T10, D78). Pure.

Rules are our own: anchored, linear, and they give character spans. Three kinds:

* shapes (`secret_shapes`): credentials known by their beginning or structure, wherever they stand;
* contexts: what stands where a credential stands (`password = …`, a URL's user part, a header);
* blocks: private keys, from their first line to their last.

Besides the text as it is, two more readings are searched: lines joined where a string goes on
(`\\` at the end, `"…" "…"`, a wrapped token), and the text inside base64. Placeholders
(`YOUR_API_KEY`, `sk-...`, `${TOKEN}`) are not secrets. A rule's name says what was found; nothing
here ever returns or prints a value.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from attrs import frozen

from oncue.text.credible import entropy, is_mixed
from oncue.text.secret_rules import Secret, is_vague, plain, shaped

__all__ = ["Secret", "find", "high_entropy", "redact"]


def find(text: str) -> list[Secret]:
    """All credentials, in order, without overlaps."""
    found = list(plain(text))
    starts = {secret.start for secret in found}
    for pattern, wrapped in ((_CONTINUED, False), (_WRAPPED, True)):
        joined = _Joined.of(text, pattern)
        if joined is None:
            continue
        secrets = shaped(joined.text, cut=True) if wrapped else plain(joined.text)
        for secret in (*secrets, *_encoded(joined.text)):
            whole = Secret(joined.origin(secret.start), joined.end(secret.end), secret.rule)
            # A token that is whole on its line must not swallow the beginning of the next one,
            # and a mere name (`secret_token`) at the end of a line is not the beginning of one.
            if not wrapped or (whole.start not in starts and joined.varied(secret)):
                found.append(whole)
    found.extend(_encoded(text))
    return _without_overlaps(found)


def redact(text: str) -> str:
    """`text` with `[secret removed: RULE]` in place of each credential. Idempotent."""
    pieces: list[str] = []
    position = 0
    for secret in find(text):
        pieces += [text[position : secret.start], f"[secret removed: {secret.rule}]"]
        position = secret.end
    return "".join(pieces) + text[position:] if pieces else text


def high_entropy(text: str) -> list[Secret]:
    """Runs that look random and that no rule knows: a reason to warn, never to refuse. Hashes,
    UUIDs and integrity strings look random too; the plain ones are left out."""
    known = find(text)
    suspects = [
        Secret(match.start(), match.end(), "high-entropy")
        for match in _RANDOM.finditer(text)
        if not _HASH.fullmatch(match.group())
        and is_mixed(match.group())
        and entropy(match.group()) >= 4.0
    ]
    return [
        suspect
        for suspect in suspects
        if not any(s.start < suspect.end and suspect.start < s.end for s in known)
    ]


_RANDOM = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_=-]{24,256}(?![\w+/=-])")
_HASH = re.compile(r"[0-9a-f]+|[0-9A-F]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|sha\d+-.*")


# --- other readings --------------------------------------------------------------------------

# A string that goes on in the next line, by the signs of a programming language or a shell.
_GOES_ON = r"[ \t]{0,8}[+.&\\]?[ \t]{0,8}\r?\n[ \t]{0,64}[+.&]?[ \t]{0,8}[rbuf]?"
_CONTINUED = re.compile(
    rf"(?<=[^\s\"'])(?:\\\r?\n[ \t]{{0,64}}|\"{_GOES_ON}\"|'{_GOES_ON}')(?=[^\s\"'])"
)
# A long run that is cut by a plain line break, perhaps quoted or commented; a short last line
# belongs to it only behind a line that is full.
_WRAPPED = re.compile(
    r"(?<=[\w+/=.-]{6})[ \t]{0,4}\r?\n[ \t]{0,64}(?:(?:[>#|*]|//)[ \t]{0,8})?(?=[\w+/=.-]{6})"
    r"|(?<=[\w+/-]{60})\r?\n[ \t]{0,64}(?=[\w+/]{1,5}={0,2}(?:\s|$))"
)


@frozen
class _Joined:
    """A text with line breaks taken out, and the way back to the original's positions."""

    text: str
    starts: list[int]
    origins: list[int]

    @classmethod
    def of(cls, text: str, pattern: re.Pattern[str]) -> _Joined | None:
        pieces: list[str] = []
        starts, origins = [], []
        position = length = 0
        for match in pattern.finditer(text):
            pieces.append(text[position : match.start()])
            starts.append(length)
            origins.append(position)
            length += match.start() - position
            position = match.end()
        if not pieces:
            return None
        pieces.append(text[position:])
        return cls("".join(pieces), [*starts, length], [*origins, position])

    def origin(self, position: int) -> int:
        at = bisect_right(self.starts, position) - 1
        return self.origins[at] + position - self.starts[at]

    def varied(self, secret: Secret) -> bool:
        """Whether what stands before the first break looks random already."""
        after = bisect_right(self.starts, secret.start)
        last = self.starts[after] if after < len(self.starts) else secret.end
        piece = self.text[secret.start : min(last, secret.end)]
        return is_mixed(piece) or (piece != piece.lower() and piece != piece.upper())

    def end(self, position: int) -> int:
        return self.origin(position - 1) + 1


_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,}={0,2}")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"


def _encoded(text: str) -> Iterator[Secret]:
    """Base64 that holds a credential: the whole run goes."""
    for match in _BASE64.finditer(text):
        raw = match.group().rstrip("=").encode().translate(_URL_SAFE)
        raw = raw[: len(raw) - 1] if len(raw) % 4 == 1 else raw
        decoded = binascii.a2b_base64(raw + b"=" * (-len(raw) % 4))
        if len(decoded.translate(None, _PRINTABLE)) * 50 > len(decoded):
            continue  # not text
        inner = next(iter(plain(decoded.decode("latin-1"))), None)
        if inner is not None:
            yield Secret(match.start(), match.end(), inner.rule)


def _without_overlaps(found: Iterable[Secret]) -> list[Secret]:
    """In order; what overlaps is one, named by the most specific rule."""
    merged: list[Secret] = []
    for secret in sorted(found, key=lambda s: (s.start, -s.end)):
        if merged and secret.start < merged[-1].end:
            last = merged[-1]
            rule = secret.rule if is_vague(last.rule) and not is_vague(secret.rule) else last.rule
            merged[-1] = Secret(last.start, max(last.end, secret.end), rule)
        else:
            merged.append(secret)
    return merged
