"""Hypothesis strategies for every class of the protocol, made from its types."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
from hypothesis import strategies as st

from oncue_protocol import METHODS
from oncue_protocol.base import FreeJson, Limits, OtherMembers
from oncue_protocol.converter import unstructure
from oncue_protocol.generate.model import MODULES, records

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)


def classes() -> list[type[Any]]:
    """Every class that is on the wire."""
    found = {}
    for module in MODULES:
        for name in records():
            if hasattr(module, name):
                found[name] = getattr(module, name)
    return [found[name] for name in sorted(found)]


@cache
def instances(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Objects of one class."""
    fields = {}
    for a in attrs.fields(attrs.resolve_types(cls)):
        made = values(a.type)
        if a.default is not attrs.NOTHING:
            default = a.default.factory() if hasattr(a.default, "factory") else a.default
            made = st.just(default) | made
        fields[a.name] = made
    return st.builds(cls, **fields)


def values(tp: Any) -> st.SearchStrategy[Any]:
    """Values of any type that occurs in a class."""
    origin, args = get_origin(tp), get_args(tp)
    if attrs.has(tp):
        return instances(tp)
    if origin is Annotated:
        for mark in args[1:]:
            if isinstance(mark, Limits):
                if get_args(tp)[0] is int:
                    return st.integers(mark.minimum, 2**53)
                return st.text(
                    st.characters(exclude_categories=["Cs"]),
                    min_size=mark.min_length or 0,
                    max_size=min(mark.max_length or 12, 12),
                )
            if isinstance(mark, FreeJson):
                return OBJECTS if get_origin(args[0]) is dict else JSON
            if isinstance(mark, OtherMembers):
                keys = st.sampled_from(["x", "semantic"])
                return st.dictionaries(keys, JSON.filter(lambda v: v is not None), max_size=2)
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, values(args[1]), max_size=3)
    if origin in (Union, types.UnionType):
        # An optional object that says nothing is read as an absent one.
        present = [
            values(a).filter(lambda v: v != {} and (not attrs.has(type(v)) or unstructure(v) != {}))
            for a in args
            if a is not types.NoneType
        ]
        return st.one_of(*([st.none()] if types.NoneType in args else []), *present)
    return {
        str: TEXT,
        int: st.integers(-(2**53), 2**53),
        float: NUMBERS,
        bool: st.booleans(),
        types.NoneType: st.none(),
    }[tp]


REQUESTS = [m for m in METHODS.values() if m.kind == "request"]
