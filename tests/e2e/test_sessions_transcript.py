"""The transcript on the real process: kept in sync, or read from the agent's own file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e_talk import Conversation, Talk, titles
from transcript_maker import SESSION, Claude, text


def last_message(chat: Conversation) -> str | None:
    """As a client that comes back is told."""
    params = {"sessionId": chat.id, "role": "observer"}
    last: str | None = chat.talk.result("session/open", params).get("lastMessageId")
    return last


def test_transcript_gap_applies_nothing_and_asks_for_a_resync(
    chat: Conversation, talk: Talk
) -> None:
    chat.append("m1", "m2")
    chat.append("m4", afterMessageId="m3")
    asked = talk.expect("transcript/resyncRequired")["params"]
    assert asked["sessionId"] == chat.id and asked["lastMessageId"] == "m2"
    assert last_message(chat) == "m2"
    chat.append("m3", "m4", afterMessageId="m2")
    assert last_message(chat) == "m4"
    assert talk.seen("transcript/resyncRequired") == []


def test_transcript_resync_from_the_beginning(chat: Conversation, talk: Talk) -> None:
    chat.append("m2", afterMessageId="m1")
    assert "lastMessageId" not in talk.expect("transcript/resyncRequired")["params"]
    chat.append("m1", "m2")
    assert last_message(chat) == "m2"


def test_transcript_repeated_ids_change_nothing(chat: Conversation, talk: Talk) -> None:
    chat.append("m1", "m2", "m3")
    chat.append("m1", "m2", "m3")
    chat.append("m2", "m3", "m4", afterMessageId="m3")
    assert last_message(chat) == "m4"
    assert talk.seen("transcript/resyncRequired") == []


def test_transcript_reset_forgets_ids(chat: Conversation, talk: Talk) -> None:
    chat.append("m1", "m2")
    chat.tell("transcript/didReset", reason="rewound")
    assert last_message(chat) is None
    chat.append("m1", afterMessageId="m0")
    talk.expect("transcript/resyncRequired")


def test_transcript_lanes_are_kept_apart(chat: Conversation, talk: Talk) -> None:
    chat.append("m1", "m2")
    chat.append("s1", lane="sub")
    chat.append("s2", afterMessageId="s1", lane="sub")
    chat.append("m3", afterMessageId="m2")
    assert talk.seen("transcript/resyncRequired") == []
    chat.append("s9", afterMessageId="s8", lane="sub")
    asked = talk.expect("transcript/resyncRequired")["params"]
    assert (asked["lane"], asked["lastMessageId"]) == ("sub", "s2")


def test_transcript_of_a_megabyte_with_everything_in_it(chat: Conversation, talk: Talk) -> None:
    usage = {"inputTokens": 5, "outputTokens": 7, "cacheReadTokens": 1_000}
    call = {"id": "c1", "name": "Bash", "input": {"command": "ls", "jsonrpc": "2.0"}}
    messages = [
        {"id": "m1", "role": "user", "text": "x" * 1_000_000},
        {"id": "m2", "role": "assistant", "toolCalls": [call], "usage": usage},
        {"id": "m3", "role": "tool", "toolResults": [{"callId": "c1", "isError": True}]},
        {
            "id": "m4",
            "role": "system",
            "text": "\x00\u2028 odd",
            "time": "2026-01-05T09:00:00Z",
        },
    ]
    chat.tell("transcript/didAppend", messages=messages, unknown={"jsonrpc": "2.0"})
    assert last_message(chat) == "m4"


# ---- following an agent's own file -----------------------------------------------------------


@pytest.fixture
def folder(talk: Talk) -> Iterator[Path]:
    """Where Claude Code keeps this user's sessions; HOME is the daemon's own folder."""
    folder = talk.home / ".claude" / "projects" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    for path in folder.iterdir():
        path.unlink()


def turn(writer: Claude, words: str) -> bytes:
    """The records of one more turn."""
    writer.records.clear()
    writer.user(words)
    writer.say(f"a{writer.count}", text(f"re {words}"), stop="end_turn")
    return writer.bytes()


def test_follow_reads_what_is_there_and_what_comes(chat: Conversation, folder: Path) -> None:
    path = folder / f"{SESSION}.jsonl"
    writer = Claude()
    path.write_bytes(turn(writer, "one"))
    result = chat.call("transcript/follow", path=str(path), format="claude")
    assert result == {"path": str(path.resolve()), "resumed": False}
    chat.talk.until(lambda: last_message(chat) == "a1")
    with path.open("ab") as file:
        file.write(turn(writer, "two"))
    again = chat.call("transcript/follow", path=path.as_uri(), format="claude")
    assert again["resumed"] is True  # and looked at right away
    chat.talk.until(lambda: last_message(chat) in ("u3", "a3"))


def test_follow_of_a_file_that_is_not_there_yet(chat: Conversation, folder: Path) -> None:
    path = folder / "later.jsonl"
    assert chat.call("transcript/follow", path=str(path), format="claude")["resumed"] is False
    path.write_bytes(turn(Claude(), "one") + turn(Claude(), "two"))
    chat.call("transcript/follow", path=str(path), format="claude")
    chat.talk.until(lambda: last_message(chat) is not None)


def test_follow_history_leaves_the_turn_alone_and_an_interruption_ends_it(
    chat: Conversation, talk: Talk, folder: Path
) -> None:
    path = folder / f"{SESSION}.jsonl"
    writer = Claude()
    old = turn(writer, "old one")
    writer.records.clear()
    writer.user("[Request interrupted by user]")
    path.write_bytes(old + writer.bytes() + turn(writer, "old two"))
    recall_id = chat.ready("Deploy freeze")
    chat.call("transcript/follow", path=str(path), format="claude")
    talk.until(lambda: last_message(chat) in ("u4", "a4"))
    assert titles(chat.peek()) == ["Deploy freeze"]
    writer.records.clear()
    writer.user("[Request interrupted by user]")
    with path.open("ab") as file:
        file.write(writer.bytes())
    chat.call("transcript/follow", path=str(path), format="claude")
    event = chat.ended(recall_id)
    assert (event["state"], event["reason"]) == ("cancelled", "abort")


def test_follow_ends_with_the_session(
    chat: Conversation, talk: Talk, folder: Path, workspace: Path
) -> None:
    path = folder / f"{SESSION}.jsonl"
    writer = Claude()
    path.write_bytes(turn(writer, "one"))
    idle = talk.result("test/tasks")["tasks"]
    chat.call("transcript/follow", path=str(path), format="claude")
    assert talk.result("test/tasks")["tasks"] > idle
    chat.call("session/close")
    talk.until(lambda: talk.result("test/tasks")["tasks"] <= idle)


def test_I23_follow_reads_below_the_agents_folders_only(
    chat: Conversation, talk: Talk, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(turn(Claude(), "canary"))
    link = folder / "link.jsonl"
    os.symlink(secret, link)
    hard = folder / "pipe.jsonl"
    os.mkfifo(hard)
    for path in (
        str(secret),
        "/etc/passwd",
        f"{folder}/../../../secret.jsonl",
        str(folder),
        "relative.jsonl",
        f"{folder}/notes.txt",
        str(link),
        str(hard),
        "",
        "http://example.org/x.jsonl",
    ):
        error = chat.error("transcript/follow", path=path, format="claude")
        assert error["code"] in (1004, -32602), (path, error)
        assert "canary" not in str(error)
    assert last_message(chat) is None
    assert chat.error("transcript/follow", path=str(link), format="vim")["code"] == -32602


def test_follow_at_most_eight_files(chat: Conversation, folder: Path) -> None:
    for index in range(8):
        chat.call("transcript/follow", path=str(folder / f"{index}.jsonl"), format="claude")
    error = chat.error("transcript/follow", path=str(folder / "9.jsonl"), format="claude")
    assert error["code"] == 1006
    assert error["data"]["detail"] == {"limit": "followedFiles", "value": 8, "sent": 9}
