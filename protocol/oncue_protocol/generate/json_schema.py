"""JSON Schema, draft 2020-12: one bundle with a definition for each class."""

from __future__ import annotations

import json
from typing import Any

from ..base import PROTOCOL_VERSION
from .model import METHODS, Member, Shape, records, type_name, words

DESCRIPTION = (
    "Types of the oncue protocol. Members that are not named here are ignored. A member that is "
    "not required may be absent or null, which mean the same; `[]` stands for an empty object too. "
    "`methods` maps each method to its parameters and result."
)


def render() -> str:
    """Text of the bundle."""
    bundle = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://oncue.invalid/protocol/{PROTOCOL_VERSION}/oncue.schema.json",
        "title": f"oncue protocol, version {PROTOCOL_VERSION}",
        "description": DESCRIPTION,
        "methods": {
            m.name: {
                "kind": m.kind,
                "alsoNotification": m.also_notification,
                "direction": m.direction,
                "params": _pointer(type_name(m.params)),
                "result": _pointer(type_name(m.result)),
            }
            for m in METHODS.values()
        },
        "$defs": definitions("#/$defs/"),
    }
    return json.dumps(bundle, indent=2, ensure_ascii=False) + "\n"


def _pointer(name: str | None) -> str | None:
    return None if name is None else f"#/$defs/{name}"


def definitions(prefix: str) -> dict[str, Any]:
    """Schema of each class and set of words; `prefix` begins every reference."""
    made: dict[str, Any] = {
        name: {"type": "string", "enum": list(values)} for name, values in words().items()
    }
    for record in records().values():
        schema: dict[str, Any] = {"type": "object", "description": record.doc}
        if record.members:
            schema["properties"] = {m.name: member(m, prefix) for m in record.members}
        required = [m.name for m in record.members if m.required]
        if required:
            schema["required"] = required
        made[record.name] = schema
    return dict(sorted(made.items()))


def member(m: Member, prefix: str) -> dict[str, Any]:
    """Schema of a member; null is allowed where absence is."""
    schema = shape(m.shape, prefix)
    if not m.required and schema:
        if isinstance(schema.get("type"), str):
            schema["type"] = [schema["type"], "null"]
        elif "anyOf" in schema:
            schema["anyOf"].append({"type": "null"})
        else:
            schema = {"anyOf": [schema, {"type": "null"}]}
    schema["description"] = m.doc
    if m.default not in (None, ()):
        schema["default"] = m.default
    return schema


def shape(s: Shape, prefix: str) -> dict[str, Any]:
    """Schema of a value."""
    match s.kind:
        case "any":
            return {}
        case "class" | "words":
            return {"$ref": prefix + s.name}
        case "array":
            return {"type": "array", "items": shape(s.items[0], prefix)}
        case "map":
            return {"type": "object", "additionalProperties": shape(s.items[0], prefix)}
        case "union":
            return {"anyOf": [shape(item, prefix) for item in s.items]}
        case _:
            schema: dict[str, Any] = {"type": s.kind}
            bounds = {
                "minimum": s.limits.minimum,
                "minLength": s.limits.min_length,
                "maxLength": s.limits.max_length,
                "format": s.limits.format,
            }
            schema.update({key: value for key, value in bounds.items() if value is not None})
            return schema
