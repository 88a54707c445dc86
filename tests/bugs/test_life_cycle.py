"""Orphans, crash loops and slow starts (D01-D09, D13, D14): the process as editors treat it.

What the wire alone can show is in tests/e2e/test_wire_lifecycle.py and test_wire_streams.py; here
the daemon has sessions, searches, an index and followed transcripts at work while it is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e_driver import DAEMON, TESTS, Daemon, frame, notification, request
from e2e_talk import DEFAULTS, OPTIONS, Talk

BUG_DAEMON = [sys.executable, str(TESTS / "bug_daemon.py"), "serve", "--stdio"]
EOF_S = 2.0
EXIT_S = 1.0
PARENT_S = 5.0
SLACK_S = 0.5
"""The test's own share of a bound on a loaded machine."""


def write_params(title: str, **members: Any) -> dict[str, Any]:
    return {
        "scope": "project",
        "type": "project",
        "title": title,
        "description": f"about {title}",
        "body": f"heron {title}",
        **members,
    }


def at_work(daemon: Talk) -> None:
    """Five recalls whose model never answers, one that is typed, a poll that waits, an index that
    is being built, memories that are being written."""
    workspace = daemon.home / "work"
    workspace.mkdir()
    daemon.initialize(OPTIONS)
    daemon.configure(**DEFAULTS)
    daemon.result("session/open", {"sessionId": "s", "workspace": str(workspace)})
    daemon.result("memory/write", {"sessionId": "s", **write_params("nest")})
    for lane in range(5):
        params = {"sessionId": "s", "lane": f"l{lane}", "query": "heron nest"}
        daemon.result("recall/start", params)
        daemon.ask()
    daemon.result("recall/start", {"sessionId": "s", "query": "heron", "speculative": True})
    roots = daemon.result("session/open", {"sessionId": "s"})["memoryRoots"]
    root = next(root for root in roots if root["scope"] == "project")
    for number in range(1_000):
        (Path(root["path"]) / f"m{number}.md").write_text(f"# Heron {number}\n\nnest {number}\n")
    poll = {"sessionId": "s", "lane": "l0", "point": "toolResult", "waitMs": 2_000}
    writes = [{"sessionId": "s", **write_params(f"t{number}")} for number in range(20)]
    daemon.send(
        request("poll", "recall/poll", poll),
        request("list", "memory/list", {"sessionId": "s"}),
        *(request(f"w{n}", "memory/write", params) for n, params in enumerate(writes)),
    )


def nothing_left(daemon: Daemon) -> None:
    """No lock that outlives its process, no socket, no half-written file."""
    for folder, _, names in os.walk(daemon.home):
        for name in names:
            path = Path(folder) / name
            assert not path.is_socket(), path
            assert not name.endswith((".pid", ".sock")), path
            if name.endswith(".lock"):  # the file stays for the next; nobody may hold it
                with path.open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


ENDS: dict[str, tuple[Callable[[Talk], object], float, int]] = {
    "D01-eof": (lambda daemon: daemon.close_stdin(), EOF_S, 1),
    "D01-half a header": (
        lambda daemon: (daemon.write(b"Content-Len"), daemon.close_stdin()), EOF_S, 1,
    ),
    "D01-half a body": (
        lambda daemon: (daemon.write(b"Content-Length: 99\r\n\r\n{"), daemon.close_stdin()),
        EOF_S, 1,
    ),
    "D06-exit": (lambda daemon: daemon.send(notification("exit")), EXIT_S, 1),
    "D06-shutdown": (
        lambda daemon: daemon.send(request("bye", "shutdown"), notification("exit")), EXIT_S, 0,
    ),
    "D07-shutdown and eof": (
        lambda daemon: (daemon.send(request("bye", "shutdown")), daemon.close_stdin()), EOF_S, 0,
    ),
    "I6-SIGTERM": (lambda daemon: daemon.process.send_signal(signal.SIGTERM), EOF_S, 1),
}  # fmt: skip


@pytest.mark.parametrize("how", ENDS)
def test_D01_D06_D07_ends_in_time_with_recalls_and_an_index_at_work(how: str) -> None:
    end, bound, code = ENDS[how]
    with Talk() as daemon:
        at_work(daemon)
        begun = time.monotonic()
        end(daemon)
        assert daemon.wait() == code
        assert time.monotonic() - begun < bound + SLACK_S
        messages = daemon.rest()
        if "shutdown" in how:
            answers = [m for m in messages if m.get("id") == "bye"]
            assert answers == [{"jsonrpc": "2.0", "id": "bye", "result": None}]
        assert daemon.stray == b"", "what is on the wire are whole frames"
        nothing_left(daemon)


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("dead", ["stderr", "stdout and stderr"])
def test_D02_dead_streams_cost_no_processor_time(dead: str) -> None:
    """Its own time, not the clock's: an error handler that feeds itself takes all of it."""
    read_end, write_end = os.pipe()
    with Daemon(BUG_DAEMON, stderr=write_end, reads=dead == "stderr") as daemon:
        os.close(write_end)
        daemon.send(request("init", "initialize", {}))
        assert daemon.process.stdout is not None
        if dead == "stderr":
            assert "result" in daemon.response("init")
        else:
            os.read(daemon.process.stdout.fileno(), 1)
            daemon.process.stdout.close()
        os.close(read_end)
        daemon.send(notification("test/log", {"count": 1_000}), notification("test/noise"))
        if dead != "stderr":
            daemon.close_stdin()
            assert daemon.wait(EOF_S + SLACK_S) == 1
            return
        assert daemon.result("test/ping") == {"pong": ""}
        before = cpu_ticks(daemon.process.pid)
        daemon.result("test/sleep", {"seconds": 1.0})
        assert cpu_ticks(daemon.process.pid) - before < os.sysconf("SC_CLK_TCK") / 4
        daemon.close_stdin()
        assert daemon.wait(EOF_S + SLACK_S) == 1


def test_D04_a_clients_pid_that_was_recycled_is_not_watched_for_ever() -> None:
    """The client dies, its pid is somebody else's by the time it is looked at: the daemon has its
    start time (the comparison itself: test_process_identity.py)."""
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with Daemon(DAEMON) as daemon:
        daemon.initialize(processId=helper.pid)
        stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        helper.kill()
        helper.wait()
        assert daemon.wait(PARENT_S) == 1
        stranger.kill()
        stranger.wait()


STRANGE_PARAMS: list[Any] = [..., None, {}, [], {"extra": 1}, {"params": None}]


@pytest.mark.parametrize("params", STRANGE_PARAMS)
def test_D08_shutdown_and_exit_with_odd_params_leave_no_child(params: Any) -> None:
    with Daemon(DAEMON) as daemon:
        daemon.initialize()
        daemon.result("session/open", {"sessionId": "s"})
        assert daemon.request("shutdown", params)["result"] is None
        daemon.notify("exit", params)
        assert daemon.wait(EXIT_S + SLACK_S) == 0


@pytest.mark.parametrize("params", [5, "now", False, [None, {}]])
def test_D08_exit_is_obeyed_whatever_comes_with_it(params: Any) -> None:
    with Daemon(DAEMON) as daemon:
        daemon.initialize()
        daemon.request("shutdown", params)  # refused or not: answered
        daemon.notify("exit", params)
        daemon.wait(EXIT_S + SLACK_S)


# D09: never exit unasked


Prepare = Callable[[Path], None]


def file_at(relative: str, data: bytes = b"x") -> Prepare:
    def prepare(home: Path) -> None:
        path = home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return prepare


def fifo_at(relative: str) -> Prepare:
    def prepare(home: Path) -> None:
        path = home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)

    return prepare


def link_at(relative: str, target: str) -> Prepare:
    def prepare(home: Path) -> None:
        path = home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    return prepare


def folder_at(relative: str, mode: int = 0o700) -> Prepare:
    def prepare(home: Path) -> None:
        (home / relative).mkdir(parents=True)
        (home / relative).chmod(mode)

    return prepare


def limit(what: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (value, value))


def in_a_removed_folder() -> None:
    import tempfile

    gone = tempfile.mkdtemp()
    os.chdir(gone)
    os.rmdir(gone)


def everywhere(place: str) -> dict[str, str | None]:
    return {f"ONCUE_{name}_DIR": place for name in ("CONFIG", "DATA", "STATE", "RUNTIME")}


class Broken:
    """An environment that is not as it should be."""

    def __init__(
        self,
        *,
        env: dict[str, str | None] | None = None,
        prepare: Prepare | None = None,
        preexec: Callable[[], None] | None = None,
        writes: bool = True,
        store: str = "ok",
    ) -> None:
        self.env, self.prepare, self.preexec = env or {}, prepare, preexec
        self.writes = writes
        """Whether a memory can be kept there all the same."""
        self.store = store


DEEP = b"a = " + b"[" * 100_000
ENVIRONMENTS: dict[str, Broken] = {
    "no home": Broken(env={"HOME": None}),
    "home is empty": Broken(env={"HOME": ""}),
    "home is a device": Broken(env={"HOME": "/dev/null"}),
    "folders below /proc": Broken(env=everywhere("/proc/nowhere"), writes=False, store="degraded"),
    "folders below a device": Broken(env=everywhere("/dev/full"), writes=False, store="degraded"),
    "state is a file": Broken(prepare=file_at("state"), store="degraded"),
    "state is a pipe": Broken(prepare=fifo_at("state"), store="degraded"),
    "state leads nowhere": Broken(prepare=link_at("state", "/proc/nowhere"), store="degraded"),
    "data is a file": Broken(prepare=file_at("data"), writes=False),
    "data is a pipe": Broken(prepare=fifo_at("data"), writes=False),
    "the index is no database": Broken(prepare=file_at("state/index.db", b"garbage" * 999)),
    "the index is empty": Broken(prepare=file_at("state/index.db", b"")),
    "the index is a folder": Broken(prepare=folder_at("state/index.db"), store="degraded"),
    "the index is a pipe": Broken(prepare=fifo_at("state/index.db"), store="degraded"),
    "a log beside no index": Broken(prepare=file_at("state/index.db-wal", b"\0" * 9999)),
    "configuration is a file": Broken(prepare=file_at("config")),
    "config.toml is a pipe": Broken(prepare=fifo_at("config/config.toml")),
    "config.toml is a folder": Broken(prepare=folder_at("config/config.toml")),
    "config.toml has no end": Broken(prepare=link_at("config/config.toml", "/dev/zero")),
    "config.toml is no text": Broken(prepare=file_at("config/config.toml", b"\xff\xfe\0[[")),
    "config.toml is no TOML": Broken(prepare=file_at("config/config.toml", b"[recall\nx")),
    "config.toml is deep": Broken(prepare=file_at("config/config.toml", DEEP)),
    "config.toml is large": Broken(prepare=file_at("config/config.toml", b"#" * 5_000_000)),
    "config.toml is wrong": Broken(
        prepare=file_at("config/config.toml", b"recall = 5\n[daemon]\nlogLevel = 7\n[x]\ny = 1\n")
    ),
    "a number of 5,000 digits": Broken(env={"ONCUE_RECALL_MAX_DOCUMENTS": "9" * 5_000}),
    "a setting that is deep": Broken(env={"ONCUE_RECALL_MAX_DOCUMENTS": "[" * 50_000}),
    "no descriptors to spare": Broken(preexec=limit(resource.RLIMIT_NOFILE, 24)),
    "no processes to spare": Broken(preexec=limit(resource.RLIMIT_NPROC, 1)),
    "no file may grow": Broken(
        preexec=limit(resource.RLIMIT_FSIZE, 0), writes=False, store="degraded"
    ),
    "files of 4 KiB": Broken(preexec=limit(resource.RLIMIT_FSIZE, 4096), store="degraded"),
    "little memory": Broken(preexec=limit(resource.RLIMIT_AS, 300 << 20)),
    "the working folder is gone": Broken(preexec=in_a_removed_folder),
    "warnings are errors": Broken(env={"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}),
    "no docstrings, no asserts": Broken(env={"PYTHONOPTIMIZE": "2"}),
    "no locale": Broken(
        env={
            "LANG": "xx_YY.nothing", "LC_ALL": "xx_YY.nothing", "TZ": "Nowhere/../../etc",
            "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PATH": None, "TMPDIR": "/nowhere",
        }
    ),
    "dead endpoints": Broken(
        env={
            "HTTPS_PROXY": "http://127.0.0.1:1", "ONCUE_MODEL_PROVIDER": "http",
            "ONCUE_MODEL_BASE_URL": "http://192.0.2.1:9", "ONCUE_STORE_URL": "postgresql://192.0.2.1/x",
        }
    ),
}  # fmt: skip
"""192.0.2.0/24 is reserved for documentation: nobody ever answers there."""


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_D09_D12_starts_and_serves_in_a_broken_environment(name: str, tmp_path: Path) -> None:
    """Recall and every other request is answered, errors are typed, what is degraded is said."""
    broken = ENVIRONMENTS[name]

    class InBrokenHome(Talk):
        def environment(self, extra: dict[str, str | None]) -> dict[str, str]:
            if broken.prepare is not None:
                broken.prepare(self.home)
            return super().environment(extra)

    with InBrokenHome(env=broken.env, preexec_fn=broken.preexec) as daemon:
        daemon.initialize()
        daemon.configure(**DEFAULTS)
        opened = daemon.result("session/open", {"sessionId": "s", "workspace": str(tmp_path)})
        assert {root["scope"] for root in opened["memoryRoots"]} == {"project", "user"}
        written = daemon.request("memory/write", {"sessionId": "s", **write_params("nest")})
        if broken.writes:
            assert "result" in written, written
        else:
            assert written["error"]["code"] == 1005, written
            assert opened["memoryRoots"][0]["path"] in written["error"]["message"]
        listed = daemon.result("memory/list", {"sessionId": "s"})
        assert listed["total"] == int(broken.writes)
        found = daemon.result("memory/search", {"sessionId": "s", "query": "heron"})
        assert found["total"] == int(broken.writes)
        params = {"sessionId": "s", "query": "heron nest", "waitMs": 2_000}
        polled = daemon.result("recall/start", params)["poll"]["outcome"]
        assert polled == ("delivered" if broken.writes else "empty")
        health = daemon.result("daemon/status")["store"]
        assert health["state"] == broken.store, health
        if broken.store != "ok":
            state = broken.env.get("ONCUE_STATE_DIR") or f"{daemon.home}/state"
            assert state in health["reason"], "the cause is named, and the place"
        assert daemon.shutdown() == 0


# D05: others that hang with the database open


@contextlib.contextmanager
def stopped_holders(home: Path, count: int) -> Iterator[None]:
    """Daemons on the folders of `home`, stopped by SIGSTOP while they write."""

    class Sharing(Daemon):
        def environment(self, extra: dict[str, str | None]) -> dict[str, str]:
            made = super().environment(extra)
            for name in ("CONFIG", "DATA", "STATE", "RUNTIME"):
                made[f"ONCUE_{name}_DIR"] = str(home / name.lower())
            return made

    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(Sharing()) for _ in range(count)]
        for number, daemon in enumerate(daemons):
            daemon.initialize()
            daemon.result("session/open", {"sessionId": "s", "workspace": str(home / "work")})
            titles = [write_params(f"t{number}-{n}") for n in range(50)]
            daemon.send(
                *(
                    request(n, "memory/write", {"sessionId": "s", **params})
                    for n, params in enumerate(titles)
                )
            )
        daemons[0].response(0)
        for daemon in daemons:
            daemon.process.send_signal(signal.SIGSTOP)
        yield


@pytest.mark.parametrize("count", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_D05_one_more_daemon_beside_stopped_ones(count: int) -> None:
    """It starts, recalls, and a write is done or refused in time, also where a stopped one holds
    the lock of a folder or of the database."""
    with contextlib.ExitStack() as stack, Talk() as daemon:
        (daemon.home / "work").mkdir()
        stack.enter_context(stopped_holders(daemon.home, count))
        daemon.initialize()
        workspace = str(daemon.home / "work")
        daemon.result("session/open", {"sessionId": "s", "workspace": workspace})
        begun = time.monotonic()
        written = daemon.request("memory/write", {"sessionId": "s", **write_params("mine")})
        took = time.monotonic() - begun
        assert took < 5 + SLACK_S
        if "error" in written:
            assert written["error"]["code"] == 1005
            assert written["error"]["data"]["retryable"] is True
        answer = daemon.result(
            "recall/start", {"sessionId": "s", "query": "heron", "waitMs": 2_000}
        )
        assert answer["poll"]["outcome"] in ("delivered", "pending", "empty")
        assert daemon.shutdown() == 0


# D13: nothing slow before `initialize` is answered


def test_D13_nothing_is_opened_imported_or_asked_before_initialize() -> None:
    """Not how long it takes but what is done: no network, no child, no database, no memory file,
    and none of the libraries that memory needs."""
    env = {**ENVIRONMENTS["dead endpoints"].env, "BARE": "1"}

    class Full(Talk):
        def environment(self, extra: dict[str, str | None]) -> dict[str, str]:
            for number in range(200):
                file_at(f"data/user/memory/m{number}.md", b"# memory\n")(self.home)
            file_at("state/index.db", b"x" * 10_000)(self.home)
            return super().environment(extra)

    with Full(BUG_DAEMON, env=env) as daemon:
        daemon.result("initialize", {})
        seen = Daemon.result(daemon, "bugs/reached")
        # trio asks the linker's cache for a library when it is imported; nothing else may run
        others = [(what, name) for what, name in seen["reached"] if what != "open"]
        assert [one for one in others if "ldconfig" not in one[1]] == []
        ours = [path for _, path in seen["reached"] if path.startswith(str(daemon.home))]
        assert [Path(path).name for path in ours] == ["config.toml"]
        for module in ("apsw", "Stemmer", "yaml", "rich", "click", "httpx", "zstandard"):
            assert module not in seen["modules"], module
        daemon.result("session/open", {"workspace": str(daemon.home)})
        assert daemon.result("memory/list", {"workspace": str(daemon.home)})["total"] == 200
        assert daemon.shutdown() == 0


# D14: hosts that spawn without end

HOST = """
import os, subprocess, sys, time
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
process.stdin.write(bytes.fromhex(sys.argv[1]))
process.stdin.flush()
seen = b""
while b'"open"' not in seen:
    data = os.read(process.stdout.fileno(), 65536)
    if not data:
        sys.exit(1)
    seen += data
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("cycles", [8, pytest.param(1_000, marks=pytest.mark.slow)])
def test_D14_spawned_and_killed_again_and_again(cycles: int, tmp_path: Path) -> None:
    """Every other host dies by SIGKILL, the others' daemons are killed themselves; each has a
    session and an index of its own user at work. None is left, and nothing of one."""
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        **{
            f"ONCUE_{name}_DIR": str(tmp_path / name.lower())
            for name in ("CONFIG", "DATA", "STATE", "RUNTIME")
        },
    }
    talk = b"".join(
        map(
            frame,
            [
                request(1, "initialize", {}),
                notification("initialized", {}),
                request("open", "session/open", {"workspace": str(tmp_path)}),
            ],
        )
    )
    shared_memory, descriptors = set(os.listdir("/dev/shm")), set(os.listdir("/proc/self/fd"))
    pids: list[int] = []
    for start in range(0, cycles, 4):
        hosts = [
            subprocess.Popen(
                [sys.executable, "-c", HOST, talk.hex(), *DAEMON], stdout=subprocess.PIPE, env=env
            )
            for _ in range(4)
        ]
        for number, host in enumerate(hosts):
            assert host.stdout is not None
            pids.append(int(host.stdout.readline()))
            if (start + number) % 2:
                os.kill(pids[-1], signal.SIGKILL)
            host.kill()
            host.wait()
            host.stdout.close()
    deadline = time.monotonic() + PARENT_S
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"daemons outlive their hosts: {left}"
        time.sleep(0.01)
    assert set(os.listdir("/dev/shm")) == shared_memory
    assert set(os.listdir("/proc/self/fd")) == descriptors
    kept = {path.name for path in (tmp_path / "state").iterdir()}
    databases = {
        f"{name}.db{end}" for name in ("index", "sessions") for end in ("", "-wal", "-shm")
    }
    assert kept <= databases | {"sessions.lock"}, "the two databases, no litter"
    assert not list((tmp_path).rglob(".oncue-tmp-*"))
    if (tmp_path / "runtime").exists():
        assert list((tmp_path / "runtime").iterdir()) == []


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X") and b"oncue" in command
