"""Between JSON and classes: strict where a mistake would hide, forgiving where clients differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oncue_protocol as p
from oncue_protocol import METHODS, InvalidParams
from oncue_protocol.base import MAX_NESTING
from oncue_protocol.converter import (
    TOO_DEEP,
    InvalidResult,
    prepare,
    structure,
    structure_params,
    structure_result,
    unstructure,
)
from oncue_protocol.jsontext import dumps, loads
from protocol_samples import JSON, classes, instances


@pytest.mark.parametrize("cls", classes(), ids=lambda c: c.__name__)
def test_every_class_survives_the_wire(cls: type) -> None:
    @settings(max_examples=25, deadline=None)
    @given(instances(cls))
    def round_trip(value: Any) -> None:
        body = dumps(unstructure(value))
        assert structure(loads(body), cls) == value
        assert dumps(unstructure(structure(loads(body), cls))) == body

    round_trip()


@pytest.mark.parametrize("cls", classes(), ids=lambda c: c.__name__)
def test_unknown_members_and_nulls_change_nothing(cls: type) -> None:
    @settings(max_examples=10, deadline=None)
    @given(instances(cls))
    def same(value: Any) -> None:
        plain = unstructure(value)
        nulls = {m.name: None for m in p_members(cls) if m not in plain}
        unknown = {} if cls is p.OncueOptions else {"x-unknown": [{"jsonrpc": "2.0"}]}
        assert structure({**nulls, **plain, **unknown}, cls) == value

    same()


def p_members(cls: type) -> Any:
    from oncue_protocol.generate.model import records

    return records()[cls.__name__].members


@pytest.mark.parametrize("method", METHODS)
def test_any_params_give_the_class_or_invalid_params(method: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(JSON | st.dictionaries(st.sampled_from(members_of(method)), JSON))
    def total(obj: Any) -> None:
        row = METHODS[method]
        try:
            value = structure_params(method, obj)
        except InvalidParams as error:
            assert error.path.startswith("params")
            assert error.message.startswith(error.path + ": ")
            assert error.detail
            assert error.detail["problems"]
        else:
            assert type(value) is (row.params or type(None))

    total()


def members_of(method: str) -> list[str]:
    row = METHODS[method]
    return [m.name for m in p_members(row.params)] or ["x"] if row.params else ["x"]


@pytest.mark.parametrize("empty", [None, {}, []], ids=["null", "{}", "[]"])
@pytest.mark.parametrize("method", METHODS)
def test_null_and_empty_params_are_the_same(method: str, empty: Any) -> None:
    def outcome(obj: Any) -> Any:
        try:
            return structure_params(method, obj)
        except InvalidParams as error:
            return error.message

    assert outcome(empty) == outcome({})


@pytest.mark.parametrize("empty", [None, {}, []], ids=["null", "{}", "[]"])
def test_empty_nested_objects_are_absent(empty: Any) -> None:
    message = {"id": "1", "role": "user", "usage": empty, "toolCalls": empty, "toolResults": empty}
    got = structure_params("transcript/didAppend", {"sessionId": "s", "messages": [message]})
    assert got.messages == (p.Message(id="1", role="user"),)
    got = structure_params("initialize", {"initializationOptions": empty, "clientInfo": empty})
    assert got == p.InitializeParams()
    got = structure_params("initialize", {"initializationOptions": {"oncue": empty}})
    assert got.initialization_options in (None, p.InitializationOptions())
    got = structure_params("transcript/didAppend", {"sessionId": "s", "messages": []})
    assert got.messages == ()


@pytest.mark.parametrize(
    ("method", "obj", "path", "problem"),
    [
        ("recall/start", {"sessionId": "s", "query": 5}, ".query", "expected string, got number"),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "waitMs": "5"},
            ".waitMs",
            "expected integer, got string",
        ),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "waitMs": True},
            ".waitMs",
            "expected integer, got boolean",
        ),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "waitMs": 1.5},
            ".waitMs",
            "expected integer, got number with a fraction",
        ),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "waitMs": -1},
            ".waitMs",
            "must be at least 0",
        ),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "speculative": 1},
            ".speculative",
            "expected boolean, got number",
        ),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "excludedPaths": ["a", None]},
            ".excludedPaths[1]",
            "expected string, got null",
        ),
        (
            "recall/start",
            {"sessionId": "s", "query": "q", "excludedPaths": "a"},
            ".excludedPaths",
            "expected array, got string",
        ),
        ("recall/start", {"sessionId": "s"}, ".query", "required, but absent"),
        ("recall/start", {"sessionId": "s", "query": None}, ".query", "required, but absent"),
        ("recall/start", {"session_id": "s", "query": "q"}, ".sessionId", "required, but absent"),
        ("recall/start", {"sessionId": "", "query": "q"}, ".sessionId", "must not be empty"),
        (
            "recall/start",
            {"sessionId": "s" * 257, "query": "q"},
            ".sessionId",
            "has 257 characters, at most 256 are allowed",
        ),
        ("recall/start", [1], "", "expected object, got array"),
        ("recall/start", "x", "", "expected object, got string"),
        ("recall/start", False, "", "expected object, got boolean"),
        ("recall/start", 0, "", "expected object, got number"),
        (
            "recall/poll",
            {"sessionId": "s", "point": "later"},
            ".point",
            "expected userQuery or toolResult",
        ),
        ("recall/poll", {"sessionId": "s", "point": 1}, ".point", "expected string, got number"),
        (
            "transcript/didAppend",
            {
                "sessionId": "s",
                "messages": [
                    *({"id": str(i), "role": "user"} for i in range(3)),
                    {"id": "3", "role": "assistant", "toolCalls": [{"id": 5, "name": "x"}]},
                ],
            },
            ".messages[3].toolCalls[0].id",
            "expected string, got number",
        ),
        (
            "transcript/didAppend",
            {"sessionId": "s", "messages": [{"role": "user"}]},
            ".messages[0].id",
            "required, but absent",
        ),
        (
            "transcript/didAppend",
            {"sessionId": "s", "messages": {"a": 1}},
            ".messages",
            "expected array, got object",
        ),
        (
            "transcript/didAppend",
            {"sessionId": "s", "messages": [{"id": "1", "role": "user", "usage": [1]}]},
            ".messages[0].usage",
            "expected object, got array",
        ),
        ("$/cancelRequest", {"id": 1.0}, ".id", "expected integer or string, got number"),
        ("$/cancelRequest", {"id": True}, ".id", "expected integer or string, got boolean"),
        (
            "memory/write",
            {"scope": "user", "type": "notes", "title": "", "description": "", "body": ""},
            ".type",
            "expected user, feedback, project or reference",
        ),
        (
            "initialize",
            {"initializationOptions": {"oncue": {"modelProvider": "yes"}}},
            ".initializationOptions.oncue.modelProvider",
            "expected boolean, got string",
        ),
    ],
)
def test_the_path_of_what_is_wrong_is_named(method: str, obj: Any, path: str, problem: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        structure_params(method, obj)
    assert caught.value.path == f"params{path}"
    assert caught.value.message == f"params{path}: {problem}"


def test_all_problems_are_named_but_not_without_end() -> None:
    with pytest.raises(InvalidParams) as caught:
        structure_params("recall/poll", {"sessionId": 5, "point": "x"})
    assert caught.value.detail == {
        "path": "params.sessionId",
        "problems": [
            {"path": "params.sessionId", "problem": "expected string, got number"},
            {"path": "params.point", "problem": "expected userQuery or toolResult"},
        ],
    }
    with pytest.raises(InvalidParams) as caught:
        structure_params("recall/start", {"sessionId": "s", "query": "q", "recentTools": [1] * 999})
    assert len(caught.value.message) < 1000
    assert "more" in caught.value.message


def test_the_values_themselves_are_never_repeated() -> None:
    with pytest.raises(InvalidParams) as caught:
        structure_params("recall/poll", {"sessionId": {"canary": 1}, "point": "canary"})
    assert "canary" not in repr(caught.value.to_response_error())


def test_numbers_of_json_have_one_kind() -> None:
    got = structure_params("recall/start", {"sessionId": "s", "query": "q", "waitMs": 30.0})
    assert type(got.wait_ms) is int
    document = {**DELIVERY["documents"][0], "score": 3}
    got = structure_result(
        "recall/poll", {"outcome": "delivered", "delivery": {**DELIVERY, "documents": [document]}}
    )
    assert type(got.delivery.documents[0].score) is float


def test_defaults_are_left_out_and_required_members_never() -> None:
    assert unstructure(p.RecallStartParams(session_id="s", query="q")) == {
        "sessionId": "s",
        "query": "q",
    }
    assert unstructure(p.RecallCancelResult(cancelled=False)) == {"cancelled": False}
    assert unstructure(
        p.SessionOpenResult(session_id="s", resumed=False, memory_roots=(), untrusted_roots=())
    ) == {"sessionId": "s", "resumed": False, "memoryRoots": [], "untrustedRoots": []}
    assert unstructure(None) is None


def test_results() -> None:
    assert structure_result("session/close", None) is None
    assert structure_result("shutdown", {}) is None
    got = structure_result("recall/start", {"recallId": "r", "state": "pending"})
    assert got == p.RecallStartResult(recall_id="r", state="pending")
    with pytest.raises(InvalidResult) as caught:
        structure_result("model/generate", {"toolCalls": [{"id": "1"}]})
    assert caught.value.path == "result.toolCalls[0].name"
    assert str(caught.value).startswith("model/generate: result.toolCalls[0].name: required")


@pytest.mark.parametrize(
    ("counters", "problem"),
    [
        ([], None),
        ({"a": 1}, None),
        ([1], "expected object, got array"),
        ({"a": "1"}, "expected integer, got string"),
    ],
)
def test_maps_of_counts(counters: Any, problem: str | None) -> None:
    health = {"state": "ok"}
    figures = {"pid": 1, "uptimeMs": 1, "clients": 1, "sessions": 1, "protocolVersion": 1}
    status = {"version": "1", "store": health, "model": health, **figures, "counters": counters}
    if problem is None:
        assert structure_result("daemon/status", status).counters == dict(counters)
        return
    with pytest.raises(InvalidResult) as caught:
        structure_result("daemon/status", status)
    assert str(caught.value) == f"daemon/status: result.counters: {problem}"


def test_free_objects_must_be_objects() -> None:
    tool = {"name": "edit", "description": "edits"}
    assert structure({**tool, "inputSchema": []}, p.ModelTool).input_schema == {}
    with pytest.raises(InvalidResult) as caught:
        structure({**tool, "inputSchema": "x"}, p.ModelTool)
    assert str(caught.value) == "value.inputSchema: expected object, got string"


def test_what_python_passes_by_mistake_is_named_too() -> None:
    with pytest.raises(InvalidResult) as caught:
        structure({"callId": b"1"}, p.ToolResult)
    assert str(caught.value) == "value.callId: expected string, got something else"
    huge = {**DELIVERY["documents"][0], "score": 10**400}
    with pytest.raises(InvalidResult) as caught:
        structure(huge, p.DeliveredDocument)
    assert str(caught.value) == "value.score: cannot be read (OverflowError)"


def test_methods_without_params_take_whatever_comes() -> None:
    for obj in (None, {}, [], {"x": 1}, 5, "x"):
        assert structure_params("shutdown", obj) is None
        assert structure_params("exit", obj) is None
        assert structure_params("daemon/status", obj) is None


def test_settings_of_a_connection_are_kept_as_they_came() -> None:
    sent = {
        "acknowledgeDeliveries": True,
        "recall": {"maxDocuments": "many", "unknown": 1},
        "extraction": 5,
        "store": {"url": "x"},
        "model": None,
    }
    got = structure_params("initialize", {"initializationOptions": {"oncue": sent}})
    options = got.initialization_options.oncue
    assert options.acknowledge_deliveries
    assert options.settings == {
        "recall": {"maxDocuments": "many", "unknown": 1},
        "extraction": 5,
        "store": {"url": "x"},
    }
    assert unstructure(options) == {k: v for k, v in sent.items() if v is not None}


def test_an_editors_initialize_is_tolerated() -> None:
    got = structure_params(
        "initialize",
        {
            "processId": None,
            "clientInfo": {"name": "Neovim", "version": "0.11.4+v0"},
            "rootPath": None,
            "rootUri": None,
            "workspaceFolders": None,
            "workDoneToken": "1",
            "trace": "compact",
            "locale": "de",
            "capabilities": {
                "textDocument": {f"feature{i}": {"dynamicRegistration": True} for i in range(150)},
                "general": {"positionEncodings": ["utf-16"]},
                "experimental": None,
            },
            "initializationOptions": {"other": {"x": [1]}},
        },
    )
    assert got.process_id is None
    assert got.workspace_folders == ()
    assert len(got.capabilities["textDocument"]) == 150
    for token in (0, "t"):
        assert structure_params("initialize", {"workDoneToken": token}).work_done_token == token


def test_data_that_looks_like_a_message_is_data() -> None:
    inner = {"jsonrpc": "2.0", "id": 1, "method": "x", "params": [], "result": None}
    call = {"id": "1", "name": "send", "input": inner}
    got = structure_params(
        "transcript/didAppend",
        {"sessionId": "s", "messages": [{"id": "m", "role": "assistant", "toolCalls": [call]}]},
    )
    assert got.messages[0].tool_calls[0].input == inner


def nested(depth: int) -> Any:
    value: Any = 1
    for i in range(depth):
        value = [value] if i % 2 else {"a": value, "b": i}
    return value


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, dict | list):
        value = value["a"] if isinstance(value, dict) else value[0]
        depth += 1
    return depth


@pytest.mark.parametrize("depth", [1, MAX_NESTING, MAX_NESTING + 1, 1000])
def test_T4_free_json_is_cut_visibly_below_its_depth(depth: int) -> None:
    sent = nested(depth)
    got = structure({"id": "1", "name": "x", "input": sent}, p.ToolCall)
    if depth <= MAX_NESTING:
        assert got.input is sent
    else:
        assert depth_of(got.input) == MAX_NESTING
        assert TOO_DEEP in repr(got.input)
        assert got == structure(unstructure(got), p.ToolCall)


DELIVERY: dict[str, Any] = {
    "deliveryId": "d1",
    "placement": "prepend",
    "text": "remembered",
    "documents": [
        {
            "path": "/m/a.md",
            "title": "A",
            "description": "about a",
            "type": "project",
            "scope": "project",
            "score": 1.5,
            "confidence": 0.75,
            "origin": "mine",
            "trust": "trusted",
            "writtenBy": "human",
            "sha256": "00",
            "ageMs": 5,
            "modified": "2026-01-01T00:00:00Z",
            "truncated": False,
        }
    ],
    "strategy": "ranked",
    "textTokens": 3,
}


def test_a_delivery_is_written_as_it_was_read() -> None:
    sent = {"outcome": "delivered", "recallId": "r", "stage": "refined", "delivery": DELIVERY}
    got = structure_result("recall/poll", sent)
    assert isinstance(got.delivery.documents[0], p.DeliveredDocument)
    assert unstructure(got) == sent
    assert dumps(unstructure(got)) == dumps(unstructure(got))


def test_functions_can_be_made_ahead() -> None:
    prepare(["recall/poll"])
    prepare()


def test_unknown_methods_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        structure_params("recall/unknown", {})
