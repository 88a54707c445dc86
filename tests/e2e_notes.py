"""Conversations long enough for notes, for end-to-end tests of extraction through a real daemon.

`Noted` is a session whose transcript the test tells message by message; token counts come as usage
figures, so that a threshold is reached exactly where a test wants it. With `MODEL` the notes are
written by a model that the test plays: a run lasts until the test answers, and nothing sleeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e_talk import Conversation, Json, Talk

NOTIFICATIONS = ["memory/extractionEnded", "recall/ended"]
OPTIONS: Json = {"modelProvider": True, "notifications": NOTIFICATIONS}
EXTRACTION: Json = {
    "enabled": True,
    "extractor": "outline",
    "minimumMessageTokensToInit": 10_000,
    "minimumTokensBetweenUpdate": 5_000,
    "toolCallsBetweenUpdates": 3,
    "extractionWaitTimeoutMs": 15_000,
    "extractionStaleThresholdMs": 60_000,
}
OUTLINE: Json = {"extraction": EXTRACTION, "model": {"provider": "none"}}
MODEL: Json = {"extraction": {**EXTRACTION, "extractor": "model"}, "model": {"provider": "client"}}
HTTP: Json = {"extraction": {**EXTRACTION, "extractor": "model"}, "model": {"provider": "http"}}
NOTHING = "NOTHING_TO_ADD"
SECTIONS = [
    *("Title", "Now", "Task", "Files", "Commands"),
    *("Problems", "System", "Lessons", "Results", "Log"),
]


def user(msg_id: str, text: str = "Please mend the login in app/auth.py") -> Json:
    """Words of the user."""
    return {"id": msg_id, "role": "user", "text": text}


def assistant(
    msg_id: str, tokens: int | None = None, *calls: str, text: str = "I look into it."
) -> Json:
    """An answer; `tokens`: the size of the context with it. Each call asks for a command."""
    message: Json = {"id": msg_id, "role": "assistant", "text": text}
    if tokens is not None:
        message["usage"] = {"inputTokens": tokens - 10, "outputTokens": 10}
    if calls:
        message["toolCalls"] = [
            {"id": call, "name": "Bash", "input": {"command": f"pytest {call}"}} for call in calls
        ]
    return message


def tool(msg_id: str, *calls: str, text: str = "1 passed") -> Json:
    """Results of calls."""
    results = [{"callId": call, "text": f"{text} ({call})"} for call in calls]
    return {"id": msg_id, "role": "tool", "toolResults": results}


def edit(section: str, new: str, old: str | None = None) -> Json:
    """A call of the one tool."""
    given = {"section": section, "newText": new}
    return {"name": "edit", "input": given if old is None else {**given, "oldText": old}}


class Noted(Conversation):
    """A session that notes are made of; how its runs ended is kept."""

    def __init__(self, talk: Talk, workspace: Path, **params: Any) -> None:
        super().__init__(talk, workspace, **params)
        self.runs: list[Json] = []

    def say(self, *messages: Json) -> None:
        """`transcript/didAppend`."""
        self.tell("transcript/didAppend", messages=list(messages))

    def extraction(self) -> Json:
        """`session/status`, of extraction."""
        status: Json = self.call("session/status")["extraction"]
        return status

    def decision(self) -> tuple[str, str]:
        """The last one, and why."""
        last = self.extraction()["lastDecision"]
        return last["decision"], last["reason"]

    def extract(self, trigger: str = "manual", **members: Any) -> Json:
        """`memory/extract`."""
        answer: Json = self.call("memory/extract", trigger=trigger, **members)
        return answer

    def run_ended(self, **members: Any) -> Json:
        """The one end of a run (X18)."""
        event: Json = self.talk.expect("memory/extractionEnded", sessionId=self.id, **members)
        self.runs.append(event["params"])
        ended: Json = event["params"]
        return ended

    def notes(self) -> Json:
        """`notes/read`."""
        read: Json = self.call("notes/read")
        return read

    def section(self, title: str) -> str:
        """Text below a section's heading and description."""
        after = self.notes()["text"].split(f"# {title}\n", 1)[1]
        return str(after.split("\n# ", 1)[0].partition("\n")[2])

    def started_reasons(self) -> list[str]:
        """Why runs began, oldest first."""
        entries = self.call("session/timeline")["entries"]
        return [entry["reason"] for entry in entries if entry["event"] == "runStarted"]

    def no_run_ended_twice(self) -> None:
        """Every run that began has ended, exactly once (X18)."""
        self.talk.until(lambda: self.extraction()["state"] != "running")
        self.runs += self.talk.seen("memory/extractionEnded", sessionId=self.id)
        ended = [run["runId"] for run in self.runs]
        entries = self.call("session/timeline")["entries"]
        began = [entry["runId"] for entry in entries if entry["event"] == "runStarted"]
        assert len(set(ended)) == len(ended) and sorted(ended) == sorted(began), (began, ended)

    def answer(self, question: Json, *calls: Json, text: str = "") -> None:
        """Answer a question of the extractor."""
        result: Json = {"text": text}
        if calls:
            result["toolCalls"] = [{"id": f"e{n}", **call} for n, call in enumerate(calls)]
        self.talk.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def model_writes(self, *calls: Json) -> None:
        """Answer the next question with these calls, and the one after it with the end."""
        self.answer(self.talk.ask(), *calls)
        self.answer(self.talk.ask(), text="Done.")


@contextmanager
def noted(talk: Talk, settings: Json = OUTLINE, **params: Any) -> Iterator[Noted]:
    """A new session; in the end each of its runs must have ended once."""
    talk.configure(**settings)
    workspace = talk.home / "workspace"
    workspace.mkdir(exist_ok=True)
    chat = Noted(talk, workspace, **params)
    yield chat
    chat.no_run_ended_twice()
    chat.finish()


def files_below(folder: Path) -> list[Path]:
    """Every file, hidden ones too."""
    return [path for path in folder.rglob("*") if path.is_file()]


def holding(folder: Path, *canaries: str) -> list[Path]:
    """Files below a folder that hold one of these."""
    wanted = [canary.encode() for canary in canaries]
    found = []
    for path in files_below(folder):
        data = path.read_bytes()
        if any(one in data for one in wanted):
            found.append(path)
    return found
