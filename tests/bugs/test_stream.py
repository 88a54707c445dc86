"""Frames, ids, cancels and clients that do not read (D20-D30), on real sessions and memories.

The inputs of one message each are in tests/e2e/test_wire_*.py; here are the kinds as a whole:
seeded streams, combinations of headers, several connections of one process, storms.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e_driver import DAEMON, TEST_DAEMON, TESTS, Daemon, frame, notification, request
from e2e_talk import DEPLOY, NOTHING, OPTIONS, Conversation, Talk

BUG_DAEMON = [sys.executable, str(TESTS / "bug_daemon.py"), "serve", "--stdio"]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    with Talk(BUG_DAEMON) as running:
        running.initialize(OPTIONS)
        running.remember(tmp_path_factory.mktemp("work"))
        yield running


@pytest.fixture
def workspace(talk: Talk, tmp_path: Path) -> Path:
    talk.remember(tmp_path)
    return tmp_path


# D20, D21: lengths, headers, splits

ALPHABETS = (
    "plain ascii", "日本語한국어简体", "🦤👩‍👩‍👧‍👦🇩🇪", "e\u0301a\u0308\u0323", "\u2028\u2029\x85",
    "\0\x01\x1f\x7f",
    "\ufeff\ufffe\uffff", "\r\n\t", 'Content-Length: 5\r\n\r\n{}"\\', "\U0010ffff\u200b\u202e",
)  # fmt: skip


def text_of(dice: random.Random) -> str:
    return "".join(
        dice.choice(dice.choice(ALPHABETS)) for _ in range(dice.choice((0, 1, 7, 60, 700)))
    )


@pytest.mark.parametrize("seed", range(3))
def test_D20_D21_any_text_in_any_pieces_stays_in_step(daemon: Daemon, seed: int) -> None:
    """300 messages, half of them escaped, written in pieces that know no message's end."""
    dice = random.Random(seed)
    sent: dict[str, str] = {}
    stream = b""
    for number in range(300):
        text = text_of(dice)
        sent[f"{seed}-{number}"] = text
        message = request(f"{seed}-{number}", "test/ping", {"text": text})
        body = json.dumps(message, ensure_ascii=dice.random() < 0.5).encode()
        stream += frame(body)
    while stream:
        cut = dice.choice((1, 2, 3, 17, 400, 5_000))
        daemon.write(stream[:cut])
        stream = stream[cut:]
    for msg_id, text in sent.items():
        assert daemon.response(msg_id)["result"] == {"pong": text}


NAMES = ("Content-Length", "content-length", "CONTENT-LENGTH", "cOnTeNt-LeNgTh")
SEPARATORS = (": ", ":", ":\t", " : ", ":   ")
OTHERS = (
    (), ("Content-Type: application/vscode-jsonrpc; charset=utf-8",), ("X-Client: a:b:c", "Y:"),
)  # fmt: skip
NEWLINES = (("\r\n", "\r\n"), ("\n", "\n"), ("\r\n", "\n"), ("\n", "\r\n"))


def headers() -> Iterator[str]:
    for name, separator, others, (newline, last) in itertools.product(
        NAMES, SEPARATORS, OTHERS, NEWLINES
    ):
        lines = [f"{name}{separator}{{n}}", *others]
        for order in {tuple(lines), tuple(reversed(lines))}:
            yield newline.join(order) + newline + last


def test_D21_D22_every_combination_of_headers_in_one_stream(daemon: Daemon) -> None:
    """Names, separators, other headers before and after, and line ends, all combined."""
    stream, count = b"", 0
    for count, head in enumerate(headers(), 1):
        body = json.dumps(request(f"h{count}", "test/ping", {"text": head})).encode()
        stream += head.format(n=len(body)).encode() + body
    daemon.write(stream)
    for number, head in enumerate(headers(), 1):
        assert daemon.response(f"h{number}")["result"] == {"pong": head}
    assert count > 300


ODD_HEADERS = (
    "content-length:{n}\n\n",
    "Content-Type: x\nContent-Length : {n}\r\n\r\n",
    "\r\n\nX: 1\r\nCONTENT-LENGTH:\t{n}\r\n\n",
)


@pytest.mark.parametrize("head", ODD_HEADERS)
def test_D21_odd_headers_split_at_every_byte(daemon: Daemon, head: str) -> None:
    body = json.dumps(request("split", "test/ping", {"text": "é"})).encode()
    raw = head.format(n=len(body)).encode() + body
    for cut in range(1, len(raw)):
        daemon.write(raw[:cut])
        daemon.write(raw[cut:])
        assert daemon.response("split")["result"] == {"pong": "é"}


@pytest.mark.parametrize(
    "translate", [lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: raw.replace(b"\r\n", b"\r")]
)
def test_D21_newlines_translated_on_the_way_end_cleanly_or_are_read(translate: Any) -> None:
    """A text-mode stream makes CR CR LF of CR LF: never a message misread, never a hang."""
    with Daemon(DAEMON) as daemon:
        daemon.write(translate(frame(request(1, "initialize", {})) + frame(request(2, "shutdown"))))
        daemon.close_stdin()
        messages = daemon.rest()
        assert daemon.stray == b""
        assert daemon.wait() in (0, 1, 2)
        if [message["id"] for message in messages] != [1, 2]:
            assert [message["error"]["code"] for message in messages] in ([], [-32700])


# D23: nothing but frames on fd 1, with everything that a session imports and starts


def test_D23_a_whole_session_writes_nothing_beside_its_frames(workspace: Path) -> None:
    env = {"PYTHONVERBOSE": "1", "PYTHONPROFILEIMPORTTIME": "1", "PYTHONDEVMODE": "1"}
    with Talk(BUG_DAEMON, env=env) as noisy:
        noisy.initialize(OPTIONS)
        noisy.remember(workspace)
        noisy.result("test/noise")
        with noisy.conversation(workspace) as talked:
            talked.start(NOTHING)
            noisy.result("test/noise")
            talked.cancel()
        assert noisy.shutdown() == 0
        noisy.rest()
        assert noisy.stray == b""


# D25, D26: clients that do not read


@pytest.mark.parametrize("seconds", [1.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_D25_a_client_that_never_reads_is_given_up(seconds: float) -> None:
    """10,000 requests, nothing read: the reader drains them, and the daemon does not wait for
    ever for somebody to take what it says."""
    with Daemon(BUG_DAEMON, reads=False) as deaf:
        deaf.send(request("init", "initialize", {}), notification("initialized"))
        if seconds < 60:
            deaf.send(request("p", "bugs/patience", {"seconds": seconds}))
        text = "x" * 1_000
        for start in range(0, 10_000, 500):
            try:
                deaf.send(*(request(start + n, "test/ping", {"text": text}) for n in range(500)))
            except BrokenPipeError:
                break
        assert deaf.wait(seconds + 20) == 1
        assert '"stalled"' in deaf.log


def test_D26_a_reply_nobody_takes_is_no_other_clients_business(talk: Talk, workspace: Path) -> None:
    """5 MB for a connection that reads one byte; the other's recalls are answered meanwhile."""
    slow = talk.second()
    slow.initialize()
    slow_out = threading.Event()
    real_cut = slow._cut

    def cut(buffer: bytes) -> bytes:
        slow_out.wait(30)  # its reader sleeps; what comes stays in the pipe
        return real_cut(buffer)

    slow._cut = cut  # type: ignore[method-assign]
    slow.send(request("big", "test/big", {"bytes": 5_000_000}))
    with talk.conversation(workspace) as talked:
        talk.configure(model={"provider": "none"})
        for _ in range(50):
            talked.start(DEPLOY, wait_ms=2_000)
            assert talked.poll()["outcome"] == "none", "the start took it"
    slow_out.set()
    assert len(slow.response("big")["result"]["text"]) == 5_000_000
    slow.hang_up()
    slow.close()


# D27: the same id


def test_D27_one_id_on_many_connections(talk: Talk) -> None:
    """Each connection has its own ids: twelve requests of id 1 at a time, each answered to whom
    it is for."""
    others = [talk.second() for _ in range(11)]
    everyone = [talk, *others]
    for other in others:
        other.initialize()
    for number, one in enumerate(everyone):
        one.send(request(1, "test/sleep", {"seconds": 0.3 + number / 1000}))
    for number, one in enumerate(everyone):
        assert one.response(1)["result"] == {"slept": 0.3 + number / 1000}
    for number, one in enumerate(everyone):
        one.send(request(1, "test/sleep", {"seconds": 60}))
        if number % 2:
            one.notify("$/cancelRequest", {"id": 1})
        else:
            others[number // 2].notify("$/cancelRequest", {"id": 2})
    for number, one in enumerate(everyone):
        if number % 2:
            assert one.response(1)["error"]["code"] == -32800
        else:
            one.barrier()
            one.notify("$/cancelRequest", {"id": 1})
            assert one.response(1)["error"]["code"] == -32800
    for other in others:
        other.hang_up()
        other.close()


def test_D27_a_client_that_always_says_1(talk: Talk, workspace: Path) -> None:
    opened = talk.result("session/open", {"workspace": str(workspace)})["sessionId"]
    for number in range(100):
        talk.send(request(1, "session/status", {"sessionId": opened}))
        assert talk.response(1)["result"]["sessionId"] == opened
        talk.send(request(1, "recall/peek", {"sessionId": opened, "lane": f"l{number % 8}"}))
        assert talk.response(1)["result"]["outcome"] == "none"
    talk.result("session/close", {"sessionId": opened})


# D28, D31: cancels of real requests

WAITING = {
    "recall/poll": {"point": "userQuery", "waitMs": 2_000},
    "recall/start": {"query": DEPLOY, "waitMs": 2_000, "lane": "other"},
}


@pytest.mark.parametrize("method", WAITING)
def test_D28_D31_a_cancelled_wait_is_answered_once_and_takes_nothing(
    talk: Talk, workspace: Path, method: str
) -> None:
    """LSP wants an answer to a cancelled request, exactly one."""
    with talk.conversation(workspace) as talked:
        talk.configure(recall={"fastDocuments": 0})
        talked.start(DEPLOY)
        question = talk.ask()
        for number in range(30):
            talk.send(
                request(number, method, talked.params(WAITING[method])),
                notification("$/cancelRequest", {"id": number}),
            )
        for number in range(30):
            answer = talk.response(number)
            assert answer["error"]["code"] == -32800
        talk.barrier()
        assert talk.frames.empty()
        assert not talk._kept
        talk.choose(question, "Deploy windows")
        talk.expect("recall/settled", lane="main")
        assert talked.poll()["delivery"]["documents"][0]["title"] == "Deploy windows"
        talked.started += [
            event["params"]["recallId"]
            for event in talk.notifications
            if event["method"] == "recall/ended" and event["params"]["lane"] == "other"
        ]


# D29: the client's reply to a question that the daemon gave up

LATE: dict[str, Any] = {
    "result": {"result": {"text": '{"ids": ["m1"]}'}},
    "null": {"result": None},
    "nonsense": {"result": 5},
    "error": {"error": {"code": -32800, "message": "cancelled"}},
    "odd error": {"error": "no"},
    "never": None,
}


@pytest.mark.parametrize("reply", LATE)
@pytest.mark.parametrize("times", [1, 2])
def test_D29_a_late_answer_of_the_model_harms_nothing(
    talk: Talk, workspace: Path, reply: str, times: int
) -> None:
    with talk.conversation(workspace) as talked:
        first = talked.start(DEPLOY)["recallId"]
        question = talk.ask()
        second = talked.start(DEPLOY)["recallId"]
        talk.stopped(question)
        assert talked.ended(first)["state"] == "replaced"
        for _ in range(times):
            if LATE[reply] is not None:
                talk.send({"jsonrpc": "2.0", "id": question["id"], **LATE[reply]})
        talk.choose(talk.ask(), "Deploy rollback")
        talked.settled(second)
        answer = talked.poll()
        assert answer["recallId"] == second
        assert [d["title"] for d in answer["delivery"]["documents"]] == ["Deploy rollback"]


# D30: cancel storms, of recalls too


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_D30_storms_of_recall_cancels(talk: Talk, workspace: Path, count: int) -> None:
    """By request and by notification; of recalls that are unknown, over, to come, or no ids at
    all. Few are remembered, and the daemon lives."""
    odd: list[Any] = [
        None,
        "",
        "unknown",
        "r-0123456789abcdef",
        "x" * 256,
        "x" * 257,
        5,
        -1,
        [],
        {},
    ]
    with talk.conversation(workspace) as talked:
        ended = talked.start(DEPLOY)["recallId"]
        assert talked.cancel(recallId=ended) is True
        before = Daemon.result(talk, "bugs/memory")["rss"]
        for start in range(0, count, 500):
            talk.send(
                *(
                    notification(
                        "recall/cancel",
                        talked.params(
                            {"recallId": odd[n % len(odd)] if n % 3 else f"future-{start + n}"}
                        ),
                    )
                    for n in range(500)
                )
            )
        assert talked.cancel(recallId=ended) is False
        assert Daemon.result(talk, "bugs/memory")["rss"] < before + (8 << 20)
        last = talked.start(DEPLOY, recallId=f"future-{count - 500 + 498}")
        assert last["state"] == "cancelled", "a cancel that came early is remembered"
        assert talked.start(DEPLOY, recallId="future-0")["state"] == "pending", "but not for ever"
        talk.ask()


def test_D30_a_session_that_is_gone_takes_any_cancel(talk: Talk) -> None:
    for number in range(500):
        talk.notify("recall/cancel", {"sessionId": f"gone-{number}", "recallId": "r"})
        talk.notify("$/cancelRequest", {"id": number})
    assert talk.error("recall/cancel", {"sessionId": "gone"})["code"] == 1001
    assert os.path.exists(f"/proc/{talk.process.pid}")


def test_D30_conversations_are_as_they_were(talk: Talk, workspace: Path) -> None:
    """After all of the above this process still recalls."""
    talked = Conversation(talk, workspace)
    talk.configure(model={"provider": "none"})
    assert talked.start(DEPLOY, wait_ms=2_000)["poll"]["outcome"] == "delivered"
    talked.finish()
