"""What we rely on in pygls 2.1, name by name: `wire/rpc.py` uses private ones (wire.md §1)."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from pygls import exceptions
from pygls.feature_manager import FeatureManager, assign_thread_attr, is_thread_function
from pygls.protocol import json_rpc
from pygls.protocol.json_rpc import JsonRPCProtocol

from oncue_protocol import errors

DAEMON = Path(__file__).parents[2] / "daemon" / "oncue"


class Server:
    """Stands where our Peer stands."""


class Recorder(JsonRPCProtocol):
    def __init__(self) -> None:
        super().__init__(Server(), object())  # type: ignore[arg-type]
        self.sent: list[Any] = []

    def _send_data(self, data: Any) -> None:
        self.sent.append(data)


def test_wire1_only_rpc_knows_pygls() -> None:
    knowing = set()
    for path in DAEMON.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if any(name.split(".")[0] == "pygls" for name in names):
                knowing.add(path.relative_to(DAEMON).as_posix())
    assert knowing == {"wire/rpc.py"}


def test_wire1_constructor_takes_server_and_converter() -> None:
    assert list(inspect.signature(JsonRPCProtocol.__init__).parameters) == [
        "self",
        "server",
        "converter",
    ]
    assert isinstance(Recorder().fm, FeatureManager)


def test_wire1_send_data_is_the_one_way_out() -> None:
    rpc = Recorder()
    rpc.notify("a/b", {"x": 1})
    future = rpc.send_request("c/d", None, msg_id=5)
    notification, request = rpc.sent
    assert (notification.method, notification.params) == ("a/b", {"x": 1})
    assert not hasattr(notification, "id")
    assert (request.id, request.method, request.params) == (5, "c/d", None)
    assert isinstance(future, Future)


def test_wire1_request_futures_and_result_types_are_tables_by_id() -> None:
    rpc = Recorder()
    future = rpc.send_request("c/d", None, msg_id=5)
    assert rpc._request_futures == {5: future}
    assert set(rpc._result_types) == {5}
    rpc._handle_response(5, {"ok": True})
    assert future.result(0) == {"ok": True}
    assert rpc._request_futures == {}
    assert set(rpc._result_types) == {5}, "ours to remove"


def test_wire1_done_callbacks_run_at_once_in_this_thread() -> None:
    rpc, seen = Recorder(), []
    rpc.send_request("c/d", None, msg_id=5).add_done_callback(lambda f: seen.append(f.result()))
    rpc._handle_response(5, 1)
    assert seen == [1]


def test_wire1_handle_response_with_an_error_raises_by_code() -> None:
    rpc = Recorder()
    future = rpc.send_request("c/d", None, msg_id=5)

    class Reply:
        code, message, data = -32601, "no", None

    rpc._handle_response(5, None, Reply())  # type: ignore[arg-type]
    with pytest.raises(exceptions.JsonRpcMethodNotFound) as caught:
        future.result(0)
    assert (caught.value.code, caught.value.message) == (-32601, "no")


def test_wire1_handle_response_of_an_unknown_id_only_warns() -> None:
    Recorder()._handle_response(99, 1)


def test_wire1_the_feature_table_binds_the_server_by_annotation() -> None:
    server = Server()
    manager = FeatureManager(server, None)

    def handler(peer: Server, params: dict[str, Any]) -> Any:
        return peer, params

    async def task(peer: Server, params: dict[str, Any]) -> Any:
        return peer, params

    manager.feature("a/b")(handler)
    manager.feature("c/d")(task)
    assert manager.features["a/b"]({}) == (server, {})
    assert inspect.iscoroutinefunction(manager.features["c/d"])


def test_wire1_a_handler_without_the_annotation_is_not_bound() -> None:
    """`Rpc.register` refuses it: the symptom would be a wrong argument at the first call."""
    manager = FeatureManager(Server(), None)

    def unresolved(peer: Nowhere, params: Any) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    manager.feature("a/b")(unresolved)
    assert manager.features["a/b"] is unresolved


def test_wire1_the_thread_mark_survives_registration() -> None:
    manager = FeatureManager(Server(), None)

    def handler(peer: Server, params: dict[str, Any]) -> None: ...

    assert not is_thread_function(handler)
    assign_thread_attr(handler)
    manager.feature("a/b")(handler)
    assert is_thread_function(manager.features["a/b"])


def test_wire1_a_feature_is_registered_once() -> None:
    manager = FeatureManager(Server(), None)

    def handler(peer: Server, params: dict[str, Any]) -> None: ...

    manager.feature("a/b")(handler)
    with pytest.raises(exceptions.FeatureAlreadyRegisteredError):
        manager.feature("a/b")(handler)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (exceptions.JsonRpcParseError, errors.ParseError),
        (exceptions.JsonRpcInvalidRequest, errors.InvalidRequest),
        (exceptions.JsonRpcMethodNotFound, errors.MethodNotFound),
        (exceptions.JsonRpcInvalidParams, errors.InvalidParams),
        (exceptions.JsonRpcInternalError, errors.InternalError),
        (exceptions.JsonRpcServerNotInitialized, errors.ServerNotInitialized),
        (exceptions.JsonRpcRequestCancelled, errors.RequestCancelled),
    ],
)
def test_wire1_codes_agree(
    theirs: type[exceptions.JsonRpcException], ours: type[errors.OncueError]
) -> None:
    assert ours.code == theirs.CODE


def test_wire1_json_rpc_needs_no_running_loop() -> None:
    """asyncio is imported by pygls; none of what we use starts a loop."""
    used = ("send_request", "notify", "_handle_response", "__init__")
    for name in used:
        assert "asyncio" not in inspect.getsource(getattr(json_rpc.JsonRPCProtocol, name))


LEAN = """
import sys
sys.path[:0] = {path!r}
from oncue.wire import lean
lean.prepare()
assert "pygls.protocol" not in sys.modules and "lsprotocol.converters" not in sys.modules
import lsprotocol.types as types, attrs
from pygls.protocol.json_rpc import JsonRPCProtocol
assert "pygls.protocol" not in sys.modules, "the package itself is never run"
assert attrs.define.__module__.startswith("attr")
a, b = types.Position(1, 2), types.Position(1, 2)
assert a == b and a != types.Position(1, 3)
names = sorted(n for n in dir(types) if not n.startswith("_"))
print(len(names), names[0], names[-1], types.ErrorCodes.ParseError.value)
import pygls.protocol
assert pygls.protocol.JsonRPCProtocol is JsonRPCProtocol
"""


def test_wire5_the_lean_import_leaves_everything_we_use() -> None:
    import lsprotocol.types as types

    done = subprocess.run(
        [sys.executable, "-c", LEAN.format(path=sys.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = sorted(n for n in dir(types) if not n.startswith("_"))
    assert done.stdout.split() == [str(len(names)), names[0], names[-1], "-32700"]
