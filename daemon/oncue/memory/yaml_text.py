"""The part of YAML that front matter needs, read safely and written plainly (pure; D56).

libyaml's events become plain text values; aliases, anchors, tags and deep nesting are refused
before they cost anything. What is written here every YAML reader takes for the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from attrs import frozen

from oncue.text.decoding import Problem

MAX_DEPTH = 16
"""Nesting of the mapping: more is an attack on a recursive reader (D56)."""

Value = str | None | Sequence["Value"] | Mapping[str, "Value"]


class RefusedError(Exception):
    """Front matter that is no YAML, or too clever."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@frozen
class Read:
    """A mapping, and where its keys are."""

    fields: dict[str, Value]
    key_lines: tuple[tuple[str, int], ...]
    """Top-level keys and the line each begins on."""
    block_style: bool
    problems: tuple[Problem, ...]


def read_yaml(inner: str) -> Read:
    """Events of libyaml to plain text values; anything clever is refused before it costs."""
    inner = _UNPRINTABLE.sub("\ufffd", inner)
    loader = yaml.CSafeLoader(inner)
    try:
        return _from_events(loader, inner)
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = "" if mark is None else f", line {mark.line + 2}"
        raise RefusedError("yaml", f"front matter is not valid YAML{where}") from None
    except (ValueError, UnicodeError, RecursionError):
        raise RefusedError("yaml", "front matter is not valid YAML") from None
    finally:
        loader.dispose()


@frozen
class _Open:
    """A collection that is being read."""

    items: list[Value] | None
    pairs: dict[str, Value] | None
    key: list[str]
    """The key that waits for its value: empty or one."""


def _from_events(loader: yaml.CSafeLoader, inner: str) -> Read:
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
            raise RefusedError(
                "alias", "front matter uses YAML anchors or aliases, which are refused"
            )
        if getattr(event, "tag", None) is not None:
            raise RefusedError("tag", "front matter uses YAML tags, which are refused")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise RefusedError("yaml", "front matter holds more than one YAML document")
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if stack and _awaits_key(stack[-1]):
                raise RefusedError("yaml", "front matter has a key that is not text")
            if len(stack) >= MAX_DEPTH:
                raise RefusedError("depth", f"front matter is nested more than {MAX_DEPTH} deep")
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
                raise RefusedError("noMapping", "front matter is not a mapping")
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
            return Read({}, (), block_style=True, problems=())
        raise RefusedError("noMapping", "front matter is not a mapping")
    if root.pairs is None:
        raise RefusedError("noMapping", "front matter is not a mapping")
    return Read(root.pairs, tuple(key_lines), block_style, tuple(problems))


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML does not take; Latin-1 text from Windows is full of it."""
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


def _awaits_key(top: _Open) -> bool:
    return top.pairs is not None and not top.key


def _only_comments(inner: str) -> bool:
    return all(
        line.strip() == "" or line.lstrip(" \t").startswith("#") for line in inner.splitlines()
    )


_PLAIN = re.compile(r"[^\W_](?:[\w ,.()/'+-]*[\w.)/+])?")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)?")
_FLOW_WIDTH = 48
"""A list whose items are longer is written one item a line."""
_RESOLVER: Any = yaml.resolver.Resolver()
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)}


def entry(key: str, value: Value) -> str:
    """One key of a block mapping, with its line end."""
    name = _scalar(key)
    if isinstance(value, str) or value is None:
        stamp = key in ("created", "updated") and value and _STAMP.fullmatch(value)
        return f"{name}: {value if stamp else _scalar(value or '')}\n"
    if isinstance(value, Mapping) or not all(isinstance(item, str) for item in value):
        return f"{name}: {as_json(plain({'': value})[''])}\n"
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
    return as_json(text)


def as_json(value: Value) -> str:
    """JSON as YAML takes it: one line, everything odd escaped, no lone surrogates."""
    text = json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
    return text.encode("utf-8", "replace").decode("utf-8")


def plain(value: Mapping[str, Value]) -> dict[str, Value]:
    """As `parse` would give it back: lists for sequences, line ends and NULs as stored."""

    def of(item: Value) -> Value:
        if item is None or isinstance(item, str):
            return item
        if isinstance(item, Mapping):
            return {key: of(inner) for key, inner in item.items()}
        return [of(inner) for inner in item]

    return {key: of(item) for key, item in value.items()}
