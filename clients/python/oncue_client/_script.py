"""The test client's little language: words of a command line, or lines, to steps (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

VERBS = ("request", "send", "notify", "cancel", "wait", "expect", "serve", "sleep", "raw")
REFERENCE = re.compile(r"^\$(\d+|last)((?:\.\w+)*)$")


class ScriptError(Exception):
    """A word or line that is not understood; the message says which and what is expected."""


@frozen
class Step:
    """One thing to do."""

    verb: str
    """One of `VERBS`."""
    name: str = ""
    """Method; for `expect` also `result` or `error`; for `raw` the text."""
    value: Any = None
    """Params or what is expected, as JSON."""
    number: int = 0
    """`cancel` and `wait`: which request, from 1 (`wait` 0: all); `sleep`: milliseconds."""
    given: bool = False
    """Whether a value was given at all (it may be `null`)."""


def steps_of_words(words: Sequence[str]) -> list[Step]:
    """`["request", "daemon/status", "sleep", "100"]` → two steps. JSON after a method may be
    left out: a word that begins with a brace, a bracket, or is `null`, is taken for it."""
    steps: list[Step] = []
    rest = list(words)
    while rest:
        verb = rest.pop(0)
        if verb not in VERBS:
            raise ScriptError(f"{verb!r} is no step: expected one of {', '.join(VERBS)}, or -")
        if verb == "wait" and not (rest and rest[0].isdecimal()):
            steps.append(Step("wait"))
            continue
        if not rest:
            raise ScriptError(f"{verb!r} needs something after it: see --help")
        first = rest.pop(0)
        text = None
        if rest and _belongs(verb, first, rest[0]):
            text = rest.pop(0)
        steps.append(_step(verb, first, text))
    return steps


def _belongs(verb: str, first: str, word: str) -> bool:
    """Whether `word`, the next one, is the JSON (or error code) of this step."""
    if verb == "expect" and first == "error":
        return word not in VERBS and word != "-"
    takes_json = verb in ("request", "send", "notify", "serve", "expect")
    return takes_json and (word[:1] in ("{", "[") or word == "null")


def step_of_line(line: str) -> Step | None:
    """A line of a script: as on the command line, but JSON needs no quotes; None for an empty
    line or a `#` comment."""
    line = line.strip()
    if not line or line.startswith("#"):
        return None
    verb, _, rest = line.partition(" ")
    if verb == "raw":
        return Step("raw", rest)
    first, _, text = rest.strip().partition(" ")
    if verb not in VERBS or (not first and verb != "wait"):
        raise ScriptError(f"line {line!r} is not understood: expected {', '.join(VERBS)} …")
    return _step(verb, first, text.strip() or None)


def _step(verb: str, first: str, text: str | None) -> Step:
    if verb in ("cancel", "wait", "sleep"):
        if first and not first.isdecimal():
            raise ScriptError(f"{verb} {first!r}: expected a whole number")
        return Step(verb, number=int(first or 0))
    if verb == "raw":
        return Step(verb, first)
    if verb == "expect" and first == "error":
        return Step(verb, first, text, given=text is not None)
    value = None
    if text is not None:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise ScriptError(f"{verb} {first}: {text!r} is no JSON: {error}") from None
    if text is None and (verb == "serve" or (verb, first) == ("expect", "result")):
        raise ScriptError(f"{verb} {first} needs JSON after it")
    return Step(verb, first, value, given=text is not None)


def fill_in(value: Any, results: Mapping[int, Any], last: int) -> Any:
    """Replace each string `$N.member.member` by that part of the result of the Nth request
    (`$last`: the newest). ScriptError where there is none."""
    if isinstance(value, dict):
        return {name: fill_in(member, results, last) for name, member in value.items()}
    if isinstance(value, list):
        return [fill_in(member, results, last) for member in value]
    found = REFERENCE.match(value) if isinstance(value, str) else None
    if found is None:
        return value
    number = last if found[1] == "last" else int(found[1])
    if number not in results:
        raise ScriptError(f"{value!r}: request {number} has no result (yet)")
    part = results[number]
    for name in found[2].split(".")[1:]:
        if isinstance(part, list) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        elif isinstance(part, dict) and name in part:
            part = part[name]
        else:
            raise ScriptError(f"{value!r}: the result has no {name!r}")
    return part


def contains(actual: Any, expected: Any) -> bool:
    """Whether `actual` has at least what `expected` says: members of objects, recursively;
    arrays and everything else must be equal, item by item."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            name in actual and contains(actual[name], member) for name, member in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(contains(one, other) for one, other in zip(actual, expected, strict=True))
        )
    return type(actual) is type(expected) and bool(actual == expected)


def raw_bytes(text: str) -> bytes:
    r"""`raw`'s text with \r, \n, \t, \\ and \xNN escapes as bytes; all else as UTF-8."""
    out = bytearray()
    simple = {"r": b"\r", "n": b"\n", "t": b"\t", "\\": b"\\"}
    for part in _escapes(text):
        if part.startswith("\\x"):
            out.append(int(part[2:], 16))
        elif part.startswith("\\") and part[1:] in simple:
            out += simple[part[1:]]
        else:
            out += part.encode("utf-8", "surrogateescape")
    return bytes(out)


def _escapes(text: str) -> Iterable[str]:
    return (found[0] for found in re.finditer(r"\\x[0-9A-Fa-f]{2}|\\.|[^\\]+|\\", text, re.DOTALL))
