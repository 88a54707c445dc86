"""Chat completions, as OpenAI and everything compatible with it speak them (pure)."""

from __future__ import annotations

from typing import Any, Literal

from attrs import evolve, frozen

from oncue.models.http_json import count, dump, tool_calls, unusable
from oncue_protocol import ModelGenerateParams, ModelGenerateResult, ModelMessage, Usage

HEADERS: dict[str, str] = {}


@frozen
class Dialect:
    """What this server understands, as far as it was found out."""

    json_schema: bool = True
    """`response_format` with a schema; else the schema is told in words."""
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The newest models of the API's inventor know only the second, most others only the first."""


def request(params: ModelGenerateParams, model: str, dialect: Dialect) -> dict[str, Any]:
    """The body of a request."""
    messages = [one for message in params.messages for one in _messages(message)]
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        dialect.limit: params.max_output_tokens,
        "stream": False,
    }
    if params.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            }
            for tool in params.tools
        ]
    if params.response_schema is not None:
        if dialect.json_schema:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": params.response_schema},
            }
        else:
            messages.insert(0, {"role": "system", "content": in_words(params.response_schema)})
    return body


def in_words(schema: dict[str, Any]) -> str:
    """A schema for a model whose API does not enforce one."""
    return (
        "Answer with one JSON object that fits this JSON Schema, and nothing else: "
        + dump(schema).decode()
    )


def _messages(message: ModelMessage) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        for result in message.tool_results
    ]
    if message.role == "assistant":
        said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        if message.tool_calls:
            said["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": dump(call.input).decode(),
                    },
                }
                for call in message.tool_calls
            ]
        elif not message.text:
            said["content"] = ""
        out.append(said)
    elif message.text:
        role = "system" if message.role == "system" else "user"
        out.append({"role": role, "content": message.text})
    return out


def adapted(dialect: Dialect, body: bytes, *, had_schema: bool) -> Dialect | None:
    """How to ask again after a 400 or 422: None where nothing of ours can have been the reason."""
    if b"max_tokens" in body and b"max_completion_tokens" in body:
        other: Literal["max_tokens", "max_completion_tokens"] = (
            "max_completion_tokens" if dialect.limit == "max_tokens" else "max_tokens"
        )
        return evolve(dialect, limit=other)
    return evolve(dialect, json_schema=False) if had_schema and dialect.json_schema else None


def result(answer: dict[str, Any]) -> ModelGenerateResult:
    """What the model said; raises ModelError for an answer of another shape."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise unusable("it has no choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise unusable("its first choice has no message")
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise unusable("its tool calls are not a list")
    functions = [
        (one.get("id"), one["function"].get("name"), one["function"].get("arguments"))
        for one in calls or ()
        if isinstance(one, dict) and isinstance(one.get("function"), dict)
    ]
    if len(functions) < len(calls or ()):
        raise unusable("a tool call names no function")
    return ModelGenerateResult(
        text=_text(message.get("content")),
        tool_calls=tool_calls(functions),
        usage=_usage(answer.get("usage")),
    )


def _text(content: object) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise unusable("its content is no text")
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    prompt = count(usage.get("prompt_tokens"))
    cached = min(prompt, count(details.get("cached_tokens")) if isinstance(details, dict) else 0)
    return Usage(
        input_tokens=prompt - cached,
        output_tokens=count(usage.get("completion_tokens")),
        cache_read_tokens=cached,
    )
