"""Claude Code's sessions (pure): transcripts.md §2.

One response is many lines, resumed sessions repeat history, and parents are no list: so file
order rules, what is known is skipped, and only a typed record may be a rewind.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from oncue.text import marker
from oncue_protocol import Message, ToolCall, ToolResult, TranscriptFormat

from . import fields
from .base import Reader
from .claude_parts import Branch, Estimates, block_key, element, is_unknown, text_keys, text_of
from .conversation import NOTHING, Draft
from .fields import Json, query_of

_INJECTED = (
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "<system-reminder>",
    "Caveat:",
    "Operation stopped by hook",
)
"""Beginnings of user records that nobody typed."""
_INTERRUPT = "[Request interrupted by user"
_COMMAND = ("<command-name>", "<command-message>")
_COUNTED = ("assistant", "user", "system", "attachment")
_NOISE = frozenset(
    (
        "progress",
        "queue-operation",
        "summary",
        "file-history-snapshot",
        "custom-title",
        "ai-title",
        "agent-name",
        "last-prompt",
        "mode",
        "pr-link",
        "tag",
    )
)


class ClaudeReader(Reader):
    """Reads `~/.claude/projects/<dir>/<session>.jsonl`, and subagents' files."""

    format: ClassVar[TranscriptFormat] = "claude"

    _known: dict[int, int]
    """Hash of what identifies a part (call id, or time and text) to its message's ordinal."""

    def _setup(self) -> None:
        self._known = {}
        self._used_ids: set[int] = set()
        self._branch = Branch()
        self._subagent: dict[str, ClaudeReader] = {}
        self._agent_of: dict[int, str] = {}
        self._estimates = Estimates()

    def _record(self, number: int, record: Json) -> None:
        kind = fields.string(record.get("type"))
        if kind not in _COUNTED:
            self.skipped["noise" if kind in _NOISE else "unknown_type"] += 1
            self._branch.add(record, NOTHING, is_message=False)
            return
        self._identify(
            self._own_id() or fields.ident(record.get("sessionId")),
            fields.string(record.get("cwd")) or None,
        )
        if record.get("isSidechain") is True:
            self._sidechain(number, record, kind)
            return
        self._mainline(record, kind)

    def _mainline(self, record: Json, kind: str) -> None:
        is_message = False
        if kind == "assistant":
            is_message = self._assistant(record)
        elif kind == "user":
            is_message = self._user(record)
        elif kind == "system":
            self._system(record)
        else:
            self._attachment(record)
        self._branch.add(record, self._ordinal, is_message=is_message)

    def _own_id(self) -> str | None:
        """The file's name where it is a session's: a resumed session's file begins with lines
        that bear the id of the session before."""
        stem = self._stem()
        try:
            UUID(stem)
        except ValueError:
            return None
        return stem

    # Copies.

    def _is_copy(self, keys: list[int]) -> bool:
        """Whether every part is known; then the record stands for the message it repeats."""
        if keys and all(key in self._known for key in keys):
            self._ordinal = self._known[keys[-1]]
            self.skipped["copy"] += 1
            return True
        return False

    def _remember(self, keys: list[int]) -> None:
        self._ordinal = self._main.tail
        for key in keys:
            self._known.setdefault(key, self._ordinal)

    _ordinal = NOTHING
    """Of the message that the present record belongs to."""

    # Assistant records.

    def _assistant(self, record: Json) -> bool:
        message = fields.mapping(record.get("message"))
        if record.get("isApiErrorMessage") is True:
            self.skipped["api_error"] += 1
            self._main.end("error")
            return False
        if message.get("model") == "<synthetic>":
            self.skipped["noise"] += 1
            return False
        blocks = fields.items(message.get("content"))
        keys = [key for block in blocks if (key := block_key(record, block)) is not None]
        growing = self._main.draft
        if growing is not None and growing.key == message.get("id"):
            self._usage(growing, message)
        if not blocks:
            self.skipped["empty"] += 1
            return False
        if self._is_copy(keys):
            return True
        draft = self._draft_for(record, message)
        self._ordinal = draft.ordinal
        for block in blocks:
            key = block_key(record, block)
            if key is not None and key in self._known:
                continue
            self._block(draft, block)
        self._remember_draft(draft, keys)
        self._usage(draft, message)
        if message.get("stop_reason") is not None:
            draft.stopped = True
        return True

    def _remember_draft(self, draft: Draft, keys: list[int]) -> None:
        for key in keys:
            self._known.setdefault(key, draft.ordinal)

    def _draft_for(self, record: Json, message: Json) -> Draft:
        """The response this line belongs to. After a reason to stop and a result, the same id is
        a new message; so is an id that comes again later. It is then named by its record."""
        uuid = fields.ident(record.get("uuid"))
        own = fields.ident(message.get("id"))
        key = own or uuid or self._line_id()
        draft = self._main.draft
        if draft is not None and draft.key == key and not (draft.stopped and draft.answered):
            return draft
        named = next(
            name for name in (own, uuid, self._line_id()) if name and self._is_unused(name)
        )
        self._used_ids.add(hash(named))
        self._estimates = Estimates()
        return self._main.respond(named, key, fields.time(record.get("timestamp")))

    def _is_unused(self, name: str) -> bool:
        return hash(name) not in self._used_ids or name == self._line_id()

    def _block(self, draft: Draft, block: object) -> None:
        if isinstance(block, str):
            draft.texts.append(block)
            self._estimates.add(block)
            return
        if not isinstance(block, dict):
            self.skipped["unknown_block"] += 1
            return
        kind = block.get("type")
        if kind == "text":
            text = fields.string(block.get("text"))
            draft.texts.append(text)
            self._estimates.add(text)
        elif kind == "tool_use":
            call_id = fields.ident(block.get("id")) or self._line_id(f":{len(draft.calls)}")
            given = fields.shallow(block.get("input"))
            self._main.call(
                ToolCall(id=call_id, name=fields.string(block.get("name")), input=given)
            )
            self._estimates.add(fields.compact(given))
        elif kind in ("thinking", "redacted_thinking"):
            self._estimates.add(fields.string(block.get("thinking")))
        elif named := fields.placeholder(block):
            draft.texts.append(named)
        else:
            self.skipped["unknown_block"] += 1

    def _usage(self, draft: Draft, message: Json) -> None:
        """The last figures win; the output is a placeholder in most lines."""
        given = fields.mapping(message.get("usage"))
        read = fields.count(given.get("input_tokens"))
        cache_read = fields.count(given.get("cache_read_input_tokens"))
        cache_write = fields.count(given.get("cache_creation_input_tokens"))
        written = fields.count(given.get("output_tokens"))
        if read or cache_read or cache_write or written:
            self._estimates.figures = (read, written, cache_read, cache_write)
        if self._estimates.figures is not None:
            read, written, cache_read, cache_write = self._estimates.figures
            written = max(written, self._estimates.output)
            draft.usage = fields.usage(read, written, cache_read, cache_write)

    # User records.

    def _user(self, record: Json) -> bool:
        content = fields.mapping(record.get("message")).get("content")
        blocks = fields.items(content)
        results = [b for b in fields.objects(blocks) if b.get("type") == "tool_result"]
        texts = [text for block in blocks if (text := text_of(block))]
        self.skipped["unknown_block"] += sum(map(is_unknown, blocks))
        if not results and not texts:
            self.skipped["empty"] += 1
            return False
        if results:
            return self._results(record, results, texts)
        whole = fields.joined(texts)
        keys = text_keys(record, [whole])
        if self._is_copy(keys):
            return True
        typed = not any(
            (record.get("isMeta"), record.get("isCompactSummary"), record.get("origin"))
        )
        if not typed:
            self._main.system(self._message(record, whole))
            self._remember(keys)
            return False
        if whole.startswith(_INTERRUPT):
            self._main.end("aborted")
            self._remember(keys)
            return False
        return self._typed(record, texts, keys)

    def _typed(self, record: Json, texts: list[str], keys: list[int]) -> bool:
        words: list[str] = []
        injected: list[str] = []
        for text in texts:
            rest = fields.without_spans(text, "<ide_")
            if marker.strip(rest).lstrip().startswith(_INJECTED):
                injected.append(rest)
            elif rest:
                words.append(rest)
        if injected:
            self._main.system(
                self._message(record, fields.joined(injected), ":injected" if words else "")
            )
        whole = fields.joined(words)
        if not whole:
            self._remember(keys)
            return False
        if whole.startswith(_COMMAND):
            self._command(record, whole, keys)
            return True
        self._rewind(record)
        self._main.prompt(self._message(record, whole), query_of(whole))
        self._remember(keys)
        return True

    def _rewind(self, record: Json) -> None:
        """Typed below a message that has gone on already: what came after it is forgotten."""
        nearest = self._branch.nearest(record.get("parentUuid"))
        if nearest is None or self._main.is_subagent:
            return
        if self._branch.has_message_child(nearest):
            survivors = self._main.chain(self._branch.ordinal(nearest))
            self._main.reset("rewound", survivors)

    def _command(self, record: Json, text: str, keys: list[int]) -> None:
        name = element(text, "command-name") or element(text, "command-message")
        arguments = element(text, "command-args")
        if name.lstrip("/") == "clear":
            self._clear()
            return
        shown = f"/{name.lstrip('/')} {arguments}".strip()
        self._main.command(self._message(record, shown), query_of(arguments))
        self._remember(keys)

    def _clear(self) -> None:
        """Near the head of its own file `/clear` is how the session began."""
        if self._main.has_messages and not self._main.is_subagent:
            self._main.reset("cleared")
        else:
            self.skipped["noise"] += 1

    def _results(self, record: Json, blocks: list[Json], texts: list[str]) -> bool:
        keys = [hash(("result", fields.ident(block.get("tool_use_id")))) for block in blocks]
        if self._is_copy(keys):
            return True
        results = tuple(
            ToolResult(
                call_id=call_id,
                text=fields.flat(block.get("content")),
                is_error=block.get("is_error") is True,
            )
            for block in blocks
            if (call_id := fields.ident(block.get("tool_use_id")))
        )
        message = self._message(record, "")
        self._main.results(
            Message(id=message.id, role="tool", tool_results=results, time=message.time)
        )
        self._remember(keys)
        for at, text in enumerate(texts):
            if text.startswith(_INTERRUPT):
                self._main.end("aborted")
                continue
            beside = self._message(record, fields.without_spans(text, "<ide_"), f":{at + 1}")
            if not beside.text:
                continue
            if record.get("isMeta") or record.get("origin") or beside.text.startswith(_INJECTED):
                self._main.system(beside)
            else:
                self._main.steering(beside)
        return True

    # The rest.

    def _system(self, record: Json) -> None:
        kind = record.get("subtype")
        if kind == "compact_boundary":
            self._main.compacted(None)
        elif kind == "microcompact_boundary":
            figures = fields.mapping(record.get("microcompactMetadata"))
            before = fields.count(figures.get("preTokens"))
            saved = fields.count(figures.get("tokensSaved"))
            self._main.compacted(max(0, before - saved) if before else None, announced=False)
        elif element(fields.string(record.get("content")), "command-name").lstrip("/") == "clear":
            self._clear()
        else:
            self.skipped["noise"] += 1

    def _attachment(self, record: Json) -> None:
        attachment = fields.mapping(record.get("attachment"))
        kind = attachment.get("type")
        if kind == "max_turns_reached":
            self._main.end("maxSessionTurns")
        elif kind == "queued_command":
            prompt = attachment.get("prompt")
            text = fields.joined(map(text_of, fields.items(prompt)))
            text = fields.without_spans(text, "<ide_")
            keys = text_keys(record, [text])
            if not text or self._is_copy(keys):
                return
            message = self._message(record, text)
            if attachment.get("origin") or record.get("origin") or text.startswith(_INJECTED):
                self._main.system(message)
            else:
                self._main.steering(message)
            self._remember(keys)
        else:
            self.skipped["noise"] += 1

    def _message(self, record: Json, text: str, suffix: str = "") -> Message:
        uuid = fields.ident(record.get("uuid"))
        return Message(
            id=f"{uuid}{suffix}" if uuid else self._line_id(suffix),
            role="user",
            text=text,
            time=fields.time(record.get("timestamp")),
        )

    # Subagents (T6).

    def _sidechain(self, number: int, record: Json, kind: str) -> None:
        """A line of a subagent: in a file of its own, or (old) between the session's lines."""
        agent = fields.ident(record.get("agentId")) or self._chain_of(record)
        if not self._subagents or agent.startswith("acompact"):
            self.skipped["subagent"] += 1
            return
        if agent not in self._subagent:
            session = f"{fields.ident(record.get('sessionId')) or self._session}/{agent}"
            reader = ClaudeReader(self._name)
            reader._session = session
            reader._main = self._conversation_of(session)
            reader.skipped = self.skipped
            self._subagent[agent] = reader
        reader = self._subagent[agent]
        reader._number = number
        reader._mainline(record, kind)

    def _chain_of(self, record: Json) -> str:
        """Old lines name no agent: the first record of their chain stands for it."""
        own = fields.ident(record.get("uuid"))
        agent = self._agent_of.get(hash(fields.ident(record.get("parentUuid"))))
        agent = agent or own or self._line_id()
        if own is not None:
            self._agent_of[hash(own)] = agent
        return agent

    def _finish(self) -> None:
        for reader in self._subagent.values():
            reader._main.end(None)
        super()._finish()

    def _settle(self) -> None:
        for reader in self._subagent.values():
            reader._main.settle()
        super()._settle()
