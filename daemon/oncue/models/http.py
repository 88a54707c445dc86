"""The `http` provider: a model endpoint over HTTP, asked politely and within one deadline.

Secrets: a key is revealed in one place, `Endpoint.authorise`, which httpx calls when it sends. No
exception of httpx's leaves this file, not even as the context of one of ours: it would carry the
request, and a request its headers (D79).
"""

from __future__ import annotations

import logging
import os
import random
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import define, frozen

from oncue.models import http_anthropic, http_json, http_openai, retry
from oncue.models.breaker import Breaker
from oncue.models.endpoint import Endpoint, EndpointError, may_leave, plain_path, resolve
from oncue.models.errors import ModelError
from oncue.ports import Wall
from oncue.settings import ModelEndpoint
from oncue.times import rfc3339
from oncue.version import VERSION
from oncue_protocol import Health, ModelGenerateParams, ModelGenerateResult

if TYPE_CHECKING:
    import httpx

CONNECT_S = 10.0
"""A host that does not answer by then is tried again rather than waited for."""
MAX_CONNECTIONS = 8
"""Recalls of several sessions and a run or two; more wait their turn, within their deadline."""
KEEP_IDLE_S = 30.0
"""Long enough for the rounds of one run; a laptop that slept finds no stale connections."""
DEADLINE_GRACE_S = 0.05
"""A caller's own deadline for the same query may fire this much before ours: still too slow."""

log = structlog.get_logger(__name__)


@frozen
class HttpStatistics:
    """Counters since the start, for `daemon/status`."""

    queries: int
    """Logical queries, those included that the breaker refused."""
    attempts: int
    """HTTP requests."""
    failures: int
    """Queries without an answer; cancelled ones are none."""
    refused_by_breaker: int


@frozen
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


@define
class _Counts:
    queries: int = 0
    attempts: int = 0
    failures: int = 0
    refused: int = 0


class HttpGenerator:
    """ports.Generator over the user's endpoint; one for the daemon, shared by all sessions.

    Making one reads no file and cannot fail: a configuration that cannot be used shows in
    `health()`, and `generate` raises ModelError `off`. `environment` holds the key's variable.
    `transport` and `jitter` are for tests."""

    def __init__(
        self,
        settings: ModelEndpoint,
        environment: Mapping[str, str],
        *,
        wall: Wall = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._wall = wall
        self._transport = transport
        self._jitter = jitter
        self._breaker = Breaker()
        self._dialect = http_openai.Dialect()
        self._counts = _Counts()
        self._last: ModelError | None = None
        self._since: float | None = None
        self._client: httpx.AsyncClient | None = None
        self._endpoint: Endpoint | None = None
        self._problem = ""
        self._allowed = tuple(_real(name) for name in settings.allow_workspaces)
        try:
            self._endpoint = resolve(settings, environment)
        except EndpointError as error:
            self._problem = str(error)
            self._since = wall()

    def __repr__(self) -> str:
        return f"HttpGenerator({self._endpoint!r})"

    @property
    def usable(self) -> bool:
        """Whether the configuration is; the endpoint may be down all the same."""
        return self._endpoint is not None

    @property
    def statistics(self) -> HttpStatistics:
        """What happened since the start."""
        counts = self._counts
        return HttpStatistics(counts.queries, counts.attempts, counts.failures, counts.refused)

    def may_leave(self, workspaces: Iterable[str]) -> bool:
        """Whether what is said in these workspaces (real paths) may be sent: all of them must be
        named in `model.allowWorkspaces`. The caller asks before it makes a query."""
        return may_leave(self._allowed, workspaces)

    def health(self) -> Health:
        """For `daemon/status`."""
        since = None if self._since is None else rfc3339(self._since)
        if self._endpoint is None:
            return Health(state="off", reason=self._problem, since=since)
        if not self._breaker.failures and self._breaker.state == "closed":
            return Health(state="ok")
        wait = self._breaker.remaining_s(trio.current_time())
        later = f"; asked again in {wait:.0f} s" if wait else ""
        return Health(
            state="degraded",
            reason=f"{self._last or 'it failed'} ({self._breaker.failures} in a row{later})",
            since=since,
        )

    async def generate(self, request: ModelGenerateParams) -> ModelGenerateResult:
        """Ask once, in at most three HTTP attempts (D69) and within `request.deadline_ms` from
        now, everything included (D70). Raises ModelError. Cancelling closes the connection."""
        self._counts.queries += 1
        if self._endpoint is None:
            raise ModelError(self._problem, reason="off")
        now = trio.current_time()
        admission = self._breaker.admit(now)
        if admission == "wait":
            self._counts.refused += 1
            wait = self._breaker.remaining_s(now)
            raise ModelError(
                f"the model endpoint {self._endpoint.origin} keeps failing; it is left alone "
                f"for another {wait:.0f} s",
                reason="circuitOpen",
                retry_after_s=wait,
            )
        probe = admission == "probe"
        deadline = now + request.deadline_ms / 1000
        outcome: ModelGenerateResult | ModelError | None = None
        try:
            with trio.CancelScope(deadline=deadline):
                outcome = await self._query(
                    self._endpoint, request, deadline, 1 if probe else retry.MAX_ATTEMPTS
                )
        finally:
            if outcome is None and trio.current_time() >= deadline - DEADLINE_GRACE_S:
                outcome = ModelError(
                    f"the model endpoint {self._endpoint.origin} did not answer within "
                    f"{request.deadline_ms} ms",
                    reason="deadline",
                )
            self._judge(outcome, probe=probe)
        if isinstance(outcome, ModelGenerateResult):
            return outcome
        raise outcome or ModelError("the query was given up", reason="deadline")

    async def aclose(self) -> None:
        """Close idle connections. Queries that are going on should be cancelled before."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _judge(self, outcome: ModelGenerateResult | ModelError | None, *, probe: bool) -> None:
        """What a query says about the endpoint; None: nothing, its caller cancelled it."""
        now = trio.current_time()
        before = self._breaker.state
        if outcome is None:
            self._breaker.released(now, probe=probe)
            return
        if isinstance(outcome, ModelError):
            self._counts.failures += 1
            self._last = outcome
        if isinstance(outcome, ModelGenerateResult) or outcome.status in (400, 413, 422):
            # A request that the endpoint does not like says that there is an endpoint.
            self._breaker.succeeded()
            self._since = None
        else:
            self._since = self._wall() if self._since is None else self._since
            self._breaker.failed(now, probe=probe, retry_after_s=outcome.retry_after_s)
        if self._breaker.state != before:
            reason = outcome.reason if isinstance(outcome, ModelError) else None
            log.warning(
                "model.endpoint",
                state=self._breaker.state,
                reason=reason,
                failures=self._breaker.failures,
                wait_s=round(self._breaker.remaining_s(now)),
            )

    async def _query(
        self, endpoint: Endpoint, request: ModelGenerateParams, deadline: float, attempts: int
    ) -> ModelGenerateResult | ModelError:
        """The attempts of one logical query. Failures come back as values, so that no exception
        of another library is ever the context of ours."""
        client = self._client or await self._connect(endpoint)
        dialect = self._dialect
        for attempt in range(1, attempts + 1):
            body = http_json.dump(_body(endpoint, request, dialect))
            self._counts.attempts += 1
            reply = await _attempt(client, endpoint, body)
            if isinstance(reply, ModelError):
                failure = reply
                if failure.reason != "connection":
                    return failure
            elif retry.verdict(reply.status) == "ok":
                answer = _answer(endpoint, reply.body)
                if isinstance(answer, ModelGenerateResult):
                    self._dialect = dialect  # it is understood: no need to find out again
                return answer
            else:
                failure = _failure(endpoint, reply, self._wall())
                if retry.verdict(reply.status) == "fail":
                    other = _adapted(endpoint, request, dialect, reply)
                    if other is None or attempt == attempts:
                        return failure
                    dialect = other
                    continue
            pause = retry.delay_s(attempt, self._jitter(), failure.retry_after_s)
            if attempt == attempts or trio.current_time() + pause >= deadline:
                return failure
            await trio.sleep(pause)
        raise AssertionError("the loop returns")

    async def _connect(self, endpoint: Endpoint) -> httpx.AsyncClient:
        """The client, made at the first query: importing httpx and reading certificates takes a
        tenth of a second, and the loop must not stand still for it (I8)."""
        if self._transport is not None:
            client = _client(endpoint, self._transport)
        else:
            client = await trio.to_thread.run_sync(_client, endpoint, abandon_on_cancel=True)
        if self._client is None:  # another query may have been faster; an unused one holds nothing
            self._client = client
        return self._client


def _client(endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None = None) -> Any:
    # httpx imports its command line, and with it rich and pygments, if it can.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from http.cookiejar import DefaultCookiePolicy

    import httpx

    for name in ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy"):
        # At DEBUG they write requests with all headers, whatever our own level is (D79).
        logging.getLogger(name).disabled = True
    verify: ssl.SSLContext | bool = True
    if transport is None and endpoint.url.startswith("https:"):
        verify = httpx.create_ssl_context()
    client = httpx.AsyncClient(
        auth=endpoint.authorise,
        verify=verify,
        transport=transport,
        # Everything but connecting is bounded by the query's own deadline (D70).
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        limits=httpx.Limits(
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_IDLE_S,
        ),
        follow_redirects=False,
        # Proxies come from the environment; what is meant for this machine never leaves it.
        trust_env=not endpoint.is_loopback,
        headers={
            "user-agent": f"oncue/{VERSION}",
            "accept": "application/json",
            "accept-encoding": "identity",  # no bombs
        },
    )
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


async def _attempt(
    client: httpx.AsyncClient, endpoint: Endpoint, body: bytes
) -> _Reply | ModelError:
    """One HTTP request. Raises Cancelled alone."""
    import httpx

    where = f"the model endpoint {endpoint.origin}"
    api = http_anthropic if endpoint.kind == "anthropic" else http_openai
    headers = {**api.HEADERS, "content-type": "application/json"}
    try:
        async with client.stream("POST", endpoint.url, content=body, headers=headers) as response:
            if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
                return ModelError(
                    f"{where} compresses its answer although it was asked not to",
                    reason="badAnswer",
                    status=response.status_code,
                )
            received = bytearray()
            with trio.CancelScope() as enough:
                async for chunk in response.aiter_bytes():
                    received += chunk
                    if len(received) > http_json.MAX_BODY_BYTES:
                        # Cancelling ends httpx's generators from within; leaving them would not.
                        enough.cancel()
            if len(received) > http_json.MAX_BODY_BYTES:
                return ModelError(
                    f"{where} answered more than {http_json.MAX_BODY_BYTES} bytes",
                    reason="tooLarge",
                    status=response.status_code,
                )
            return _Reply(response.status_code, response.headers, bytes(received))
    except httpx.TimeoutException:
        return ModelError(f"{where} cannot be reached in {CONNECT_S:.0f} s", reason="connection")
    except Exception as error:
        if _is_certificate(error):
            return ModelError(
                f"{where} has a certificate that is not trusted here; SSL_CERT_FILE may name "
                "another authority",
                reason="certificate",
            )
        return ModelError(
            f"the connection to {where} failed ({type(error).__name__})", reason="connection"
        )


def _is_certificate(error: BaseException | None) -> bool:
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _body(
    endpoint: Endpoint, request: ModelGenerateParams, dialect: http_openai.Dialect
) -> dict[str, Any]:
    model = endpoint.select_model if request.purpose == "select" else endpoint.model
    if endpoint.kind == "anthropic":
        return http_anthropic.request(request, model)
    return http_openai.request(request, model, dialect)


def _adapted(
    endpoint: Endpoint, request: ModelGenerateParams, dialect: http_openai.Dialect, reply: _Reply
) -> http_openai.Dialect | None:
    if endpoint.kind != "openai" or reply.status not in (400, 422):
        return None
    had_schema = request.response_schema is not None
    return http_openai.adapted(dialect, reply.body, had_schema=had_schema)


def _answer(endpoint: Endpoint, body: bytes) -> ModelGenerateResult | ModelError:
    try:
        answer = http_json.load(endpoint.scrub(body))
        if endpoint.kind == "anthropic":
            return http_anthropic.result(answer)
        return http_openai.result(answer)
    except ModelError as error:
        return error.with_traceback(None)  # its frames hold the body, and that may echo the key


def _failure(endpoint: Endpoint, reply: _Reply, wall: float) -> ModelError:
    """An HTTP status that is no success, in our words."""
    status = reply.status
    where = f"the model endpoint {endpoint.origin}"
    code = http_json.error_code(reply.body)
    said = f"HTTP {status}" + (f", {code}" if code else "")
    if status < 400:
        return ModelError(
            f"{where} redirects ({said}), which is not followed: set model.baseUrl to where it is",
            reason="redirect",
            status=status,
        )
    if status == 429 or status >= 500:
        return ModelError(
            f"{where} is {'asking for fewer requests' if status == 429 else 'failing'} ({said})",
            reason="rateLimited" if status == 429 else "server",
            status=status,
            retry_after_s=retry.retry_after_s(reply.headers, wall),
        )
    advice = {
        401: "check the key that model.apiKeyEnv names",
        403: "check what the key that model.apiKeyEnv names may do",
        404: "check model.baseUrl and model.model",
    }.get(status, "check the settings under model")
    return ModelError(
        f"{where} refused the request ({said}): {advice}", reason="refused", status=status
    )


def _real(name: str) -> str:
    """A name of `allowWorkspaces` as a real path; `*` stays."""
    if name == "*":
        return name
    try:
        return str(Path(os.path.realpath(Path(plain_path(name)).expanduser())))
    except (OSError, ValueError, RuntimeError):
        return name
