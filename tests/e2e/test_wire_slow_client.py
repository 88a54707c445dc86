"""A client that does not read (wire.md §2; D25, D26): the daemon stays awake and bounded."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e_driver import TEST_DAEMON, Daemon, frame, notification, request

PAGE = 100_000


@pytest.fixture
def deaf() -> Iterator[Daemon]:
    """Initialized; nothing is read until `start_reading`."""
    with Daemon(TEST_DAEMON, reads=False) as running:
        running.send(request("init", "initialize", {}), notification("initialized"))
        yield running


def fill(daemon: Daemon) -> int:
    """Requests whose answers fill the pipe and 1 MiB of the outbox; how many."""
    count = 12 + (1 << 20) // PAGE
    daemon.send(*(request(f"fill{i}", "test/big", {"bytes": PAGE}) for i in range(count)))
    return count


def test_D25_exit_is_obeyed(deaf: Daemon) -> None:
    fill(deaf)
    deaf.send(notification("exit"))
    assert deaf.wait() == 1


def test_D25_shutdown_and_exit_are_obeyed(deaf: Daemon) -> None:
    fill(deaf)
    deaf.send(request("bye", "shutdown"), notification("exit"))
    assert deaf.wait() == 0


def test_D25_end_of_stdin_is_obeyed(deaf: Daemon) -> None:
    fill(deaf)
    deaf.close_stdin()
    assert deaf.wait() == 1


def test_D25_ten_thousand_requests_unread(deaf: Daemon) -> None:
    """The reader drains all of them; 256 wait, the others are refused; each is answered once."""
    filled = fill(deaf)
    for start in range(0, 10_000, 500):
        deaf.send(*(request(start + i, "test/ping", {"text": "x"}) for i in range(500)))
    deaf.send(request("last", "shutdown"))
    deaf.start_reading()
    assert deaf.response("last", timeout=60)["result"] is None
    for index in range(filled):
        answer = deaf.response(f"fill{index}")
        assert "result" in answer or answer["error"]["code"] == -32802
    answers = [deaf.response(index) for index in range(10_000)]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes.count(1006) >= 10_000 - 256 - filled
    assert set(codes) <= {None, 1006, -32802}
    deaf.send(notification("exit"))
    assert deaf.wait() == 0


def test_D25_requests_wait_unexecuted_and_a_cancel_reaches_them(deaf: Daemon) -> None:
    filled = fill(deaf)
    deaf.send(
        request("cancelled", "test/half", {"seconds": 0, "tag": "cancelled"}),
        request("waits", "test/half", {"seconds": 0, "tag": "waits"}),
        request("same", "test/ping"),
        request("same", "test/ping"),
        notification("$/cancelRequest", {"id": "cancelled"}),
    )
    deaf.start_reading()
    assert deaf.response("cancelled")["error"]["code"] == -32800
    assert deaf.response(None)["error"]["data"]["id"] == "same"
    assert deaf.response("waits")["result"] == {"slept": 0}
    assert deaf.response("same")["result"] == {"pong": ""}
    for index in range(filled):
        assert len(deaf.response(f"fill{index}")["result"]["text"]) == PAGE
    assert deaf.result("test/runs")["runs"] == ["inline part", "waits"]


def test_D25_order_is_kept_between_requests_and_notifications(deaf: Daemon) -> None:
    filled = fill(deaf)
    for index in range(5):
        deaf.send(request(index, "test/ping"), notification("test/tell", {"n": index}))
    deaf.start_reading()
    order: list[Any] = []
    while len(order) < 10:
        message = deaf.receive()
        if message.get("method") == "test/told":
            order.append(("told", message["params"]["n"]))
        elif isinstance(message["id"], int):
            order.append(("answered", message["id"]))
    assert order == [(what, i) for i in range(5) for what in ("answered", "told")]
    assert filled


def test_D25_more_than_the_outbox_ends_the_connection(deaf: Daemon) -> None:
    """32 MiB of notifications that nobody reads."""
    text = "x" * 1_000_000
    writer = threading.Thread(
        target=lambda: _write_until_broken(deaf, frame(notification("test/tell", {"text": text})))
    )
    writer.start()
    assert deaf.wait(60) == 1
    writer.join()


def _write_until_broken(daemon: Daemon, raw: bytes) -> None:
    try:
        for _ in range(64):
            daemon.write(raw)
    except OSError:
        return


def test_D26_a_large_reply_to_a_slow_reader_blocks_nothing(deaf: Daemon) -> None:
    deaf.send(request("big", "test/big", {"bytes": 5_000_000}))
    assert deaf.process.stdout is not None
    descriptor = deaf.process.stdout.fileno()
    head = b""
    for _ in range(20):  # drip by drip; each drip is met by a living daemon
        head += os.read(descriptor, 1_000)
        deaf.send(notification("test/log", {"count": 1}))
    deadline = time.monotonic() + 20
    while deaf.log.count("test event") < 20:
        assert time.monotonic() < deadline, "the loop is blocked by its own reply"
    assert head.startswith(b"Content-Length: ")
    deaf.send(request("bye", "shutdown"), notification("exit"))
    assert deaf.wait() == 0


def test_D02_a_reader_that_is_gone_ends_the_daemon(deaf: Daemon) -> None:
    assert deaf.process.stdout is not None
    deaf.process.stdout.close()
    deaf.send(request(1, "test/ping"))
    assert deaf.wait() == 1
