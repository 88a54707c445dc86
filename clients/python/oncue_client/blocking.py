"""A synchronous client for scripts: trio runs in a thread of its own, each call waits for it.

with oncue_client.blocking.Client() as client:
    opened = client.session_open(workspace=".")
    print(client.recall_start(session_id=opened.session_id, query="…", wait_ms=100).poll)
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import trio

from oncue_protocol import Delivery, Message, OncueOptions, ToolResult, TurnEndReason

from . import client as _client
from ._blocking_methods import BlockingMethods
from ._rpc import Trace
from ._transport import Stderr
from .errors import ClientError, RequestTimedOut
from .session import Session as _Session

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
NOT_RUNNING = "this client is not running: use it in a `with` statement"
DEFAULT_TIMEOUT_S = 60.0
"""Longer than the longest wait the protocol allows (15 s), short enough for a script to end."""


class Client(BlockingMethods):
    """As `oncue_client.Client`, but every method blocks and takes `timeout` (seconds).

    Use as a context manager, in any thread, also from several at once. Ctrl-C and time-outs
    cancel the request at the daemon (`RequestTimedOut`). Handlers of `on` run on the client's
    own thread and must not call it.
    """

    def __init__(
        self,
        command: str | Sequence[str] | None = None,
        *,
        options: OncueOptions | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        process_id: int | Literal["self"] | None = "self",
        stderr: Stderr = "collect",
        trace: Trace | None = None,
        handshake_s: float = 20.0,
        grace_s: float = 2.0,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._connect = partial(
            _client.connect,
            command,
            options=options,
            cwd=cwd,
            env=env,
            process_id=process_id,
            stderr=stderr,
            trace=trace,
            handshake_s=handshake_s,
            grace_s=grace_s,
        )
        self._timeout = timeout
        self._client: _client.Client | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._thread: threading.Thread | None = None

    # Life

    def start(self) -> Self:
        """Spawn the daemon and shake hands; `DaemonNotStarted`. `with` calls it."""
        if self._thread is not None:
            raise ClientError("this client was started before: make a new one")
        started: Future[None] = Future()
        # A daemon thread: an interpreter that ends without `close` must not hang on it; the
        # daemon process then sees the end of its input.
        self._thread = threading.Thread(
            target=self._thread_main, args=(started,), name="oncue-client", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Shut the daemon down, bounded as in `connect`; harmless when repeated."""
        thread, token, stop = self._thread, self._token, self._stop
        if thread is None:
            return
        if token is not None and stop is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(stop.set)
        thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Calls

    @property
    def inner(self) -> _client.Client:
        """The asynchronous client (its plain attributes may be read from here)."""
        if self._client is None:
            raise ClientError(NOT_RUNNING)
        return self._client

    def request(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Any request; plain JSON back."""
        return self.call(partial(self.inner.request, method, params), timeout=timeout)

    def notify(self, method: str, params: Any = None, *, timeout: float | None = None) -> None:
        """Any notification."""
        self.call(partial(self.inner.notify, method, params), timeout=timeout)

    def call(self, function: Callable[[], Awaitable[T]], *, timeout: float | None = None) -> T:
        """Run a coroutine function on the client's thread and wait for what it returns.
        `RequestTimedOut` after `timeout` seconds (default: the client's); it is cancelled then,
        as it is by Ctrl-C here."""
        if self._token is None or self._client is None:
            raise ClientError(NOT_RUNNING)
        if threading.current_thread() is self._thread:
            raise ClientError(
                "a handler must not call the client it runs on: it would wait for itself"
            )
        seconds = self._timeout if timeout is None else timeout
        future: Future[T] = Future()
        scope = trio.CancelScope()
        begin = partial(self._begin, function, future, scope, seconds)
        try:
            self._token.run_sync_soon(begin)
        except trio.RunFinishedError:
            raise ClientError("this client is closed") from None
        try:
            return future.result()
        except BaseException:
            if not future.done():  # Ctrl-C while waiting
                self._token.run_sync_soon(scope.cancel)
            raise

    def _request(self, method: str, params: Any, timeout: float | None) -> Any:
        return self.call(partial(self.inner._request, method, params), timeout=timeout)

    def _notify(self, method: str, params: Any, timeout: float | None) -> None:
        self.call(partial(self.inner._notify, method, params), timeout=timeout)

    # What the daemon sends

    def on(self, method: str, handler: Callable[[Any], object]) -> Callable[[], None]:
        """As `Client.on`; the handler runs on the client's thread and must not block it."""
        return self.inner.on(method, handler)

    def serve(self, method: str, handler: Callable[[Any], Any]) -> None:
        """As `Client.serve`; a handler that takes long should be `async def`."""
        self.inner.serve(method, handler)

    @contextmanager
    def notifications(self, method: str) -> Iterator[queue.SimpleQueue[Any]]:
        """The params of each `method` while the `with` lasts, in a queue: `get(timeout=…)`."""
        arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        off = self.on(method, arrived.put)
        try:
            yield arrived
        finally:
            off()

    @contextmanager
    def session(self, **options: Any) -> Iterator[Session]:
        """As `Client.session`: a conversation with local settling."""

        async def enter() -> _Session:
            return await self.inner.session(**options).__aenter__()

        session = self.call(enter)
        try:
            yield Session(self, session)
        finally:
            self.call(partial(session.__aexit__, None, None, None))

    # The thread

    def _thread_main(self, started: Future[None]) -> None:
        try:
            trio.run(self._main, started)
        except BaseException as error:  # whoever started us is told
            if not started.done():
                started.set_exception(error)

    async def _main(self, started: Future[None]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with self._connect() as client, trio.open_nursery() as nursery:
            self._client = client
            self._nursery = nursery
            started.set_result(None)
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def _begin(
        self,
        function: Callable[[], Awaitable[Any]],
        future: Future[Any],
        scope: trio.CancelScope,
        seconds: float,
    ) -> None:
        if self._nursery is None or self._nursery.cancel_scope.cancel_called:
            future.set_exception(ClientError("this client is closed"))
            return
        self._nursery.start_soon(_run, function, future, scope, seconds)


class Session:
    """As `oncue_client.Session`, blocking."""

    def __init__(self, client: Client, session: _Session) -> None:
        self.inner = session
        """Its plain attributes may be read from here."""
        self._client = client

    def user_message(self, text: str, **options: Any) -> Delivery | None:
        """A new turn; see `oncue_client.Session.user_message`."""
        return self._client.call(partial(self.inner.user_message, text, **options))

    def tool_results(self, results: Sequence[ToolResult] | Message) -> Delivery | None:
        """A round of tools has ended; see `oncue_client.Session.tool_results`."""
        return self._client.call(partial(self.inner.tool_results, results))

    def append(self, messages: Sequence[Message]) -> None:
        """Report new messages."""
        self._client.call(partial(self.inner.append, messages))

    def turn_end(self, reason: TurnEndReason = "completed") -> None:
        """The turn is over."""

        async def end() -> None:
            self.inner.turn_end(reason)

        self._client.call(end)


async def _run(
    function: Callable[[], Awaitable[Any]],
    future: Future[Any],
    scope: trio.CancelScope,
    seconds: float,
) -> None:
    try:
        with trio.move_on_after(seconds) as limit, scope:
            result = await function()
    except Exception as error:  # the caller's thread raises it
        future.set_exception(error)
    except trio.Cancelled:
        future.set_exception(ClientError("this client was closed while the call was waiting"))
        raise
    else:
        if limit.cancelled_caught:
            future.set_exception(
                RequestTimedOut(f"no answer within {seconds:g} s; the daemon was told to cancel")
            )
        elif scope.cancelled_caught:
            future.cancel()
        else:
            future.set_result(result)
