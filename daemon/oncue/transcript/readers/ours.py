"""Our own recordings (pure): what a client told a daemon, one notification a line.

A file of JSON lines, each `{"method": M, "params": P}` (a `jsonrpc` member and others are
ignored), where M and P are the protocol's own (protocol.md):

* `session/open` (`sessionId`, `workspace`): whose session it is; once, first.
* `transcript/didAppend` (`messages`, `lane`): the messages, each whole. A repeated id goes out
  again, as the protocol lets it. Lanes other than `main` are subagents (T6).
* `recall/start` (`query`, `turnId`): optional; what the user message that comes next asks for,
  where that is not its text, and the id of the turn that it opens.
* `turn/didEnd` (`reason`), `transcript/didReset` (`reason`), `transcript/willCompact`,
  `transcript/didCompact` (`contextTokens`, `keptFromMessageId`). After a reset `rewound`, messages
  that were known before are what survived: they start no recalls (T8).

A message of role `user` opens a turn. It is steering where the turn before it is still open
(no `turn/didEnd`) and the model has yet to answer: a call has no result, or the last message is
not an assistant's. Everything else that the daemon or the client may have sent is passed over.
"""

from __future__ import annotations

from typing import ClassVar, get_args

from oncue_protocol import (
    Message,
    MessageRole,
    ToolCall,
    ToolResult,
    TranscriptFormat,
    TurnEndReason,
)

from . import fields
from .base import Reader
from .conversation import Conversation
from .fields import Json

_ROLES: tuple[MessageRole, ...] = get_args(MessageRole)
_REASONS: tuple[TurnEndReason, ...] = get_args(TurnEndReason)


class OursReader(Reader):
    """Reads recordings of the protocol's own messages."""

    format: ClassVar[TranscriptFormat] = "oncue"

    def _setup(self) -> None:
        self._lanes: dict[str, Conversation] = {}
        self._ids: set[int] = set()
        self._before_rewind: set[int] = set()
        self._asked: Json = {}
        self._awaits_answer = False

    def _record(self, number: int, record: Json) -> None:
        method = fields.string(record.get("method"))
        params = fields.mapping(record.get("params"))
        if method.startswith(("session/", "transcript/", "turn/")):
            self._identify(
                fields.ident(params.get("sessionId")),
                fields.string(params.get("workspace")) or None,
            )
        lane = fields.ident(params.get("lane")) or "main"
        if method == "session/open":
            return
        if lane != "main":
            self._other_lane(lane, method, params)
        elif method == "transcript/didAppend":
            self._append(self._main, params)
        elif method == "recall/start":
            self._asked = params
        elif method == "turn/didEnd":
            given = params.get("reason")
            self._main.end(next((reason for reason in _REASONS if reason == given), "completed"))
        elif method == "transcript/didReset":
            rewound = params.get("reason") == "rewound"
            self._before_rewind = self._before_rewind | self._ids if rewound else set()
            self._ids.clear()
            self._main.reset("rewound" if rewound else "cleared")
        elif method == "transcript/willCompact":
            self._main.will_compact()
        elif method == "transcript/didCompact":
            self._main.compacted(
                fields.count(params.get("contextTokens")) or None,
                announced=False,
                kept_from=fields.ident(params.get("keptFromMessageId")),
            )
        else:
            self.skipped["noise"] += 1

    def _other_lane(self, lane: str, method: str, params: Json) -> None:
        if not self._subagents or method != "transcript/didAppend":
            self.skipped["subagent"] += 1
            return
        if lane not in self._lanes:
            self._identify(None, None)
            self._lanes[lane] = self._conversation_of(f"{self._session}/{lane}")
        self._append(self._lanes[lane], params)

    def _append(self, conversation: Conversation, params: Json) -> None:
        for at, given in enumerate(fields.objects(params.get("messages"))):
            message = self._message(given, at)
            if message is None:
                self.skipped["bad_message"] += 1
            elif hash(message.id) in self._ids:
                self._repeated(conversation, message)
            else:
                self._ids.add(hash(message.id))
                if hash(message.id) in self._before_rewind:
                    conversation.history(message)  # it survived: no recall (T8)
                else:
                    self._new(conversation, message)

    def _repeated(self, conversation: Conversation, message: Message) -> None:
        """Grown or not, the daemon decides; calls that were answered stay so."""
        open_results = [r for r in message.tool_results if conversation.is_open(r.call_id)]
        if open_results:
            conversation.results(message)
        else:
            conversation.repeat(message)

    def _new(self, conversation: Conversation, message: Message) -> None:
        if message.role == "system":
            conversation.system(message)
            return
        if message.role == "user":
            self._user(conversation, message)
        elif message.role == "assistant":
            draft = conversation.respond(message.id, message.id, message.time)
            draft.texts.append(message.text)
            draft.usage = message.usage
            for call in message.tool_calls:
                conversation.call(call)
            conversation.close_draft()
        else:
            conversation.results(message)
        self._awaits_answer = message.role != "assistant"

    def _user(self, conversation: Conversation, message: Message) -> None:
        if conversation.in_turn and (self._awaits_answer or conversation.is_waiting):
            conversation.steering(message)
            return
        asked, self._asked = self._asked, {}
        conversation.prompt(
            message,
            fields.string(asked.get("query")) or fields.query_of(message.text),
            fields.ident(asked.get("turnId")),
        )

    def _message(self, given: Json, at: int) -> Message | None:
        role = next((role for role in _ROLES if role == given.get("role")), None)
        if role is None:
            return None
        calls = [
            ToolCall(
                id=call_id,
                name=fields.string(call.get("name")),
                input=fields.shallow(call.get("input")),
            )
            for call in fields.objects(given.get("toolCalls"))
            if (call_id := fields.ident(call.get("id")))
        ]
        results = [
            ToolResult(
                call_id=call_id,
                text=fields.flat(result.get("text")),
                is_error=result.get("isError") is True,
            )
            for result in fields.objects(given.get("toolResults"))
            if (call_id := fields.ident(result.get("callId")))
        ]
        usage = fields.mapping(given.get("usage"))
        return Message(
            id=fields.ident(given.get("id")) or self._line_id(f":{at}"),
            role=role,
            text=fields.string(given.get("text")),
            tool_calls=tuple(calls),
            tool_results=tuple(results),
            usage=fields.usage(
                fields.count(usage.get("inputTokens")),
                fields.count(usage.get("outputTokens")),
                fields.count(usage.get("cacheReadTokens")),
                fields.count(usage.get("cacheWriteTokens")),
            ),
            time=fields.time(given.get("time")),
        )

    def _finish(self) -> None:
        for conversation in self._lanes.values():
            conversation.end(None)
        super()._finish()
