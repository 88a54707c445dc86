"""The table of methods and the classes: complete, documented, lean."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest
from lsprotocol import types as lsp

import oncue_protocol
from oncue_protocol import METHODS
from oncue_protocol.converter import camel
from oncue_protocol.generate.model import records
from protocol_samples import classes

# protocol.md by hand: name, who sends it, R or N.
TABLE = """
initialize → R
initialized → N
exit → N
$/cancelRequest → N
$/setTrace → N
workspace/didChangeConfiguration → N
workspace/didChangeWatchedFiles → N
shutdown → R
$/progress ← N
$/logTrace ← N
window/logMessage ← N
telemetry/event ← N
daemon/status → R
session/open → R
session/close → R
session/list → R
session/timeline → R
session/lost ← N
session/roleChanged ← N
session/purge → R
session/status → R
transcript/didAppend → N
transcript/resyncRequired ← N
transcript/follow → R
transcript/didReset → N
transcript/willCompact → N
transcript/didCompact → N
turn/didEnd → N
recall/start → R
recall/poll → R
recall/peek → R
recall/cancel → RN
recall/ended ← N
recall/acknowledge → N
recall/settled ← N
memory/extract → R
memory/wait → R
memory/cancelExtraction → RN
memory/purge → R
memory/extractionEnded ← N
notes/read → R
notes/compactionView → R
memory/list → R
memory/search → R
memory/read → R
memory/didChange ← N
memory/write → R
memory/forget → R
model/generate ← R
"""


def test_every_method_of_the_specification_is_in_the_table() -> None:
    expected = {}
    for line in TABLE.strip().splitlines():
        name, arrow, kind = line.split()
        expected[name] = (
            "client" if arrow == "→" else "daemon",
            "request" if kind[0] == "R" else "notification",
            kind == "RN",
        )
    found = {m.name: (m.direction, m.kind, m.also_notification) for m in METHODS.values()}
    assert found == expected
    assert all(key == m.name and m.summary for key, m in METHODS.items())


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda m: m.name)
def test_classes_are_named_after_their_method(method: oncue_protocol.Method) -> None:
    words = method.name.removeprefix("$/").split("/")
    stem = "".join(word[0].upper() + word[1:] for word in words)
    if method.params is not None:
        assert method.params.__name__ == stem + "Params"
        assert getattr(oncue_protocol, stem + "Params") is method.params
    if method.result is not None:
        assert getattr(oncue_protocol, stem + "Result") is method.result
    if method.kind == "notification":
        assert method.result is None


@pytest.mark.parametrize("cls", classes(), ids=lambda c: c.__name__)
def test_classes_are_frozen_and_documented_field_by_field(cls: type) -> None:
    assert getattr(oncue_protocol, cls.__name__) is cls
    assert issubclass(cls, oncue_protocol.Wire)
    assert cls.__setattr__ is not object.__setattr__
    assert "__slots__" in vars(cls)
    record = records()[cls.__name__]
    assert record.doc
    assert all(m.doc.endswith((".", ":")) for m in record.members), record


def test_every_class_is_used_by_a_method_or_by_another_class() -> None:
    used = {c.__name__ for m in METHODS.values() for c in (m.params, m.result) if c}
    for record in records().values():
        for member in record.members:
            shapes = [member.shape]
            while shapes:
                shape = shapes.pop()
                shapes += shape.items
                used.add(shape.name)
    assert set(records()) <= used


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, oncue_protocol;"
        "heavy = {'lsprotocol', 'pygls', 'cattrs', 'trio', 'orjson', 'oncue'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


LEAN = {
    "InitializeParams": lsp.InitializeParams,
    "InitializedParams": lsp.InitializedParams,
    "CancelRequestParams": lsp.CancelParams,
    "SetTraceParams": lsp.SetTraceParams,
    "LogTraceParams": lsp.LogTraceParams,
    "ProgressParams": lsp.ProgressParams,
    "WindowLogMessageParams": lsp.LogMessageParams,
    "WorkspaceDidChangeConfigurationParams": lsp.DidChangeConfigurationParams,
    "WorkspaceDidChangeWatchedFilesParams": lsp.DidChangeWatchedFilesParams,
    "WorkspaceFolder": lsp.WorkspaceFolder,
    "ClientInfo": lsp.ClientInfo,
    "ServerInfo": lsp.ServerInfo,
    "ServerCapabilities": lsp.ServerCapabilities,
    "InitializeResult": lsp.InitializeResult,
    "FileEvent": lsp.FileEvent,
}


@pytest.mark.parametrize("name", LEAN)
def test_lean_types_use_the_names_of_the_language_server_protocol(name: str) -> None:
    ours = {a.name for a in attrs.fields(getattr(oncue_protocol, name))}
    theirs = {a.name for a in attrs.fields(LEAN[name])}
    assert ours <= theirs


def test_base_methods_are_those_of_the_language_server_protocol() -> None:
    known = {**lsp.METHOD_TO_TYPES}
    for method in METHODS.values():
        if method.base:
            request, *_ = known[method.name]
            is_request = hasattr(request, "id") or "id" in {a.name for a in attrs.fields(request)}
            assert is_request == (method.kind == "request"), method.name
            assert (lsp.message_direction(method.name) in ("clientToServer", "both")) or (
                method.direction == "daemon"
            )
        else:
            assert method.name not in known


def test_camel_case() -> None:
    assert camel("turn_id") == "turnId"
    assert camel("sha256") == "sha256"
    assert camel("minimum_tokens_between_update") == "minimumTokensBetweenUpdate"


def test_objects_are_values() -> None:
    one = oncue_protocol.ToolResult(call_id="1")
    same = oncue_protocol.ToolResult(call_id="1")
    other = oncue_protocol.ToolResult(call_id="1", text="x")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != ("1", "", False)
    assert attrs.evolve(one, text="x") == other
    assert repr(other) == "ToolResult(call_id='1', text='x')"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.text = "y"  # type: ignore[misc]
