"""Gemini CLI's sessions, and Qwen Code's first ones (pure): transcripts.md §4.

A repeated id replaces the message: usage and calls arrive so. It is therefore held until
another id comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from oncue_protocol import Message, ToolCall, ToolResult, TranscriptFormat, Usage

from . import fields, parts
from .base import Reader
from .fields import Json

_NOT_TYPED = ("/", "?", "<session_context>")
_HOOK = "<hook_context>"
_HOOK_END = "</hook_context>"
_FINISHED = ("success", "error", "cancelled")


@frozen
class _Sent:
    """What went out under an id."""

    ordinals: frozenset[int]
    """Of its messages: the assistant's and its results."""
    length: int
    calls: int
    has_usage: bool


class GeminiReader(Reader):
    """Reads `~/.gemini/tmp/<hash or name>/chats/session-*`, `.json` and `.jsonl`."""

    format: ClassVar[TranscriptFormat] = "gemini"

    def _setup(self) -> None:
        self._held: tuple[str, Json, bool] | None = None
        self._sent: dict[int, _Sent] = {}
        self._live: list[int] = []
        self._had_list = False
        self._conversation = self._main
        self._parent = _parent_of(self._name)
        self._is_subagent = self._parent is not None

    def _record(self, number: int, record: Json) -> None:
        if "$set" in record:
            self._set(fields.mapping(record.get("$set")))
        elif "$rewindTo" in record:
            self._rewind(fields.ident(record.get("$rewindTo")))
        elif "type" in record:
            self._identify(self._parent, None)
            self._message_record(record, self._line_id())
        elif "sessionId" in record or "messages" in record:
            self._header(record)
        else:
            self.skipped["unknown_type"] += 1

    def _header(self, record: Json) -> None:
        own = fields.ident(record.get("sessionId"))
        self._is_subagent |= record.get("kind") == "subagent"
        folders = fields.items(record.get("directories"))
        workspace = fields.string(folders[0]) if folders else ""
        self._identify(self._parent or own, workspace or None)
        if self._is_subagent and self._subagents and self._conversation is self._main:
            session = f"{self._parent or 'unknown'}/{own or self._stem()}"
            self._conversation = self._conversation_of(session)
        for at, message in enumerate(fields.objects(record.get("messages"))):
            self._message_record(message, self._line_id(f":{at}"))

    def _message_record(self, record: Json, fallback: str, *, in_list: bool = False) -> None:
        """Hold it; a record that is passed over lets nothing go."""
        if self._is_subagent and not self._subagents:
            self.skipped["subagent"] += 1
            return
        kind = record.get("type")
        if kind not in ("user", "gemini", "info", "warning", "error"):
            self.skipped["unknown_type"] += 1
            return
        if kind == "user" and parts.responses_of(record.get("content")):
            self.skipped["repeated_result"] += 1
            return
        key = fields.ident(record.get("id")) or fallback
        if self._held is not None and self._held[0] != key:
            self._let_go()
        self._held = (key, record, in_list)

    def _let_go(self) -> None:
        """The held message is whole."""
        if self._held is None:
            return
        key, record, in_list = self._held
        self._held = None
        kind = record.get("type")
        if kind == "gemini":
            self._response(key, record)
        elif kind == "user":
            self._user(key, record, in_list=in_list)
        elif kind == "error":
            self.skipped["api_error"] += 1
            self._conversation.end("error")
        else:
            if parts.text_of(record.get("content")).strip().startswith("Request cancelled"):
                self._conversation.end("aborted")
            self.skipped["noise"] += 1

    # Messages.

    def _response(self, key: str, record: Json) -> None:
        content = record.get("content")
        text = parts.text_of(content)
        usage = _usage(fields.mapping(record.get("tokens")))
        told = fields.objects(record.get("toolCalls"))
        calls = [_call(key, at, call) for at, call in enumerate(told)]
        when = fields.time(record.get("timestamp"))
        conversation = self._conversation
        sent = self._sent.get(hash(key))
        first = conversation.next_ordinal
        if sent is None:
            draft = conversation.respond(key, key, when)
            draft.texts.append(text)
            draft.usage = usage
            for call in calls:
                conversation.call(call)
            self.skipped["unknown_block"] += sum(map(parts.is_unknown, fields.items(content)))
            conversation.close_draft()
        else:
            self._grown(sent, key, text, usage, calls, when)
        self._results(key, told, calls, when, grown=sent is not None)
        self._note(key, first, len(text), len(calls), has_usage=usage is not None)

    def _grown(
        self,
        sent: _Sent,
        key: str,
        text: str,
        usage: Usage | None,
        calls: Sequence[ToolCall],
        when: str | None,
    ) -> None:
        """The id comes again after others: once more, where it says more."""
        grown = (
            len(text) > sent.length
            or len(calls) > sent.calls
            or (usage is not None and not sent.has_usage)
        )
        if grown:
            self._conversation.repeat(
                Message(
                    id=key,
                    role="assistant",
                    text=text,
                    tool_calls=tuple(calls),
                    usage=usage,
                    time=when,
                )
            )
            self._conversation.reopen(calls[sent.calls :])
        else:
            self.skipped["copy"] += 1

    def _results(
        self,
        key: str,
        told: Sequence[Json],
        calls: Sequence[ToolCall],
        when: str | None,
        *,
        grown: bool,
    ) -> None:
        results: list[ToolResult] = []
        cancelled = False
        for given, call in zip(told, calls, strict=True):
            status = given.get("status")
            if status in _FINISHED and self._conversation.is_open(call.id):
                text, is_error = _result_text(given)
                results.append(
                    ToolResult(call_id=call.id, text=text, is_error=is_error or status != "success")
                )
                cancelled |= status == "cancelled"
        if results:
            name = f"{key}:results:{self._number}" if grown else f"{key}:results"
            self._conversation.results(
                Message(id=name, role="tool", tool_results=tuple(results), time=when),
                cancelled=cancelled,
            )

    def _user(self, key: str, record: Json, *, in_list: bool) -> None:
        shown = record.get("displayContent")
        text = parts.text_of(shown) if shown is not None else ""
        text = text if text.strip() else parts.text_of(record.get("content"))
        if text.lstrip().startswith(_HOOK):
            _, closed, rest = text.partition(_HOOK_END)
            text = rest.lstrip() if closed else ""
        first = self._conversation.next_ordinal
        if not text.strip() or hash(key) in self._sent:
            self.skipped["copy" if hash(key) in self._sent else "empty"] += 1
            return
        message = Message(id=key, role="user", text=text, time=fields.time(record.get("timestamp")))
        if text.lstrip().startswith(_NOT_TYPED):
            self._conversation.system(message)
        elif in_list:
            if self._had_list:
                self._conversation.system(message)  # a compaction's summary, or in doubt
            else:
                self._conversation.history(message)
        else:
            self._conversation.prompt(message, fields.query_of(text))
        self._note(key, first, len(text))

    def _note(
        self, key: str, first: int, length: int, calls: int = 0, *, has_usage: bool = False
    ) -> None:
        sent = self._sent.get(hash(key))
        new = frozenset(range(first, self._conversation.next_ordinal))
        ordinals = new | sent.ordinals if sent is not None else new
        self._sent[hash(key)] = _Sent(ordinals, length, calls, has_usage)
        if sent is None:
            self._live.append(hash(key))

    # The list as a whole.

    def _set(self, members: Json) -> None:
        if "messages" not in members:
            self.skipped["noise"] += 1
            return
        self._let_go()
        listed = fields.objects(members.get("messages"))
        lengths = {
            hash(key): _length(message)
            for message in listed
            if (key := fields.ident(message.get("id")))
        }
        if any(lengths.get(key, -1) < self._sent[key].length for key in self._live):
            self._conversation.compacted(None)
            self._live = [key for key in self._live if key in lengths]
        for at, message in enumerate(listed):
            self._message_record(message, self._line_id(f":{at}"), in_list=True)
        self._let_go()
        self._had_list = True

    def _rewind(self, key: str | None) -> None:
        """Drops this message and all after it; an unknown one drops everything."""
        self._let_go()
        at = self._live.index(hash(key)) if key and hash(key) in self._live else 0
        dropped = self._live[at:]
        self._live = self._live[:at]
        for gone in dropped:
            del self._sent[gone]
        kept = (self._sent[key].ordinals for key in self._live)
        self._conversation.reset("rewound", frozenset().union(*kept))

    def _finish(self) -> None:
        self._let_go()
        self._conversation.end(None)
        super()._finish()

    def _settle(self) -> None:
        self._let_go()
        self._conversation.settle()


def _call(key: str, at: int, given: Json) -> ToolCall:
    return ToolCall(
        id=fields.ident(given.get("id")) or f"{key}:{at}",
        name=fields.string(given.get("name")),
        input=fields.shallow(given.get("args")),
    )


def _result_text(given: Json) -> tuple[str, bool]:
    told = given.get("result")
    responses = parts.responses_of(told)
    if responses:
        shown = [parts.response_text(response) for response in responses]
        return fields.joined(text for text, _ in shown), any(error for _, error in shown)
    return parts.text_of(told) or fields.flat(given.get("resultDisplay")), False


def _length(record: Json) -> int:
    shown = record.get("displayContent")
    return max(len(parts.text_of(record.get("content"))), len(parts.text_of(shown)))


def _usage(given: Json) -> Usage | None:
    read, cached, tool = (fields.count(given.get(name)) for name in ("input", "cached", "tool"))
    written = fields.count(given.get("output")) + fields.count(given.get("thoughts"))
    return fields.usage(max(0, read - cached) + tool, written, cached)


def _parent_of(name: str) -> str | None:
    """Session of a subagent's file: `chats/<parent id>/<file>`."""
    steps = name.replace("\\", "/").split("/")
    return fields.ident(steps[-2]) if len(steps) > 2 and steps[-3] == "chats" else None
