"""Everything that can go wrong with an endpoint, over real sockets (reliability.md F12)."""

from __future__ import annotations

import json
import logging
import ssl
import traceback
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from model_server import Play, model_server
from oncue.models import http
from oncue.models.errors import ModelError
from oncue.models.http import HttpGenerator
from oncue.models.secret import Secret
from oncue.settings import ModelEndpoint
from oncue_protocol import ModelGenerateParams, ModelMessage

KEY = "CaNaRy-" + "k3y" * 12
HEADER = "CaNaRy-" + "h34d3r" * 6


def question(deadline_ms: int = 20_000) -> ModelGenerateParams:
    return ModelGenerateParams(
        purpose="select",
        messages=(ModelMessage(role="user", text="which?"),),
        max_output_tokens=64,
        deadline_ms=deadline_ms,
    )


def generator(url: str, kind: Any = "openai") -> HttpGenerator:
    endpoint = ModelEndpoint(
        kind=kind,
        base_url=url,
        model="m",
        api_key_env="MODEL_KEY",
        headers={"X-Gateway": HEADER},
    )
    return HttpGenerator(endpoint, {"MODEL_KEY": KEY}, jitter=lambda: 0.0)


# (what is played, attempts that it may cost, why it fails)
FAULTS: list[tuple[str, Play, int, str]] = [
    ("429", Play(status=429), 3, "rateLimited"),
    ("429 soon", Play(status=429, headers=[("retry-after", "0")]), 3, "rateLimited"),
    ("429 late", Play(status=429, headers=[("retry-after", "600")]), 1, "rateLimited"),
    (
        "429 at a date",
        Play(status=429, headers=[("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")]),
        1,
        "rateLimited",
    ),
    ("429 odd", Play(status=429, headers=[("retry-after", "soon, -1")]), 3, "rateLimited"),
    ("500", Play(status=500), 3, "server"),
    ("502 with a page", Play(status=502, body="<html>bad gateway</html>"), 3, "server"),
    ("503 that echoes", Play(status=503, echo_headers=True), 3, "server"),
    ("529", Play(status=529), 3, "server"),
    ("400", Play(status=400), 1, "refused"),
    ("401 that echoes", Play(status=401, echo_headers=True), 1, "refused"),
    ("403", Play(status=403), 1, "refused"),
    ("404", Play(status=404), 1, "refused"),
    ("408", Play(status=408), 1, "refused"),
    ("413", Play(status=413), 1, "refused"),
    ("422", Play(status=422), 1, "refused"),
    ("redirect to a name", Play(status=302, headers=[("location", "http://x/")]), 1, "redirect"),
    ("no byte", Play(cut_at=0), 3, "connection"),
    ("reset at once", Play(cut_at=0, reset=True), 3, "connection"),
    ("reset in the head", Play(text="x" * 999, cut_at=40, reset=True), 3, "connection"),
    ("reset in the body", Play(text="x" * 999, cut_at=300, reset=True), 3, "connection"),
    ("half a response", Play(text="x" * 999, cut_at=400), 3, "connection"),
    ("never", Play(never=True), 1, "deadline"),
    ("10 MiB", Play(body="x" * 65_536, repeat=160), 1, "tooLarge"),
    ("packed", Play(body="{}", headers=[("content-encoding", "br")]), 1, "badAnswer"),
    ("a page", Play(body="<html>", content_type="text/html", echo_headers=True), 1, "badAnswer"),
]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("play", "attempts", "reason"), [fault[1:] for fault in FAULTS], ids=[f[0] for f in FAULTS]
)
async def test_D69_D79_every_fault_costs_few_attempts_and_shows_no_key(
    kind: str,
    play: Play,
    attempts: int,
    reason: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "httpcore.http11", "httpcore.connection", "trio"):
        caplog.set_level(logging.DEBUG, logger=name)
    shown: list[str] = []
    with capture_logs() as records:
        async with model_server([play]) as server:
            model = generator(server.base_url(kind), kind)
            with pytest.raises(ModelError) as caught:
                await model.generate(question(1_000 if play.never else 20_000))
            shown += [repr(model), repr(model.health()), repr(model.statistics)]
            await model.aclose()
    assert caught.value.reason == reason
    assert len(server.requests) == attempts
    assert all(asked.headers["x-gateway"] == HEADER for asked in server.requests)
    shown += _of_exception(caught.value)
    shown += [repr(records), caplog.text, *capfd.readouterr()]
    assert all("CaNaRy" not in text for text in shown)
    assert model.health().state == ("ok" if caught.value.status in (400, 413, 422) else "degraded")


def _of_exception(error: BaseException) -> list[str]:
    """All that a careless reporter could print of it: locals too, and what hangs on to it."""
    assert error.__cause__ is None
    assert error.__context__ is None, "an exception of httpx's would bring its request along"
    assert error.__traceback__ is not None
    inner = error.__traceback__.tb_next  # without the test's own frame, which knows the key
    shown = traceback.TracebackException(type(error), error, inner, capture_locals=True)
    assert any(frame.locals for frame in shown.stack)
    return [str(error), repr(error), "".join(shown.format()), repr(vars(error))]


@pytest.mark.parametrize("fails", [1, 2])
async def test_D69_a_success_ends_the_attempts(fails: int) -> None:
    async with model_server([*[Play(status=503)] * fails, Play(text="at last")]) as server:
        model = generator(server.base_url("openai"))
        assert (await model.generate(question())).text == "at last"
        await model.aclose()
    assert len(server.requests) == fails + 1
    assert model.health().state == "ok"


async def test_D79_nobody_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    model = generator(f"http://127.0.0.1:{port}")
    with pytest.raises(ModelError) as caught:
        await model.generate(question())
    await model.aclose()
    assert caught.value.reason == "connection"
    assert model.statistics.attempts == 3
    assert all("CaNaRy" not in text for text in (*_of_exception(caught.value), caplog.text))


async def test_T6_a_server_that_speaks_no_tls() -> None:
    async with model_server([Play(text="x")]) as server:
        model = generator(server.base_url("openai").replace("http:", "https:"))
        with pytest.raises(ModelError) as caught:
            await model.generate(question())
        await model.aclose()
    assert caught.value.reason == "connection"
    assert server.requests == []
    assert all("CaNaRy" not in text for text in _of_exception(caught.value))


def test_T6_a_certificate_that_is_not_trusted_is_told_apart() -> None:
    outer = OSError("handshake")
    outer.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert http._is_certificate(outer)
    assert not http._is_certificate(OSError("handshake"))


@pytest.mark.parametrize(
    "play",
    [
        Play(text="x" * 2_000, drip_s=0.05),
        Play(text="x", latency_s=30.0),
        Play(status=429, headers=[("retry-after", "1")]),
        Play(never=True),
    ],
    ids=["drip", "late", "asks for more time", "never"],
)
async def test_D70_one_deadline_for_everything(play: Play) -> None:
    async with model_server([play]) as server:
        model = generator(server.base_url("openai"))
        with trio.fail_after(10), pytest.raises(ModelError) as caught:
            await model.generate(question(600))
        await model.aclose()
    assert caught.value.reason in ("deadline", "rateLimited")
    assert model.health().state == "degraded"


async def test_D70_parts_that_are_slow_one_after_the_other_share_it() -> None:
    async with model_server([Play(status=503, latency_s=0.4)]) as server:
        model = generator(server.base_url("openai"))
        with trio.fail_after(10), pytest.raises(ModelError):
            await model.generate(question(1_000))
        await model.aclose()
    assert len(server.requests) <= 2


GOOD = '{"choices": [{"message": {"role": "assistant", "content": "x"}}]}'
MALFORMED = {
    "empty": "",
    "white": " \n\t",
    "null": "null",
    "number": "7",
    "string": '"choices"',
    "list": "[]",
    "object": "{}",
    "prose": "Sure! Here is the answer you wanted.",
    "fenced": f"```json\n{GOOD}\n```",
    "trailing comma": GOOD[:-1] + ",}",
    "truncated": GOOD[:-4],
    "twice": GOOD + GOOD,
    "bad escape": '{"choices": [{"message": {"content": "\\u12"}}]}',
    "half a pair": '{"choices": [{"message": {"content": "\\ud800"}}]}',
    "single quotes": GOOD.replace('"', "'"),
    "no utf-8": '{"choices": [{"message": {"content": "\udcff\udcfe"}}]}',
    "nul": GOOD + "\0",
    "nan": '{"choices": NaN}',
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 20_000,
    "no choices": '{"choices": []}',
    "choices a dict": '{"choices": {"0": {}}}',
    "choice a text": '{"choices": ["x"]}',
    "no message": '{"choices": [{}]}',
    "message a text": '{"choices": [{"message": "x"}]}',
    "content a number": '{"choices": [{"message": {"content": 7}}]}',
    "calls a dict": '{"choices": [{"message": {"tool_calls": {"a": 1}}}]}',
    "call a text": '{"choices": [{"message": {"tool_calls": ["edit"]}}]}',
    "call without function": '{"choices": [{"message": {"tool_calls": [{"id": "1"}]}}]}',
    "an error": '{"error": {"message": "no", "type": "server_error"}}',
    "the other api": '{"content": [{"type": "text", "text": "x"}]}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
async def test_D71_a_malformed_answer_is_one_clear_failure(body: str) -> None:
    async with model_server([Play(body=body)]) as server:
        model = generator(server.base_url("openai"))
        with pytest.raises(ModelError, match="unusable") as caught:
            await model.generate(question())
        await model.aclose()
    assert caught.value.reason == "badAnswer"
    assert len(server.requests) == 1, "what failed by itself would fail again"
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "body",
    ["{}", '{"content": "x"}', '{"content": ["x"]}', '{"content": [{"type": "text"}]}', GOOD],
)
async def test_D71_the_same_for_the_other_api(body: str) -> None:
    async with model_server([Play(body=body)]) as server:
        model = generator(server.base_url("anthropic"), "anthropic")
        with pytest.raises(ModelError, match="unusable"):
            await model.generate(question())
        await model.aclose()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"section": "Now"}', {"section": "Now"}),
        ('```json\n{"section": "Now"}\n```', {"section": "Now"}),
        ('{"section": "Now"', '{"section": "Now"'),
        ("", ""),
        ("null", None),
        ("[1]", [1]),
    ],
)
async def test_D71_arguments_of_a_call_are_passed_on_as_they_are(given: str, read: Any) -> None:
    async with model_server([Play(calls=[("edit", given)])]) as server:
        model = generator(server.base_url("openai"))
        answer = await model.generate(question())
        await model.aclose()
    assert [call.input for call in answer.tool_calls] == [read]


async def test_D71_odd_members_around_an_answer_do_no_harm() -> None:
    body = json.dumps(
        {
            "choices": [
                {
                    "message": {
                        "content": [{"type": "text", "text": "a"}, {"x": 1}, 7, {"text": "b"}],
                        "tool_calls": [
                            {"id": "!", "function": {"name": "edit", "arguments": {"a": 1}}},
                            {"function": {"name": 7}},
                        ],
                    }
                },
                None,
            ],
            "usage": {"prompt_tokens": -1, "completion_tokens": 1e9, "prompt_tokens_details": []},
        }
    )
    async with model_server([Play(body="\ufeff" + body)]) as server:
        model = generator(server.base_url("openai"))
        answer = await model.generate(question())
        await model.aclose()
    assert answer.text == "ab"
    assert [(call.name, call.input) for call in answer.tool_calls] == [
        ("edit", {"a": 1}),
        ("", None),
    ]
    assert len({call.id for call in answer.tool_calls}) == 2


def test_D79_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret(KEY)
    assert "CaNaRy" not in f"{secret} {secret!r} {secret!s} {[secret]} {secret:>10}"
    with pytest.raises(TypeError):
        secret.__reduce__()
    assert secret.reveal() == KEY
    assert Secret("x").scrub(b"xyz") == b"xyz"
