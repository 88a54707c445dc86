"""Qwen Code's sessions (pure): transcripts.md §3."""

from __future__ import annotations

from typing import ClassVar, get_args

from oncue_protocol import Message, ToolCall, ToolResult, TranscriptFormat, TurnEndReason, Usage

from . import fields, parts
from .base import Reader
from .conversation import NOTHING
from .fields import Json

_KINDS = ("user", "assistant", "tool_result", "system")
_STEERING = "mid_turn_user_message"
_NOISE = frozenset(
    (
        "ui_telemetry",
        "slash_command",
        "at_command",
        "custom_title",
        "session_artifact",
        "file_history_snapshot",
        "attribution_snapshot",
    )
)
_REASONS: dict[str, TurnEndReason] = {
    reason.lower(): reason for reason in get_args(TurnEndReason)
} | {"cancelled": "aborted", "canceled": "aborted", "failed": "error"}


class QwenReader(Reader):
    """Reads `~/.qwen/projects/<dir>/chats/<session>.jsonl`, and subagents' files."""

    format: ClassVar[TranscriptFormat] = "qwen"

    def _setup(self) -> None:
        self._ordinals: dict[int, int] = {}
        self._ids: set[int] = set()
        self._conversation = self._main
        self._parent, self._agent = _subagent_of(self._name)

    def _record(self, number: int, record: Json) -> None:
        kind = fields.string(record.get("type"))
        if kind not in _KINDS:
            self.skipped["unknown_type"] += 1
            return
        self._identify(
            self._parent or fields.ident(record.get("sessionId")),
            fields.string(record.get("cwd")) or None,
        )
        if self._agent or record.get("isSidechain") is True:
            if not self._subagents:
                self.skipped["subagent"] += 1
                return
            if self._conversation is self._main:
                agent = self._agent or fields.ident(record.get("agentId")) or "agent"
                self._conversation = self._conversation_of(f"{self._session}/{agent}")
        if record.get("forkedFrom"):
            self.skipped["copy"] += 1  # of the session it was forked from
        elif kind == "assistant":
            self._assistant(record)
        elif kind == "tool_result":
            self._result(record)
        elif kind == "user":
            self._user(record)
        else:
            self._system(record)
        uuid = fields.ident(record.get("uuid"))
        if uuid is not None:
            self._ordinals[hash(uuid)] = self._main.tail

    def _assistant(self, record: Json) -> None:
        content = fields.mapping(record.get("message")).get("parts")
        uuid = fields.ident(record.get("uuid"))
        draft = self._conversation.draft
        if draft is None or uuid is None or draft.key != uuid:
            if not fields.items(content):
                self.skipped["empty"] += 1
                return
            message_id = self._new_id(uuid)
            when = fields.time(record.get("timestamp"))
            draft = self._conversation.respond(message_id, uuid or message_id, when)
        draft.texts.append(parts.text_of(content))
        for call in parts.calls_of(content):
            call_id = call.id or f"{draft.id}:{len(draft.calls)}"
            self._conversation.call(ToolCall(id=call_id, name=call.name, input=call.arguments))
        self.skipped["unknown_block"] += sum(map(parts.is_unknown, fields.items(content)))
        draft.usage = _usage(fields.mapping(record.get("usageMetadata"))) or draft.usage

    def _new_id(self, uuid: str | None, suffix: str = "") -> str:
        """The record's id; by line where it has none or it was used (T9)."""
        name = uuid + suffix if uuid is not None else None
        if name is None or hash(name) in self._ids:
            return self._line_id(suffix)
        self._ids.add(hash(name))
        return name

    def _result(self, record: Json) -> None:
        content = fields.mapping(record.get("message")).get("parts")
        told = fields.mapping(record.get("toolCallResult"))
        status = told.get("status")
        results = []
        for response in parts.responses_of(content):
            text, is_error = parts.response_text(response)
            call_id = fields.ident(response.get("id")) or fields.ident(told.get("callId"))
            results.append(
                ToolResult(
                    call_id=call_id or self._conversation.open_call() or "",
                    text=text,
                    is_error=is_error or status in ("error", "cancelled"),
                )
            )
        if not results and (call_id := fields.ident(told.get("callId"))):
            text = fields.flat(told.get("resultDisplay") or told.get("error"))
            results = [
                ToolResult(call_id=call_id, text=text, is_error=status in ("error", "cancelled"))
            ]
        if not results:
            self.skipped["empty"] += 1
            return
        self._conversation.results(
            self._message(record, "", tuple(results)), cancelled=status == "cancelled"
        )

    def _user(self, record: Json) -> None:
        content = fields.mapping(record.get("message")).get("parts")
        if parts.responses_of(content):
            self._result(record)
            return
        subtype = fields.string(record.get("subtype"))
        shown = fields.mapping(record.get("systemPayload")).get("displayText")
        text = shown if isinstance(shown, str) and shown.strip() else parts.text_of(content)
        if not text.strip():
            self.skipped["empty"] += 1
            return
        message = self._message(record, text)
        if subtype == _STEERING:
            self._conversation.steering(message)
        elif subtype:
            self._conversation.system(message)
        else:
            self._conversation.prompt(message, fields.query_of(text))

    def _system(self, record: Json) -> None:
        subtype = fields.string(record.get("subtype"))
        payload = fields.mapping(record.get("systemPayload"))
        if subtype == "chat_compression":
            info = fields.mapping(payload.get("info"))
            self._conversation.compacted(fields.count(info.get("newTokenCount")) or None)
        elif subtype == "rewind":
            parent = fields.ident(record.get("parentUuid"))
            survivor = self._ordinals.get(hash(parent), NOTHING) if parent else NOTHING
            self._conversation.reset("rewound", self._main.chain(survivor))
        elif subtype == "turn_result":
            state = fields.string(payload.get("state")).replace("_", "").replace("-", "").lower()
            self._conversation.end(_REASONS.get(state, "completed"))
        elif subtype == _STEERING or subtype in ("notification", "cron", "goal_runtime"):
            self._user(record)
        else:
            self.skipped["noise" if subtype in _NOISE else "unknown_type"] += 1

    def _message(self, record: Json, text: str, results: tuple[ToolResult, ...] = ()) -> Message:
        return Message(
            id=self._new_id(fields.ident(record.get("uuid"))),
            role="tool" if results else "user",
            text=text,
            tool_results=results,
            time=fields.time(record.get("timestamp")),
        )

    def _finish(self) -> None:
        self._conversation.end(None)
        super()._finish()

    def _settle(self) -> None:
        self._conversation.settle()


def _usage(given: Json) -> Usage | None:
    prompt = fields.count(given.get("promptTokenCount"))
    cached = fields.count(given.get("cachedContentTokenCount"))
    written = fields.count(given.get("candidatesTokenCount"))
    thoughts = fields.count(given.get("thoughtsTokenCount"))
    if fields.count(given.get("totalTokenCount")) >= prompt + written + thoughts:
        written += thoughts  # else the candidates' figure holds them already
    return fields.usage(prompt - cached, written, cached)


def _subagent_of(name: str) -> tuple[str | None, str | None]:
    """Session and agent of `.../subagents/<session>/agent-<id>.jsonl`."""
    steps = name.replace("\\", "/").split("/")
    if len(steps) < 3 or steps[-3] != "subagents" or not steps[-1].startswith("agent-"):
        return None, None
    agent = steps[-1].partition(".")[0].removeprefix("agent-")
    return fields.ident(steps[-2]), fields.ident(agent)
