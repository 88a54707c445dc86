"""Checks of single values, and of what is made of them, as hooks for cattrs (pure).

A hook takes a JSON value and a type (which it knows already) and gives the checked value, or
raises `MismatchError`. They run for every member of every message: plain functions, no loops
where none are needed.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import IterableValidationError, IterableValidationNote

from .base import MAX_PROBLEMS, FreeJson, Limits, OtherMembers
from .problems import MismatchError

Hook = Callable[[Any, Any], Any]

TOO_DEEP = "[cut: nested too deeply]"
"""Stands for free JSON below the depth that is kept."""

_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}


def wrong(expected: str, value: Any) -> MismatchError:
    """The error for a value of another type; names types only, never the value itself."""
    return MismatchError(f"expected {expected}, got {_NAMES.get(type(value), 'something else')}")


def string(value: Any, _: Any) -> str:
    """A string and nothing that could be made one."""
    if type(value) is str:
        return value
    raise wrong("string", value)


def integer(value: Any, _: Any) -> int:
    """A whole number; true is none."""
    if type(value) is int:
        return value
    if type(value) is float:
        if value.is_integer():  # JSON has one kind of number: some clients send 3.0 for 3
            return int(value)
        raise MismatchError("expected integer, got number with a fraction")
    raise wrong("integer", value)


def number(value: Any, _: Any) -> float:
    """Any number; true is none."""
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise wrong("number", value)


def boolean(value: Any, _: Any) -> bool:
    """True or false; 1 and 0 are neither."""
    if type(value) is bool:
        return value
    raise wrong("boolean", value)


def identifier(value: Any, _: Any) -> int | str:
    """An id or token of the Language Server Protocol."""
    if type(value) is int or type(value) is str:
        return value
    raise wrong("integer or string", value)


def _json(value: Any, depth: int) -> Any:
    """Free JSON; what is nested deeper than `depth` is cut, in a copy."""
    level = [value]
    for _ in range(depth):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return value
    return _cut(value, depth)


def _cut(value: Any, depth: int) -> Any:
    if type(value) not in (dict, list):
        return value
    if depth == 0:
        return TOO_DEEP
    if type(value) is dict:
        return {key: _cut(child, depth - 1) for key, child in value.items()}
    return [_cut(child, depth - 1) for child in value]


def _limited(inner: Hook, limits: Limits) -> Hook:
    minimum, shortest, longest = limits.minimum, limits.min_length, limits.max_length
    if minimum is not None:

        def bounded(value: Any, tp: Any) -> Any:
            value = inner(value, tp)
            if value < minimum:
                raise MismatchError(f"must be at least {minimum}")
            return value

        return bounded
    if shortest is None and longest is None:
        return inner
    low, high = shortest or 0, longest

    def text(value: Any, _: Any) -> Any:
        if type(value) is not str:
            raise wrong("string", value)
        if len(value) < low:
            raise MismatchError("must not be empty")
        if high is not None and len(value) > high:
            raise MismatchError(f"has {len(value)} characters, at most {high} are allowed")
        return value

    return text


def annotated(tp: Any, converter: Converter) -> Hook:
    """Hook of a type with one of our marks."""
    bare, mark = get_args(tp)
    match mark:
        case Limits():
            return _limited(converter.get_structure_hook(bare), mark)
        case FreeJson(depth=depth):
            return _free(depth, wants_object=get_origin(bare) is dict)
        case OtherMembers():
            return _raw
        case _:
            raise TypeError(f"{mark!r} is no mark of the protocol")


def _free(depth: int, *, wants_object: bool) -> Hook:
    def anything(value: Any, _: Any) -> Any:
        return _json(value, depth) if type(value) in (dict, list) else value

    def an_object(value: Any, _: Any) -> Any:
        if type(value) is dict:
            return _json(value, depth)
        if value == []:
            return {}
        raise wrong("object", value)

    return an_object if wants_object else anything


def _raw(value: Any, _: Any) -> Any:
    return value


def is_words(tp: Any) -> bool:
    """Whether a type is a closed set of strings."""
    return get_origin(tp) is Literal


def is_annotated(tp: Any) -> bool:
    """Whether a type is one with a mark."""
    return get_origin(tp) is Annotated


def words(tp: Any, _: Converter) -> Hook:
    """Hook of a closed set of strings, of which there are at least two."""
    known = frozenset(get_args(tp))
    *others, last = get_args(tp)
    expected = f"expected {', '.join(others)} or {last}"

    def one_of(value: Any, _: Any) -> Any:
        if type(value) is not str:
            raise wrong("string", value)
        if value not in known:
            raise MismatchError(expected)
        return value

    return one_of


def optional(tp: Any, converter: Converter) -> Hook:
    """Hook of what may be absent."""
    inner_type = next(a for a in get_args(tp) if a is not types.NoneType)
    inner = converter.get_structure_hook(inner_type)
    # Of an optional object, an empty one says nothing: it is absent.
    bare = get_args(inner_type)[0] if is_annotated(inner_type) else inner_type
    is_object = attrs.has(bare) or get_origin(bare) is dict

    def present(value: Any, _: Any) -> Any:
        if value is None or (is_object and not value and type(value) in (dict, list)):
            return None
        return inner(value, inner_type)

    return present


def is_optional(tp: Any) -> bool:
    """Whether a type is `X | None`."""
    args = get_args(tp)
    is_union = get_origin(tp) in (Union, types.UnionType)
    return is_union and len(args) == 2 and types.NoneType in args


def is_identifier(tp: Any) -> bool:
    """Whether a type is that of an id or token."""
    return _is_union_of(tp, {int, str})


def is_optional_identifier(tp: Any) -> bool:
    """Whether a type is that of an id or token that may be absent."""
    return _is_union_of(tp, {int, str, types.NoneType})


def _is_union_of(tp: Any, members: set[type]) -> bool:
    return get_origin(tp) in (Union, types.UnionType) and set(get_args(tp)) == members


def optional_identifier(value: Any, tp: Any) -> int | str | None:
    """An id or token, or nothing."""
    return None if value is None else identifier(value, tp)


def is_array(tp: Any) -> bool:
    """Whether a type is a tuple of any length."""
    args = get_args(tp)
    return get_origin(tp) is tuple and len(args) == 2 and args[1] is ...


def array(tp: Any, converter: Converter) -> Hook:
    """Hook of an array; an empty object is an empty array, as Lua cannot tell them apart."""
    item_type = get_args(tp)[0]
    item = converter.get_structure_hook(item_type)

    def elements(value: Any, _: Any) -> Any:
        if type(value) is not list:
            if value == {}:
                return ()
            raise wrong("array", value)
        if not value:
            return ()
        try:
            return tuple([item(element, item_type) for element in value])
        except Exception:
            raise _where(value, item, item_type, tp) from None

    return elements


def _where(value: list[Any], item: Hook, item_type: Any, tp: Any) -> IterableValidationError:
    """Once more, slowly: which elements do not fit."""
    errors: list[Exception] = []
    for index, element in enumerate(value):
        try:
            item(element, item_type)
        except Exception as error:
            note = IterableValidationNote(f"element {index}", index, item_type)
            error.__notes__ = [*getattr(error, "__notes__", ()), note]
            errors.append(error)
            if len(errors) > MAX_PROBLEMS:
                break
    return IterableValidationError("elements do not fit", errors, tp)


def is_counts(tp: Any) -> bool:
    """Whether a type is a map of names to counts."""
    return get_origin(tp) is dict and get_args(tp) == (str, int)


def counts(value: Any, _: Any) -> dict[str, int]:
    """A map of names to counts."""
    if type(value) is not dict:
        if value == []:
            return {}
        raise wrong("object", value)
    return {key: integer(count, int) for key, count in value.items()}
