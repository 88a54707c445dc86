"""The Anthropic messages API (pure)."""

from __future__ import annotations

from typing import Any

from oncue.models.http_json import count, tool_calls, unusable
from oncue.models.http_openai import in_words
from oncue_protocol import ModelGenerateParams, ModelGenerateResult, ModelMessage, Usage

HEADERS: dict[str, str] = {"anthropic-version": "2023-06-01"}


def request(params: ModelGenerateParams, model: str) -> dict[str, Any]:
    """The body of a request: system text apart, roles alternating, the user first."""
    system = [message.text for message in params.messages if message.role == "system"]
    if params.response_schema is not None:
        system.append(in_words(params.response_schema))
    turns: list[dict[str, Any]] = []
    for message in params.messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    for turn in turns:  # results stand before text, where the API wants them; the sort is stable
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": "Go on."}]})
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max(1, params.max_output_tokens),
        "messages": turns,
    }
    if any(system):
        body["system"] = "\n\n".join(filter(None, system))
    if params.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in params.tools
        ]
    return body


def _blocks(message: ModelMessage) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [
        {
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.text,
            "is_error": result.is_error,
        }
        for result in message.tool_results
    ]
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    for call in message.tool_calls:
        given = call.input if isinstance(call.input, dict) else {}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return blocks


def result(answer: dict[str, Any]) -> ModelGenerateResult:
    """What the model said; raises ModelError for an answer of another shape."""
    content = answer.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise unusable("it has no list of content blocks")
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    used = [block for block in content if block.get("type") == "tool_use"]
    if not all(isinstance(text, str) for text in texts):
        raise unusable("a text block holds no text")
    usage = answer.get("usage")
    return ModelGenerateResult(
        text="".join(map(str, texts)) if texts else None,
        tool_calls=tool_calls([(one.get("id"), one.get("name"), one.get("input")) for one in used]),
        usage=_usage(usage) if isinstance(usage, dict) else None,
    )


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
    )
