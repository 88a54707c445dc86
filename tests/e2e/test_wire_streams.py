"""fd 1 belongs to frames, stderr never blocks, and no log holds what users wrote
(wire.md §2; reliability.md I2, T10; D02, D23, D24)."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e_driver import DAEMON, TEST_DAEMON, Daemon, frame, notification, request


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


def test_D23_nothing_but_frames_reaches_stdout(daemon: Daemon) -> None:
    """print, warnings, C-level output, a child, a write to fd 1, an exit handler."""
    assert daemon.result("test/noise") == {}
    assert daemon.result("test/ping", {"text": "clean"}) == {"pong": "clean"}
    assert daemon.shutdown() == 0
    assert daemon.rest() == []
    assert daemon.stray == b""
    assert "c-level noise" in daemon.log
    assert "child noise" in daemon.log


def test_wire2_stray_output_is_counted_and_its_place_named(daemon: Daemon) -> None:
    daemon.result("test/noise", {"text": "canary-4711"})
    daemon.shutdown()
    daemon.rest()
    assert '"stream":"stdout","characters":11,"at":"testdaemon.py' in daemon.log
    assert "canary" not in daemon.log


@pytest.mark.parametrize("term", ["xterm-256color", None])
def test_D24_first_bytes_are_a_header(term: str | None) -> None:
    terminal, its_end = pty.openpty()
    variables = {"TERM": term, "FORCE_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with Daemon(DAEMON, env=variables, stderr=its_end) as daemon:
        os.close(its_end)
        daemon.initialize()
        assert daemon.shutdown() == 0
        daemon.rest()
        assert daemon.stray == b""
    os.close(terminal)


def test_wire2_unread_stderr_blocks_nothing_and_drops_are_counted() -> None:
    read_end, write_end = os.pipe()
    with Daemon(TEST_DAEMON, stderr=write_end) as daemon:
        os.close(write_end)
        daemon.initialize()
        daemon.result("test/log", {"count": 5_000})
        counters = daemon.result("daemon/status")["counters"]
        assert counters["logRecords"] > 0
        assert counters["logRecordsDropped"] > 1_000
        daemon.result("test/noise")  # C-level output and prints do not block either
        # A reader comes back: the next record is preceded by the number of lost ones.
        seen = os.read(read_end, 1 << 20)
        daemon.result("test/log", {"count": 1})
        report = os.read(read_end, 1 << 20)
        assert b'"records dropped"' in report
        records = [line for line in seen.splitlines() if b"test event" in line]
        assert all(line.startswith(b"{") and line.endswith(b"}") for line in records), "untorn"
        assert daemon.shutdown() == 0
    os.close(read_end)


def test_wire2_stderr_is_not_made_non_blocking_for_others() -> None:
    """The description is shared with whoever started us."""
    read_end, write_end = os.pipe()
    before = fcntl.fcntl(write_end, fcntl.F_GETFL)
    with Daemon(DAEMON, stderr=write_end) as daemon:
        daemon.initialize()
        assert fcntl.fcntl(write_end, fcntl.F_GETFL) == before
        assert daemon.shutdown() == 0
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize("shared", ["pipes", "sockets"])
def test_wire5_flags_of_stdin_and_stdout_are_as_before_afterwards(shared: str) -> None:
    import socket

    if shared == "pipes":
        read_end, client_in = os.pipe()
        client_out, write_end = os.pipe()
    else:
        ends = [*socket.socketpair(), *socket.socketpair()]
        read_end, client_in, client_out, write_end = (end.detach() for end in ends)
    before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (read_end, write_end)]
    with Daemon(DAEMON, stdin=read_end, stdout=write_end) as daemon:
        os.write(
            client_in,
            b"".join(
                map(
                    frame,
                    [request(1, "initialize", {}), request(2, "shutdown"), notification("exit")],
                )
            ),
        )
        assert daemon.wait() == 0
        assert [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (read_end, write_end)] == before
        answer = os.read(client_out, 1 << 16)
        assert answer.startswith(b"Content-Length: ")
        assert answer.endswith(b'{"jsonrpc":"2.0","id":2,"result":null}')
    for fd in (read_end, write_end, client_in, client_out):
        os.close(fd)


def test_wire2_descriptors_are_private(daemon: Daemon) -> None:
    seen = daemon.result("test/process")["descriptors"]
    assert seen["0"] == "/dev/null"
    assert seen["1"] == seen["2"]


def test_D02_dead_stderr_is_given_up() -> None:
    read_end, write_end = os.pipe()
    with Daemon(TEST_DAEMON, stderr=write_end) as daemon:
        os.close(write_end)
        daemon.initialize()
        os.close(read_end)
        daemon.result("test/log", {"count": 1_000})
        assert daemon.result("test/ping", {"text": "on"}) == {"pong": "on"}
        daemon.close_stdin()
        assert daemon.wait(2) == 1


def test_D02_stdout_and_stderr_dead() -> None:
    read_end, write_end = os.pipe()
    with Daemon(TEST_DAEMON, stderr=write_end, reads=False) as daemon:
        os.close(write_end)
        daemon.send(request(1, "initialize", {}))
        assert daemon.process.stdout is not None
        os.read(daemon.process.stdout.fileno(), 1)
        os.close(read_end)
        daemon.process.stdout.close()
        daemon.send(notification("test/log", {"count": 1_000}))
        daemon.close_stdin()
        assert daemon.wait(2) == 1


CANARY = "canary-Zq7-4711"
EVERYWHERE: dict[str, Any] = {
    "processId": None,
    "clientInfo": {"name": CANARY, "version": CANARY},
    "locale": CANARY,
    "rootPath": CANARY,
    "rootUri": CANARY,
    "capabilities": {CANARY: CANARY},
    "trace": CANARY,
    "workDoneToken": CANARY,
    "initializationOptions": {
        CANARY: CANARY,
        "oncue": {
            "notifications": [CANARY],
            CANARY: 1,
            "recall": {CANARY: CANARY, "enabled": CANARY},
        },
    },
}


def test_T10_no_field_and_no_error_path_reaches_the_log() -> None:
    with Daemon(TEST_DAEMON, env={"ONCUE_DAEMON_LOG_LEVEL": "debug"}) as daemon:
        daemon.write(frame(CANARY.encode()))
        daemon.send([CANARY], CANARY, {"jsonrpc": CANARY, "id": CANARY})
        daemon.send({"jsonrpc": "2.0", "id": {CANARY: 1}, "method": CANARY})
        daemon.send(request(CANARY, "initialize", {"processId": CANARY}))
        daemon.send(request(CANARY, "initialize", EVERYWHERE))
        daemon.send(request(CANARY, CANARY, {CANARY: CANARY}), notification(CANARY, CANARY))
        daemon.send(notification("$/setTrace", {"value": CANARY}))
        daemon.send(notification("$/cancelRequest", {"id": CANARY}))
        daemon.send(
            notification(
                "workspace/didChangeConfiguration", {"settings": {"oncue": {CANARY: CANARY}}}
            )
        )
        daemon.send({"jsonrpc": "2.0", "id": CANARY, "result": CANARY})
        daemon.send({"jsonrpc": "2.0", "id": CANARY, "error": {"code": 1, "message": CANARY}})
        for method in ("test/raise", "test/raiseLater"):
            for params in ({"text": CANARY}, {"text": CANARY, "as": CANARY}):
                daemon.send(request(f"{CANARY}-{method}", method, params))
        daemon.send(request(CANARY, "test/raiseLater", {"text": CANARY, "group": True}))
        daemon.send(request(CANARY, "test/log", {"text": CANARY, "count": 1}))
        daemon.send(request(CANARY, "test/noise", {"text": CANARY}))
        daemon.send(notification("test/raise", {"text": CANARY}))
        daemon.send(notification("test/tellLater", {"text": CANARY}))
        daemon.result("test/ping")
        daemon.write(f"{CANARY}: {CANARY}\r\nContent-Length: {CANARY}\r\n\r\n{CANARY}".encode())
        assert daemon.wait() == 2
        daemon.rest()
        assert "handler failed" in daemon.log
        assert CANARY not in daemon.log
        assert "Zq7" not in daemon.log


def test_wire2_log_lines_are_json_and_short() -> None:
    with Daemon(TEST_DAEMON) as daemon:
        daemon.initialize({"recall": {"x" * 100_000: 1}})
        daemon.result("test/log", {"count": 10, "text": "y" * 100_000})
        daemon.error("test/raise", {"text": "z" * 100_000})
        daemon.shutdown()
        records = daemon.log_records()
        assert len(records) > 10
        assert all(len(line) <= 4096 for line in daemon.log.splitlines())
        assert {"event", "level", "t"} <= set(records[-1])


def test_wire2_no_asyncio_loop_and_no_heavy_modules(daemon: Daemon) -> None:
    seen = daemon.result("test/process")
    assert seen["asyncio"] is False
    assert seen["modules"] == []


def test_T3_T10_umask_core_and_dumpable(daemon: Daemon) -> None:
    seen = daemon.result("test/process")
    assert seen["umask"] == 0o077
    assert seen["core"] == [0, 0]
    assert seen["dumpable"] == 0


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_wire2_closed_standard_descriptors(closed: tuple[int, ...]) -> None:
    def close() -> None:
        for fd in closed:
            os.close(fd)

    with Daemon(DAEMON, preexec_fn=close) as daemon:
        if 0 in closed or 1 in closed:
            daemon.close_stdin()
            assert daemon.wait() == 1
        else:
            daemon.initialize()
            assert daemon.shutdown() == 0


def test_wire3_wrong_command_lines_say_how(tmp_path: Any) -> None:
    for words in (
        [],
        ["--tcp"],
        ["--stdio", "--clientProcessId"],
        ["--stdio", "--clientProcessId=x"],
    ):
        done = subprocess.run([*DAEMON[:-1], *words], capture_output=True, timeout=20, check=False)
        assert done.returncode == 64
        assert done.stdout == b""
        assert b"usage: oncue serve --stdio" in done.stderr
