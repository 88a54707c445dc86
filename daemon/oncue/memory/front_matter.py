"""Front matter of a memory file: read forgivingly, change without losing anything (pure).

Rules (memory.md M4, M5; D52, D54, D56):

* A file is bytes of unknown make: any encoding, any line ends. `parse` never raises.
* Front matter is a block between a line `---` (after blank lines, if any) and a line `---`
  or `...`, at most 16 KiB, a YAML mapping without aliases, anchors and tags, at most 16 deep.
* Every scalar is text: `2026-01-02`, `yes` and `1.10` stay as they are written. `null` is None.
* A block that is no YAML is left byte-equal by `update`, which refuses; `parse` salvages its
  plain `key: value` lines so that the file can still be found.
* `update` rewrites only the lines of keys whose value changes: unknown keys, comments, order
  and line ends stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from oncue.memory.yaml_text import RefusedError, Value, as_json, entry, plain, read_yaml
from oncue.text.decoding import (
    LINE,
    Encoding,
    Newline,
    Problem,
    decode,
    encode,
    newline_of,
    normalise,
)

MAX_FRONT_MATTER_BYTES = 16 * 1024
"""Real front matter has some hundred bytes; a block beyond this is no front matter (M5)."""
Fields = Mapping[str, Value]


@frozen
class ParsedFile:
    """A memory file taken apart."""

    fields: Fields
    """Front matter, or what could be salvaged of it; empty where there is none."""
    body: str
    """The rest, line ends as `\\n`, without NUL characters and without blank lines around it."""
    problems: tuple[Problem, ...] = ()
    encoding: Encoding = "utf-8"
    newline: Newline = "\n"
    """The commonest line end of the file."""
    span: tuple[int, int] | None = None
    """Where the front matter lies, both fences included, in characters of the decoded text
    (`decode`); None where there is none."""
    editable: bool = True
    """False where front matter is there but cannot be parsed: it must stay byte-equal."""


class FrontMatterUnreadableError(Exception):
    """The front matter cannot be parsed, so no field is changed; the file is as it was (D52)."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


@frozen
class _Block:
    """Front matter as it lies in the text."""

    start: int
    inner_start: int
    inner_end: int
    end: int
    closed: bool


def _locate(text: str) -> _Block | None:
    """The block between the fences; None where the text does not begin with a fence."""
    position = 0
    start = inner = -1
    budget = MAX_FRONT_MATTER_BYTES + 64
    for match in LINE.finditer(text):
        line = match.group()
        stripped = line.strip(" \t\r\n")
        if inner < 0:
            if stripped == "" and match.end() > match.start() and match.end() < 4096:
                continue
            if not line.startswith("---") or stripped != "---":
                return None
            start, inner = match.start(), match.end()
            continue
        if line.startswith(("---", "...")) and stripped in ("---", "..."):
            return _Block(start, inner, match.start(), match.end(), closed=True)
        position = match.end()
        if position - inner > budget or position >= len(text):
            break
    return _Block(start, inner, inner, inner, closed=False) if inner >= 0 else None


def parse(data: bytes) -> ParsedFile:
    """Take a memory file apart. Never raises: what cannot be read is in `problems` (M5)."""
    text, encoding, problems = decode(data)
    newline = newline_of(text)
    block = _locate(text)
    if block is None:
        return ParsedFile({}, normalise(text), problems, encoding, newline)
    if not block.closed:
        return _unclosed(text, block, problems, encoding, newline)
    inner = text[block.inner_start : block.inner_end]
    body = normalise(text[block.end :])
    span = (block.start, block.end)
    if len(inner.encode("utf-8", "replace")) > MAX_FRONT_MATTER_BYTES:
        problem = Problem("tooLong", f"front matter is longer than {MAX_FRONT_MATTER_BYTES} bytes")
        fields = _salvage(inner[:MAX_FRONT_MATTER_BYTES])
        return ParsedFile(
            fields, body, (*problems, problem), encoding, newline, span, editable=False
        )
    try:
        read = read_yaml(inner.replace("\0", ""))
    except RefusedError as refused:
        if refused.code == "noMapping" or (refused.code == "yaml" and not _has_keys(inner)):
            # A line `---` as a rule above prose: no front matter at all (D54).
            return ParsedFile({}, normalise(text), problems, encoding, newline)
        problem = Problem(refused.code, refused.message)
        return ParsedFile(
            _salvage(inner), body, (*problems, problem), encoding, newline, span, editable=False
        )
    return ParsedFile(read.fields, body, (*problems, *read.problems), encoding, newline, span)


def _unclosed(
    text: str,
    block: _Block,
    problems: tuple[Problem, ...],
    encoding: Encoding,
    newline: Newline,
) -> ParsedFile:
    """No closing fence: all of it is body; leading `key: value` lines are read all the same."""
    head = text[block.inner_start : block.inner_start + MAX_FRONT_MATTER_BYTES]
    fields = _salvage(head.split("\n\n", 1)[0].split("\r\r", 1)[0].split("\r\n\r\n", 1)[0])
    if not any(key in fields for key in KNOWN_KEYS):
        return ParsedFile({}, normalise(text), problems, encoding, newline)
    problem = Problem(
        "unclosed", f"front matter has no closing line `---` in {MAX_FRONT_MATTER_BYTES} bytes"
    )
    return ParsedFile(
        fields, normalise(text), (*problems, problem), encoding, newline, editable=False
    )


KNOWN_KEYS = (
    "name", "title", "description", "type", "keywords", "usage_scenarios", "created", "updated",
)  # fmt: skip
_KEY_LINE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_-]{0,63})[ \t]*:(?:[ \t]+([^\r\n]*))?(?:\r\n|\r|\n|\Z)"
)


def _salvage(inner: str) -> dict[str, Value]:
    """Plain `key: value` lines at the left margin: what can be had of broken YAML."""
    found: dict[str, Value] = {}
    for match in LINE.finditer(inner):
        hit = _KEY_LINE.fullmatch(match.group())
        if hit is None or hit.group(1) in found:
            continue
        value = (hit.group(2) or "").strip(" \t\0")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if value and value[0] not in "&*!|>[{":
            found[hit.group(1)] = value.replace("\0", "")
        if len(found) >= 64:
            break
    return found


def _has_keys(inner: str) -> bool:
    return any(_KEY_LINE.fullmatch(match.group()) for match in LINE.finditer(inner))


def render(fields: Fields, body: str) -> bytes:
    """A new memory file: UTF-8, `\\n`, fields in the given order (None: left out)."""
    lines = ["---\n"]
    lines += [entry(key, value) for key, value in fields.items() if value is not None]
    lines.append("---\n")
    return ("".join(lines) + _body(body)).encode("utf-8", "replace")


def update(original: bytes, changed: Fields, body: str | None) -> bytes:
    """`original` with some fields changed (None: removed) and, unless None, another body.

    Everything else stays: unknown keys, comments, order, encoding, line ends. Raises
    `FrontMatterUnreadableError` where there is front matter that cannot be parsed (D52).
    """
    parsed = parse(original)
    if not parsed.editable:
        raise FrontMatterUnreadableError(parsed.problems)
    text, encoding, _ = decode(original)
    if body is not None and normalise(body) == parsed.body:
        body = None
    if parsed.span is None:
        kept = body if body is not None else parsed.body
        new = render(changed, kept).decode("utf-8").replace("\n", parsed.newline)
        return encode(new, encoding)
    block = _locate(text)
    if block is None:  # pragma: no cover - span says that there is one
        raise FrontMatterUnreadableError(parsed.problems)
    inner = text[block.inner_start : block.inner_end]
    inner = _changed_block(inner, parsed, changed)
    tail = text[block.end :] if body is None else _body(body).replace("\n", parsed.newline)
    result = encode(
        text[: block.inner_start] + inner + text[block.inner_end : block.end] + tail, encoding
    )
    wanted = {k: v for k, v in {**parsed.fields, **changed}.items() if v is not None}
    again = parse(result)
    if not again.editable or {k: v for k, v in again.fields.items() if v is not None} != plain(
        wanted
    ):
        raise FrontMatterUnreadableError(
            (Problem("yaml", "front matter cannot be changed safely"),)
        )
    return result


def _changed_block(inner: str, parsed: ParsedFile, changed: Fields) -> str:
    todo = {k: v for k, v in plain(changed).items() if parsed.fields.get(k) != v}
    if not todo:
        return inner
    read = read_yaml(inner.replace("\0", ""))
    if not read.block_style:
        merged = {k: v for k, v in {**read.fields, **todo}.items() if v is not None}
        return as_json(merged) + parsed.newline
    lines = [m.group() for m in YAML_LINE.finditer(inner) if m.group()]
    starts = [line for _, line in read.key_lines] + [len(lines)]
    out: list[str] = lines[: starts[0]]
    for (key, start), stop in zip(read.key_lines, starts[1:], strict=True):
        end = stop
        while end > start + 1 and _is_aside(lines[end - 1]):
            end -= 1
        if key in todo:
            value = todo.pop(key)
            if value is not None:
                out.append(entry(key, value).replace("\n", parsed.newline))
        else:
            out += lines[start:end]
        out += lines[end:stop]
    if out and not out[-1].endswith(("\n", "\r")):
        out.append(parsed.newline)
    out += [
        entry(key, value).replace("\n", parsed.newline)
        for key, value in todo.items()
        if value is not None
    ]
    return "".join(out)


YAML_LINE = re.compile("[^\r\n\x85\u2028\u2029]*(?:\r\n|[\r\n\x85\u2028\u2029]|\\Z)")


def _is_aside(line: str) -> bool:
    """Blank, or a comment at the margin: belongs to no key."""
    return line.strip() == "" or line.startswith("#")


def _body(body: str) -> str:
    text = normalise(body)
    return f"\n{text}\n" if text else ""
