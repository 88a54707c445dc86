"""Expands story.yaml into the demo's recorded session: `python -m oncue.replay.demo.make_session`.

Writes session.jsonl (Claude Code's format, transcripts.md §2) and model.json (what the scripted
model answers in each turn, and after how long) beside this file. The same bytes every time; a
test checks that they are fresh.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import yaml

from oncue.replay.demo.outputs import OUTPUTS

HERE = Path(__file__).parent
AGENT_VERSION = "2.1.42"
SYSTEM_TOKENS = 14_200
"""Context before the first message: instructions and tool descriptions."""
COMPACTED_TOKENS = 21_600
"""Context after the compaction: the above, the summary and what the agent reads again."""

CHARACTERS_PER_TOKEN = 2.8
"""Of code, logs and tables; prose has more."""

Line = dict[str, Any]


class Recorder:
    """Writes lines as the agent would: ids, parents, times and usage figures."""

    def __init__(self, story: dict[str, Any]) -> None:
        self.story = story
        self.files: dict[str, str] = dict(story["files"])
        self.random = Random(20260313)
        self.now = datetime.fromisoformat(story["start"])
        self.tempo = 1.0
        self.parent: str | None = None
        self.cached = 0
        self.fresh_characters = SYSTEM_TOKENS * CHARACTERS_PER_TOKEN
        self.lines: list[Line] = []

    # Small parts

    def uuid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def id(self, prefix: str) -> str:
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"
        return prefix + "".join(self.random.choice(letters) for _ in range(22))

    def wait(self, seconds: float) -> None:
        self.now += timedelta(
            seconds=seconds * self.tempo, milliseconds=self.random.randint(0, 400)
        )

    def time(self) -> str:
        return self.now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def write(self, kind: str, **members: Any) -> Line:
        uuid = self.uuid()
        line: Line = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.story["cwd"],
            "sessionId": self.story["session"],
            "version": AGENT_VERSION,
            "gitBranch": self.story["branch"],
            "type": kind,
            **members,
            "uuid": uuid,
            "timestamp": self.time(),
        }
        self.parent = uuid
        self.lines.append(line)
        return line

    def noise(self, kind: str, **members: Any) -> None:
        """A line that says nothing of the conversation."""
        self.lines.append({"type": kind, "sessionId": self.story["session"], **members})

    def counts(self, text: str) -> None:
        """`text` is part of the next request's context."""
        wide = sum(1 for character in text if ord(character) > 0x2E7F)
        self.fresh_characters += len(text) + wide * 2.2

    def usage(self, said: str) -> Line:
        thought = self.random.randint(40, 220)  # thinking that the record does not keep
        fresh = int(self.fresh_characters / CHARACTERS_PER_TOKEN)
        usage = {
            "input_tokens": 4 + fresh % 5,
            "cache_creation_input_tokens": fresh,
            "cache_read_input_tokens": self.cached,
            "output_tokens": int(len(said) / CHARACTERS_PER_TOKEN) + thought,
            "service_tier": "standard",
        }
        self.cached += fresh
        self.fresh_characters = thought * CHARACTERS_PER_TOKEN
        self.counts(said)
        return usage

    # What happens in a session

    def user(self, text: str, **members: Any) -> None:
        self.counts(text)
        self.write("user", message={"role": "user", "content": text}, **members)

    def blocks(self, *blocks: Line) -> None:
        self.write("user", message={"role": "user", "content": list(blocks)})

    def prompt(self, turn: Line) -> None:
        self.wait(turn["think"])
        if ide := turn.get("ide"):
            where = f"{self.story['cwd']}/{ide}"
            opened = f"<ide_opened_file>The user opened {where} in the IDE.</ide_opened_file>"
            self.blocks({"type": "text", "text": opened}, {"type": "text", "text": turn["user"]})
            self.counts(turn["user"])
        else:
            self.user(turn["user"])
        self.noise("file-history-snapshot", messageId=self.parent, isSnapshotUpdate=False)

    def response(self, step: Line) -> None:
        """One response, a line a block, all with one message id (transcripts.md §2)."""
        self.wait(step["after"])
        message_id, request_id = self.id("msg_01"), self.id("req_01")
        calls = [(self.id("toolu_01"), call) for call in step.get("calls", ())]
        blocks: list[Line] = []
        if thought := step.get("thought"):
            blocks.append({"type": "thinking", "thinking": thought, "signature": self.id("Eo")})
        if say := step.get("say"):
            blocks.append({"type": "text", "text": say.rstrip()})
        blocks += [
            {"type": "tool_use", "id": call_id, "name": name, "input": given}
            for call_id, call in calls
            for name, given in (self.call(call),)
        ]
        said = json.dumps(blocks, ensure_ascii=False)
        usage = self.usage(said)
        for at, block in enumerate(blocks):
            last = at == len(blocks) - 1
            stop = ("tool_use" if calls else "end_turn") if last else None
            # The figure of output tokens grows; before the last line it is a placeholder.
            shown = usage if last else {**usage, "output_tokens": 2}
            self.write(
                "assistant",
                message={
                    "id": message_id, "type": "message", "role": "assistant",
                    "model": "claude-opus-4-5", "content": [block], "stop_reason": stop,
                    "stop_sequence": None, "usage": shown,
                },
                requestId=request_id,
            )  # fmt: skip
            self.now += timedelta(milliseconds=40)
        for call_id, call in calls:
            self.result(call_id, call)

    def call(self, call: Line) -> tuple[str, Line]:
        """Name and input of a tool call."""
        path = f"{self.story['cwd']}/"
        if "bash" in call:
            return "Bash", {"command": call["bash"].rstrip(), "description": call.get("about", "")}
        if "read" in call:
            return "Read", {"file_path": path + call["read"]}
        if "grep" in call:
            return "Grep", {"pattern": call["grep"], "output_mode": "content", "-n": True}
        if "write" in call:
            return "Write", {"file_path": path + call["write"], "content": call["content"]}
        return "Edit", {
            "file_path": path + call["edit"], "old_string": call["old"], "new_string": call["new"],
        }  # fmt: skip

    def output(self, call: Line) -> str:
        if gen := call.get("gen"):
            return OUTPUTS[next(iter(gen))](gen, self.random)
        if "out" in call:
            return str(call["out"]).rstrip("\n")
        if "read" in call:
            numbered = enumerate(self.files[call["read"]].splitlines(), 1)
            return "\n".join(f"{at:>6}→{line}" for at, line in numbered)
        if "write" in call:
            self.files[call["write"]] = call["content"]
            return f"File created successfully at: {self.story['cwd']}/{call['write']}"
        text = self.files.get(call["edit"], "")
        self.files[call["edit"]] = text.replace(call["old"], call["new"])
        return f"The file {self.story['cwd']}/{call['edit']} has been updated."

    def result(self, call_id: str, call: Line) -> None:
        self.wait(call["takes"])
        if call["takes"] > 30:
            self.noise("progress", toolUseID=call_id, data={"type": "bash_progress"})
        if call.get("refused"):
            text = "The user doesn't want to proceed with this tool use. The tool use was rejected."
        else:
            text = self.output(call)
        self.counts(text)
        block: Line = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        if call.get("error") or call.get("refused"):
            block["is_error"] = True
        self.blocks(block)

    def steer(self, text: str) -> None:
        """Typed while the agent works."""
        self.wait(3)
        self.counts(text)
        self.write(
            "attachment",
            attachment={"type": "queued_command", "prompt": text, "commandMode": "prompt"},
        )

    def interrupt(self) -> None:
        self.now += timedelta(seconds=1)
        self.blocks({"type": "text", "text": "[Request interrupted by user for tool use]"})

    def compact(self, summary: str) -> None:
        self.wait(20)
        before = self.cached + int(self.fresh_characters / CHARACTERS_PER_TOKEN)
        logical, self.parent = self.parent, None
        self.write(
            "system", subtype="compact_boundary", content="Conversation compacted", isMeta=False,
            level="info", logicalParentUuid=logical,
            compactMetadata={"trigger": "auto", "preTokens": before},
        )  # fmt: skip
        self.cached, self.fresh_characters = 0, COMPACTED_TOKENS * CHARACTERS_PER_TOKEN
        self.user(summary.rstrip(), isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def play(self) -> None:
        self.noise(
            "summary",
            summary="Ledgerline: a day of repairs before the release",
            leafUuid=self.uuid(),
        )
        for turn in self.story["turns"]:
            if "compact" in turn:
                self.compact(turn["compact"])
                continue
            self.tempo = 1.0
            self.prompt(turn)
            self.tempo = turn.get("tempo", 1.0)
            for step in turn["steps"]:
                if "steer" in step:
                    self.steer(step["steer"])
                else:
                    self.response(step)
            if turn.get("interrupt"):
                self.interrupt()


def labels(story: dict[str, Any]) -> Iterator[Line]:
    """What the scripted model does in each turn, in order."""
    for turn in (turn for turn in story["turns"] if "user" in turn):
        yield {"query": turn["user"], "latency": turn["model"], "choose": turn["choose"]}


def expand() -> tuple[str, str]:
    """The text of session.jsonl and of model.json."""
    story = yaml.safe_load((HERE / "story.yaml").read_text("utf-8"))
    recorder = Recorder(story)
    recorder.play()
    session = "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
        for line in recorder.lines
    )
    about = (
        "What the demo's scripted model answers: latency in seconds, fail or never; choose: titles "
        "a model would pick among the documents it is shown. Made from story.yaml."
    )
    model = {"about": about, "turns": list(labels(story))}
    return session, json.dumps(model, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write both files."""
    session, model = expand()
    (HERE / "session.jsonl").write_text(session, "utf-8")
    (HERE / "model.json").write_text(model, "utf-8")


if __name__ == "__main__":
    main()
