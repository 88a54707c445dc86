"""Words for the outline: shortened, split into sentences, searched for what a user corrects (pure).

For languages with and without spaces; every pattern is linear.
"""

from __future__ import annotations

import re

from oncue.text import secrets, tokens

ARROW = " → "
"""Between the parts of an entry; no part holds it."""
HEAVIEST_ASCII, HEAVIEST = (tokens.weight(c) for c in ("0", "\U000e0041"))
MAX_SECRET_SPAN = 2_000
"""Characters of a text that may be shown: searched for secrets before it is cut."""

_TELLING = re.compile(r"\d+|`[^`]+`|[A-Z]{2,}")
_SPACE = re.compile(r"\s+")
_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]{0,3}(?=\s)|(?<=[。！？])|(?<=[\u3040-\u30ff\u3400-\u9fff][?!])|\n+"
)


def safe(text: str) -> str:
    """The beginning of a text, without secrets: whatever is cut off later, it shows none (X25)."""
    return secrets.redact(text[:MAX_SECRET_SPAN])


def squashed(text: str) -> str:
    """Text on one line, with no separator of ours in it."""
    return _SPACE.sub(" ", text).strip().replace("→", "->").replace("<!--", "<! --")


def one_line(text: str) -> str:
    """Any text, safe and on one line."""
    return squashed(safe(text))


def clip(text: str, max_tokens: int) -> str:
    """Any text, safe, on one line, cut at a word and marked with … where it is longer."""
    return cut(one_line(text), max_tokens)


def cut(line: str, max_tokens: int) -> str:
    """As `clip`, for what is safe and on one line already. Cutting again changes nothing."""
    room = max_tokens * 1_000
    # No character weighs more: most lines need not be weighed at all.
    if len(line) * (HEAVIEST_ASCII if line.isascii() else HEAVIEST) <= room:
        return line
    if tokens.weight(line) <= room:
        return line
    line = line.removesuffix("…")[: max_tokens * 8]
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        if tokens.weight(line[:middle]) <= room - 800:
            low = middle
        else:
            high = middle - 1
    space = line.rfind(" ", low - 24 if low > 24 else 0, low)
    at = space if space > low // 2 else low
    return line[:at].rstrip(" ,;:") + "…"


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line."""
    pieces = _END.split(text)
    return [line for piece in pieces if (line := squashed(piece).strip(" -*#>"))]


def gist(text: str, max_tokens: int) -> str:
    """What an answer (a safe text) comes to, tables and code left out: its first sentences and,
    where it is long, those of the others that name most figures and things."""
    found = sentences("\n".join(_prose(text)))
    if not found:
        return cut(squashed(text), max_tokens)
    sizes = [tokens.weight(sentence) + 300 for sentence in found]
    room = max_tokens * 1_000
    if sum(sizes) <= room:
        return " ".join(found)
    chosen = {0}
    left = room - sizes[0]
    for at in range(1, len(found)):
        if sizes[at] > left - room * 2 // 5:
            break
        chosen.add(at)
        left -= sizes[at]
    for at in sorted(range(1, len(found)), key=lambda n: -len(_TELLING.findall(found[n]))):
        if at not in chosen and sizes[at] + 800 <= left:
            chosen.add(at)
            left -= sizes[at] + 800
    line, before = "", -1
    for at in sorted(chosen):
        gap = " " if at == before + 1 else " … "
        line, before = f"{line}{gap}{found[at]}".strip(), at
    return cut(line, max_tokens)


def _prose(text: str) -> list[str]:
    lines, fenced = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and line.strip() and not line.lstrip().startswith("|"):
            lines.append(line)
    return lines


def question(text: str) -> str | None:
    """The question that a (safe) text ends with."""
    last = sentences(text)[-2:]
    return next((s for s in reversed(last) if s.rstrip("\"'”)").endswith(("?", "？"))), None)


# What a user says when something is to be done in another way, or always in this one. Each entry
# is a word or the beginning of one; Chinese and Japanese have no word borders.
_CUES = re.compile(
    r"^(?:please |but |and |no,? |so |then ){0,2}(?:don['’]?t|do not|stop|keep|leave|use)\b|"
    r"\b(?:never|always|instead|rather than|prefer|wrong|mistake|must|you should(?:n['’]?t)?|"
    r"not what|no need|remember|keep in mind|from now on|make sure|only|without|undo|revert|"
    r"as we (?:do|always)|has to be|have to be|"
    r"nicht|nie|niemals|immer|statt|stattdessen|lieber|falsch|ohne|bitte kein\w*|merk|denk daran|"
    r"ab jetzt|künftig|sondern|nur|muss|müssen|sollst?|sollte\w*|wie wir es|"
    r"jamás|nunca|siempre|en vez|jamais|toujours|plutôt|au lieu)\b"
    r"|不要|别|不是|不用|不能|应该|改成|改为|请用|总是|一定|必须|记住|错了|不对|而不是|只要|以后"
    r"|しないで|ではなく|じゃなく|いつも|必ず|使って|違い|違う|やめて|覚えて|今後|ください|ずに|だけ"
    r"|하지 ?마|말고|항상|반드시|대신",
    re.IGNORECASE,
)
_POLITE = re.compile(r"[^。]*(?:調べて|直して|確認して|教えて|作って|見て)[^。]*ください")


def lessons(text: str) -> list[str]:
    """Sentences (of a safe text) in which a user corrects, forbids or asks for a certain way."""
    return [
        cut(sentence, 60)
        for sentence in sentences(text)
        if len(sentence) >= 4
        and not sentence.endswith(("?", "？"))
        and _CUES.search(_POLITE.sub("", sentence))
    ]
