"""Codex CLI's sessions (pure): transcripts.md §5.

`response_item` is the truth and events repeat it, but for what only they tell: turns, figures
and which user item was typed.
"""

from __future__ import annotations

from typing import ClassVar

from oncue.text import marker
from oncue_protocol import Message, ToolCall, ToolResult, TranscriptFormat

from . import codex_parts as parts
from . import fields
from .base import Reader
from .codex_child import Child
from .conversation import Draft
from .fields import Json

_LINES = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_NO_OUTPUT = ("web_search_call", "image_generation_call")
_NEIGHBOURS = 4
"""So many lines apart an item and the event that repeats it count as neighbours."""


class CodexReader(Reader):
    """Reads rollouts: `.jsonl` (a `.zst` is unpacked by whoever opens it), oldest ones included."""

    format: ClassVar[TranscriptFormat] = "codex"

    def _setup(self) -> None:
        self._conversation = self._main
        self._child: Child | None = None
        self._hidden = False
        self._turn_id: str | None = None
        self._prompted_turn: str | None = None
        self._turn_starts: list[int] = []
        self._ids: set[int] = set()
        self._total: Json = {}
        self._has_usage_record = False
        self._typed_event: tuple[int, str] = (-_NEIGHBOURS, "")
        self._doubtful: tuple[int, Message, str | None] | None = None
        self._answered_draft: Draft | None = None

    def _record(self, number: int, record: Json) -> None:
        kind = fields.string(record.get("type"))
        payload = fields.mapping(record.get("payload"))
        if self._doubtful is not None and number - self._doubtful[0] >= _NEIGHBOURS:
            self._decide()
        when = fields.time(record.get("timestamp"))
        if "payload" not in record:
            self._bare(record, kind)
            return
        if kind == "session_meta":
            self._meta(payload, when)
            return
        self._identify(None, None)
        if self._hidden:
            self.skipped["subagent"] += 1
        elif self._child is not None and self._child.is_copy(kind, payload, when):
            self.skipped["copy"] += 1
        elif kind == "turn_context":
            self._turn_id = fields.ident(payload.get("turn_id")) or self._turn_id
        elif kind == "response_item":
            self._item(payload, when)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            self._compacted(payload, when)
        elif kind == "token_usage_record":
            self._has_usage_record = True
            self._usage(fields.mapping(payload.get("usage")))
        else:
            self.skipped["unknown_type"] += 1

    def _bare(self, record: Json, kind: str) -> None:
        """Oldest form: items without a wrapper and without times."""
        if kind:
            self._identify(None, None)
            self._item(record, None)
        elif "id" in record:
            self._identify(fields.ident(record.get("id")), None)
        else:
            self.skipped["noise"] += 1

    def _meta(self, payload: Json, when: str | None) -> None:
        """The first is identity; another one belongs to the copy of a parent."""
        if self._session is not None:
            if self._child is not None:
                self._child.saw_parent()
            self.skipped["noise"] += 1
            return
        own = fields.ident(payload.get("id"))
        self._child = Child.of(payload, when)
        is_subagent = self._child is not None and self._child.is_subagent
        parent = self._child.parent if self._child is not None and is_subagent else None
        self._identify(parent or own, fields.string(payload.get("cwd")) or None)
        if is_subagent and not self._subagents:
            self._hidden = True
        elif is_subagent:
            agent = own or self._stem()
            self._conversation = self._conversation_of(f"{parent}/{agent}" if parent else agent)

    # Items.

    def _item(self, item: Json, when: str | None) -> None:
        kind = fields.string(item.get("type"))
        if kind.endswith("_output"):
            self._output(item, when)
        elif kind.endswith("_call"):
            self._call(item, kind, when)
        elif kind == "message":
            role = item.get("role")
            if role == "assistant":
                draft = self._draft(item, when)
                content = item.get("content")
                draft.texts.append(parts.text_of(content))
                self.skipped["unknown_block"] += sum(map(parts.is_unknown, fields.items(content)))
            elif role == "user":
                self._user(item, when)
            else:
                self._system(item, when)
        else:
            self.skipped["noise" if kind == "reasoning" else "unknown_type"] += 1

    def _draft(self, item: Json, when: str | None) -> Draft:
        """Items up to the next output form one message."""
        self._decide()
        draft = self._conversation.draft
        if draft is not None and not draft.answered and draft is not self._answered_draft:
            return draft
        name = self._new_id(item)
        return self._conversation.respond(name, name, when)

    def _new_id(self, item: Json) -> str:
        for name in (fields.ident(item.get("id")), fields.ident(item.get("call_id"))):
            if name is not None and hash(name) not in self._ids:
                self._ids.add(hash(name))
                return name
        return self._line_id()

    def _call(self, item: Json, kind: str, when: str | None) -> None:
        draft = self._draft(item, when)
        call_id = fields.ident(item.get("call_id")) or fields.ident(item.get("id"))
        call_id = call_id or self._line_id()
        name = parts.name_of(item, kind)
        self._conversation.call(ToolCall(id=call_id, name=name, input=parts.input_of(item)))
        if kind in _NO_OUTPUT:
            was_answered = draft.answered
            result = ToolResult(call_id=call_id, is_error=item.get("status") == "failed")
            self._conversation.results(
                Message(id=f"{call_id}:none", role="tool", tool_results=(result,), time=when)
            )
            draft.answered = was_answered

    def _output(self, item: Json, when: str | None) -> None:
        self._decide()
        call_id = fields.ident(item.get("call_id"))
        if call_id is None:
            self.skipped["orphan_result"] += 1
            return
        text, is_error = parts.output_of(item)
        self._answered_draft = self._conversation.draft
        name = f"{call_id}:output"
        if hash(name) in self._ids:
            name = self._line_id()
        self._ids.add(hash(name))
        self._conversation.results(
            Message(
                id=name,
                role="tool",
                tool_results=(ToolResult(call_id=call_id, text=text, is_error=is_error),),
                time=when,
            )
        )

    def _system(self, item: Json, when: str | None) -> None:
        text = parts.text_of(item.get("content"))
        if text.strip():
            self._conversation.system(self._message(item, text, when))

    # Typed words.

    def _user(self, item: Json, when: str | None) -> None:
        self._decide()
        kind = _kind_of(item)
        texts = [parts.text_of([block]) for block in fields.items(item.get("content"))]
        whole = fields.joined(texts)
        if not whole.strip():
            self.skipped["empty"] += 1
            return
        turn = _turn_of(item) or self._turn_id
        message = self._message(item, whole, when)
        if kind:
            if kind == "user.text":
                self._typed(message, turn)
            else:
                self._conversation.system(message)
        elif not _is_injected(whole):
            words = fields.joined(text for text in texts if not _is_injected(text))
            self._typed(self._message(item, words, when, message.id), turn)
        elif self._is_repeated_by(*self._typed_event, whole):
            self._typed(message, turn)
        else:
            self._doubtful = (self._number, message, turn)

    def _is_repeated_by(self, number: int, event_text: str, text: str) -> bool:
        return self._number - number < _NEIGHBOURS and event_text.strip() == text.strip()

    def _decide(self, event_text: str = "") -> None:
        """A user item that looks injected: typed only where an event beside it says so."""
        if self._doubtful is None:
            return
        number, message, turn = self._doubtful
        self._doubtful = None
        if event_text and self._is_repeated_by(number, event_text, message.text):
            self._typed(message, turn)
        else:
            self._conversation.system(message)

    def _typed(self, message: Message, turn: str | None) -> None:
        text = parts.request_of(message.text)
        message = Message(id=message.id, role="user", text=text, time=message.time)
        if turn is not None and turn == self._prompted_turn:
            self._conversation.steering(message)
            return
        self._turn_starts.append(self._conversation.tail)
        self._conversation.prompt(message, fields.query_of(text), turn)
        self._prompted_turn = turn

    def _message(self, item: Json, text: str, when: str | None, name: str | None = None) -> Message:
        return Message(id=name or self._new_id(item), role="user", text=text, time=when)

    # Events.

    def _event(self, payload: Json) -> None:
        kind = fields.string(payload.get("type"))
        if kind in ("task_started", "turn_started"):
            self._turn_id = fields.ident(payload.get("turn_id")) or self._turn_id
        elif kind in ("task_complete", "turn_complete"):
            self._decide()
            failed = payload.get("error") or payload.get("status") == "failed"
            self._conversation.end("error" if failed else "completed")
        elif kind == "turn_aborted":
            self._decide()
            spent = payload.get("reason") == "budget_limited"
            self._conversation.end("turnBudgetExhausted" if spent else "aborted")
        elif kind == "thread_rolled_back":
            self._rollback(fields.count(payload.get("num_turns")))
        elif kind == "token_count":
            self._token_count(fields.mapping(payload.get("info")))
        elif kind == "user_message":
            text = fields.string(payload.get("message"))
            self._typed_event = (self._number, text)
            if self._doubtful is not None:
                self._decide(text)
        else:
            self.skipped["noise"] += 1

    def _rollback(self, turns: int) -> None:
        self._decide()
        if turns == 0 or not self._turn_starts:
            self.skipped["noise"] += 1
            return
        first = max(0, len(self._turn_starts) - turns)
        survivor = self._turn_starts[first]
        del self._turn_starts[first:]
        self._prompted_turn = None
        self._conversation.reset("rewound", self._conversation.chain(survivor))

    def _token_count(self, info: Json) -> None:
        total = fields.mapping(info.get("total_token_usage"))
        if not info or total == self._total:
            return  # told again, or limits alone
        self._total = total
        if not self._has_usage_record:
            self._usage(fields.mapping(info.get("last_token_usage")))

    def _usage(self, given: Json) -> None:
        draft = self._conversation.draft
        if draft is not None:
            draft.usage = parts.usage_of(given) or draft.usage

    def _compacted(self, payload: Json, when: str | None) -> None:
        self._decide()
        self._conversation.compacted(None)
        summary = fields.string(payload.get("message"))
        if summary.strip():
            self._conversation.system(
                Message(id=self._line_id(), role="system", text=summary, time=when)
            )

    def _finish(self) -> None:
        self._decide()
        self._conversation.end(None)
        super()._finish()

    def _settle(self) -> None:
        self._decide()
        self._conversation.settle()


def _is_injected(text: str) -> bool:
    return marker.strip(text).lstrip().startswith(parts.INJECTED)


def _kind_of(item: Json) -> str:
    """New versions say what an item is, on the item, its metadata or its first block."""
    blocks = fields.objects(item.get("content"))
    metadata = fields.mapping(item.get("metadata"))
    for holder in (item, metadata, *blocks[:1]):
        kind = holder.get("kind")
        if isinstance(kind, str) and kind:
            return kind
    return ""


def _turn_of(item: Json) -> str | None:
    return fields.ident(item.get("turn_id")) or fields.ident(
        fields.mapping(item.get("metadata")).get("turn_id")
    )
