"""Recordings of our own making: lines of each agent's format, and whole sessions of any size.

Everything is invented and deterministic; nothing is random and nothing depends on the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from oncue.transcript.events import Appended, Event, Note, Prompt, Steering, Subagent
from oncue.transcript.readers import Reader, reader_for
from oncue_protocol import Message, TranscriptFormat

Json = dict[str, Any]
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SESSION = "5d1f0c1e-0000-4000-8000-000000000001"


def at(second: float) -> str:
    """A time as agents write it."""
    moment = START + timedelta(seconds=second)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lines(records: Iterable[Json | str | bytes]) -> bytes:
    """The records as JSON lines; text and bytes stand as they are."""
    raw = (
        record
        if isinstance(record, bytes)
        else (
            record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
        ).encode()
        for record in records
    )
    return b"".join(line + b"\n" for line in raw)


class Claude:
    """Writes Claude Code's records; each hangs below the one before."""

    def __init__(self, session: str = SESSION) -> None:
        self.session = session
        self.count = 0
        self.last: str | None = None
        self.records: list[Json | str | bytes] = []

    def add(self, kind: str, **members: Any) -> Json:
        self.count += 1
        record: Json = {
            "type": kind,
            "uuid": f"u{self.count}",
            "parentUuid": self.last,
            "sessionId": self.session,
            "timestamp": at(self.count),
            "version": "2.1.42",
            "cwd": "/home/mira/shop",
            "isSidechain": False,
        } | members
        self.last = record["uuid"]
        self.records.append(record)
        return record

    def user(self, content: Any, **members: Any) -> Json:
        return self.add("user", message={"role": "user", "content": content}, **members)

    def say(
        self,
        message_id: str,
        *blocks: Json,
        usage: Json | None = None,
        stop: str | None = None,
        **members: Any,
    ) -> Json:
        message = {
            "id": message_id,
            "role": "assistant",
            "model": "model-x",
            "content": list(blocks),
            "stop_reason": stop,
            "usage": usage,
        }
        return self.add("assistant", message=message, requestId=f"q-{message_id}", **members)

    def result(self, call: str, content: Any = "done", *more: Json, **members: Any) -> Json:
        error = members.pop("is_error", None)
        block: Json = {"type": "tool_result", "tool_use_id": call, "content": content}
        if error is not None:
            block["is_error"] = error
        return self.user([block, *more], **members)

    def bytes(self) -> bytes:
        return lines(self.records)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(call: str, name: str = "Read", **given: Any) -> Json:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


class Qwen:
    """Writes Qwen Code's records."""

    def __init__(self) -> None:
        self.count = 0
        self.last: str | None = None
        self.records: list[Json | str | bytes] = []

    def add(self, kind: str, parts: list[Json] | None = None, **members: Any) -> Json:
        self.count += 1
        record: Json = {
            "uuid": f"w{self.count}",
            "parentUuid": self.last,
            "sessionId": SESSION,
            "timestamp": at(self.count),
            "type": kind,
            "cwd": "/home/mira/shop",
            "version": "0.24.4",
        } | members
        if parts is not None:
            role = "model" if kind == "assistant" else "user"
            record["message"] = {"role": role, "parts": parts}
        self.last = record["uuid"]
        self.records.append(record)
        return record

    def system(self, subtype: str, **payload: Any) -> Json:
        return self.add("system", subtype=subtype, systemPayload=payload)

    def bytes(self) -> bytes:
        return lines(self.records)


def call(call_id: str, name: str = "read_file", **given: Any) -> Json:
    return {"functionCall": {"id": call_id, "name": name, "args": given}}


def response(call_id: str, **given: Any) -> Json:
    return {"functionResponse": {"id": call_id, "name": "read_file", "response": given}}


class Gemini:
    """Writes Gemini CLI's records."""

    def __init__(self) -> None:
        self.count = 0
        self.records: list[Json | str | bytes] = [
            {
                "sessionId": SESSION,
                "projectHash": "4be1",
                "startTime": at(0),
                "lastUpdated": at(0),
                "kind": "main",
                "directories": ["/home/mira/shop"],
            }
        ]

    def add(self, kind: str, message_id: str | None = None, **members: Any) -> Json:
        self.count += 1
        record: Json = {
            "id": message_id or f"g{self.count}",
            "timestamp": at(self.count),
            "type": kind,
        } | members
        self.records.append(record)
        return record

    def user(self, words: Any, **members: Any) -> Json:
        return self.add("user", content=words, **members)

    def raw(self, **record: Any) -> None:
        self.records.append({f"${name}": value for name, value in record.items()})

    def bytes(self) -> bytes:
        return lines(self.records)

    def whole(self, indent: int | None = None) -> bytes:
        """The same session as one object, as older versions wrote it."""
        header, *messages = self.records
        assert isinstance(header, dict)
        return json.dumps(header | {"messages": messages}, indent=indent).encode()


class Codex:
    """Writes Codex CLI's rollout lines."""

    def __init__(self, thread: str = SESSION, **meta: Any) -> None:
        self.count = 0
        self.records: list[Json | str | bytes] = []
        self.line("session_meta", id=thread, timestamp=at(0), cwd="/home/mira/shop", **meta)

    def line(self, kind: str, when: str | None = None, /, **payload: Any) -> Json:
        self.count += 1
        record = {"timestamp": when or at(self.count), "type": kind, "payload": payload}
        self.records.append(record)
        return record

    def item(self, kind: str, when: str | None = None, /, **payload: Any) -> Json:
        return self.line("response_item", when, type=kind, **payload)

    def user(self, words: str, when: str | None = None, **members: Any) -> Json:
        content = [{"type": "input_text", "text": words}]
        return self.item("message", when, role="user", content=content, **members)

    def say(self, words: str, when: str | None = None, **members: Any) -> Json:
        content = [{"type": "output_text", "text": words}]
        return self.item("message", when, role="assistant", content=content, **members)

    def call(
        self, call_id: str, arguments: str = "{}", name: str = "shell", **members: Any
    ) -> Json:
        return self.item(
            "function_call", call_id=call_id, name=name, arguments=arguments, **members
        )

    def output(self, call_id: str, output: Any = "done") -> Json:
        return self.item("function_call_output", call_id=call_id, output=output)

    def event(self, kind: str, when: str | None = None, /, **payload: Any) -> Json:
        return self.line("event_msg", when, type=kind, **payload)

    def bytes(self) -> bytes:
        return lines(self.records)


def read(
    data: bytes, form: TranscriptFormat, name: str = "", *, subagents: bool = False
) -> list[Event]:
    """All events of a recording."""
    reader = reader_for(form, name, data, subagents=subagents, source=lambda: [data])
    return reader.feed(data) + reader.close()


def messages(events: Iterable[Event]) -> list[Message]:
    """The messages among the events, subagents' left out."""
    return [e.message for e in events if isinstance(e, Prompt | Steering | Appended)]


def kinds(events: Iterable[Event]) -> list[str]:
    """What the events are, the first and the note left out."""
    return [
        type(event.event if isinstance(event, Subagent) else event).__name__
        for event in events
        if not isinstance(event, Note)
    ][1:]


def skipped(events: Iterable[Event]) -> dict[str, int]:
    """What the note at the end says was passed over."""
    [note] = [event for event in events if isinstance(event, Note)]
    return dict(note.skipped)


def feed_in_pieces(reader: Reader, data: bytes, size: int) -> list[Event]:
    """The events where the data comes `size` bytes at a time."""
    events: list[Event] = []
    for start in range(0, len(data), size):
        events += reader.feed(data[start : start + size])
    return events + reader.close()


def big_session(megabytes: float, turns_per_compaction: int = 200) -> Iterator[bytes]:
    """A session of Claude Code of about so many megabytes, a turn at a time.

    A turn is a prompt, three responses with a call and its result each, noise as it is in real
    files, and an answer; now and then an image, and a compaction every so often."""
    target = int(megabytes * 1024 * 1024)
    written = turn = 0
    writer = Claude()
    while written < target:
        turn += 1
        writer.records.clear()
        _turn(writer, turn, compacts=turn % turns_per_compaction == 0)
        data = writer.bytes()
        written += len(data)
        yield data


def _turn(writer: Claude, turn: int, *, compacts: bool) -> None:
    topic = ("the invoice totals", "the flaky test", "the login page", "the cache")[turn % 4]
    writer.user(f"Please look at {topic} again, this is request {turn}.")
    size = 2_000 + 1_500 * turn
    for step in range(3):
        usage = {
            "input_tokens": 5,
            "cache_read_input_tokens": size % 150_000,
            "cache_creation_input_tokens": 900,
            "output_tokens": 1,
        }
        message_id, call_id = f"msg-{turn}-{step}", f"call-{turn}-{step}"
        writer.say(message_id, {"type": "thinking", "thinking": f"Look at {topic}."}, usage=usage)
        writer.say(message_id, text(f"I will read module {step} of {topic}."), usage=usage)
        writer.say(
            message_id, use(call_id, "Read", path=f"/home/mira/shop/m{step}.py"), usage=usage
        )
        for tick in range(3):
            writer.add("progress", data={"tick": tick, "agent": "none"})
        code = "\n".join(f"def f{n}(x): return x + {n} * {turn}" for n in range(60))
        writer.result(call_id, code)
    if turn % 25 == 0:
        image = {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo" * 9_000}}
        writer.user([image, text("This is what it looks like now.")], isMeta=True)
    writer.say(
        f"msg-{turn}-end", text(f"Done with {topic}: two functions were wrong."), stop="end_turn"
    )
    if compacts:
        writer.add(
            "system",
            subtype="compact_boundary",
            parentUuid=None,
            logicalParentUuid=writer.last,
            compactMetadata={"trigger": "auto", "preTokens": 150_000},
        )
        writer.user(f"Summary of {turn} requests so far.", isCompactSummary=True)
