"""Recalls that nobody ever polls leave nothing behind (R13, I14), through a spawned process."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e_driver import request
from e2e_talk import Conversation, Talk

BATCH = 500


def resident_kib(talk: Talk) -> int:
    """Memory of the daemon's process."""
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def start_and_forget(chat: Conversation, count: int, **members: object) -> None:
    """So many starts, in a few lanes, whose recalls nobody asks for."""
    for first in range(0, count, BATCH):
        ids = range(first, min(first + BATCH, count))
        chat.talk.send(
            *(
                request(
                    f"forgotten-{index}",
                    "recall/start",
                    chat.params({"query": f"deploy {index}", "lane": f"l{index % 8}", **members}),
                )
                for index in ids
            )
        )
        for index in ids:
            assert "result" in chat.talk.response(f"forgotten-{index}")


@pytest.mark.parametrize("speculative", [False, True])
def test_R13_starts_never_polled_leave_memory_flat(speculative: bool) -> None:
    with Talk() as talk:
        talk.initialize({})
        talk.remember(talk.home / "workspace", {"Deploy freeze": "No production deploy now"})
        chat = Conversation(talk, talk.home / "workspace")
        start_and_forget(chat, 4_000, speculative=speculative)
        warm = resident_kib(talk)
        start_and_forget(chat, 12_000, speculative=speculative)
        # The machine's rule is 5 %; a page of the allocator here and there is not a leak.
        assert resident_kib(talk) <= warm * 1.05
        chat.call("session/close")
        counters = talk.result("daemon/status")["counters"]
        assert counters["recalls"] == 16_000
        assert counters["liveRecalls"] == counters["searches"] == counters["deliveries"] == 0
        assert talk.shutdown() == 0


def test_R13_what_nobody_polls_ends_with_its_lifetime(chat: Conversation, talk: Talk) -> None:
    talk.configure(recall={"lifetimeMs": 1_000}, model={"provider": "none"})
    idle = talk.result("test/tasks")["tasks"]
    ids = [chat.start(lane=f"l{index}")["recallId"] for index in range(16)]
    for recall_id in ids:
        assert chat.ended(recall_id)["state"] == "expired"
    status = talk.result("daemon/status")["counters"]
    assert status["liveRecalls"] == 0
    talk.until(lambda: talk.result("test/tasks")["tasks"] <= idle)


def test_R13_asking_keeps_a_recall_alive(chat: Conversation, talk: Talk) -> None:
    """The lifetime counts from the last time that somebody asked."""
    talk.configure(recall={"lifetimeMs": 1_000, "fastDocuments": 0})
    recall_id = chat.start()["recallId"]
    question = talk.ask()
    for _ in range(4):  # 1.6 s in all
        assert chat.poll(waitMs=400)["outcome"] == "pending"
    talk.choose(question, "Deploy freeze")
    chat.settled(recall_id)
    assert chat.poll()["outcome"] == "delivered"
