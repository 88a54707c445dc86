"""Notes and the life of processes, sessions and secrets (§5, §6, X12, X14, X25-X27, I24, D06)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e_driver import notification, request
from e2e_notes import (
    MODEL,
    NOTHING,
    OPTIONS,
    OUTLINE,
    Noted,
    assistant,
    edit,
    files_below,
    holding,
    tool,
    user,
)
from e2e_talk import Json, Talk

FOLDERS = ("CONFIG", "DATA", "STATE", "RUNTIME")
SLACK_S = 0.5
"""A loaded machine's share, on top of what reliability.md I6 promises."""
CANARY = "heliotrope-canary-4711"


@pytest.fixture
def talk() -> Iterator[Talk]:
    """A daemon of its own, and a client that lends its model."""
    with Talk() as talk:
        talk.initialize(OPTIONS)
        yield talk


def beside(talk: Talk, settings: Json = OUTLINE) -> Talk:
    """Another daemon on the same folders."""
    other = Talk(env={f"ONCUE_{n}_DIR": str(talk.home / n.lower()) for n in FOLDERS})
    other.initialize(OPTIONS)
    other.configure(**settings)
    return other


def made(talk: Talk) -> Path:
    """The workspace, which outlives the daemon."""
    folder = talk.home / "workspace"
    folder.mkdir(exist_ok=True)
    return folder


# Killed and started again


def test_resumed_after_a_kill_from_the_persisted_cursor(talk: Talk) -> None:
    chat = Noted(talk, made(talk), sessionId="the-session")
    chat.say(user("u1", f"mend the {CANARY}"), assistant("a1", 12_000))
    revision = chat.run_ended()["notesRevision"]
    talk.process.kill()
    talk.wait()
    with beside(talk) as second:
        resumed = Noted(second, made(talk), sessionId="the-session")
        assert resumed.opened["lastMessageId"] == "a1"
        assert resumed.opened["resumed"] is True
        read = resumed.notes()
        assert CANARY in read["text"] and read["revision"] == revision
        assert read["lastSummarizedMessageId"] == "a1" and read["lagMessages"] == 0
        status = resumed.extraction()["counters"]
        assert status["initialised"] and status["tokensAtLastExtraction"] == 12_000
        resumed.tell(
            "transcript/didAppend",
            afterMessageId="a1",
            messages=[user("u2"), assistant("a2", 12_500)],
        )
        assert resumed.decision() == ("skipped", "belowUpdateThreshold")
        assert resumed.notes()["lagMessages"] == 2
        resumed.say(user("u3", "then the verbena"), assistant("a3", 17_000))
        assert resumed.run_ended()["outcome"] == "settled"
        text = resumed.notes()["text"]
        assert CANARY in text and "verbena" in text
        assert second.seen("transcript/resyncRequired") == []
        assert second.shutdown() == 0


def test_resumed_by_a_client_that_sends_everything_again(talk: Talk) -> None:
    told = [user("u1", "mend the importer"), assistant("a1", 12_000, text="Mended.")]
    chat = Noted(talk, made(talk), sessionId="the-session")
    chat.say(*told)
    chat.run_ended()
    text = chat.notes()["text"]
    talk.process.kill()
    talk.wait()
    with beside(talk) as second:
        resumed = Noted(second, made(talk), sessionId="the-session")
        resumed.say(*told)
        resumed.end()
        assert resumed.notes()["lagMessages"] == 0
        assert resumed.decision() == ("skipped", "belowUpdateThreshold")
        assert resumed.extract(wait_ms=15_000)["reason"] == "nothingNew"
        assert resumed.notes()["text"] == text
        assert second.shutdown() == 0


def test_X12_X14_killed_during_a_run_the_next_daemon_takes_over_at_once(talk: Talk) -> None:
    talk.configure(**MODEL)
    chat = Noted(talk, made(talk), sessionId="the-session")
    chat.say(user("u1"), assistant("a1", 12_000))
    talk.ask()  # its claim is held now
    talk.process.kill()
    talk.wait()
    with beside(talk) as second:
        resumed = Noted(second, made(talk), sessionId="the-session")
        assert "lastMessageId" not in resumed.opened
        resumed.say(user("u1"), assistant("a1", 12_000))
        assert resumed.run_ended()["outcome"] == "settled"
        assert not resumed.notes()["isTemplate"]
        assert not [path for path in files_below(talk.home / "data") if path.suffix == ".tmp"]
        assert second.shutdown() == 0


def test_X11_X12_two_daemons_never_write_at_once(talk: Talk) -> None:
    talk.configure(**MODEL)
    chat = Noted(talk, made(talk), sessionId="the-session")
    told = [user("u1"), assistant("a1", 12_000)]
    chat.say(*told)
    question = talk.ask()
    with beside(talk) as second:
        other = Noted(second, made(talk), sessionId="the-session")
        other.say(*told)
        assert other.extraction()["state"] == "running"  # it waits for the claim
        assert other.call("memory/wait", waitMs=200)["outcome"] == "stillRunning"
        chat.answer(question, edit("Now", "The first daemon wrote this."))
        chat.answer(talk.ask(), text="Done.")
        assert chat.run_ended()["outcome"] == "settled"
        ended = other.run_ended()
        assert (ended["outcome"], ended["reason"]) == ("settled", "nothingNew")
        assert "The first daemon wrote this." in other.section("Now")
        assert second.shutdown() == 0
    assert talk.shutdown() == 0


# Ends


def test_D06_shutdown_and_exit_with_a_run_going_on(talk: Talk) -> None:
    talk.configure(**MODEL)
    chat = Noted(talk, made(talk))
    chat.say(user("u1"), assistant("a1", 12_000))
    talk.ask()
    talk.send(request("waits", "memory/wait", {"sessionId": chat.id, "waitMs": 15_000}))
    talk.barrier()
    began = time.monotonic()
    talk.send(request("bye", "shutdown"))
    assert talk.response("bye")["result"] is None
    assert talk.response("waits")
    talk.notify("exit")
    assert talk.wait() == 0
    assert time.monotonic() - began < 1.0 + SLACK_S
    frames = [*talk.notifications, *talk.rest()]
    ends = [one["params"] for one in frames if one.get("method") == "memory/extractionEnded"]
    assert [end["outcome"] for end in ends] == ["cancelled"]


@pytest.mark.parametrize("how", ["outline", "model"])
def test_D06_end_of_stdin_with_a_run_going_on(talk: Talk, how: str) -> None:
    talk.configure(**(MODEL if how == "model" else OUTLINE))
    chat = Noted(talk, made(talk))
    chat.say(user("u1"), assistant("a1", 12_000))
    talk.close_stdin()
    began = time.monotonic()
    talk.wait()
    assert time.monotonic() - began < 2.0 + SLACK_S


# What must not be written


def test_private_sessions_write_nothing(talk: Talk) -> None:
    talk.configure(**OUTLINE)
    secret_id = "private-session-id-0815"
    chat = Noted(talk, made(talk), sessionId=secret_id, private=True)
    assert "notesPath" not in chat.opened
    chat.say(user("u1", f"about {CANARY}"), assistant("a1", 90_000))
    chat.end()
    assert chat.decision() == ("skipped", "private")
    assert chat.extract(wait_ms=15_000)["reason"] == "private"
    assert chat.error("notes/read")["code"] == -32803
    assert chat.error("notes/compactionView")["code"] == -32803
    chat.tell("transcript/didReset", reason="cleared")
    chat.call("session/purge")
    chat.call("session/close", waitMs=100)
    assert talk.shutdown() == 0
    assert not holding(talk.home, CANARY, secret_id)
    assert CANARY not in talk.log


def test_purge_leaves_nothing_of_the_session(talk: Talk) -> None:
    talk.configure(**MODEL)
    chat = Noted(talk, made(talk), sessionId=f"id-{CANARY}")
    another = Noted(talk, made(talk), sessionId="another")
    another.say(user("u1"), assistant("a1", 12_000))
    another.model_writes(edit("Now", "This one stays."))
    another.run_ended()
    chat.say(user("u1", CANARY), assistant("a1", 12_000))
    for n in range(3):  # versions, a conflict copy, and a run that goes on
        if n:
            chat.say(user(f"u{n}-1"), assistant(f"a{n}-1", 12_000 + n * 9_000))
        question = talk.ask()
        if n == 2:
            path = Path(chat.opened["notesPath"])
            path.write_text(path.read_text().replace(f"{CANARY} 1", f"{CANARY} mine"))
        chat.answer(question, edit("Now", f"{CANARY} {n}"))
        chat.answer(talk.ask(), text="Done.")
        ended = chat.run_ended()
        assert ended["outcome"] == "settled"
    assert ended["conflictPath"]
    chat.say(user("v1"), assistant("w1", 90_000))
    question = talk.ask()
    kinds = {one["kind"] for one in chat.call("session/purge")["removed"]}
    assert {"notes", "version", "cursor"} <= kinds
    assert chat.run_ended()["outcome"] == "cancelled"
    talk.stopped(question)
    assert not holding(talk.home / "data", CANARY) and not holding(talk.home / "config", CANARY)
    assert not [path for path in files_below(talk.home) if CANARY in str(path)]
    assert chat.notes()["isTemplate"]
    assert "This one stays." in another.section("Now")
    assert talk.shutdown() == 0
    assert not holding(talk.home, CANARY)
    with beside(talk) as second:
        reopened = Noted(second, made(talk), sessionId=f"id-{CANARY}")
        assert "lastMessageId" not in reopened.opened
        assert second.shutdown() == 0


SECRETS = {
    "github": "ghp_" + "a1B2c3D4e5F6" * 3,
    "aws": "AKIA" + "Q7RT5ZKX2MNB4WPL",
    "slack": "xoxb-" + "914375820164-873014629583-" + "Qz7Lp0VxR3mKt9HsWb2NcY5d",
    "openai": "sk-proj-" + "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0Fe" * 2,
}


def test_X25_I24_secrets_of_the_transcript_never_reach_the_disk(talk: Talk) -> None:
    talk.configure(**OUTLINE)
    chat = Noted(talk, made(talk), sessionId="the-session")
    for n, secret in enumerate(SECRETS.values()):
        call = {"id": f"c{n}", "name": "Bash", "input": {"command": f"login --token {secret}"}}
        chat.say(
            user(f"u{n}", f"please log in with {secret} and mend the importer"),
            {**assistant(f"a{n}"), "toolCalls": [call]},
            {
                "id": f"t{n}",
                "role": "tool",
                "toolResults": [{"callId": f"c{n}", "isError": True, "text": f"denied: {secret}"}],
            },
            assistant(f"b{n}", 12_000 + n, text=f"The token {secret} was denied."),
        )
    chat.end("error")
    chat.extract("close", wait_ms=15_000)
    assert "importer" in chat.notes()["text"]
    status = [chat.notes(), chat.call("session/timeline"), chat.call("notes/compactionView")]
    chat.call("session/close", waitMs=15_000)
    assert talk.shutdown() == 0
    for secret in SECRETS.values():
        assert secret not in str(status)
        assert secret not in talk.log
    assert not holding(talk.home, *SECRETS.values())


def test_X27_transcripts_are_never_on_disk_and_memory_stays_bounded(talk: Talk) -> None:
    talk.configure(**OUTLINE)
    chat = Noted(talk, made(talk), sessionId="the-session")
    hidden = "output-canary-90210"
    filler = f"{hidden} " + "some output of a long build that nobody reads twice. " * 400
    for n in range(20):
        long_step(chat, f"w{n}", filler, 12_000)
    talk.barrier()
    before = resident(talk)
    for n in range(400):  # 8 MB of results, a tenth of which would show
        long_step(chat, f"s{n}", filler, 12_000 + 200 * n)
        if n % 50 == 0:
            chat.call("memory/wait")
    chat.end()
    while chat.extract("close", wait_ms=15_000)["decision"] == "joined":
        pass  # a run that began before the last message came
    assert chat.notes()["lagMessages"] == 0
    assert resident(talk) - before < 64 << 20
    runs = talk.seen("memory/extractionEnded")
    assert len(runs) >= 3
    assert talk.shutdown() == 0
    assert not holding(talk.home / "state", hidden)


def long_step(chat: Noted, name: str, output: str, tokens: int) -> None:
    """A question, a call, its long result and an answer."""
    chat.say(
        user(f"u{name}", f"step {name}"),
        assistant(f"a{name}", None, f"c{name}"),
        tool(f"t{name}", f"c{name}", text=output),
        assistant(f"b{name}", tokens),
    )


def resident(talk: Talk) -> int:
    """Resident bytes of the daemon."""
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


# What is broken on disk


def test_notes_that_cannot_be_written_are_a_failed_run_and_no_end(talk: Talk) -> None:
    talk.configure(**OUTLINE)
    chat = Noted(talk, made(talk), sessionId="the-session")
    folder = Path(chat.opened["notesPath"]).parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file where the folder should be")
    chat.say(user("u1"), assistant("a1", 12_000))
    ended = chat.run_ended()
    assert ended["outcome"] == "failed" and "file" in ended["reason"]
    error = chat.error("notes/read")
    assert error["code"] == 1005 and str(folder) in error["message"]
    folder.unlink()
    assert chat.extract(wait_ms=15_000)["outcome"] == "settled"
    assert not chat.notes()["isTemplate"]
    assert talk.shutdown() == 0


def test_X24_the_users_template_and_prompt_are_used(talk: Talk) -> None:
    config = talk.home / "config"
    config.mkdir(exist_ok=True)
    (config / "prompt.md").write_text("PROMPT of mine for {{notesPath}} and {{unknown}}")
    talk.configure(**MODEL)
    chat = Noted(talk, made(talk), sessionId="the-session")
    chat.say(user("u1"), assistant("a1", 12_000))
    question = talk.ask()
    system = question["params"]["messages"][0]["text"]
    assert f"PROMPT of mine for {chat.opened['notesPath']} and {{{{unknown}}}}" in system
    chat.answer(question, text=NOTHING)
    chat.run_ended()
    assert talk.shutdown() == 0


def test_resumed_in_one_write_with_what_follows(talk: Talk) -> None:
    chat = Noted(talk, made(talk), sessionId="the-session")
    chat.say(user("u1", f"mend the {CANARY}"), assistant("a1", 12_000))
    chat.run_ended()
    talk.process.kill()
    talk.wait()
    with beside(talk) as second:
        params = {"sessionId": "the-session", "workspace": str(made(talk))}
        told = [user("u1", f"mend the {CANARY}"), assistant("a1", 12_000), user("u2", "and then")]
        second.send(
            request("open", "session/open", params),
            notification("transcript/didAppend", {"sessionId": "the-session", "messages": told}),
            request("read", "notes/read", {"sessionId": "the-session"}),
        )
        opened = second.response("open")["result"]
        assert opened["lastMessageId"] == "u2"
        assert CANARY in second.response("read")["result"]["text"]
        second.until(
            lambda: (
                second.result("session/status", {"sessionId": "the-session"})["extraction"]["state"]
                == "idle"
            )
        )
        read = second.result("notes/read", {"sessionId": "the-session"})
        assert read["lagMessages"] <= 1
        assert second.shutdown() == 0


def test_X23_notes_truncated_or_in_another_shape_lose_nothing(talk: Talk) -> None:
    talk.configure(**OUTLINE)
    chat = Noted(talk, made(talk), sessionId="the-session")
    chat.say(user("u1", "mend the importer"), assistant("a1", 12_000))
    chat.run_ended()
    path = Path(chat.opened["notesPath"])
    whole = path.read_text()
    shapes = {
        "truncated": whole[: len(whole) // 2].encode(),
        "CRLF": whole.replace("\n", "\r\n").encode(),
        "UTF-16": (whole + f"\n{CANARY}").encode("utf-16"),
        "reordered": ("# Log\n\n" + CANARY + "\n\n" + whole).encode(),
        "empty": b"",
        "not text": b"\xff\xfe\x00\x01" * 100,
    }
    for n, (shape, content) in enumerate(shapes.items(), 1):
        path.write_bytes(content)
        chat.say(user(f"u{n}-1", f"after {shape}"), assistant(f"a{n}-1", 12_000 + n * 6_000))
        ended = chat.run_ended()
        assert ended["outcome"] in ("settled", "failed"), (shape, ended)
        read = talk.request("notes/read", {"sessionId": chat.id})
        if path.read_bytes() != content:
            kept = [one.read_bytes() for one in files_below(path.parent) if one != path]
            told = shape in ("UTF-16", "reordered") and CANARY in str(read)
            same = shape in ("truncated", "CRLF", "empty")  # what is there is in a version
            assert content in kept or told or same, (shape, ended)
        assert "result" in read or read["error"]["code"] == 1005, (shape, read)
    assert talk.shutdown() == 0
