"""What is kept of a message, and what a range of messages looks like to an extractor (pure).

* X26: text that we delivered ourselves is stripped wherever it was quoted.
* X27: long texts are cut in the middle, visibly: an extractor wants the beginning of a tool's
  output and its end, where errors stand, and a session must stay within 64 MB.
* X5: `paired` never separates a call from its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

import attrs
from attrs import frozen

from oncue.text import marker, tokens
from oncue_protocol import Message

MAX_RESULT = 4_000
"""Characters kept of a tool result: about 1,000 tokens, a screen and a half."""
MAX_INPUT = 4_000
"""Characters kept of each string in a tool's input: a written file is known by its beginning."""
MAX_TEXT = 24_000
"""Characters kept of what is said: a pasted log, not a letter."""
MAX_INPUT_STRINGS = 200
"""Values kept of one tool input; more is data, not an instruction."""


@frozen
class Size:
    """How much a message held as it came, before anything was cut: what "more content" means."""

    text: int
    calls: int
    results: int
    result_text: int
    has_usage: bool

    def exceeds(self, other: Size) -> bool:
        """Longer text, more calls or results, or usage where there was none."""
        return (
            self.text > other.text
            or self.calls > other.calls
            or self.results > other.results
            or self.result_text > other.result_text
            or (self.has_usage and not other.has_usage)
        )


def size_of(message: Message) -> Size:
    """See `Size`."""
    return Size(
        len(message.text),
        len(message.tool_calls),
        len(message.tool_results),
        sum(len(result.text) for result in message.tool_results),
        message.usage is not None,
    )


def estimate(message: Message) -> int:
    """Estimated tokens of everything in the message that a model reads."""
    total = tokens.weight(message.text)
    for call in message.tool_calls:
        total += tokens.weight(call.name)
        if call.input is not None:
            total += tokens.weight(str(call.input))
    for result in message.tool_results:
        total += tokens.weight(result.text)
    return -(-total // 1_000)


def kept(message: Message) -> Message:
    """The message without text that we delivered ourselves, long texts cut; the very same object
    where there is nothing to change."""
    changes: dict[str, Any] = {}
    text = _clean(message.text, MAX_TEXT)
    if text is not message.text:
        changes["text"] = text
    results = tuple(
        result
        if (body := _clean(result.text, MAX_RESULT)) is result.text
        else attrs.evolve(result, text=body)
        for result in message.tool_results
    )
    if any(new is not old for new, old in zip(results, message.tool_results, strict=True)):
        changes["tool_results"] = results
    calls = tuple(
        call
        if call.input is None or (given := _Input().cut(call.input)) is call.input
        else attrs.evolve(call, input=given)
        for call in message.tool_calls
    )
    if any(new is not old for new, old in zip(calls, message.tool_calls, strict=True)):
        changes["tool_calls"] = calls
    return attrs.evolve(message, **changes) if changes else message


def shorten(text: str, limit: int) -> str:
    """`text` with its middle left out, visibly, where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 5 // 8
    tail = limit - head
    return f"{text[:head]}\n[… {len(text) - limit} characters …]\n{text[-tail:]}"


def _clean(text: str, limit: int) -> str:
    # Stripping first: cutting might leave half a fence, which nobody recognises any more.
    if marker.contains(text):
        text = marker.strip(text)
    return shorten(text, limit)


class _Input:
    """Cuts the strings of one tool input, and their number."""

    def __init__(self) -> None:
        self._left = MAX_INPUT_STRINGS

    def cut(self, value: Any) -> Any:
        """The same object where nothing was to change."""
        self._left -= 1
        if isinstance(value, str):
            return _clean(value, MAX_INPUT)
        if isinstance(value, dict):
            new: dict[str, Any] = {}
            same = True
            for key, item in value.items():
                if self._left <= 0:
                    new["…"] = f"[{len(value) - len(new)} more]"
                    return new
                short = shorten(key, MAX_INPUT)
                new[short] = self.cut(item)
                same = same and new[short] is item and short is key
            return value if same else new
        if isinstance(value, list):
            items: list[Any] = []
            for item in value:
                if self._left <= 0:
                    items.append(f"[{len(value) - len(items)} more]")
                    return items
                items.append(self.cut(item))
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else items
        return value


def answered(messages: Iterable[Message]) -> set[str]:
    """Ids of the calls that have a result in these messages."""
    return {result.call_id for message in messages for result in message.tool_results}


def start_with_calls(messages: Sequence[Message], start: int) -> int:
    """The largest index at or before `start` from which on no result lacks a call that
    `messages` holds."""
    asked: dict[str, int] = {}
    for index, message in enumerate(messages):
        for call in message.tool_calls:
            asked.setdefault(call.id, index)
    index = len(messages)
    while index > start:
        index -= 1
        for result in messages[index].tool_results:
            start = min(start, asked.get(result.call_id, start))
    return start


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with calls and results in pairs only. A call that got no result (its turn was
    aborted) becomes a line of text, a result whose call is not known any more is left out."""
    results = answered(messages)
    asked: Set[str] = {call.id for message in messages for call in message.tool_calls}
    whole: list[Message] = []
    for message in messages:
        lost = [call for call in message.tool_calls if call.id not in results]
        orphans = any(result.call_id not in asked for result in message.tool_results)
        if lost or orphans:
            lines = [message.text] if message.text else []
            lines += [f"[asked for {call.name}; no result came]" for call in lost]
            message = attrs.evolve(
                message,
                text="\n".join(lines),
                tool_calls=tuple(c for c in message.tool_calls if c.id in results),
                tool_results=tuple(r for r in message.tool_results if r.call_id in asked),
            )
        whole.append(message)
    return tuple(whole)
