"""The `http` provider against a real endpoint on the loopback, in both APIs (extraction.md §4)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import trio

from model_server import ModelProcess, ModelServer, Play, model_server
from oncue.models.errors import ModelError
from oncue.models.http import HttpGenerator
from oncue.settings import ModelEndpoint
from oncue_protocol import (
    ModelGenerateParams,
    ModelMessage,
    ModelTool,
    ToolResult,
    Usage,
)

KEY = "canary-key-0123456789"
KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
TOOL = ModelTool(name="edit", description="Edits.", input_schema={"type": "object"})
SCHEMA = {"type": "object", "properties": {"ids": {"type": "array"}}}


def question(**members: Any) -> ModelGenerateParams:
    values: dict[str, Any] = {
        "purpose": "select",
        "messages": (
            ModelMessage(role="system", text="Choose."),
            ModelMessage(role="user", text="m1 or m2?"),
        ),
        "max_output_tokens": 64,
        "deadline_ms": 20_000,
    }
    return ModelGenerateParams(**{**values, **members})


def generator(server: ModelServer, kind: Any, **members: Any) -> HttpGenerator:
    endpoint = ModelEndpoint(
        kind=kind,
        base_url=server.base_url(kind),
        model="big",
        select_model="small",
        api_key_env="MODEL_KEY",
        **members,
    )
    return HttpGenerator(endpoint, {"MODEL_KEY": KEY}, jitter=lambda: 0.0)


@KINDS
async def test_a_choice_is_asked_for_and_read(kind: str) -> None:
    async with model_server([Play(text='{"ids": ["m2"]}')]) as server:
        model = generator(server, kind)
        answer = await model.generate(question(response_schema=SCHEMA))
        await model.aclose()
    assert answer.text == '{"ids": ["m2"]}'
    assert answer.tool_calls == ()
    assert answer.usage == Usage(
        input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=0
    )
    (asked,) = server.requests
    assert asked.body["model"] == "small"
    assert asked.body["max_tokens"] == 64
    if kind == "openai":
        assert asked.path == "/v1/chat/completions"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert [one["role"] for one in asked.body["messages"]] == ["system", "user"]
    else:
        assert asked.path == "/v1/messages"
        assert asked.headers["x-api-key"] == KEY
        assert "authorization" not in asked.headers
        assert asked.headers["anthropic-version"] == "2023-06-01"
        assert asked.body["system"].startswith("Choose.")
        assert '"ids"' in asked.body["system"]
        assert [one["role"] for one in asked.body["messages"]] == ["user"]


@KINDS
async def test_tools_are_called_and_their_results_sent_back(kind: str) -> None:
    given = {"section": "Now", "newText": "on"}
    plays = [Play(text="Let me see.", calls=[("edit", given), ("edit", given)]), Play(text="Done.")]
    async with model_server(plays) as server:
        model = generator(server, kind)
        first = await model.generate(question(purpose="extract", tools=(TOOL,)))
        again = question(
            purpose="extract",
            tools=(TOOL,),
            messages=(
                ModelMessage(role="user", text="Edit."),
                ModelMessage(role="assistant", text=first.text or "", tool_calls=first.tool_calls),
                ModelMessage(
                    role="tool",
                    tool_results=tuple(
                        ToolResult(call_id=call.id, text=f"r{number}", is_error=number == 1)
                        for number, call in enumerate(first.tool_calls)
                    ),
                ),
                ModelMessage(role="user", text="Go on."),
            ),
        )
        second = await model.generate(again)
        await model.aclose()
    assert [(call.name, call.input) for call in first.tool_calls] == [("edit", given)] * 2
    assert len({call.id for call in first.tool_calls}) == 2
    assert second.text == "Done."
    assert server.connections == 1, "the connection is used again"
    sent = server.requests[1].body
    assert sent["model"] == "big"
    if kind == "openai":
        assert sent["tools"][0]["function"]["parameters"] == {"type": "object"}
        roles = [one["role"] for one in sent["messages"]]
        assert roles == ["user", "assistant", "tool", "tool", "user"]
        assert sent["messages"][2]["tool_call_id"] == first.tool_calls[0].id
    else:
        assert sent["tools"][0]["input_schema"] == {"type": "object"}
        roles = [one["role"] for one in sent["messages"]]
        assert roles == ["user", "assistant", "user"]
        kinds = [block["type"] for block in sent["messages"][2]["content"]]
        assert kinds == ["tool_result", "tool_result", "text"]
        assert sent["messages"][2]["content"][1]["is_error"] is True


async def test_a_server_without_schemas_is_asked_in_words_and_remembered() -> None:
    def picky(asked: Any) -> Play:
        if "response_format" in asked.body:
            return Play(status=400, body='{"error": {"message": "unknown response_format"}}')
        return Play(text='{"ids": []}')

    async with model_server(picky) as server:
        model = generator(server, "openai")
        for _ in range(2):
            answer = await model.generate(question(response_schema=SCHEMA))
            assert answer.text == '{"ids": []}'
        await model.aclose()
    assert len(server.requests) == 3
    assert '"ids"' in server.requests[1].body["messages"][0]["content"]


async def test_the_newer_word_for_the_limit_is_found_out() -> None:
    def picky(asked: Any) -> Play:
        if "max_tokens" in asked.body:
            return Play(
                status=400,
                body='{"error": {"message": "use max_completion_tokens, not max_tokens"}}',
            )
        return Play(text="yes")

    async with model_server(picky) as server:
        model = generator(server, "openai")
        assert (await model.generate(question())).text == "yes"
        assert (await model.generate(question())).text == "yes"
        await model.aclose()
    assert [("max_completion_tokens" in one.body) for one in server.requests] == [False, True, True]


async def test_headers_of_the_user_win_and_show_nowhere() -> None:
    async with model_server([Play(text="x")]) as server:
        model = generator(server, "openai", headers={"Authorization": "Basic other-canary"})
        assert "other-canary" not in repr(model)
        await model.generate(question())
        await model.aclose()
    assert server.requests[0].headers["authorization"] == "Basic other-canary"


async def test_a_key_that_the_server_repeats_is_taken_out_of_the_answer() -> None:
    async with model_server([Play(text=f"your key is {KEY}")]) as server:
        model = generator(server, "openai")
        answer = await model.generate(question())
        await model.aclose()
    assert answer.text == "your key is [secret removed: model key]"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_T6_redirects_are_not_followed(status: int) -> None:
    async with model_server([Play(text="elsewhere")]) as other:
        target = f"{other.url}/v1/chat/completions"
        async with model_server(
            [Play(status=status, body="", headers=[("location", target)])]
        ) as server:
            model = generator(server, "openai")
            with pytest.raises(ModelError, match="redirects") as caught:
                await model.generate(question())
            await model.aclose()
    assert caught.value.reason == "redirect"
    assert len(server.requests) == 1
    assert other.requests == []


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (Play(body="x" * 65_536, repeat=160), "tooLarge"),
        (Play(body="{}", headers=[("content-encoding", "gzip")]), "badAnswer"),
        (Play(body="<html>sign in</html>", content_type="text/html"), "badAnswer"),
        (Play(body="data: {}\n\n", content_type="text/event-stream"), "badAnswer"),
    ],
)
async def test_T6_bodies_that_are_too_large_packed_or_something_else(
    play: Play, reason: str
) -> None:
    async with model_server([play]) as server:
        model = generator(server, "openai")
        with pytest.raises(ModelError) as caught:
            await model.generate(question())
        await model.aclose()
    assert caught.value.reason == reason
    assert len(server.requests) == 1, "the same question is not asked again"


async def test_T6_cookies_are_not_kept() -> None:
    async with model_server([Play(text="x", headers=[("set-cookie", "a=b")])]) as server:
        model = generator(server, "openai")
        await model.generate(question())
        await model.generate(question())
        await model.aclose()
    assert "cookie" not in server.requests[1].headers


async def test_T6_what_is_meant_for_this_machine_goes_through_no_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with model_server([Play(text="proxy")]) as proxy, model_server([Play(text="x")]) as ours:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        model = generator(ours, "openai")
        assert (await model.generate(question())).text == "x"
        await model.aclose()
    assert proxy.requests == []


async def test_a_wrong_content_type_around_a_right_answer_does_no_harm() -> None:
    async with model_server([Play(text="x", content_type="text/plain")]) as server:
        model = generator(server, "openai")
        assert (await model.generate(question())).text == "x"
        await model.aclose()


@pytest.mark.parametrize("play", [Play(never=True), Play(text="x" * 5_000, drip_s=0.05)])
async def test_cancelling_closes_the_connection_and_says_nothing_of_the_endpoint(
    play: Play,
) -> None:
    async with model_server([play]) as server:
        model = generator(server, "openai")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(model.generate, question())
            while not server.requests:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await server.left.wait()
        assert model.health().state == "ok"
        assert model.statistics.failures == 0
        await model.aclose()


async def test_several_sessions_ask_at_once() -> None:
    async with model_server([Play(text="x", latency_s=0.05)]) as server:
        model = generator(server, "openai")
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(model.generate, question())
        await model.aclose()
    assert len(server.requests) == 20
    assert server.connections <= 8


async def test_the_server_runs_as_a_process_too() -> None:
    with ModelProcess([Play(status=503), Play(text="from a process")]) as server:
        endpoint = ModelEndpoint(base_url=server.base_url("openai"), model="m")
        model = HttpGenerator(endpoint, {}, jitter=lambda: 0.0)
        assert (await model.generate(question())).text == "from a process"
        await model.aclose()
        assert [asked.path for asked in server.requests()] == ["/v1/chat/completions"] * 2


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"base_url": "http://example.com/v1"}, "https"),
        ({"base_url": "ftp://example.com"}, "address"),
        ({"base_url": "https://user:canary@example.com"}, "user name or password"),
        ({"base_url": "https://example.com:canary"}, "address"),
        ({"base_url": "https://exa mple.com"}, "address"),
        ({"model": None}, "model.model"),
        ({"api_key_env": "sk_canary_pasted_here"}, "not the key"),
        ({"headers": {"Host": "x"}}, "host"),
        ({"headers": {"X-Key": "canary\r\nEvil: 1"}}, "one line"),
        ({"headers": {"canary name": "x"}}, "name"),
    ],
)
async def test_a_configuration_that_cannot_be_used_is_off_with_a_reason(
    members: dict[str, Any], said: str
) -> None:
    values = {"base_url": "https://example.com/v1", "model": "m", **members}
    model = HttpGenerator(ModelEndpoint(**values), {})
    assert not model.usable
    health = model.health()
    assert health.state == "off"
    assert said in (health.reason or "")
    assert "canary" not in repr(health)
    with pytest.raises(ModelError) as caught:
        await model.generate(question())
    assert caught.value.reason == "off"


def test_D13_nothing_slow_is_imported_before_a_model_is_asked() -> None:
    code = (
        "import sys, oncue.models.http as http; from oncue.settings import ModelEndpoint;"
        "assert http.HttpGenerator(ModelEndpoint(model='m'), {}).usable;"
        "print(*{'httpx', 'httpcore', 'h11', 'email', 'http.client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_workspaces_that_may_be_sent_are_named(tmp_path: Any) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)

    def may(*allowed: str, to: tuple[str, ...]) -> bool:
        return HttpGenerator(ModelEndpoint(allow_workspaces=allowed), {}).may_leave(to)

    assert may("*", to=())
    assert may("*", to=("/anything",))
    assert may(str(link), to=(str(real),))
    assert may(f"{real}/", f"file://{tmp_path}", to=(str(real), str(tmp_path)))
    assert not may(to=(str(real),))
    assert not may(str(real), to=())
    assert not may(str(tmp_path), to=(str(real),)), "a folder above does not count"
    assert not may(str(real), to=(str(real), str(tmp_path))), "all of them must be named"
