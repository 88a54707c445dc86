"""wire.md §3: beginning and end, exit codes, and the ways editors die (D01-D14)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e_driver import DAEMON, TEST_DAEMON, Daemon, frame, notification, request

EOF_S = 2.0
EXIT_S = 1.0
PARENT_S = 5.0


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


BUSY = {
    "idle": [],
    "tasks": [request(i, "test/sleep", {"seconds": 60}) for i in range(20)],
    "threads": [request(i, "test/thread", {"seconds": 60}) for i in range(20)],
    "computing": [request(1, "test/compute", {"seconds": 30})],
    "shielded": [request(1, "test/shielded", {"seconds": 60})],
    "unanswered": [request(1, "test/ask", {"method": "test/question", "seconds": 60})],
    "all": [
        request(1, "test/sleep", {"seconds": 60}),
        request(2, "test/thread", {"seconds": 60}),
        request(3, "test/shielded", {"seconds": 60}),
        request(4, "test/compute", {"seconds": 30}),
    ],
}


def busy(daemon: Daemon, what: str) -> None:
    daemon.send(*BUSY[what])
    assert daemon.result("test/ping") == {"pong": ""}


# Order


def test_wire2_before_initialize(daemon: Daemon) -> None:
    with Daemon(TEST_DAEMON) as fresh:
        for method in ("test/ping", "daemon/status", "shutdown", "nobody/knows", "$/unknown"):
            assert fresh.error(method)["code"] == -32002
        fresh.notify("test/tell", {})
        fresh.notify("initialized")
        fresh.notify("$/cancelRequest", {"id": 1})
        fresh.initialize()
        assert fresh.frames.empty(), "notifications before initialize are dropped"
        assert fresh.shutdown() == 0


def test_wire2_second_initialize(daemon: Daemon) -> None:
    assert daemon.error("initialize", {})["code"] == -32600
    assert daemon.result("test/ping") == {"pong": ""}


def test_wire2_after_shutdown(daemon: Daemon) -> None:
    assert daemon.request("shutdown")["result"] is None
    for method in ("test/ping", "shutdown", "initialize", "nobody/knows"):
        assert daemon.error(method)["code"] == -32600
    daemon.notify("test/tell", {})
    daemon.notify("exit")
    assert daemon.wait() == 0
    assert daemon.rest() == []


def test_wire3_initialize_result_is_what_protocol_md_says(daemon: Daemon) -> None:
    with Daemon(DAEMON) as fresh:
        answer = fresh.initialize()
        ours = answer["capabilities"]["experimental"]["oncue"]
        assert ours["protocolVersion"] == 1
        assert {"initialize", "shutdown", "daemon/status"} <= set(ours["methods"])
        assert ours["models"] == ["none", "http", "client"]
        assert ours["semantic"] is False
        assert answer["serverInfo"] == {"name": "oncue", "version": "0.1.0"}


def test_wire3_initialize_with_an_editors_capabilities() -> None:
    capabilities = {
        f"textDocument{i}": {"dynamicRegistration": True, "x": [i] * 5} for i in range(100)
    }
    with Daemon(DAEMON) as fresh:
        fresh.initialize(
            processId=None,
            rootUri="file:///tmp/x",
            workspaceFolders=[{"uri": "file:///tmp/x", "name": "x"}],
            workDoneToken=5,
            trace="verbose",
            capabilities=capabilities,
        )
        fresh.notify("workspace/didChangeConfiguration", {"settings": {"editor": {"a": 1}}})
        fresh.notify(
            "workspace/didChangeWatchedFiles", {"changes": [{"uri": "file:///a", "type": 2}]}
        )
        fresh.notify("$/setTrace", {"value": "off"})
        assert fresh.shutdown() == 0


def test_wire3_settings_problems_are_named_and_nothing_fails() -> None:
    with Daemon(DAEMON) as fresh:
        fresh.initialize({"recall": {"maxDocuments": "five", "enabled": False}, "nonsense": 1})
        fresh.notify(
            "workspace/didChangeConfiguration", {"settings": {"oncue": {"recall": {"x": 1}}}}
        )
        fresh.result("daemon/status")
        text = str(fresh.notifications)
        assert [m["method"] for m in fresh.notifications] == ["window/logMessage"] * 3
        for key in ("recall.maxDocuments", "nonsense", "recall.x"):
            assert key in text
        assert fresh.shutdown() == 0


# Ends


def test_wire2_exit_without_shutdown_is_1(daemon: Daemon) -> None:
    daemon.notify("exit")
    assert daemon.wait(EXIT_S + 1) == 1


def test_wire3_exit_before_initialize_is_1() -> None:
    with Daemon(DAEMON) as fresh:
        fresh.notify("exit")
        assert fresh.wait() == 1


def test_D07_the_answer_to_shutdown_is_on_the_wire_before_the_end(daemon: Daemon) -> None:
    daemon.send(request("bye", "shutdown"), notification("exit"))
    messages = daemon.rest()
    assert messages[-1] == {"jsonrpc": "2.0", "id": "bye", "result": None}
    assert daemon.wait() == 0


def test_wire3_nothing_after_exit_is_served(daemon: Daemon) -> None:
    daemon.send(notification("exit"), request(1, "test/ping"))
    assert daemon.rest() == []
    assert daemon.wait() == 1


@pytest.mark.parametrize("what", BUSY)
def test_D06_shutdown_and_exit_whatever_runs(daemon: Daemon, what: str) -> None:
    busy(daemon, what)
    begun = time.monotonic()
    daemon.send(request("bye", "shutdown"), notification("exit"))
    assert daemon.wait() == 0
    assert time.monotonic() - begun < EXIT_S + 0.5
    answers = {m["id"]: m for m in daemon.rest() if "method" not in m}
    assert answers.pop("bye")["result"] is None
    for answer in answers.values():
        assert answer["error"]["code"] == -32802
        assert answer["error"]["data"]["retryable"] is True


@pytest.mark.parametrize("what", ["tasks", "threads", "unanswered"])
def test_I1_shutdown_answers_what_was_in_flight(daemon: Daemon, what: str) -> None:
    busy(daemon, what)
    daemon.send(request("bye", "shutdown"))
    for message in BUSY[what]:
        assert daemon.response(message["id"])["error"]["code"] == -32802
    assert daemon.response("bye")["result"] is None
    daemon.notify("exit")
    assert daemon.wait() == 0


@pytest.mark.parametrize("what", BUSY)
def test_D01_end_of_stdin_whatever_runs(daemon: Daemon, what: str) -> None:
    busy(daemon, what)
    begun = time.monotonic()
    daemon.close_stdin()
    assert daemon.wait() == 1
    assert time.monotonic() - begun < EOF_S


@pytest.mark.parametrize(
    "beginning",
    [b"", b"Content-Le", b"Content-Length: 100\r\n", b"Content-Length: 100\r\n\r\n{", b"\r\n"],
)
@pytest.mark.parametrize("shut_down", [False, True])
def test_D01_end_of_stdin_in_the_middle(daemon: Daemon, beginning: bytes, shut_down: bool) -> None:
    if shut_down:
        assert daemon.request("shutdown")["result"] is None
    daemon.write(beginning)
    daemon.close_stdin()
    assert daemon.wait(EOF_S) == (0 if shut_down else 1)
    assert daemon.rest() == []


def test_D01_end_of_stdin_in_the_middle_of_a_large_body(daemon: Daemon) -> None:
    daemon.write(b"Content-Length: 10000000\r\n\r\n" + b"x" * 3_000_000)
    daemon.close_stdin()
    assert daemon.wait(EOF_S) == 1


def test_wire5_exit_signals_while_a_large_body_is_coming(daemon: Daemon) -> None:
    daemon.write(b"Content-Length: 10000000\r\n\r\n" + b"x" * 3_000_000)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait(EOF_S) == 1


def test_D01_dev_null_as_stdin() -> None:
    with Daemon(DAEMON, stdin=subprocess.DEVNULL) as daemon:
        assert daemon.wait() == 1
        assert daemon.rest() == []


def test_wire3_a_file_as_stdin(tmp_path: Path) -> None:
    conversation = [
        request(1, "initialize", {}),
        request(2, "daemon/status"),
        request(3, "shutdown"),
        notification("exit"),
    ]
    (tmp_path / "in").write_bytes(b"".join(map(frame, conversation)))
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        Daemon(DAEMON, stdin=stdin, stdout=stdout) as daemon,
    ):
        assert daemon.wait() == 0
    answers = (tmp_path / "out").read_bytes()
    assert answers.count(b"Content-Length: ") == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("what", ["idle", "all"])
def test_wire3_signals(daemon: Daemon, number: signal.Signals, what: str) -> None:
    busy(daemon, what)
    daemon.process.send_signal(number)
    assert daemon.wait(EOF_S) == 1


def test_wire3_signal_after_shutdown_is_0(daemon: Daemon) -> None:
    assert daemon.request("shutdown")["result"] is None
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait(EOF_S) == 0


@pytest.mark.parametrize("how", ["initialize", "argument"])
@pytest.mark.parametrize("what", ["idle", "all"])
def test_D03_death_of_the_clients_process(how: str, what: str) -> None:
    """stdin stays open: a third process (this one) holds it."""
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    arguments = ["--clientProcessId", str(helper.pid)] if how == "argument" else []
    with Daemon(TEST_DAEMON, arguments=arguments) as daemon:
        daemon.initialize(processId=helper.pid if how == "initialize" else None)
        busy(daemon, what)
        helper.kill()
        # not reaped: a zombie is dead all the same
        assert daemon.wait(PARENT_S) == 1
        helper.wait()


def test_D03_other_processes_may_die() -> None:
    other = subprocess.Popen([sys.executable, "-c", "pass"])
    with Daemon(TEST_DAEMON) as daemon:
        daemon.initialize(processId=os.getpid())
        other.wait()
        assert daemon.result("test/ping") == {"pong": ""}
        assert daemon.shutdown() == 0


@pytest.mark.parametrize("pid", [None, 0, -1, 2**31, 2**40, 4_194_303])
def test_D09_a_process_id_that_means_nothing_here_does_not_end_the_daemon(pid: Any) -> None:
    """An editor in another container, or `null`."""
    with Daemon(TEST_DAEMON) as daemon:
        daemon.initialize(processId=pid)
        assert daemon.result("test/ping") == {"pong": ""}
        assert daemon.shutdown() == 0


BROKEN_PLACES: dict[str, dict[str, str | None]] = {
    "noHome": {"HOME": None},
    "homeIsAFile": {"HOME": "/dev/null"},
    "unwritable": {
        f"ONCUE_{n}_DIR": "/proc/nowhere" for n in ("CONFIG", "DATA", "STATE", "RUNTIME")
    },
    "badSettings": {"ONCUE_RECALL_MAX_DOCUMENTS": "many", "ONCUE_DAEMON_LOG_LEVEL": "loud"},
    "deadProxy": {"HTTPS_PROXY": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"},
}


@pytest.mark.parametrize("place", BROKEN_PLACES)
def test_D09_D13_never_exits_unasked(place: str) -> None:
    with Daemon(DAEMON, env=BROKEN_PLACES[place]) as daemon:
        daemon.initialize()
        assert daemon.result("daemon/status")["version"] == "0.1.0"
        assert daemon.shutdown() == 0


def test_D14_spawned_and_killed_leaves_nothing_behind() -> None:
    """A client that dies without a word, by SIGKILL, while the daemon works."""
    script = (
        "import subprocess, sys, os, time\n"
        "p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,"
        " stderr=subprocess.DEVNULL)\n"
        'body = b\'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\'\n'
        "p.stdin.write(b'Content-Length: %d\\r\\n\\r\\n%b' % (len(body), body)); p.stdin.flush()\n"
        "p.stdout.read(1)\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    shared_memory = set(os.listdir("/dev/shm"))
    hosts = [
        subprocess.Popen([sys.executable, "-c", script, *DAEMON], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    pids = []
    for host in hosts:
        assert host.stdout is not None
        pids.append(int(host.stdout.readline()))
        host.kill()
        host.wait()
        host.stdout.close()
    deadline = time.monotonic() + PARENT_S
    while any(_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "daemons outlive their client"
        time.sleep(0.01)
    assert set(os.listdir("/dev/shm")) == shared_memory


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def test_bad_settings_of_the_user_are_named_to_the_client_and_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[recall]\nmaxDocuments = 'many'\nghp_0 = 1\n")
    with Daemon(env={"ONCUE_CONFIG_DIR": str(tmp_path)}) as daemon:
        daemon.initialize()
        told = [daemon.receive() for _ in range(2)]
        assert {message["method"] for message in told} == {"window/logMessage"}
        assert any("recall.maxDocuments" in message["params"]["message"] for message in told)
        assert daemon.shutdown() == 0
        refused = [r for r in daemon.log_records() if r["event"] == "setting refused"]
        assert {record["setting"] for record in refused} == {"recall.maxDocuments", "other"}


def test_wire3_a_memory_folder_that_cannot_be_written_shows_in_the_status(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("a file where the folder should be")
    with Daemon(env={"ONCUE_DATA_DIR": str(data)}) as daemon:
        daemon.initialize()
        daemon.result("session/open", {"sessionId": "s"})
        memory = {"scope": "user", "type": "user", "title": "t", "description": "d", "body": "b"}
        assert daemon.error("memory/write", {"sessionId": "s", **memory})["code"] == 1005
        health = daemon.result("daemon/status")["memory"]
        assert health["state"] == "degraded"
        assert "cannot be written" in health["reason"]
        data.unlink()
        daemon.result("memory/write", {"sessionId": "s", **memory})
        assert daemon.result("daemon/status")["memory"] == {"state": "ok"}
        assert daemon.shutdown() == 0
