"""The classes of the protocol as plain data, for writers of other languages."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from attrs import field, frozen

from .. import base, extraction, lifecycle, memory, models, recall, sessions, transcript
from ..base import FreeJson, Limits, OtherMembers
from ..converter import camel
from ..methods import METHODS

MODULES = (base, lifecycle, transcript, recall, memory, extraction, models, sessions)
INTERNAL = frozenset({"Method", "Limits", "FreeJson", "OtherMembers"})
"""Classes that describe the protocol and are not on the wire."""

ShapeKind = Literal[
    "string", "integer", "number", "boolean", "any", "object", "map", "class", "words", "array",
    "union",
]  # fmt: skip


@frozen
class Shape:
    """Form of a value."""

    kind: ShapeKind
    name: str = ""
    """Of a class or a set of words."""
    items: tuple[Shape, ...] = ()
    """Of an array or map: its elements; of a union: its members."""
    limits: Limits = field(factory=Limits)


@frozen
class Member:
    """A member of a class."""

    name: str
    """Its name on the wire."""
    shape: Shape
    doc: str
    required: bool
    default: Any = None
    """Meaning of its absence; None: nothing in particular."""


@frozen
class Record:
    """A class of the protocol."""

    name: str
    doc: str
    members: tuple[Member, ...]


@cache
def words() -> dict[str, tuple[str, ...]]:
    """Closed sets of strings by their name."""
    found: dict[str, tuple[str, ...]] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            if get_origin(value) is Literal and name not in ("Kind", "Direction"):
                found.setdefault(name, get_args(value))
    return dict(sorted(found.items()))


@cache
def records() -> dict[str, Record]:
    """Classes by their name, those of all methods and what they refer to."""
    found: dict[str, Record] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            if (
                isinstance(value, type)
                and attrs.has(value)
                and value.__module__ == module.__name__
                and name == value.__name__
                and name not in INTERNAL
            ):
                found[name] = _record(value)
    return dict(sorted(found.items()))


def _record(cls: type[Any]) -> Record:
    doc, docs = _docs(cls)
    members: list[Member] = []
    for a in attrs.fields(attrs.resolve_types(cls)):
        others = next((m for m in get_args(a.type)[1:] if isinstance(m, OtherMembers)), None)
        if others is not None:
            members += [
                Member(
                    name=key,
                    shape=Shape("class", name=shape),
                    doc=records_doc(shape),
                    required=False,
                )
                for key, shape in others.shapes
            ]
            continue
        required = a.default is attrs.NOTHING
        members.append(
            Member(
                name=camel(a.name),
                shape=_shape(a.type),
                doc=docs[a.name],
                required=required,
                default=a.default if isinstance(a.default, str | int) else None,
            )
        )
    return Record(name=cls.__name__, doc=doc, members=tuple(members))


def records_doc(name: str) -> str:
    """The sentence that a class begins with."""
    cls = getattr(lifecycle, name)
    return _one_line(inspect.getdoc(cls) or "")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def _docs(cls: type[Any]) -> tuple[str, dict[str, str]]:
    """Docstring of a class, and of each field: the string literal below it."""
    node = next(
        n
        for n in _tree(cls.__module__).body
        if isinstance(n, ast.ClassDef) and n.name == cls.__name__
    )
    docs: dict[str, str] = {}
    name = None
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
        elif (
            name is not None
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            docs[name] = _one_line(inspect.cleandoc(statement.value.value))
            name = None
    return _one_line(ast.get_docstring(node) or ""), docs


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shape(tp: Any) -> Shape:
    origin, args = get_origin(tp), get_args(tp)
    if attrs.has(tp):
        return Shape("class", name=tp.__name__)
    if origin is Annotated:
        for mark in args[1:]:
            if isinstance(mark, Limits):
                return attrs.evolve(_shape(args[0]), limits=mark)
            if isinstance(mark, FreeJson):
                return Shape("object" if get_origin(args[0]) is dict else "any")
    if origin is Literal:
        name = next(n for n, values in words().items() if set(values) == set(args))
        return Shape("words", name=name)
    if origin is tuple:
        return Shape("array", items=(_shape(args[0]),))
    if origin is dict:
        return Shape("map", items=(_shape(args[1]),))
    if origin in (Union, types.UnionType):
        shapes = tuple(_shape(a) for a in args if a is not types.NoneType)
        return shapes[0] if len(shapes) == 1 else Shape("union", items=shapes)
    kinds: dict[Any, ShapeKind] = {
        str: "string",
        int: "integer",
        float: "number",
        bool: "boolean",
    }
    return Shape(kinds[tp])


def type_name(cls: type[Any] | None) -> str | None:
    """Name of the class of parameters or a result; None: there are none."""
    return None if cls is None else cls.__name__


__all__ = ["METHODS", "Member", "Record", "Shape", "records", "type_name", "words"]
