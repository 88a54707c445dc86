"""How each kind of secret is found in a text that is read as it stands, for `secrets` (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from oncue.text.credible import is_credible, is_mixed, is_placeholder, is_random
from oncue.text.secret_shapes import SHAPES, STRUCTURES


@frozen(order=True)
class Secret:
    """A credential found in a text."""

    start: int
    end: int
    """Half-open span in characters of the text given: of the value, not of its name."""
    rule: str
    """Id of the rule, such as `github-token`: safe to show."""


# --- shapes ----------------------------------------------------------------------------------

_BEFORE = re.compile(r"[A-Za-z0-9_-]")
_ESCAPED_BEFORE = re.compile(r"\\[nrt]|%[0-9A-Fa-f]{2}")
_BODIES = tuple(
    (rule, beginnings, re.compile(body), re.compile(f"(?:{body})(?![A-Za-z0-9_])"))
    for rule, beginnings, body in SHAPES
)
_STRUCTURES = tuple((rule, hint, re.compile(pattern)) for rule, hint, pattern in STRUCTURES)


def shaped(text: str, *, cut: bool = False) -> Iterator[Secret]:
    """Credentials known by their look. `cut`: what follows may touch it: lines were joined."""
    for rule, beginnings, loose, strict in _BODIES:
        body = loose if cut else strict
        for beginning in beginnings:
            at = text.find(beginning)
            while at >= 0:
                after = at + len(beginning)
                match = body.match(text, after) if _begins(text, at) else None
                if match is not None and is_random(match.group()):
                    yield Secret(at, match.end(), rule)
                    after = match.end()
                at = text.find(beginning, after)
    for rule, hint, pattern in _STRUCTURES:
        if hint in text:
            for match in pattern.finditer(text):
                if is_random(match.group()):
                    yield Secret(match.start(), match.end(), rule)


def _begins(text: str, at: int) -> bool:
    """Whether a token may begin here; an escaped line break before it (`\\n`) is no letter."""
    if at == 0 or not _BEFORE.match(text, at - 1):
        return True
    return bool(_ESCAPED_BEFORE.fullmatch(text, max(at - 2, 0), at)) or bool(
        _ESCAPED_BEFORE.fullmatch(text, max(at - 3, 0), at)
    )


# --- contexts --------------------------------------------------------------------------------

_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?"
    r"|(?:api|access|account|auth|private|encryption|signing|master|service|shared|storage|client)"
    r"[_ -]?key|_pass|_pw)"
)
_ASSIGNMENT = re.compile(
    rf"(?P<name>{_NAME})"
    r"(?:[_-]?(?:access[_-]?)?key|[_-]?(?:prod|dev|test|live|base|value)|s|[0-9]){0,2}"
    r"(?P<quote>\\?[\"'`]?\]?)[ \t]{0,8}(?P<sign>:=|=>|==?|:|>|\x20is\x20)[ \t]{0,8}(?:\(\s{0,64})?"
    r"(?:(?:[rbuf]|&)?\\?\"(?P<double>[^\"\\\n]{8,512})|[rbuf]?'(?P<single>[^'\\\n]{8,512})'"
    r"|(?P<bare>[^\s\"'`,;(){}\[\]<>|\\]{8,512}))",
    re.IGNORECASE,
)
_FLAG = re.compile(
    r"(?:(?<=\s)|^)--?(?:password|passwd|pass|token|api-?key|secret|auth-token)[= ]"
    r"[\"']?(?P<bare>[^\s\"'`,;(){}\[\]<>|\\]{8,512})",
    re.IGNORECASE | re.MULTILINE,
)
_USER = re.compile(r"(?:\s-u|--user)[= ][\"']?[\w.@-]{1,64}:(?P<value>[^\s\"']{6,256})")
_HEADER = re.compile(
    r"(?:\bbearer|authorization[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"']?(?:basic|token|apikey))"
    r"(?:[ \t]{1,4}|%20)(?P<value>[A-Za-z0-9._~+/-]{16,2048}={0,2})",
    re.IGNORECASE,
)
_USERINFO = re.compile(
    r"(?<=://)(?:[^\s/:@\"'<>?#]{0,128}:(?P<value>[^\s/@\"'<>]{3,256})|(?P<alone>[\w.~-]{20,256}))@"
)
_CONNECTION = re.compile(
    r"(?:AccountKey|SharedAccessKey|SharedAccessSignature)=(?P<value>[A-Za-z0-9+/%]{40,100}={0,2})"
)
_SIGNED = re.compile(
    r"[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=(?P<value>[A-Za-z0-9%+/]{40,1024}={0,2})"
)
_UUID_KEY = re.compile(
    r"heroku[\w ]{0,24}[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?:\(\s{0,64})?[\"']?"
    r"(?P<value>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})",
    re.IGNORECASE,
)
_NPM_AUTH = re.compile(r"_(?:authToken|auth|password)=[\"']?(?P<value>[A-Za-z0-9+/=_-]{12,256})")


def _contextual(text: str) -> Iterator[Secret]:
    for match in _ASSIGNMENT.finditer(text):
        group = next(g for g in ("double", "single", "bare") if match[g] is not None)
        value = match[group]
        if match["sign"] == ">" and group != "bare":
            continue
        if is_credible(value, match["name"].lower(), quoted=group != "bare"):
            yield Secret(*match.span(group), _assigned(text, match))
    for match in _FLAG.finditer(text):
        if is_credible(match["bare"], "password", quoted=False):
            yield Secret(*match.span("bare"), "command-line-secret")
    for match in _USER.finditer(text):
        if not is_placeholder(match["value"]):
            yield Secret(*match.span("value"), "basic-auth")
    for match in _HEADER.finditer(text):
        if is_random(match["value"]) and is_mixed(match["value"]):
            yield Secret(*match.span("value"), "authorization-header")
    for match in _USERINFO.finditer(text):
        group = "value" if match["value"] is not None else "alone"
        value = match[group]
        if not is_placeholder(value) and (group == "value" or is_mixed(value)):
            yield Secret(*match.span(group), "url-userinfo")
    for rule, hint, pattern in _KEYED:
        if hint in text:
            for match in pattern.finditer(text):
                if is_random(match["value"]):
                    yield Secret(*match.span("value"), rule)


_KEYED = (
    ("azure-connection-string", "Shared", _CONNECTION),
    ("azure-connection-string", "AccountKey", _CONNECTION),
    ("signed-url", "ig", _SIGNED),
    ("heroku-key", "-", _UUID_KEY),
    ("npm-auth", "_", _NPM_AUTH),
)


_SERVICES = ("aws", "azure", "twilio", "cloudflare", "datadog")


def _assigned(text: str, match: re.Match[str]) -> str:
    """The rule's id: a few services' keys are known by the name they are given."""
    before = text[max(match.start() - 24, 0) : match.start("quote")].lower()
    service = next((s for s in _SERVICES if s in before), "")
    return f"{service}-assignment" if service else "assignment"


# --- blocks ----------------------------------------------------------------------------------

_SPACE = r"(?:[ +]|%20)"
_KIND = rf"{_SPACE}(?:[A-Z0-9]{{1,12}}{_SPACE}){{0,4}}PRIVATE{_SPACE}KEY(?:{_SPACE}BLOCK)?-----"
_BLOCK = re.compile(f"-----BEGIN{_KIND}")
_BLOCK_END = re.compile(f"-----END{_KIND}")
_PUTTY = re.compile(r"Private-Lines: [0-9]{1,3}\r?\n(?:[A-Za-z0-9+/=]{1,64}\r?\n?){1,200}")
_MAX_OPEN_BLOCK = 8192


def _blocks(text: str) -> Iterator[Secret]:
    position = 0
    while (begin := _BLOCK.search(text, position)) is not None:
        end = _BLOCK_END.search(text, begin.end())
        if end is None:  # cut off: what follows is taken for the key
            position = min(begin.end() + _MAX_OPEN_BLOCK, len(text))
            yield Secret(begin.start(), position, "private-key")
            return
        yield Secret(begin.start(), end.end(), "private-key")
        position = end.end()
    for match in _PUTTY.finditer(text) if "Private-Lines:" in text else ():
        yield Secret(match.start(), match.end(), "private-key")


def plain(text: str) -> Iterator[Secret]:
    """Everything found in a text read as it stands, in no order; spans may overlap."""
    yield from _blocks(text)
    yield from shaped(text)
    yield from _contextual(text)


def is_vague(rule: str) -> bool:
    """Whether a rule says where something stood rather than what it was."""
    return rule.endswith(("assignment", "-secret", "userinfo", "header", "basic-auth", "npm-auth"))
