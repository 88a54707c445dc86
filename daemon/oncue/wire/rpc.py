"""JSON-RPC dispatch: the only file that knows pygls.

What is pygls' here: the message classes and their futures (`send_request`, `notify`,
`_handle_response`), the table of features with its `@thread` mark, and the exception classes. What
is ours: the order of checks, who runs where, and the promise that every accepted request is
answered exactly once.

* A plain `def` handler is answered inline, between two bytes of the reader: dictionary work only.
* A `def` that returns an awaitable has done the inline part; the rest is a task.
* An `async def` handler is a task in the connection's nursery, under a cancel scope that is in the
  table before the task exists: a cancel in the same read hits.
* A `@thread` handler runs in a worker thread of a limiter of its own. A cancel of it is answered at
  once; the thread goes on and its result is dropped.

Requests of the client and requests to the client are kept in separate tables: ids of one direction
mean nothing in the other.
"""

from __future__ import annotations

import enum
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import trio
from attrs import define, frozen
from pygls.exceptions import JsonRpcException
from pygls.feature_manager import assign_thread_attr, is_thread_function
from pygls.protocol.json_rpc import JsonRPCProtocol
from structlog import get_logger

from oncue.logs import describe
from oncue.wire.outbox import HIGH_WATER, Outbox
from oncue.wire.peer import Peer, Stage
from oncue_protocol import METHODS, converter, framing, jsontext
from oncue_protocol.errors import (
    ERRORS,
    InternalError,
    InvalidRequest,
    LimitExceeded,
    MethodNotFound,
    OncueError,
    ParseError,
    RequestCancelled,
    RequestFailed,
    ServerCancelled,
    ServerNotInitialized,
)

log = get_logger("oncue.wire")

Handler = Callable[..., Any]
MessageId = int | str

MAX_IN_FLIGHT: Final = 256
"""Requests accepted and not answered yet, running or waiting, a connection: an editor has a
handful, a storm of keystrokes some dozens (T4)."""
MAX_OUTGOING: Final = 64
"""Requests of ours that a client has not answered: one a running search or extraction."""
MAX_HELD: Final = 4_096
"""Messages, notifications included, that wait for a client to read. Beyond it the connection is
closed: notifications cannot be refused, and dropping one would falsify a transcript."""
FIRST_OUTGOING_ID: Final = 1 << 30
"""Our ids to clients: far above theirs, because Vim takes a request of ours whose id equals a
pending one of its own for the response."""
THREADS: Final = 8
"""Worker threads of `@thread` handlers, in the whole process."""

_SERVING: Final = Stage.SERVING  # looked up for every message; a member of an enum costs more
_thread_limiter: trio.CapacityLimiter | None = None


F = TypeVar("F", bound=Handler)


def thread(handler: F) -> F:
    """Mark a handler that may block: it runs in a worker thread."""
    assign_thread_attr(handler)  # type: ignore[no-untyped-call]
    return handler


def thread_limiter() -> trio.CapacityLimiter:
    """The limiter of `@thread` handlers."""
    global _thread_limiter
    if _thread_limiter is None:
        _thread_limiter = trio.CapacityLimiter(THREADS)
    return _thread_limiter


class Kind(enum.Enum):
    """Where a handler runs."""

    INLINE = "inline"
    TASK = "task"
    THREAD = "thread"


@frozen
class Route:
    """A registered handler: what to call, with parameters alone, and how."""

    method: str
    call: Handler
    kind: Kind
    is_inline: bool
    structure: Callable[[Any], Any]
    """Parameters as they came → what the handler takes; raises `InvalidParams`."""
    result: type[Any] | None
    """Class of what an inline handler returns when there is nothing to wait for."""
    is_request: bool
    is_notification: bool


@define(eq=False)
class _InFlight:
    """A request that is accepted and not answered."""

    scope: trio.CancelScope
    by_client: bool = False
    """Cancelled by `$/cancelRequest`; otherwise, if cancelled, by us."""


@define(eq=False)
class Counters:
    """What this connection has seen, for `daemon/status`."""

    requests: int = 0
    notifications: int = 0
    errors: int = 0
    cancelled: int = 0
    refused: int = 0
    late_responses: int = 0


class Rpc(JsonRPCProtocol):
    """One connection's messages. Bytes of whole bodies in (`handle`), frames to the outbox out.

    The outbox is not flushed here for inline answers: the reader does it, once a read.
    """

    def __init__(self, peer: Peer, outbox: Outbox) -> None:
        # `server=peer` makes pygls' feature table bind the peer as a handler's first argument.
        super().__init__(peer, converter)  # type: ignore[arg-type]
        self._peer = peer
        self._outbox = outbox
        self._routes: dict[str, Route] = {}
        self._in_flight: dict[MessageId, _InFlight] = {}
        self._held: deque[tuple[MessageId | None, Route, Any]] = deque()
        self._next_id = FIRST_OUTGOING_ID
        self._answered = trio.Event()
        self.counters = Counters()
        outbox.on_drained = self._resume

    # Registration

    def register(self, handlers: Mapping[str, Handler]) -> None:
        """Take handlers `(peer: Peer, params: P)` into the feature table, by method name."""
        for name, handler in handlers.items():
            self.fm.feature(name)(handler)
            bound = self.fm.features[name]
            if bound is handler:
                raise TypeError(
                    f"handler of '{name}' must annotate its first parameter as Peer, "
                    "and all annotations must resolve at run time"
                )
            if is_thread_function(bound):  # type: ignore[no-untyped-call]
                kind = Kind.THREAD
            elif inspect.iscoroutinefunction(handler):
                kind = Kind.TASK
            else:
                kind = Kind.INLINE
            row = METHODS.get(name)
            self._routes[name] = Route(
                name,
                bound,
                kind,
                kind is Kind.INLINE,
                structure=_as_object if row is None else partial(converter.structure_params, name),
                result=None if row is None else row.result,
                is_request=row is None or row.kind == "request",
                is_notification=row is None or row.kind == "notification" or row.also_notification,
            )

    def methods(self) -> tuple[str, ...]:
        """Names of everything that is served, sorted."""
        return tuple(sorted(self._routes))

    # Incoming

    def handle(self, body: bytes | bytearray | memoryview) -> None:
        """One message of the client. Never raises, never waits."""
        try:
            message = jsontext.loads(body)
        except ParseError as broken:
            self._refuse(None, broken)
            return
        if message.__class__ is not dict or message.get("jsonrpc") != "2.0":
            self._refuse(None, InvalidRequest(_NO_MESSAGE))
            return
        method = message.get("method")
        if method.__class__ is str:
            if "id" in message:
                self._request(message["id"], method, message.get("params"))
            else:
                self._notification(method, message.get("params"))
        elif "method" in message:
            error = InvalidRequest("'method' must be a string")
            self._refuse(_valid_id(message.get("id")), error)
        else:
            self._response(message)

    def _request(self, msg_id: Any, method: str, raw: Any) -> None:
        self.counters.requests += 1
        if msg_id.__class__ is not int and msg_id.__class__ is not str:
            self._refuse(None, InvalidRequest("'id' must be an integer or a string"))
            return
        if msg_id in self._in_flight:
            what = "a request with this id is in flight: each needs an id of its own"
            self._refuse(None, InvalidRequest(what, id=msg_id))
            return
        route = self._routes.get(method)
        stage = self._peer.stage
        if stage is not _SERVING or method == "initialize":
            error_now = _out_of_order(stage, method)
            if error_now is not None:
                self._refuse(msg_id, error_now)
                return
        if route is None or not route.is_request:
            self._refuse(msg_id, MethodNotFound(f"no method '{method[:200]}' here"))
            return
        if (
            (self._held or self._outbox.size > HIGH_WATER)
            and method != "shutdown"
            and self._is_congested()
        ):
            self._hold(msg_id, route, raw)
            return
        self._execute(msg_id, route, raw)

    def _execute(self, msg_id: MessageId, route: Route, raw: Any) -> None:
        try:
            params = route.structure(raw)
            work: Any = None
            if len(self._in_flight) >= MAX_IN_FLIGHT and (
                not route.is_inline or getattr(params, "wait_ms", None)
            ):  # before the handler runs: a refused recall/start must not leave a recall behind
                self._refuse_for_load(msg_id)
                return
            if route.is_inline:
                work = route.call(params)
                if work.__class__ is route.result or not hasattr(work, "__await__"):
                    self._answer(msg_id, work)
                    return
        except BaseException as error:
            # Also SystemExit: a library's way of ending the process is no reason to end ours.
            self._fail(msg_id, route.method, error)
            return
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            _drop(work)
            self._refuse_for_load(msg_id)
            return
        flight = _InFlight(trio.CancelScope())
        self._in_flight[msg_id] = flight
        self._peer.nursery.start_soon(self._run, msg_id, route, params, work, flight)

    async def wait_idle(self, seconds: float) -> None:
        """Wait until every accepted request is answered, at most so long."""
        with trio.move_on_after(seconds):
            while self._in_flight:
                self._answered = trio.Event()
                await self._answered.wait()

    async def _run(
        self, msg_id: MessageId, route: Route, params: Any, work: Any, flight: _InFlight
    ) -> None:
        """One request as a task: answers exactly once, whatever happens."""
        result: Any = None
        failure: BaseException | None = None
        started = False
        with flight.scope:
            try:
                if flight.scope.cancel_called:
                    await trio.lowlevel.checkpoint()
                started = True
                result = await _call(route, params, work)
            except trio.Cancelled:
                raise
            except BaseExceptionGroup as group:
                # A nursery of the handler: its Cancelled belong to the scope, the rest to us.
                mine, failure = group.split(trio.Cancelled)
                if mine is not None and failure is None:
                    raise
            except BaseException as error:
                failure = error
        if not started:
            _drop(work)
        del self._in_flight[msg_id]
        self._answered.set()
        if flight.scope.cancelled_caught:
            self.counters.cancelled += 1
            if flight.by_client:
                self._refuse(msg_id, RequestCancelled("the client cancelled the request"))
            else:
                self._refuse(msg_id, ServerCancelled("the daemon is shutting down"))
        elif failure is not None:
            self._fail(msg_id, route.method, failure)
        else:
            self._answer(msg_id, result)
        self._outbox.flush()

    def _notification(self, method: str, raw: Any) -> None:
        self.counters.notifications += 1
        if method == "$/cancelRequest":
            self._cancel(raw)
            return
        stage = self._peer.stage
        if stage is not _SERVING and method != "exit":
            return
        route = self._routes.get(method)
        if route is None or not route.is_notification:
            return  # LSP: unknown notifications are ignored
        if self._held and method != "exit":
            self._hold(None, route, raw)  # in the order they came
            return
        self._execute_notification(route, raw)

    def _execute_notification(self, route: Route, raw: Any) -> None:
        try:
            params = route.structure(raw)
            work: Any = None
            if route.is_inline:
                work = route.call(params)
                if work is None or not hasattr(work, "__await__"):
                    return
            self._peer.nursery.start_soon(self._run_notification, route, params, work)
        except BaseException as error:
            self.counters.errors += 1
            log.warning("notification failed", method=route.method, **describe(error))

    async def _run_notification(self, route: Route, params: Any, work: Any) -> None:
        try:
            await _call(route, params, work)
        except Exception as error:
            self.counters.errors += 1
            log.warning("notification failed", method=route.method, **describe(error))

    # Cancellation

    def _cancel(self, raw: Any) -> None:
        """`$/cancelRequest`: unknown, finished and future ids are ignored, whatever their type."""
        msg_id = _valid_id(raw.get("id")) if isinstance(raw, dict) else None
        if msg_id is None:
            return
        flight = self._in_flight.get(msg_id)
        if flight is None:
            return
        flight.by_client = True
        if self._unhold(msg_id):
            del self._in_flight[msg_id]
            self.counters.cancelled += 1
            self._refuse(msg_id, RequestCancelled("the client cancelled the request"))
        else:
            flight.scope.cancel()

    def cancel_all(self) -> None:
        """Cancel what runs and refuse what waits (-32802); waiting notifications are carried out:
        they were accepted, and a transcript must not lose its end."""
        held, self._held = self._held, deque()
        for msg_id, route, raw in held:
            if msg_id is None:
                self._execute_notification(route, raw)
            elif self._in_flight.pop(msg_id, None) is not None:
                self._refuse(msg_id, ServerCancelled("the daemon is shutting down"))
        for flight in self._in_flight.values():
            flight.scope.cancel()

    # A client that does not read

    def _is_congested(self) -> bool:
        if self._held:
            return True
        if self._outbox.size <= HIGH_WATER:
            return False
        self._outbox.flush()
        return self._outbox.size > HIGH_WATER

    def _hold(self, msg_id: MessageId | None, route: Route, raw: Any) -> None:
        if msg_id is not None:
            if len(self._in_flight) >= MAX_IN_FLIGHT:
                self._refuse_for_load(msg_id)
                return
            self._in_flight[msg_id] = _InFlight(trio.CancelScope())
        elif len(self._held) >= MAX_HELD:
            self._outbox.close("overflow")
            return
        self._held.append((msg_id, route, raw))

    def _unhold(self, msg_id: MessageId) -> bool:
        for index, (held_id, _, _) in enumerate(self._held):
            if held_id is not None and held_id == msg_id:
                del self._held[index]
                return True
        return False

    def _resume(self) -> None:
        """The client reads again: carry out what waited, until it is behind once more."""
        while self._held and self._outbox.size <= HIGH_WATER:
            msg_id, route, raw = self._held.popleft()
            if msg_id is None:
                self._execute_notification(route, raw)
                continue
            del self._in_flight[msg_id]
            self._execute(msg_id, route, raw)
        self._outbox.flush()

    # Outgoing

    def _answer(self, msg_id: MessageId, result: Any) -> None:
        try:
            payload = None if result is None else converter.unstructure(result)
            body = jsontext.dumps({"jsonrpc": "2.0", "id": msg_id, "result": payload})
        except Exception as error:
            self._fail(msg_id, "", error)
            return
        self._outbox.put(framing.encode(body))

    def _fail(self, msg_id: MessageId, method: str, error: BaseException) -> None:
        """Answer with what a handler raised. Errors of the protocol as they are, anything else as
        -32603 with the class name alone: its text may quote what users wrote."""
        if isinstance(error, OncueError):
            self._refuse(msg_id, error)
            return
        if isinstance(error, JsonRpcException):
            self._refuse(msg_id, _translated(error))
            return
        said = describe(error)
        log.error("handler failed", method=method, **said)
        name = said["error"]
        what = f"{name} inside the daemon; its log says where"
        self._refuse(msg_id, InternalError(what, detail={"exception": name}))

    def _refuse_for_load(self, msg_id: MessageId) -> None:
        self.counters.refused += 1
        self._refuse(
            msg_id,
            LimitExceeded(
                f"{MAX_IN_FLIGHT} requests of this connection are in flight: wait for answers",
                limit="requestsInFlight",
                value=MAX_IN_FLIGHT,
                sent=MAX_IN_FLIGHT + 1,
                retryable=True,
            ),
        )

    def _refuse(self, msg_id: MessageId | None, error: OncueError) -> None:
        self.counters.errors += 1
        answer = {"jsonrpc": "2.0", "id": msg_id, "error": error.to_response_error()}
        self._outbox.put(framing.encode(jsontext.dumps(answer)))

    def refuse_stream(self, message: str) -> None:
        """The stream cannot be read any more: say why, once, with id null."""
        self._refuse(None, ParseError(message))

    def _send_data(self, data: Any) -> None:
        """pygls' one way out, for our requests and notifications."""
        message = {"jsonrpc": "2.0"}
        if hasattr(data, "id"):
            message["id"] = data.id
        message["method"] = data.method
        if data.params is not None:
            message["params"] = converter.unstructure(data.params)
        self._outbox.put(framing.encode(jsontext.dumps(message)))
        self._outbox.flush()

    def send_notification(self, method: str, params: Any) -> None:
        """Send a notification now; what the client does not read waits in the outbox."""
        self.notify(method, params)

    async def send_and_wait(self, method: str, params: Any, deadline_s: float) -> Any:
        """See `Peer.request`."""
        if self._peer.closed:
            raise RequestFailed("the connection is closed")
        if len(self._request_futures) >= MAX_OUTGOING:
            raise LimitExceeded(
                f"requests to this client: {MAX_OUTGOING} is the limit",
                limit="outgoingRequests",
                value=MAX_OUTGOING,
                retryable=True,
            )
        msg_id = self._next_id
        self._next_id += 1
        done = trio.Event()
        future = self.send_request(method, params, msg_id=msg_id)
        future.add_done_callback(lambda _: done.set())
        try:
            with trio.fail_after(deadline_s):
                await done.wait()
        finally:
            self._result_types.pop(msg_id, None)
            if self._request_futures.pop(msg_id, None) is not None:
                self.notify("$/cancelRequest", {"id": msg_id})
        try:
            result = future.result()
        except JsonRpcException as error:
            raise RequestFailed(
                f"the client answered '{method}' with error {error.code}",
                detail={"code": error.code},
            ) from None
        if method not in METHODS:
            return result
        try:
            return converter.structure_result(method, result)
        except converter.InvalidResult as error:
            raise RequestFailed(f"the client's answer to '{method}' is not valid") from error

    def _response(self, message: dict[str, Any]) -> None:
        """A response of the client: settles a request of ours, or is ignored (D29)."""
        msg_id = message.get("id")
        if (
            "result" not in message
            and "error" not in message
            and msg_id not in (self._request_futures if isinstance(msg_id, int | str) else ())
        ):
            what = "neither 'method' nor 'result' nor 'error' is there"
            self._refuse(None, InvalidRequest(what))
            return
        if msg_id.__class__ is not int or msg_id not in self._request_futures:
            self.counters.late_responses += 1
            return
        error = message.get("error")
        self._handle_response(
            msg_id, message.get("result"), None if error is None else _ReplyError.of(error)
        )

    def close(self) -> None:
        """The connection is gone: everybody who waits for the client is told."""
        futures = list(self._request_futures.items())
        self._request_futures.clear()
        self._result_types.clear()
        for _, future in futures:
            if not future.done():
                future.set_exception(JsonRpcException("connection closed", code=-32803))

    @property
    def in_flight(self) -> int:
        """Requests accepted and not answered."""
        return len(self._in_flight)


@frozen
class _ReplyError:
    """A client's error object in the shape of lsprotocol's, whatever it really holds."""

    code: int
    message: str
    data: Any

    @classmethod
    def of(cls, error: Any) -> Any:
        if not isinstance(error, dict):
            error = {}
        code = error.get("code")
        return cls(code if isinstance(code, int) else -32603, str(error.get("message")), None)


async def _call(route: Route, params: Any, work: Any) -> Any:
    if work is not None:
        return await work
    if route.kind is Kind.THREAD:
        return await trio.to_thread.run_sync(
            route.call, params, abandon_on_cancel=True, limiter=thread_limiter()
        )
    return await route.call(params)


def _as_object(raw: Any) -> Any:
    """Parameters of a method outside the table: the object itself, {} where there is none."""
    return raw or {}


def _drop(work: Awaitable[Any] | None) -> None:
    """An awaitable that will not be awaited after all: Python warns about it otherwise."""
    close = getattr(work, "close", None)
    if close is not None:
        close()


def _valid_id(msg_id: Any) -> MessageId | None:
    return msg_id if msg_id.__class__ is int or msg_id.__class__ is str else None


def _out_of_order(stage: Stage, method: str) -> OncueError | None:
    """What is wrong with this request at this stage of the life cycle, if anything."""
    if stage is Stage.SHUT_DOWN:
        return InvalidRequest("after 'shutdown' only 'exit' is expected")
    if method == "initialize":
        if stage is Stage.NEW:
            return None
        return InvalidRequest("'initialize' was already answered on this connection")
    return ServerNotInitialized("send 'initialize' first")


def _translated(error: JsonRpcException) -> OncueError:
    """One of pygls' exceptions, raised by a handler, as an error with our `data`."""
    ours = ERRORS.get(error.code, RequestFailed)(error.message)
    ours.code = error.code
    return ours


_NO_MESSAGE = 'a JSON-RPC 2.0 message is an object with "jsonrpc": "2.0"; there are no batches'
