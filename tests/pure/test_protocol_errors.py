"""Every row of protocol.md's table of errors, there and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from oncue_protocol import (
    ERRORS,
    InvalidParams,
    InvalidRequest,
    LimitExceeded,
    OncueError,
    RevisionConflict,
    SecretRefused,
    ServerCancelled,
    SessionNotFound,
    StoreUnavailable,
    from_response_error,
)

ROWS = {
    -32700: "parseError",
    -32600: "invalidRequest",
    -32601: "methodNotFound",
    -32602: "invalidParams",
    -32603: "internalError",
    -32002: "serverNotInitialized",
    -32800: "requestCancelled",
    -32802: "serverCancelled",
    -32803: "requestFailed",
    1001: "sessionNotFound",
    1002: "recallNotFound",
    1003: "revisionConflict",
    1004: "outsideRoots",
    1005: "storeUnavailable",
    1006: "limitExceeded",
    1007: "secretRefused",
}


def made(cls: type[OncueError]) -> OncueError:
    if cls is RevisionConflict:
        return RevisionConflict("it changed", revision="abc")
    return cls("went wrong")


def test_every_row_has_a_class() -> None:
    assert {code: cls.name for code, cls in ERRORS.items()} == ROWS


def test_codes_are_those_of_the_language_server_protocol() -> None:
    theirs = {
        **{e.name: e.value for e in lsp.ErrorCodes},
        **{e.name: e.value for e in lsp.LSPErrorCodes},
    }
    for code, name in ROWS.items():
        if code < 0:
            assert theirs[name[0].upper() + name[1:]] == code


@pytest.mark.parametrize("cls", ERRORS.values(), ids=lambda c: c.__name__)
def test_every_error_has_name_retryable_and_detail(cls: type[OncueError]) -> None:
    error = made(cls).to_response_error()
    assert set(error) == {"code", "message", "data"}
    assert error["code"] == cls.code
    assert error["data"]["name"] == cls.name
    assert isinstance(error["data"]["retryable"], bool)
    assert isinstance(error["data"]["detail"], dict)


@pytest.mark.parametrize("cls", ERRORS.values(), ids=lambda c: c.__name__)
def test_errors_survive_the_wire(cls: type[OncueError]) -> None:
    error = made(cls).to_response_error()
    back = from_response_error(error)
    assert type(back) is cls
    assert back.to_response_error() == error
    assert str(back) == error["message"]


def test_members_that_the_table_names() -> None:
    conflict = RevisionConflict("changed", revision="r2", detail={"path": "/m/a.md"})
    assert conflict.to_response_error()["data"]["revision"] == "r2"
    back = from_response_error(conflict.to_response_error())
    assert isinstance(back, RevisionConflict)
    assert back.revision == "r2"

    store = StoreUnavailable("the index is busy", reason="busy").to_response_error()["data"]
    assert (store["reason"], store["retryable"]) == ("busy", True)
    back = from_response_error({"code": 1005, "message": "m", "data": store})
    assert isinstance(back, StoreUnavailable)
    assert back.reason == "busy"

    limit = LimitExceeded("too many", limit="lanes", value=32, sent=33).to_response_error()
    assert limit["data"]["detail"] == {"limit": "lanes", "value": 32, "sent": 33}

    secret = SecretRefused("a credential", rules=["github-token"]).to_response_error()
    assert secret["data"]["detail"] == {"rules": ["github-token"]}

    twice = InvalidRequest("this id is in flight", id=7).to_response_error()
    assert twice["data"]["id"] == 7

    wrong = InvalidParams("params.query: expected string, got number", path="params.query")
    assert wrong.to_response_error()["data"]["detail"] == {"path": "params.query"}
    back = from_response_error(wrong.to_response_error())
    assert isinstance(back, InvalidParams)
    assert back.path == "params.query"

    assert ServerCancelled("shutting down").retryable


def test_members_cannot_hide_the_name() -> None:
    error = SessionNotFound("gone", detail=None)
    error.members = {"name": "other", "retryable": True, "detail": None, "more": 1}
    data = error.to_response_error()["data"]
    assert data == {"name": "sessionNotFound", "retryable": False, "detail": {}, "more": 1}


def test_unknown_codes_are_kept() -> None:
    back = from_response_error({"code": 4711, "message": "from the future", "data": {"name": "x"}})
    assert type(back) is OncueError
    assert (back.code, back.name, back.message) == (4711, "x", "from the future")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "code": JSON | st.sampled_from(sorted(ROWS)),
            "message": JSON,
            "data": JSON | st.dictionaries(st.sampled_from(["name", "detail", "revision"]), JSON),
        },
    )
)
def test_whatever_a_peer_sends_becomes_an_error(error: dict[str, Any]) -> None:
    back = from_response_error(error)
    assert isinstance(back, OncueError)
    assert set(back.to_response_error()["data"]) >= {"name", "retryable", "detail"}
    assert repr(back)
