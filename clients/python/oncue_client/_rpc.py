"""JSON-RPC 2.0 over a `Transport`: whose answer is whose, cancellation both ways, nothing typed.

Rules: ids are integers from 1 in each direction's own table. Leaving the scope that awaits an
answer sends `$/cancelRequest` and forgets the id; the late answer is dropped. A request of the
daemon is answered once. When the connection is lost, everybody who waits is told.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import trio
from attrs import define, field

from oncue_protocol.errors import (
    InternalError,
    InvalidRequest,
    OncueError,
    ParseError,
    RequestCancelled,
    from_response_error,
)
from oncue_protocol.framing import Body
from oncue_protocol.jsontext import dumps, loads

from ._transport import Transport

log = logging.getLogger("oncue_client")

Trace = Callable[[Literal["send", "receive"], Body], object]
"""Sees each frame's body, when it is queued or dispatched; must not block."""
Id = int | str


@define(eq=False)
class _Pending:
    answered: trio.Event = field(factory=trio.Event)
    message: dict[str, Any] | None = None
    """The response; None after `answered`: the connection was lost."""


class Rpc:
    """One connection. `run` is a task that dispatches until the connection is lost."""

    def __init__(
        self,
        transport: Transport,
        *,
        on_notification: Callable[[str, Any], object],
        on_request: Callable[[str, Any], Awaitable[Any]],
        trace: Trace | None = None,
    ) -> None:
        self.transport = transport
        self.late_answers = 0
        """Answers that nobody waits for any more."""
        self._on_notification = on_notification
        self._on_request = on_request
        self._trace = trace
        self._ids = itertools.count(1)
        self._pending: dict[Id, _Pending] = {}
        self._incoming: dict[Id, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None

    @property
    def in_flight(self) -> int:
        """Requests of ours that are not answered."""
        return len(self._pending)

    async def request(
        self, method: str, params: Any = None, *, sent: Callable[[int], object] | None = None
    ) -> Any:
        """Send a request and wait for its result, whatever JSON it is. `OncueError` as the
        daemon answers, `ConnectionLost`. `sent` is told the id. There is no time-out here:
        use a trio cancel scope."""
        request_id = next(self._ids)
        body = _message(method, params, request_id)
        await self.transport.wait_room()
        self._raise_if_lost()
        pending = self._pending[request_id] = _Pending()
        self._send(body)
        if sent is not None:
            sent(request_id)
        try:
            await pending.answered.wait()
        except trio.Cancelled:
            if not pending.answered.is_set():
                self.notify_nowait("$/cancelRequest", {"id": request_id})
            raise
        finally:
            self._pending.pop(request_id, None)
        message = pending.message
        if message is None:
            self._raise_if_lost()
            raise AssertionError("woken without an answer")
        if "error" in message:
            raise from_response_error(message["error"])
        return message.get("result")

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; waits only while much is still unsent."""
        body = _message(method, params)
        await self.transport.wait_room()
        self._raise_if_lost()
        self._send(body)

    def notify_nowait(self, method: str, params: Any = None) -> None:
        """Queue a notification, also from a cancelled scope; silent on a lost connection."""
        self._send(_message(method, params))

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._until_lost, nursery.cancel_scope)
            await self.transport.read(self._dispatch)

    async def _until_lost(self, scope: trio.CancelScope) -> None:
        await self.transport.lost_event.wait()
        self.wake_all()
        scope.cancel()

    def wake_all(self) -> None:
        """After the connection was lost: whoever awaits an answer gets `ConnectionLost`."""
        for pending in self._pending.values():
            pending.answered.set()

    def _raise_if_lost(self) -> None:
        if self.transport.lost is not None:
            raise self.transport.lost.again()

    def _send(self, body: bytes) -> None:
        if self._trace is not None and self.transport.lost is None:
            self._trace("send", body)
        self.transport.put_nowait(body)

    def _dispatch(self, body: Body) -> None:
        if self._trace is not None:
            self._trace("receive", body)
        try:
            message = loads(body)
        except ParseError:
            message = None
        if not isinstance(message, dict):
            log.warning("a frame of the daemon is no JSON object: %d bytes ignored", len(body))
            return
        method = message.get("method")
        if isinstance(method, str):
            if "id" in message:
                self._begin_incoming(message["id"], method, message.get("params"))
            elif method == "$/cancelRequest":
                self._cancel_incoming(message.get("params"))
            else:
                self._on_notification(method, message.get("params"))
            return
        answer_to = message.get("id")
        if isinstance(answer_to, bool) or not isinstance(answer_to, int | str):
            error = message.get("error")
            log.warning("the daemon could not read a message of ours: %s", error)
            return
        pending = self._pending.pop(answer_to, None)
        if pending is None:
            self.late_answers += 1
            return
        pending.message = message
        pending.answered.set()

    def _begin_incoming(self, request_id: Any, method: str, params: Any) -> None:
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            error = InvalidRequest("an id is an integer or a string")
            self._answer(None, error=error.to_response_error())
        elif request_id in self._incoming:
            error = InvalidRequest(f"id {request_id!r} is in use")
            self._answer(None, error=error.to_response_error())
        elif self._nursery is not None:
            # Before the task starts, so that a cancel in the same read finds it.
            scope = self._incoming[request_id] = trio.CancelScope()
            self._nursery.start_soon(self._serve, request_id, scope, method, params)

    async def _serve(
        self, request_id: Id, scope: trio.CancelScope, method: str, params: Any
    ) -> None:
        result: Any = None
        error: OncueError | None = None
        try:
            with scope:
                try:
                    result = await self._on_request(method, params)
                except OncueError as refused:
                    error = refused
                except Exception as failed:
                    log.exception("the handler of %s failed", method)
                    error = InternalError(type(failed).__name__)
            if scope.cancelled_caught:
                error = RequestCancelled("cancelled by the daemon")
        finally:
            self._incoming.pop(request_id, None)
        try:
            if error is None:
                self._answer(request_id, result=result)
        except (TypeError, ValueError):
            log.exception("the result of %s is no JSON", method)
            error = InternalError("the handler's result is no JSON")
        if error is not None:
            self._answer(request_id, error=error.to_response_error())

    def _cancel_incoming(self, params: Any) -> None:
        request_id = params.get("id") if isinstance(params, dict) else None
        if isinstance(request_id, int | str) and request_id in self._incoming:
            self._incoming[request_id].cancel()

    def _answer(self, request_id: Id | None, *, result: Any = None, error: Any = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        if error is None:
            message["result"] = result
        else:
            message["error"] = error
        self._send(dumps(message))


def _message(method: str, params: Any, request_id: int | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if request_id is not None:
        message["id"] = request_id
    message["method"] = method
    if params is not None:
        message["params"] = params
    return dumps(message)
