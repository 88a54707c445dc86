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

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import yaml
from attrs import frozen

MAX_FRONT_MATTER_BYTES = 16 * 1024
"""Real front matter has some hundred bytes; a block beyond this is no front matter (M5)."""
MAX_DEPTH = 16
"""Nesting of the mapping: more is an attack on a recursive reader (D56)."""

Value = str | None | Sequence["Value"] | Mapping[str, "Value"]
Fields = Mapping[str, Value]

Encoding = Literal[
    "utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1"
]
Newline = Literal["\n", "\r\n", "\r"]


@frozen
class Problem:
    """Something about a file that a user should know."""

    code: str
    """Short and stable: `yaml`, `alias`, `tag`, `depth`, `tooLong`, `unclosed`, `duplicateKey`,
    `encoding`, `nul`, and the codes of files.py."""
    message: str
    """What is wrong and where; never the content."""


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


# --- bytes to text -------------------------------------------------------------------------

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


# --- lines ---------------------------------------------------------------------------------

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_YAML_LINE = re.compile("[^\r\n\x85\u2028\u2029]*(?:\r\n|[\r\n\x85\u2028\u2029]|\\Z)")


def _newline_of(text: str) -> Newline:
    crlf = text.count("\r\n")
    cr, lf = text.count("\r") - crlf, text.count("\n") - crlf
    if crlf > lf and crlf >= cr:
        return "\r\n"
    return "\r" if cr > lf else "\n"


def _normalise(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip("\n")


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
    for match in _LINE.finditer(text):
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


# --- parse ---------------------------------------------------------------------------------


def parse(data: bytes) -> ParsedFile:
    """Take a memory file apart. Never raises: what cannot be read is in `problems` (M5)."""
    text, encoding, problems = decode(data)
    newline = _newline_of(text)
    block = _locate(text)
    if block is None:
        return ParsedFile({}, _normalise(text), problems, encoding, newline)
    if not block.closed:
        return _unclosed(text, block, problems, encoding, newline)
    inner = text[block.inner_start : block.inner_end]
    body = _normalise(text[block.end :])
    span = (block.start, block.end)
    if len(inner.encode("utf-8", "replace")) > MAX_FRONT_MATTER_BYTES:
        problem = Problem("tooLong", f"front matter is longer than {MAX_FRONT_MATTER_BYTES} bytes")
        fields = _salvage(inner[:MAX_FRONT_MATTER_BYTES])
        return ParsedFile(
            fields, body, (*problems, problem), encoding, newline, span, editable=False
        )
    try:
        read = _read_yaml(inner.replace("\0", ""))
    except _RefusedError as refused:
        if refused.code == "noMapping" or (refused.code == "yaml" and not _has_keys(inner)):
            # A line `---` as a rule above prose: no front matter at all (D54).
            return ParsedFile({}, _normalise(text), problems, encoding, newline)
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
        return ParsedFile({}, _normalise(text), problems, encoding, newline)
    problem = Problem("unclosed", "front matter has no closing line `---`")
    return ParsedFile(
        fields, _normalise(text), (*problems, problem), encoding, newline, editable=False
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
    for match in _LINE.finditer(inner):
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
    return any(_KEY_LINE.fullmatch(match.group()) for match in _LINE.finditer(inner))


class _RefusedError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@frozen
class _Read:
    fields: dict[str, Value]
    key_lines: tuple[tuple[str, int], ...]
    """Top-level keys and the line each begins on."""
    block_style: bool
    problems: tuple[Problem, ...]


def _read_yaml(inner: str) -> _Read:
    """Events of libyaml to plain text values; anything clever is refused before it costs."""
    loader = yaml.CSafeLoader(inner)
    try:
        return _from_events(loader, inner)
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = "" if mark is None else f", line {mark.line + 2}"
        raise _RefusedError("yaml", f"front matter is not valid YAML{where}") from None
    except (ValueError, UnicodeError, RecursionError):
        raise _RefusedError("yaml", "front matter is not valid YAML") from None
    finally:
        loader.dispose()


@frozen
class _Open:
    """A collection that is being read."""

    items: list[Value] | None
    pairs: dict[str, Value] | None
    key: list[str]
    """The key that waits for its value: empty or one."""


def _from_events(loader: yaml.CSafeLoader, inner: str) -> _Read:
    stack: list[_Open] = []
    root: _Open | None = None
    key_lines: list[tuple[str, int]] = []
    problems: list[Problem] = []
    block_style = True
    documents = 0

    def put(value: Value) -> None:
        top = stack[-1]
        if top.items is not None:
            top.items.append(value)
        elif top.pairs is not None:
            top.pairs[top.key.pop()] = value

    while True:
        event = loader.get_event()
        if event is None or isinstance(event, yaml.StreamEndEvent):
            break
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _RefusedError(
                "alias", "front matter uses YAML anchors or aliases, which are refused"
            )
        if getattr(event, "tag", None) is not None:
            raise _RefusedError("tag", "front matter uses YAML tags, which are refused")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _RefusedError("yaml", "front matter holds more than one YAML document")
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if stack and _awaits_key(stack[-1]):
                raise _RefusedError("yaml", "front matter has a key that is not text")
            if len(stack) >= MAX_DEPTH:
                raise _RefusedError("depth", f"front matter is nested more than {MAX_DEPTH} deep")
            opened = (
                _Open(None, {}, [])
                if isinstance(event, yaml.MappingStartEvent)
                else _Open([], None, [])
            )
            if not stack:
                root, block_style = opened, not event.flow_style
            stack.append(opened)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done = stack.pop()
            if stack:
                put(done.items if done.items is not None else done.pairs)
        elif isinstance(event, yaml.ScalarEvent):
            if not stack:
                raise _RefusedError("noMapping", "front matter is not a mapping")
            if _awaits_key(stack[-1]):
                key, pairs = str(event.value), stack[-1].pairs
                if pairs is not None and key in pairs:
                    problems.append(Problem("duplicateKey", "front matter has a key twice"))
                stack[-1].key.append(key)
                if len(stack) == 1:
                    key_lines.append((key, event.start_mark.line if event.start_mark else 0))
            else:
                plain_null = event.style in (None, "") and event.value in _NULLS
                put(None if plain_null else str(event.value))
    if root is None:
        if inner.strip(" \t\r\n") == "" or _only_comments(inner):
            return _Read({}, (), block_style=True, problems=())
        raise _RefusedError("noMapping", "front matter is not a mapping")
    if root.pairs is None:
        raise _RefusedError("noMapping", "front matter is not a mapping")
    return _Read(root.pairs, tuple(key_lines), block_style, tuple(problems))


_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


def _awaits_key(top: _Open) -> bool:
    return top.pairs is not None and not top.key


def _only_comments(inner: str) -> bool:
    return all(
        line.strip() == "" or line.lstrip(" \t").startswith("#") for line in inner.splitlines()
    )


# --- render and update ---------------------------------------------------------------------


def render(fields: Fields, body: str) -> bytes:
    """A new memory file: UTF-8, `\\n`, fields in the given order (None: left out)."""
    lines = ["---\n"]
    lines += [_entry(key, value) for key, value in fields.items() if value is not None]
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
    if body is not None and _normalise(body) == parsed.body:
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
    if not again.editable or {k: v for k, v in again.fields.items() if v is not None} != _plain(
        wanted
    ):
        raise FrontMatterUnreadableError(
            (Problem("yaml", "front matter cannot be changed safely"),)
        )
    return result


def _plain(value: Mapping[str, Value]) -> dict[str, Value]:
    """As `parse` would give it back: lists for sequences, line ends and NULs as stored."""

    def of(item: Value) -> Value:
        if item is None or isinstance(item, str):
            return item
        if isinstance(item, Mapping):
            return {key: of(inner) for key, inner in item.items()}
        return [of(inner) for inner in item]

    return {key: of(item) for key, item in value.items()}


def _changed_block(inner: str, parsed: ParsedFile, changed: Fields) -> str:
    todo = {k: v for k, v in _plain(changed).items() if parsed.fields.get(k) != v}
    if not todo:
        return inner
    read = _read_yaml(inner.replace("\0", ""))
    if not read.block_style:
        merged = {k: v for k, v in {**read.fields, **todo}.items() if v is not None}
        return _json(merged) + parsed.newline
    lines = [m.group() for m in _YAML_LINE.finditer(inner) if m.group()]
    starts = [line for _, line in read.key_lines] + [len(lines)]
    out: list[str] = lines[: starts[0]]
    for (key, start), stop in zip(read.key_lines, starts[1:], strict=True):
        end = stop
        while end > start + 1 and _is_aside(lines[end - 1]):
            end -= 1
        if key in todo:
            value = todo.pop(key)
            if value is not None:
                out.append(_entry(key, value).replace("\n", parsed.newline))
        else:
            out += lines[start:end]
        out += lines[end:stop]
    if out and not out[-1].endswith(("\n", "\r")):
        out.append(parsed.newline)
    out += [
        _entry(key, value).replace("\n", parsed.newline)
        for key, value in todo.items()
        if value is not None
    ]
    return "".join(out)


def _is_aside(line: str) -> bool:
    """Blank, or a comment at the margin: belongs to no key."""
    return line.strip() == "" or line.startswith("#")


def _body(body: str) -> str:
    text = _normalise(body)
    return f"\n{text}\n" if text else ""


_PLAIN = re.compile(r"[^\W_](?:[\w ,.()/'+-]*[\w.)/+])?")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?")
_FLOW_WIDTH = 48
"""A list whose items are longer is written one item a line."""
_RESOLVER: Any = yaml.resolver.Resolver()
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)}


def _entry(key: str, value: Value) -> str:
    name = _scalar(key)
    if isinstance(value, str) or value is None:
        stamp = key in ("created", "updated") and value and _STAMP.fullmatch(value)
        return f"{name}: {value if stamp else _scalar(value or '')}\n"
    if isinstance(value, Mapping) or not all(isinstance(item, str) for item in value):
        return f"{name}: {_json(_plain({'': value})[''])}\n"
    items = [_scalar(str(item)) for item in value]
    if all(len(item) <= _FLOW_WIDTH and "," not in item for item in items):
        return f"{name}: [{', '.join(items)}]\n"
    return f"{name}:\n" + "".join(f"  - {item}\n" for item in items)


def _scalar(text: str) -> str:
    """Plain where every YAML reader would take it for this text, else in double quotes."""
    if _PLAIN.fullmatch(text) and len(text) < 1000:
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
        if tag == "tag:yaml.org,2002:str":
            return text
    return _json(text)


def _json(value: Value) -> str:
    """JSON as YAML takes it: one line, everything odd escaped, no lone surrogates."""
    text = json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
    return text.encode("utf-8", "replace").decode("utf-8")
