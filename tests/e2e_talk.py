"""Conversations with a spawned daemon: sessions, recalls and a lent model, frame by frame.

`Talk` is the driver (e2e_driver.Daemon) that also holds every frame of the daemon against the
generated JSON Schema and answers `model/generate` when a test says so, never before: so a "slow"
search is one that the test has not answered yet, and no test sleeps. `Conversation` is one session
in it; when it ends, each of its recalls must have had exactly one `recall/ended` (R12).
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jsonschema import Draft202012Validator

from e2e_driver import DAEMON, TESTS, TIMEOUT, Daemon, request
from oncue_protocol import ERRORS

Json = dict[str, Any]

RECALL_DAEMON = [sys.executable, str(TESTS / "recall_daemon.py"), "serve", "--stdio"]
"""The real one with a search that fails on request, and further connections."""
SCHEMA = json.loads((TESTS.parent / "protocol" / "schema" / "oncue.schema.json").read_text())
ALL_NOTIFICATIONS = ["recall/ended", "recall/settled", "memory/didChange"]
OPTIONS: Json = {
    "modelProvider": True,
    "model": {"provider": "client"},
    "notifications": ALL_NOTIFICATIONS,
}
DEFAULTS: Json = {
    "recall": {
        "enabled": True,
        "fastDocuments": 2,
        "maxDocuments": 5,
        "lifetimeMs": 600_000,
        "safetyCeilingMs": 30_000,
        "sessionByteBudget": 0,
        "minimumQueryCharacters": 0,
        "minConfidence": 0,
        "fastMinConfidence": 0,
    },
    "model": {"provider": "client"},
}
"""What every conversation begins with; whatever matches counts, for silence is not the subject."""

MEMORIES = {
    "Deploy windows": "When we deploy to production",
    "Deploy freeze": "No production deploy in the last two weeks of December",
    "Deploy rollback": "How a production deploy is rolled back",
    "Deploy approvals": "Who approves a production deploy",
    "Deploy smoke checks": "What is checked after a production deploy",
    "Deploy announcements": "Where a production deploy is announced",
    "Vacuum of postgres": "Why the postgres vacuum runs at night",
    "Postgres indexes": "Which postgres indexes the vacuum must not touch",
}
"""Title and description of what the daemon remembers."""
DEPLOY = "when may I deploy to production?"
POSTGRES = "what about the postgres vacuum?"
NOTHING = "zebra crossing xylophone"
"""Three queries: many hits, two hits, none."""


@cache
def _validator(reference: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": reference, "$defs": SCHEMA["$defs"]})


def check(reference: str, value: Any) -> None:
    """Hold a value against a definition of the schema."""
    problems = [f"{e.json_path}: {e.message}" for e in _validator(reference).iter_errors(value)]
    assert not problems, (reference, problems, value)


class Talk(Daemon):
    """A daemon, the client's side of its protocol, and a model that the tests play."""

    def __init__(self, command: Sequence[str] = DAEMON, **options: Any) -> None:
        self._asked: dict[tuple[str, Any], str] = {}
        super().__init__(command, **options)

    # Every frame against the schema

    def send(self, *messages: Any) -> None:
        """As the driver, noting which method an id stands for."""
        for message in messages:
            if isinstance(message, dict) and "method" in message and "id" in message:
                self._asked[type(message["id"]).__name__, message["id"]] = message["method"]
        super().send(*messages)

    def receive(self, timeout: float = TIMEOUT) -> Json:
        """The next message, which must be what the schema says."""
        message = super().receive(timeout)
        method = message.get("method")
        if method is not None:
            row = SCHEMA["methods"][method]
            # `$/cancelRequest` is the one method that both sides send
            assert row["direction"] == "daemon" or method == "$/cancelRequest", message
            assert (row["kind"] == "request") == ("id" in message), message
            if row["params"] is not None:
                check(row["params"], message["params"])
        elif "result" in message:
            asked = self._asked.get((type(message["id"]).__name__, message["id"]), "")
            row = SCHEMA["methods"].get(asked)
            if row is not None and row["result"] is not None:
                check(row["result"], message["result"])
            elif row is not None:
                assert message["result"] is None, message
        else:
            check_error(message["error"])
        return message

    # Notifications and requests of the daemon

    def expect(self, method: str, timeout: float = TIMEOUT, **members: Any) -> Json:
        """The oldest message `method` with these params, now or as soon as it comes."""
        while True:
            for index, message in enumerate(self.notifications):
                if _fits(message, method, members):
                    return self.notifications.pop(index)
            message = self.receive(timeout)
            if "method" in message:
                self.notifications.append(message)
            else:
                self._kept[type(message["id"]).__name__, message["id"]] = message

    def seen(self, method: str, **members: Any) -> list[Json]:
        """Those that have come and were not taken; whatever was sent up to now has come."""
        self.barrier()
        return [one["params"] for one in self.notifications if _fits(one, method, members)]

    def barrier(self) -> None:
        """Everything that the daemon sent before this moment has been received."""
        self.result("daemon/status")

    def until(self, holds: Callable[[], bool]) -> None:
        """Ask until it holds: for what the daemon does in its own time and tells nobody."""
        end = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < end, "it never came about"
            self.barrier()

    def configure(self, **settings: Any) -> None:
        """`workspace/didChangeConfiguration`."""
        self.notify("workspace/didChangeConfiguration", {"settings": {"oncue": settings}})

    # The model

    def ask(self, timeout: float = TIMEOUT) -> Json:
        """The daemon's next question to the model, unanswered."""
        question = self.expect("model/generate", timeout)
        assert type(question["id"]) is int and question["id"] >= 1 << 30
        return question

    def choose(self, question: Json, *titles: str) -> None:
        """Answer a question with the manifest ids of these titles."""
        manifest = question["params"]["messages"][-1]["text"]
        found = dict(re.findall(r"^(m\d+) \[\w+\] [\d-]+ (.*?): ", manifest, re.M))
        ids = {title: name for name, title in found.items()}
        self.say(question, json.dumps({"ids": [ids[title] for title in titles]}))

    def say(self, question: Json, text: str) -> None:
        """Answer a question with any text."""
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": {"text": text}})

    def fail(self, question: Json) -> None:
        """Answer a question with an error."""
        error = {"code": -32000, "message": "the model is overloaded"}
        self.send({"jsonrpc": "2.0", "id": question["id"], "error": error})

    def stopped(self, question: Json) -> None:
        """The daemon took this question back."""
        self.expect("$/cancelRequest", id=question["id"])

    # Sessions

    def remember(self, workspace: Path, memories: dict[str, str] = MEMORIES) -> dict[str, str]:
        """Write memories; path by title."""
        workspace.mkdir(exist_ok=True)
        return {
            title: self.result(
                "memory/write",
                {
                    "workspace": str(workspace),
                    "scope": "project",
                    "type": "project",
                    "title": title,
                    "description": description,
                    "body": f"{description}. The whole story of {title}.\n",
                },
            )["path"]
            for title, description in memories.items()
        }

    @contextmanager
    def conversation(self, workspace: Path, **params: Any) -> Iterator[Conversation]:
        """A new session with default settings; it is closed and looked at in the end."""
        self.configure(**DEFAULTS)
        talked = Conversation(self, workspace, **params)
        yield talked
        talked.finish()

    def second(self) -> Second:
        """A second connection to the same process (RECALL_DAEMON only)."""
        return Second(self)

    def _count(self) -> int:
        self._ids += 1
        return self._ids


class Second(Talk):
    """A connection to a daemon that another `Talk` has spawned."""

    def __init__(self, first: Talk) -> None:
        self._asked = {}
        self.home = Path(tempfile.mkdtemp(dir=first.home))
        self.frames = queue.Queue()
        self.raw, self.stray, self.notifications = [], b"", []
        self._kept, self._log, self._ids, self._threads = {}, [], 0, []
        up, down = self.home / "up", self.home / "down"
        os.mkfifo(up)
        os.mkfifo(down)
        reader = os.open(down, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(up, os.O_RDWR)  # else it would block until the daemon reads
        first.result("test/connect", {"read": str(up), "write": str(down)})
        # The daemon must see the end when we close: only a plain writer may be left.
        plain = os.open(up, os.O_WRONLY)
        os.close(writer)
        os.set_blocking(reader, True)
        self.process = SimpleNamespace(
            stdin=os.fdopen(plain, "wb", buffering=0), stdout=os.fdopen(reader, "rb", buffering=0)
        )
        self._reading = False
        self.start_reading()

    def hang_up(self) -> None:
        """End this connection, and wait until the daemon has."""
        self.close_stdin()
        self.rest()

    def close(self) -> None:
        """End this connection."""
        if not self.process.stdin.closed:
            self.close_stdin()
        for thread in self._threads:
            thread.join(TIMEOUT)
        self.process.stdout.close()


class Conversation:
    """One session of one connection."""

    def __init__(self, talk: Talk, workspace: Path, **params: Any) -> None:
        self.talk = talk
        self.opened = talk.result("session/open", {"workspace": str(workspace), **params})
        self.id: str = self.opened["sessionId"]
        self.started: list[str] = []
        self.ends: list[Json] = []

    def params(self, members: Json) -> Json:
        """Params of this session; names of Python become those of the wire."""
        wire = {re.sub(r"_(\w)", lambda m: m[1].upper(), name): v for name, v in members.items()}
        return {"sessionId": self.id, **wire}

    def call(self, method: str, **members: Any) -> Any:
        """The result of a request about this session."""
        return self.talk.result(method, self.params(members))

    def error(self, method: str, **members: Any) -> Json:
        """The error of a request about this session."""
        return self.talk.error(method, self.params(members))

    def tell(self, method: str, **members: Any) -> None:
        """A notification about this session."""
        self.talk.notify(method, self.params(members))

    def start(self, query: str = DEPLOY, **members: Any) -> Any:
        """`recall/start`."""
        answer = self.call("recall/start", query=query, **members)
        if answer["recallId"] not in self.started:
            self.started.append(answer["recallId"])
        return answer

    def send_start(self, query: str = DEPLOY, **members: Any) -> str:
        """`recall/start`, not waiting for its answer; the request's id."""
        msg_id = f"start-{self.talk._count()}"
        self.talk.send(request(msg_id, "recall/start", self.params({"query": query, **members})))
        return msg_id

    def send_poll(self, point: str = "userQuery", **members: Any) -> str:
        """`recall/poll`, not waiting for its answer; the request's id."""
        msg_id = f"poll-{self.talk._count()}"
        self.talk.send(request(msg_id, "recall/poll", self.params({"point": point, **members})))
        return msg_id

    def poll(self, point: str = "userQuery", **members: Any) -> Any:
        """`recall/poll`."""
        return self.call("recall/poll", point=point, **members)

    def peek(self, **members: Any) -> Any:
        """`recall/peek`."""
        return self.call("recall/peek", **members)

    def cancel(self, **members: Any) -> bool:
        """`recall/cancel`."""
        cancelled: bool = self.call("recall/cancel", **members)["cancelled"]
        return cancelled

    def end(self, reason: str = "completed", **members: Any) -> None:
        """`turn/didEnd`."""
        self.tell("turn/didEnd", reason=reason, **members)

    def append(self, *ids: str, **members: Any) -> None:
        """`transcript/didAppend` of messages that only have ids and some text."""
        messages = [{"id": one, "role": "user", "text": f"message {one}"} for one in ids]
        self.tell("transcript/didAppend", messages=messages, **members)

    def settled(self, recall_id: str, stage: str = "refined") -> None:
        """Wait until a stage of a recall is ready."""
        self.talk.expect("recall/settled", sessionId=self.id, recallId=recall_id, stage=stage)

    def ready(
        self, *chosen: str, query: str = DEPLOY, lender: Talk | None = None, **members: Any
    ) -> str:
        """A recall that the model (of `lender`) has settled with these titles, untaken; its id."""
        recall_id: str = self.start(query, **members)["recallId"]
        lender = lender or self.talk
        lender.choose(lender.ask(), *(chosen or ("Deploy freeze",)))
        self.settled(recall_id)
        return recall_id

    def ended(self, recall_id: str) -> Json:
        """The terminal event of a recall."""
        event: Json = self.talk.expect("recall/ended", sessionId=self.id, recallId=recall_id)[
            "params"
        ]
        self.ends.append(event)
        return event

    def finish(self) -> None:
        """Close the session; each recall has ended once, and no question is left open (R12)."""
        talk = self.talk
        answer = talk.request("session/close", {"sessionId": self.id})
        # Closed meanwhile, or only looked at
        assert "result" in answer or answer["error"]["code"] in (1001, -32803), answer
        more = talk.seen("recall/ended", sessionId=self.id)
        times = Counter(event["recallId"] for event in (*self.ends, *more))
        assert all(number == 1 for number in times.values()), times
        assert set(self.started) <= set(times), (self.started, times)
        talk.notifications.clear()


def check_error(error: Json) -> None:
    """An error is what the protocol says: code, message, `data {name, retryable, detail}`."""
    assert set(error) == {"code", "message", "data"}, error
    assert error["message"] and isinstance(error["message"], str), error
    data = error["data"]
    assert data["name"] == ERRORS[error["code"]].name, error
    assert isinstance(data["retryable"], bool) and isinstance(data["detail"], dict), error


def titles(outcome: Json) -> list[str]:
    """Titles of what a poll delivered."""
    return [document["title"] for document in outcome["delivery"]["documents"]]


def _fits(message: Json, method: str, members: Json) -> bool:
    params = message.get("params") or {}
    return message["method"] == method and all(params.get(k) == v for k, v in members.items())
