"""The client: spawn a daemon, shake hands, typed methods, notifications, and a bounded end."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import trio
from attrs import evolve

from oncue_protocol import (
    METHODS,
    InitializeResult,
    MethodNotFound,
    OncueCapabilities,
    OncueError,
    OncueOptions,
    converter,
)

from ._methods import Methods
from ._rpc import Rpc, Trace
from ._transport import Stderr, Tap, Transport
from .command import daemon_command
from .errors import ConnectionLost, DaemonNotStarted, UnexpectedAnswer
from .session import Session

if TYPE_CHECKING:
    from oncue_protocol import ModelGenerateParams, ModelGenerateResult

log = logging.getLogger("oncue_client")
Params = TypeVar("Params")

ASKED_FOR = frozenset({"recall/settled", "recall/ended", "memory/didChange"})
"""Notifications that the daemon sends only where `OncueOptions.notifications` names them."""
DEFAULT_OPTIONS = OncueOptions(notifications=("recall/settled", "recall/ended"))
"""What `Session` needs to know without asking when something is ready."""
NOTIFICATIONS_KEPT = 1024
"""Of an iterator that nobody reads: as many as a very long turn makes, then the oldest go."""

Handler = Callable[[Any], object]
"""Of a notification. A plain `def` runs at once on the reader, in order, and must not block;
an `async def` runs as a task of the client. An exception is logged, never fatal."""
Server = Callable[[Any], Any]
"""Of a request of the daemon: params → result, plain or `async def`; may raise `OncueError`."""


class Client(Methods):
    """A connection to one daemon process. Made by `connect`; one typed method a protocol method
    (see `Methods`), all cancellable by trio's scopes."""

    def __init__(
        self, transport: Transport, options: OncueOptions, trace: Trace | None, grace_s: float
    ) -> None:
        self.transport = transport
        self.options = options
        """As they went into `initialize`."""
        self.initialized: InitializeResult | None = None
        """The daemon's answer to `initialize`."""
        self._grace_s = grace_s
        self._rpc = Rpc(
            transport, on_notification=self._notified, on_request=self._requested, trace=trace
        )
        self._handlers: dict[str, list[Handler]] = {}
        self._iterators: list[Notifications] = []
        self._servers: dict[str, Server] = {}
        self._nursery: trio.Nursery | None = None

    # What is known of the daemon

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self.transport.process.pid

    @property
    def lost(self) -> ConnectionLost | None:
        """Why nothing can be sent any more; None while the connection stands."""
        return self.transport.lost

    @property
    def capabilities(self) -> OncueCapabilities | None:
        """`capabilities.experimental.oncue` of the daemon's answer to `initialize`."""
        return (
            None if self.initialized is None else self.initialized.capabilities.experimental.oncue
        )

    # Requests and notifications, untyped

    async def request(self, method: str, params: Any = None) -> Any:
        """Any request: `params` is a params class or plain JSON data; so is the result (plain).
        Errors: `OncueError` as the daemon says, `ConnectionLost`. Time-outs are trio's:
        leaving the scope sends `$/cancelRequest`, and a late answer is dropped."""
        return await self._rpc.request(method, converter.unstructure(params))

    async def notify(self, method: str, params: Any = None) -> None:
        """Any notification; waits only while much is still unsent. `ConnectionLost`."""
        await self._rpc.notify(method, converter.unstructure(params))

    def notify_nowait(self, method: str, params: Any = None) -> None:
        """As `notify`, but never waits and never raises: fit for a cancelled scope."""
        self._rpc.notify_nowait(method, converter.unstructure(params))

    async def _request(self, method: str, params: Any) -> Any:
        result = await self._rpc.request(method, converter.unstructure(params))
        try:
            return converter.structure_result(method, result)
        except converter.InvalidResult as error:
            raise UnexpectedAnswer(str(error)) from None

    async def _notify(self, method: str, params: Any) -> None:
        await self._rpc.notify(method, converter.unstructure(params))

    # What the daemon sends

    def on(self, method: str, handler: Handler) -> Callable[[], None]:
        """Call `handler(params)` for each notification `method`; returns a function that ends
        the subscription. ValueError where the daemon was not asked to send it."""
        self._check_asked_for(method)
        self._handlers.setdefault(method, []).append(handler)

        def off() -> None:
            with suppress(ValueError):
                self._handlers[method].remove(handler)

        return off

    def notifications(self, method: str) -> Notifications:
        """An asynchronous iterator over the params of each `method` from now on; it ends with
        the connection. Also a (plain) context manager that ends the subscription."""
        self._check_asked_for(method)
        iterator = Notifications(method, self._iterators)
        if self.lost is not None:
            iterator.close()
        return iterator

    def serve(self, method: str, handler: Server) -> None:
        """Answer the daemon's requests `method` (there is one: `model/generate`, sent only
        where `OncueOptions.model_provider` was set) with `handler`. Where the daemon cancels,
        the handler's scope is cancelled."""
        self._servers[method] = handler

    def session(self, **options: Any) -> Session:
        """A conversation with local settling: see `Session` for the keywords."""
        return Session(self, **options)

    def _check_asked_for(self, method: str) -> None:
        if method in ASKED_FOR and method not in self.options.notifications:
            raise ValueError(
                f"{method} is only sent where OncueOptions.notifications names it: "
                f"connect(options=OncueOptions(notifications=({method!r},)))"
            )

    def _notified(self, method: str, params: Any) -> None:
        if method in METHODS:
            try:
                params = converter.structure_params(method, params)
            except OncueError as error:
                log.warning("the daemon's %s is not understood: %s", method, error)
                return
        for iterator in self._iterators:
            if iterator.method == method:
                iterator.put(params)
        for handler in tuple(self._handlers.get(method, ())):
            try:
                outcome = handler(params)
            except Exception:
                log.exception("a handler of %s failed", method)
                continue
            if isawaitable(outcome) and self._nursery is not None:
                self._nursery.start_soon(_guarded, method, outcome)

    async def _requested(self, method: str, params: Any) -> Any:
        handler = self._servers.get(method)
        if handler is None:
            raise MethodNotFound(f"this client does not serve {method}")
        if method in METHODS:
            params = converter.structure_params(method, params)
        result = handler(params)
        if isawaitable(result):
            result = await result
        return converter.unstructure(result)

    # Life

    async def _initialize(
        self, params: Mapping[str, Any], command: Sequence[str], deadline_s: float
    ) -> None:
        words = " ".join(command)
        try:
            with trio.fail_after(deadline_s):
                result = await self._rpc.request("initialize", params)
            self.initialized = converter.structure_result("initialize", result)
        except converter.InvalidResult as error:
            raise DaemonNotStarted(f"{words!r} is no oncue daemon: {error}") from None
        except trio.TooSlowError:
            raise DaemonNotStarted(
                f"{words!r} did not answer initialize within {deadline_s:g} s; is it a daemon "
                "that speaks frames on stdin and stdout?"
            ) from None
        except ConnectionLost as lost:
            raise DaemonNotStarted(
                f"{words!r} ended before it answered initialize: {lost}"
            ) from lost
        except OncueError as refused:
            raise DaemonNotStarted(f"{words!r} refused initialize: {refused}") from refused
        self._rpc.notify_nowait("initialized", {})

    async def _close(self) -> None:
        """`shutdown`, `exit`, end of file, SIGTERM, SIGKILL: each step within the grace."""
        with trio.CancelScope(shield=True):
            if self.lost is None:
                with trio.move_on_after(self._grace_s), suppress(OncueError, ConnectionLost):
                    if self.initialized is not None:
                        await self._rpc.request("shutdown")
                    self._rpc.notify_nowait("exit")
            await self.transport.close(grace_s=self._grace_s)
            await self.transport.lose("this client closed it")
            self._rpc.wake_all()
            for iterator in tuple(self._iterators):
                iterator.close()

    async def _run(self, background: trio.CancelScope) -> None:
        with background:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self.transport.run)
                await self._rpc.run()
                for iterator in tuple(self._iterators):
                    iterator.close()


class Notifications:
    """Iterator over one kind of notification; see `Client.notifications`."""

    def __init__(self, method: str, registry: list[Notifications]) -> None:
        self.method = method
        self.dropped = 0
        """How many were let go because nobody read them."""
        self._kept: deque[Any] = deque()
        self._lot = trio.lowlevel.ParkingLot()
        self._closed = False
        self._registry = registry
        registry.append(self)

    def put(self, params: Any) -> None:
        """The client's reader calls this."""
        if len(self._kept) >= NOTIFICATIONS_KEPT:
            self._kept.popleft()
            self.dropped += 1
        self._kept.append(params)
        self._lot.unpark()

    def close(self) -> None:
        """End the subscription; what has arrived can still be read."""
        self._closed = True
        if self in self._registry:
            self._registry.remove(self)
        self._lot.unpark_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        await trio.lowlevel.checkpoint()
        while not self._kept:
            if self._closed:
                raise StopAsyncIteration
            await self._lot.park()
        return self._kept.popleft()


async def _guarded(method: str, outcome: Awaitable[object]) -> None:
    try:
        await outcome
    except Exception:
        log.exception("a handler of %s failed", method)


@asynccontextmanager
async def connect(
    command: str | Sequence[str] | None = None,
    *,
    options: OncueOptions | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    process_id: int | Literal["self"] | None = "self",
    root_uri: str | None = None,
    model: Callable[[ModelGenerateParams], Awaitable[ModelGenerateResult]] | None = None,
    stderr: Stderr = "collect",
    trace: Trace | None = None,
    tap: Tap | None = None,
    handshake_s: float = 20.0,
    grace_s: float = 2.0,
) -> AsyncIterator[Client]:
    """Spawn a daemon and shake hands; on leaving, shut it down, whatever happened inside.

    `command`: see `daemon_command`. `env` is the whole environment (default: ours).
    `process_id`: the daemon ends when that process dies (default: this one; None: no watch).
    `model`: serves `model/generate`; the daemon is told to use it. `trace` sees each frame's body,
    `tap` the bytes. `handshake_s` bounds `initialize`; `grace_s` bounds each step of the end.

    Raises `DaemonNotStarted`; what is raised inside passes unchanged (no exception group).
    """
    options = DEFAULT_OPTIONS if options is None else options
    if model is not None:
        settings = {"model": {"provider": "client"}, **options.settings}
        options = evolve(options, model_provider=True, settings=settings)
    arguments = daemon_command(command, env)
    transport = await Transport.start(arguments, cwd=cwd, env=env, stderr=stderr, tap=tap)
    client = Client(transport, options, trace, grace_s)
    if model is not None:
        client.serve("model/generate", model)
    params = {
        "processId": os.getpid() if process_id == "self" else process_id,
        "clientInfo": {"name": "oncue_client"},
        "rootUri": root_uri,
        "capabilities": {},
        "initializationOptions": {"oncue": converter.unstructure(options)},
    }
    raised: BaseException | None = None
    # Whoever cancels the body must not cut the pipes: the daemon is still to be shut down.
    background = trio.CancelScope(shield=True)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client._run, background)
            try:
                await client._initialize(params, arguments, handshake_s)
                yield client
            except BaseException as error:  # raised again, outside the nursery
                raised = error
            finally:
                await client._close()
                background.cancel()
    except trio.Cancelled:
        if raised is None or isinstance(raised, trio.Cancelled):
            raise
    if raised is not None:
        try:
            raise raised
        finally:
            del raised
