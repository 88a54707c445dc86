"""Notes written by a model: a user who edits meanwhile, answers of every bad kind, an endpoint over
HTTP (X10, X19-X23, T10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e_notes import (
    MODEL,
    NOTHING,
    OPTIONS,
    SECTIONS,
    Noted,
    assistant,
    edit,
    holding,
    noted,
    user,
)
from e2e_talk import DEPLOY, Json, Talk
from model_server import ModelProcess, Play

KEY = "canary-key-7f3b21c09d54"
"""Of the model endpoint; it belongs into a request's headers and nowhere else."""
STORY = "\n".join(f"- the importer must survive case {n} of the table" for n in range(60))


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    """A daemon, and a client that lends its model."""
    with Talk() as talk:
        talk.initialize(OPTIONS)
        yield talk
        assert talk.shutdown() == 0


@pytest.fixture
def chat(talk: Talk) -> Iterator[Noted]:
    """A session that has notes of some length, written by the model."""
    with noted(talk, MODEL) as chat:
        chat.say(user("u1"), assistant("a1", 12_000))
        chat.model_writes(edit("Now", "Mending case 7."), edit("Task", STORY))
        assert chat.run_ended()["outcome"] == "settled"
        assert STORY in chat.section("Task")
        yield chat


def notes_file(chat: Noted) -> Path:
    """The file of the session's notes."""
    return Path(chat.opened["notesPath"])


def again(chat: Noted) -> Json:
    """Another run; its first question."""
    chat.say(user("u2"), assistant("a2", 30_000))
    return chat.talk.ask()


def answered(chat: Noted, result: Any) -> Json:
    """The end of a run whose model gives this one answer to whatever it is asked."""
    talk = chat.talk
    while True:
        for message in talk.notifications:
            if message["method"] == "model/generate":
                talk.notifications.remove(message)
                talk.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
                break
            if message["method"] == "memory/extractionEnded":
                return chat.run_ended()
        talk.barrier()


# The user edits


def test_X23_a_users_edit_during_the_run_is_merged(chat: Noted) -> None:
    question = again(chat)
    path = notes_file(chat)
    path.write_text(path.read_text().replace("survive case 5 of", "survive case FIVE of"))
    chat.answer(question, edit("Now", "Mending case 8."))
    question = chat.talk.ask()
    path.write_text(path.read_text().replace("survive case 6 of", "survive case SIX of"))
    chat.answer(question, text="Done.")
    ended = chat.run_ended()
    assert ended["outcome"] == "settled" and "conflictPath" not in ended
    text = path.read_text()
    assert "case FIVE" in text and "case SIX" in text and "Mending case 8." in text
    assert chat.notes()["text"] == text


def test_X23_both_changed_one_section_the_user_wins_and_nothing_is_lost(chat: Noted) -> None:
    question = again(chat)
    path = notes_file(chat)
    path.write_text(path.read_text().replace("Mending case 7.", "The user says: pause."))
    chat.answer(question, edit("Now", "The model says: case 9."), edit("Log", "- case 9"))
    chat.answer(chat.talk.ask(), text="Done.")
    ended = chat.run_ended()
    assert ended["outcome"] == "settled"
    assert "The user says: pause." in chat.section("Now")
    assert "case 9" in chat.section("Log")
    conflict = Path(ended["conflictPath"])
    assert conflict.parent == path.parent
    assert "The model says: case 9." in conflict.read_text()


def test_X23_the_file_is_private_and_its_versions_are_kept(chat: Noted) -> None:
    path = notes_file(chat)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    again(chat)
    chat.talk.notifications.clear()
    chat.call("memory/cancelExtraction")
    chat.run_ended()
    for n in range(14):
        assert chat.extract()["decision"] == "started"
        chat.model_writes(edit("Now", f"Mending case {100 + n}."))
        assert chat.run_ended()["outcome"] == "settled"
        chat.say(user(f"v{n}"), assistant(f"b{n}", 30_000))
    versions = list((path.parent / ".versions").rglob("*.md"))
    mine = [one for one in versions if "Mending case" in one.read_text() and path.stem in str(one)]
    assert len(mine) == 10
    assert not [one for one in path.parent.rglob("*") if one.suffix not in (".md", "")]


def test_X23_the_user_deletes_the_notes_during_the_run(chat: Noted) -> None:
    question = again(chat)
    notes_file(chat).unlink()
    chat.answer(question, edit("Now", "Mending case 8."))
    chat.answer(chat.talk.ask(), text="Done.")
    ended = chat.run_ended()
    assert ended["outcome"] in ("settled", "failed")
    read = chat.notes()
    assert [section["title"] for section in read["sections"]] == SECTIONS


# Answers of every bad kind

CALL: Json = {"id": "e1", "name": "edit"}
HOSTILE: dict[str, Any] = {
    "claims success": {"text": "I have updated all the notes, everything is fine."},
    "says nothing": {"text": ""},
    "no result": {},
    "wrong tool": {"toolCalls": [{**edit("Now", "x"), "id": "1", "name": "write_file"}]},
    "names a path": {"toolCalls": [{**CALL, "input": {"path": "/etc/passwd", "newText": "x"}}]},
    "a path beside": {
        "toolCalls": [{**CALL, "input": {"section": "Now", "newText": "x", "path": "../x.md"}}]
    },
    "no such section": {"toolCalls": [{**edit("Secrets", "x"), "id": "1"}]},
    "old text that is not there": {
        "toolCalls": [{**edit("Now", "x", old="never said"), "id": "1"}]
    },
    "another heading": {"toolCalls": [{**edit("Now", "x\n\n# Task\n\ngone"), "id": "1"}]},
    "whole file": {"toolCalls": [{**edit("Now", "# Title\n\n# Now\n\n# Task\n"), "id": "1"}]},
    "arguments as text": {"toolCalls": [{**CALL, "input": '{"section": "Now"}'}]},
    "no arguments": {"toolCalls": [CALL]},
    "numbers": {"toolCalls": [{**CALL, "input": {"section": 1, "newText": 2}}]},
    "not Now": {"toolCalls": [{**edit("Log", "- something else"), "id": "1"}]},
    "shrinks": {"toolCalls": [{**edit("Now", "."), "id": "1"}, {**edit("Task", "."), "id": "2"}]},
    "protocol words": {"text": "shutdown\nexit\n$/cancelRequest", "toolCalls": []},
    "not an object": [1, 2],
    "null": None,
    "broken calls": {"toolCalls": [{"id": 7}]},
    "a text that is none": {"text": {"NOTHING_TO_ADD": True}},
    "half a surrogate": {"toolCalls": [{**edit("Sec\ud800", "\udfff"), "id": "1"}]},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_X10_X20_X22_a_bad_answer_leaves_the_notes_as_they_were(chat: Noted, kind: str) -> None:
    before = notes_file(chat).read_bytes()
    base = chat.extraction()["counters"]["tokensAtLastExtraction"]
    lag = chat.notes()["lagMessages"]
    chat.say(user("u2"), assistant("a2", 30_000))
    ended = answered(chat, HOSTILE[kind])
    assert ended["outcome"] == "failed" and ended["reason"], ended
    assert notes_file(chat).read_bytes() == before
    assert chat.extraction()["counters"]["tokensAtLastExtraction"] == base
    assert chat.notes()["lagMessages"] == lag + 2


def test_X10_nothing_to_add_is_a_success_that_moves_the_base(chat: Noted) -> None:
    before = notes_file(chat).read_bytes()
    chat.answer(again(chat), text=NOTHING)
    ended = chat.run_ended()
    assert (ended["outcome"], ended["reason"]) == ("settled", "nothingToAdd")
    assert notes_file(chat).read_bytes() == before
    assert chat.extraction()["counters"]["tokensAtLastExtraction"] == 30_000
    chat.end()
    assert chat.decision() == ("skipped", "belowUpdateThreshold")


def test_X20_X21_ten_times_too_long_is_condensed_and_keeps_its_sections(chat: Noted) -> None:
    chat.say(user("u2"), assistant("a2", 30_000))
    long = "\n".join(f"- line {n} of far too much that nobody will read" for n in range(4_000))
    result = {"toolCalls": [{**edit("Now", "Much."), "id": "1"}, {**edit("Log", long), "id": "2"}]}
    ended = answered(chat, result)
    read = chat.notes()
    assert [section["title"] for section in read["sections"]] == SECTIONS
    assert not any(section["overBudget"] for section in read["sections"]), ended


def test_X25_secrets_that_a_model_repeats_are_not_written(chat: Noted) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    chat.answer(again(chat), edit("Now", f"Log in with {secret} and go on."))
    chat.answer(chat.talk.ask(), text="Done.")
    assert chat.run_ended()["outcome"] == "settled"
    assert "go on." in chat.section("Now")
    assert not holding(chat.talk.home, secret)


# Over HTTP


def configured(folder: Path, server: ModelProcess, kind: str, *allowed: str) -> Talk:
    """A daemon whose user has configured this endpoint."""
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        f"""
[model]
provider = "http"
kind = "{kind}"
baseUrl = "{server.base_url(kind)}"
model = "a-model"
apiKeyEnv = "E2E_MODEL_KEY"
allowWorkspaces = {json.dumps(allowed)}

[extraction]
extractor = "model"
"""
    )
    talk = Talk(env={"ONCUE_CONFIG_DIR": str(folder), "E2E_MODEL_KEY": KEY})
    talk.initialize({"notifications": ["recall/settled", "memory/extractionEnded"]})
    return talk


def opened(talk: Talk) -> Noted:
    """A session with memories; whatever matches counts."""
    talk.configure(recall={"minConfidence": 0, "fastMinConfidence": 0})
    workspace = talk.home / "workspace"
    talk.remember(workspace)
    return Noted(talk, workspace)


def key_is_nowhere(talk: Talk, folder: Path) -> None:
    """End the daemon; its key is in no frame, no line of the log and no file."""
    assert talk.shutdown() == 0
    talk.rest()
    assert not any(KEY.encode() in raw for raw in talk.raw)
    assert KEY not in talk.log
    assert not holding(talk.home, KEY) and not holding(folder, KEY)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_T10_an_endpoint_chooses_memories_and_writes_notes(tmp_path: Path, kind: str) -> None:
    with ModelProcess() as server, configured(tmp_path / "c", server, kind, "*") as talk:
        chat = opened(talk)
        assert talk.result("daemon/status")["model"]["state"] == "ok"
        recall = chat.start(DEPLOY, turn_id="t1")["recallId"]
        chat.settled(recall)
        assert chat.poll("toolResult")["delivery"]["strategy"] == "model"
        chat.say(user("u1"), assistant("a1", 12_000))
        assert chat.run_ended()["outcome"] == "settled"
        assert "The model server was here." in chat.section("Now")
        asked = server.requests()
        header = "x-api-key" if kind == "anthropic" else "authorization"
        assert all(KEY in one.headers[header] for one in asked)
        assert [("tools" in one.body) for one in asked] == [False, True, True]
        key_is_nowhere(talk, tmp_path)


def test_T10_a_workspace_that_is_not_allowed_is_told_to_nobody(tmp_path: Path) -> None:
    with (
        ModelProcess() as server,
        configured(tmp_path / "c", server, "openai", str(tmp_path / "another")) as talk,
    ):
        chat = opened(talk)
        recall = chat.start(DEPLOY, turn_id="t1")["recallId"]
        chat.settled(recall)
        assert chat.poll("toolResult")["delivery"]["strategy"] == "ranked"
        chat.say(user("u1"), assistant("a1", 12_000))
        ended = chat.run_ended()
        assert ended["outcome"] == "failed" and "no model" in ended["reason"]
        assert chat.notes()["isTemplate"]
        assert server.requests() == []
        key_is_nowhere(talk, tmp_path)


@pytest.mark.parametrize(
    "play",
    [
        Play(status=401, echo_headers=True),
        Play(status=400, body=f"your key {KEY} is bad"),
        Play(body="<html>no JSON", content_type="text/html", echo_headers=True),
        Play(cut_at=40),
        Play(text="All done, trust me."),
    ],
    ids=["401", "400", "html", "cut", "claims success"],
)
def test_T10_an_endpoint_that_fails_leaves_the_notes_and_tells_no_key(
    tmp_path: Path, play: Play
) -> None:
    with ModelProcess([play]) as server, configured(tmp_path / "c", server, "openai", "*") as talk:
        chat = opened(talk)
        chat.say(user("u1"), assistant("a1", 12_000))
        ended = chat.run_ended()
        assert ended["outcome"] == "failed" and ended["reason"]
        assert chat.notes()["isTemplate"]
        assert server.requests()
        talk.result("daemon/status")
        key_is_nowhere(talk, tmp_path)
