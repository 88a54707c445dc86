"""The `http` provider over long times, on a virtual clock: back-off and breaker (D68, D69, D70)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import trio
from trio.testing import MockClock

from oncue.models import breaker, retry
from oncue.models.breaker import Breaker
from oncue.models.errors import ModelError
from oncue.models.http import HttpGenerator
from oncue.settings import ModelEndpoint
from oncue_protocol import ModelGenerateParams, ModelMessage

ANSWER = {"choices": [{"message": {"content": "x"}}]}
HALF_AN_HOUR = 1_800.0
BUDGET = 9 + 12
"""Three queries of three attempts until the circuit opens, then probes: 10, 20, … 300 s apart."""


def generator(
    answer: Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]],
) -> HttpGenerator:
    endpoint = ModelEndpoint(base_url="http://127.0.0.1:1/v1", model="m")
    return HttpGenerator(
        endpoint,
        {},
        wall=lambda: 1_700_000_000.0 + trio.current_time(),
        transport=httpx.MockTransport(answer),  # type: ignore[arg-type]
        jitter=lambda: 0.5,
    )


def question(deadline_ms: int = 30_000) -> ModelGenerateParams:
    return ModelGenerateParams(
        purpose="select",
        messages=(ModelMessage(role="user", text="which?"),),
        max_output_tokens=64,
        deadline_ms=deadline_ms,
    )


def refused(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("[Errno -2] Name or service not known")


OUTAGES: dict[str, Callable[[httpx.Request], httpx.Response]] = {
    "429": lambda _: httpx.Response(429),
    "429 with Retry-After": lambda _: httpx.Response(429, headers={"retry-after": "20"}),
    "500": lambda _: httpx.Response(500),
    "503": lambda _: httpx.Response(503),
    "401": lambda _: httpx.Response(401),
    "DNS": refused,
    "a page": lambda _: httpx.Response(200, text="<html>"),
}


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES.keys())
@pytest.mark.parametrize("every_s", [3.0, 0.2])
async def test_D68_half_an_hour_of_failure_costs_few_calls(
    outage: Callable[[httpx.Request], httpx.Response], every_s: float, autojump_clock: MockClock
) -> None:
    calls = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        return outage(request) if trio.current_time() < HALF_AN_HOUR else healthy(request)

    def healthy(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=ANSWER)

    model = generator(answer)
    while trio.current_time() < HALF_AN_HOUR:
        with pytest.raises(ModelError):
            await model.generate(question())
        await trio.sleep(every_s)
    assert 3 <= calls <= BUDGET
    assert model.health().state == "degraded"
    assert model.statistics.attempts == calls
    assert model.statistics.refused_by_breaker > model.statistics.attempts
    # Then it heals, at the latest when the longest pause is over (I28 for what is outside us).
    await trio.sleep(breaker.MAX_PAUSE_S)
    assert (await model.generate(question())).text == "x"
    assert model.health().state == "ok"


async def test_D69_three_attempts_with_growing_pauses(autojump_clock: MockClock) -> None:
    times: list[float] = []

    def answer(_: httpx.Request) -> httpx.Response:
        times.append(trio.current_time())
        return httpx.Response(503)

    with pytest.raises(ModelError, match="HTTP 503"):
        await generator(answer).generate(question())
    assert len(times) == 3
    assert times[2] - times[1] > times[1] - times[0] > 0


async def test_retry_after_is_kept_to_within_the_deadline(autojump_clock: MockClock) -> None:
    times: list[float] = []

    def answer(_: httpx.Request) -> httpx.Response:
        times.append(trio.current_time())
        if len(times) == 1:
            return httpx.Response(429, headers={"retry-after": "7"})
        return httpx.Response(200, json=ANSWER)

    assert (await generator(answer).generate(question())).text == "x"
    assert times[1] - times[0] >= 7


async def test_retry_after_beyond_the_deadline_is_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    calls = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        return httpx.Response(429, headers={"retry-after": "60"})

    model = generator(answer)
    started = trio.current_time()
    with pytest.raises(ModelError) as caught:
        await model.generate(question(5_000))
    assert trio.current_time() == started, "the caller learns it at once"
    assert caught.value.retry_after_s == 60
    await trio.sleep(59)
    with pytest.raises(ModelError) as caught:
        await model.generate(question(5_000))
    assert caught.value.reason == "circuitOpen"
    assert calls == 1
    await trio.sleep(2)
    with pytest.raises(ModelError):
        await model.generate(question(5_000))
    assert calls == 2


async def test_D70_one_byte_a_second_ends_at_the_deadline(autojump_clock: MockClock) -> None:
    sent = 0

    class Drip(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(10_000):
                await trio.sleep(1)
                sent += 1
                yield b" "

    model = generator(lambda _: httpx.Response(200, stream=Drip()))
    started = trio.current_time()
    with pytest.raises(ModelError) as caught:
        await model.generate(question(5_500))
    assert trio.current_time() - started == pytest.approx(5.5)
    assert caught.value.reason == "deadline"
    assert sent == 5


async def test_D70_a_callers_own_deadline_counts_against_the_endpoint(
    autojump_clock: MockClock,
) -> None:
    async def never(_: httpx.Request) -> httpx.Response:
        await trio.sleep_forever()
        raise AssertionError

    model = generator(never)
    for _ in range(breaker.THRESHOLD):
        with trio.move_on_after(2):
            await model.generate(question(2_000))
    assert model.health().state == "degraded"
    with pytest.raises(ModelError) as caught:
        await model.generate(question(2_000))
    assert caught.value.reason == "circuitOpen"


async def test_one_probe_at_a_time_and_a_cancelled_one_is_no_verdict(
    autojump_clock: MockClock,
) -> None:
    calls = 0
    slow = False

    async def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if slow:
            await trio.sleep(5)
            return httpx.Response(200, json=ANSWER)
        return httpx.Response(500)

    model = generator(answer)
    for _ in range(breaker.THRESHOLD):
        with pytest.raises(ModelError):
            await model.generate(question())
    await trio.sleep(breaker.FIRST_PAUSE_S)
    slow, calls = True, 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(model.generate, question())
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ModelError) as caught:
            await model.generate(question())
        assert caught.value.reason == "circuitOpen"
        nursery.cancel_scope.cancel()
    assert calls == 1
    assert (await model.generate(question())).text == "x"
    assert model.health().state == "ok"


async def test_a_refused_request_is_no_failure_of_the_endpoint(autojump_clock: MockClock) -> None:
    model = generator(lambda _: httpx.Response(400, json={"error": {"code": "canary"}}))
    for _ in range(10):
        with pytest.raises(ModelError, match="HTTP 400") as caught:
            await model.generate(question())
        assert "canary" not in str(caught.value)
    assert model.health().state == "ok"


async def test_the_apis_own_words_are_told(autojump_clock: MockClock) -> None:
    error = {"error": {"type": "invalid_request_error", "code": "model_not_found"}}
    model = generator(lambda _: httpx.Response(404, json=error))
    with pytest.raises(ModelError, match="HTTP 404, model_not_found"):
        await model.generate(question())
    assert "model_not_found" in (model.health().reason or "")


def test_breaker_pauses_double_up_to_a_limit() -> None:
    one = Breaker()
    now = 0.0
    for _ in range(breaker.THRESHOLD):
        assert one.admit(now) == "go"
        one.failed(now, probe=False)
    pauses = []
    for _ in range(8):
        pauses.append(one.remaining_s(now))
        assert one.admit(now) == "wait"
        now += pauses[-1]
        assert one.admit(now) == "probe"
        one.failed(now, probe=True)
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]
    one.succeeded()
    assert one.admit(now) == "go"
    assert one.failures == 0


def test_breaker_late_failures_prolong_nothing() -> None:
    one = Breaker()
    for _ in range(breaker.THRESHOLD):
        one.failed(0.0, probe=False)
    one.failed(5.0, probe=False)
    assert one.open_until == breaker.FIRST_PAUSE_S
    one.failed(6.0, probe=False, retry_after_s=1e9)
    assert one.open_until == 6 + breaker.MAX_RETRY_AFTER_S


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "9" * 5_000}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Fri, 99 Dec 99999 00:00:00 GMT"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry.retry_after_s(headers, 1_700_000_000.0) == seconds


def test_delays_grow_are_bounded_and_differ() -> None:
    assert [retry.delay_s(n, 1.0) for n in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert retry.delay_s(30, 1.0) == retry.MAX_DELAY_S
    assert retry.delay_s(1, 0.0) < retry.delay_s(1, 1.0)
    assert retry.delay_s(1, 1.0, 20.0) >= 20.0
    assert not math.isinf(retry.delay_s(1, 1.0, 1e9))
