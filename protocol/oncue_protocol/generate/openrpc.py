"""An OpenRPC 1.3 document of all methods."""

from __future__ import annotations

import json
from typing import Any

from ..base import PROTOCOL_VERSION, Method
from ..errors import (
    ERRORS,
    InternalError,
    InvalidParams,
    LimitExceeded,
    OncueError,
    OutsideRoots,
    RecallNotFound,
    RequestCancelled,
    RequestFailed,
    RevisionConflict,
    SecretRefused,
    ServerCancelled,
    ServerNotInitialized,
    SessionNotFound,
    StoreUnavailable,
)
from .json_schema import DESCRIPTION, definitions, member
from .model import METHODS, records, type_name

_PREFIX = "#/components/schemas/"
_ANY_REQUEST = (
    InvalidParams,
    InternalError,
    ServerNotInitialized,
    RequestCancelled,
    ServerCancelled,
    RequestFailed,
)
_OF_SESSIONS = (SessionNotFound, LimitExceeded)
_OF_RECALL = (SessionNotFound, RecallNotFound, LimitExceeded)
_OF_NOTES = (SessionNotFound, StoreUnavailable)
_OF_FILES = (SessionNotFound, OutsideRoots, StoreUnavailable)
_OF_WRITES = (*_OF_FILES, RevisionConflict, LimitExceeded, SecretRefused)


def errors_of(method: Method) -> list[type[OncueError]]:
    """Errors that a method may be answered with."""
    if method.kind == "notification":
        return []
    if method.direction == "daemon":
        return [InvalidParams, InternalError, RequestCancelled, RequestFailed]
    family, _, verb = method.name.partition("/")
    more: tuple[type[OncueError], ...] = ()
    if family in ("session", "transcript"):
        more = (*_OF_SESSIONS, StoreUnavailable)
        if verb == "follow":
            more = (*more, OutsideRoots)
    elif family == "recall":
        more = _OF_RECALL
    elif family == "notes" or verb in ("extract", "wait", "cancelExtraction"):
        more = _OF_NOTES
    elif family == "memory":
        more = _OF_WRITES if verb in ("write", "forget", "purge") else _OF_FILES
    return [*_ANY_REQUEST, *more]


def render() -> str:
    """Text of the document."""
    document = {
        "openrpc": "1.3.2",
        "info": {
            "title": "oncue",
            "version": f"{PROTOCOL_VERSION}.0.0",
            "description": "One shared memory for coding agents and editor extensions: JSON-RPC "
            "2.0 in Language Server Protocol frames. " + DESCRIPTION.rpartition(" `methods`")[0],
            "license": {"name": "Apache-2.0"},
        },
        "methods": [_method(m) for m in METHODS.values()],
        "components": {
            "schemas": definitions(_PREFIX),
            "errors": {cls.name: _error(cls) for cls in ERRORS.values()},
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _method(m: Method) -> dict[str, Any]:
    name = type_name(m.params)
    params = () if name is None else records()[name].members
    made: dict[str, Any] = {
        "name": m.name,
        "summary": m.summary,
        "paramStructure": "by-name",
        "x-direction": m.direction,
        "x-kind": m.kind,
        "params": [_descriptor(p) for p in sorted(params, key=lambda p: not p.required)],
    }
    if m.also_notification:
        made["x-also-notification"] = True
    if name is not None:
        made["description"] = records()[name].doc
    if m.kind == "request":
        result = type_name(m.result)
        made["result"] = {
            "name": result or "nothing",
            "schema": {"type": "null"} if result is None else {"$ref": _PREFIX + result},
        }
        made["errors"] = [{"$ref": f"#/components/errors/{cls.name}"} for cls in errors_of(m)]
    return made


def _descriptor(p: Any) -> dict[str, Any]:
    schema = member(p, _PREFIX)
    return {
        "name": p.name,
        "description": schema.pop("description"),
        "required": p.required,
        "schema": schema or True,
    }


def _error(cls: type[OncueError]) -> dict[str, Any]:
    return {
        "code": cls.code,
        "message": cls.when,
        "data": {"name": cls.name, "retryable": "boolean", "detail": "object"},
    }
