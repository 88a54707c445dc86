"""Hostile memory files, names and bytes through the whole process (D32, D33, D52-D56, D61).

What single files come to is in tests/pure/test_front_matter.py and tests/rooms/test_memory_*.py;
here a daemon has all of them in its folder at once, and every reply has to be valid and in time.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e_driver import TESTS, Daemon, frame, request
from e2e_talk import DEFAULTS, OPTIONS, Talk
from memory_support import ANALYST, alias_bomb, bad_files, memory, write_params
from oncue.memory import editing, files
from oncue.memory.indexer import RootIndex
from oncue.memory.provenance import Writer
from oncue.memory.roots import project_root
from oncue.store.sqlite import Store

BUG_DAEMON = [sys.executable, str(TESTS / "bug_daemon.py"), "serve", "--stdio"]


def open_session(daemon: Talk, workspace: Path, **params: Any) -> Path:
    """Open session "s"; the folder of its project's memories, made."""
    opened = daemon.result(
        "session/open", {"sessionId": "s", "workspace": str(workspace), **params}
    )
    root = Path(opened["memoryRoots"][0]["path"])
    root.mkdir(parents=True, exist_ok=True)
    return root


def listed(daemon: Talk) -> list[dict[str, Any]]:
    """Every memory of session "s"."""
    found: list[dict[str, Any]] = []
    params: dict[str, Any] = {"sessionId": "s"}
    while True:
        page = daemon.result("memory/list", params, timeout=60)
        found += page["documents"]
        if "cursor" not in page:
            return found
        params["cursor"] = page["cursor"]


@pytest.fixture
def fresh() -> Iterator[Talk]:
    with started() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def running() -> Iterator[Talk]:
    with started() as daemon:
        yield daemon


@contextmanager
def started() -> Iterator[Talk]:
    with Talk(BUG_DAEMON) as daemon:
        daemon.initialize({**OPTIONS, "model": {"provider": "none"}})
        daemon.configure(recall=DEFAULTS["recall"])
        yield daemon
        assert daemon.shutdown() == 0


@pytest.fixture
def talk(running: Talk) -> Iterator[Talk]:
    """One process for all: what one test did to its folder must not disturb the next."""
    yield running
    running.request("session/close", {"sessionId": "s"})
    running.notifications.clear()


# D53, D55: bad files beside good ones


@pytest.mark.parametrize("good", [200, pytest.param(1_000, marks=pytest.mark.slow)])
def test_D53_D55_every_kind_of_bad_file_among_good_ones(
    talk: Talk, tmp_path: Path, good: int
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(memory("canary", "zebra"))
    (tmp_path / "work").mkdir()
    root = open_session(talk, tmp_path / "work")
    kinds = bad_files(root, outside)
    with (root / "hundred-megabytes.md").open("wb") as large:
        large.truncate(100 << 20)
    for number in range(good):
        (root / f"good{number:04}.md").write_text(memory(f"Good {number:04}", "heron nest"))
    documents = listed(talk)
    names = {Path(document["path"]).name for document in documents}
    assert {f"good{number:04}.md" for number in range(good)} <= names
    refused = {"link", "hardLink", "notRegular", "name"}
    readable = {name for name, code in kinds.items() if code not in refused}
    assert {name for name in names if not name.startswith("good")} == {
        *readable,
        "hundred-megabytes.md",
    }
    health = talk.result("daemon/status")["memory"]
    assert health["state"] == "degraded"
    assert str(root) in health["reason"], "what cannot be read is said"
    start = {"sessionId": "s", "query": "heron nest", "waitMs": 2_000}
    assert talk.result("recall/start", start)["poll"]["outcome"] == "delivered"
    for name in kinds:
        answer = talk.request("memory/read", {"sessionId": "s", "path": f"{root}/{name}"})
        if kinds[name] in refused or kinds[name] == "tooLarge":
            assert answer["error"]["code"] in (1004, -32803), name
        else:
            assert "result" in answer, name
    query = {"sessionId": "s", "query": "zebra"}
    assert talk.result("memory/search", query)["total"] == 0, "what lies behind a link is not ours"
    assert outside.read_text() == memory("canary", "zebra")


SPOILERS = {
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "giant": lambda path: os.truncate(path, 1 << 30),
    "link": lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    "loop": lambda path: (path.unlink(), path.symlink_to(path)),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\xff"),
    "gone": lambda path: path.unlink(),
    "whole folder gone": lambda path: shutil.rmtree(path.parent),
    "folder is a link": lambda path: (
        shutil.rmtree(path.parent), path.parent.symlink_to("/etc"),
    ),
    "folder is a file": lambda path: (
        shutil.rmtree(path.parent), path.parent.write_text("no folder"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILERS)
def test_D55_a_file_that_goes_bad_after_it_was_indexed(
    talk: Talk, tmp_path: Path, how: str
) -> None:
    root = open_session(talk, tmp_path)
    (root / "a.md").write_text(memory("Heron", "the heron nests in march"))
    assert [document["title"] for document in listed(talk)] == ["Heron"]
    SPOILERS[how](root / "a.md")
    talk.request("memory/read", {"sessionId": "s", "path": f"{root}/a.md"})
    start = {"sessionId": "s", "query": "heron nests", "waitMs": 2_000}
    answer = talk.result("recall/start", start)["poll"]
    assert answer["outcome"] in ("delivered", "empty")
    assert "root:" not in json.dumps(answer), "what a link leads to is never read"
    talk.result("memory/search", {"sessionId": "s", "query": "heron"})
    left = listed(talk)
    assert [Path(document["path"]).name for document in left] == (
        ["a.md"] if how in ("giant", "no text") else []
    )


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mode bits do not stop root")
def test_D55_D12_files_and_folders_that_may_not_be_read(tmp_path: Path) -> None:
    """As another user, for whom mode bits mean something; such a user may also not run this
    Python, then there is nothing to see."""
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    class AsNobody(Talk):
        def environment(self, extra: dict[str, str | None]) -> dict[str, str]:
            memories = self.home / "data" / "user" / "memory"
            (memories / "closed").mkdir(parents=True)
            (memories / "good.md").write_text(memory("Heron"))
            (memories / "closed.md").write_text(memory("Closed"))
            (memories / "closed" / "x.md").write_text(memory("Deeper"))
            for folder, folders, names in os.walk(self.home):
                for name in (*folders, *names):
                    os.chown(os.path.join(folder, name), 65534, 65534)
            os.chown(self.home, 65534, 65534)
            (memories / "closed.md").chmod(0)
            (memories / "closed").chmod(0)
            return super().environment(extra)

    with AsNobody([*user, *BUG_DAEMON]) as daemon:
        try:
            daemon.initialize()
        except (EOFError, BrokenPipeError):
            pytest.skip("another user may not run this Python here")
        daemon.result("session/open", {"sessionId": "s", "workspace": str(tmp_path)})
        assert [document["title"] for document in listed(daemon)] == ["Heron"]
        assert daemon.shutdown() == 0


# D52, D54: front matter


BEGINNINGS = {
    "BOM": b"\xef\xbb\xbf---\nname: Title\ndescription: told\n---\nbody",
    "CRLF": b"---\r\nname: Title\r\ndescription: told\r\n---\r\nbody",
    "BOM, CRLF": b"\xef\xbb\xbf---\r\nname: Title\r\ndescription: told\r\n---\r\nbody",
    "CR": b"---\rname: Title\rdescription: told\r---\rbody",
    "mixed": b"---\r\nname: Title\ndescription: told\r---\nbody",
    "leading blank": b"\n \n---\nname: Title\ndescription: told\n---\nbody",
    "UTF-16": "---\nname: Title\ndescription: told\n---\nbody".encode("utf-16"),
    "trailing blanks": b"---  \nname: Title\ndescription: told\n---\t\nbody",
    "never closed": b"---\nname: Title\ndescription: told\n\nbody",
}


def test_D54_whatever_stands_before_front_matter_it_is_found(talk: Talk, tmp_path: Path) -> None:
    root = open_session(talk, tmp_path)
    for number, data in enumerate(BEGINNINGS.values()):
        (root / f"{number}.md").write_bytes(data)
    (root / "rule.md").write_bytes(b"---\n\nprose between rules\n\n---\n\nmore\n")
    found = {Path(d["path"]).stem: (d["title"], d["description"]) for d in listed(talk)}
    assert found.pop("rule")[0] == "rule"
    assert found == {str(n): ("Title", "told") for n in range(len(BEGINNINGS))}, list(BEGINNINGS)


def test_D52_a_file_that_cannot_be_parsed_keeps_its_bytes_whatever_is_done(
    fresh: Talk, tmp_path: Path
) -> None:
    """Indexed, listed, recalled, written to, beside other writes: no stamp, no byte changed."""
    root = open_session(fresh, tmp_path)
    data = b"---\r\nname: heron\ndescription: nest: of: herons\nown: [open\n---\r\nheron body\r"
    (root / "x.md").write_bytes(data)
    assert len(listed(fresh)) == 1
    health = fresh.result("daemon/status")["memory"]
    assert health["state"] == "degraded"
    assert f"{root}/x.md" in health["reason"]
    start = {"sessionId": "s", "query": "heron nest", "waitMs": 2_000}
    assert fresh.result("recall/start", start)["poll"]["outcome"] == "delivered"
    revision = fresh.result("memory/read", {"sessionId": "s", "path": f"{root}/x.md"})["revision"]
    wanted = {
        "sessionId": "s", "scope": "project", "type": "project", "title": "heron",
        "description": "new", "body": "new", "path": f"{root}/x.md",
    }  # fmt: skip
    for if_revision in (None, revision, "0" * 64):
        answer = fresh.error("memory/write", {**wanted, "ifRevision": if_revision})
        assert answer["code"] in (-32803, 1003)
        assert (root / "x.md").read_bytes() == data
    assert answer["data"]["revision"] == revision
    fresh.result("memory/write", {**wanted, "path": None, "title": "Another"})
    assert (root / "x.md").read_bytes() == data


# D61: names


NAMES = [
    "../x", "a/../../x", "../../../../../../etc/x", "/etc/x", "//etc/x", "%2e%2e/x", "..%2fx",
    "..", ".", "a/..", "nul\0byte", "x" * 300, "CON", "com1.md", "trailing.", "trailing ", "~",
    "~/x", "C:\\x", "\\\\host\\share\\x", "..\\x", "file:///etc/x", "file:///etc/%2e%2e/x",
    "$HOME/x",
    "`id`", "$(id)", "-rf", "\u202egnp.md", "\uff0e\uff0e/x", "a\nb", ".git/config", "MEMORY",
    "../workspace.json", "../provenance.jsonl", "/proc/self/environ", "/dev/stdin",
]  # fmt: skip


def test_D61_names_that_a_model_may_think_of_stay_inside(talk: Talk, tmp_path: Path) -> None:
    """As path, as path inside the root, as title; to write, to read, to forget."""
    root = open_session(talk, tmp_path)
    wanted = {
        "sessionId": "s", "scope": "project", "type": "project", "description": "d", "body": "b",
    }  # fmt: skip
    talk.result("memory/write", {**wanted, "title": "inside"})
    private = root.parent
    before = set(tmp_path.rglob("*")) | set(Path("/etc").iterdir())
    for name in NAMES:
        for suffix in ("", ".md"):
            for path in (name + suffix, f"{root}/{name}{suffix}"):
                for method, params in (
                    ("memory/write", {**wanted, "title": "t", "path": path}),
                    ("memory/write", {**wanted, "title": "t", "path": path, "ifRevision": "0"}),
                    ("memory/read", {"sessionId": "s", "path": path}),
                    ("memory/forget", {"sessionId": "s", "path": path}),
                ):
                    answer = talk.request(method, params)
                    if "error" in answer:
                        assert answer["error"]["code"] in (1003, 1004, -32803), (method, path)
        answer = talk.result("memory/write", {**wanted, "title": name})
        written = Path(answer["path"])
        assert written.parent == root
        assert written.is_file()
    after = set(tmp_path.rglob("*")) | set(Path("/etc").iterdir())
    assert after == before
    assert {p.name for p in private.iterdir()} <= {
        "memory", "trash", "workspace.json", "provenance.jsonl",
    }  # fmt: skip
    for path in root.rglob("*"):
        assert path.resolve().is_relative_to(root.resolve())
        assert not path.is_symlink()


@pytest.mark.parametrize("session_id", ["../x", "/etc/x", "a\0b", "..", "x" * 256, "CON", "\u202e"])
def test_D61_ids_are_no_paths(talk: Talk, tmp_path: Path, session_id: str) -> None:
    before = names_in(talk.home, tmp_path)
    opened = talk.result("session/open", {"sessionId": session_id, "workspace": str(tmp_path)})
    assert opened["sessionId"] == session_id
    params = {"sessionId": session_id, "query": "x", "recallId": session_id, "lane": "../lane"}
    assert talk.result("recall/start", params)["recallId"] == session_id
    assert names_in(talk.home, tmp_path) <= before | {"index.db", "index.db-wal", "index.db-shm"}


def names_in(*folders: Path) -> set[str]:
    return {path.name for folder in folders for path in folder.rglob("*")}


# D32, D33: bytes that are no text


FOREIGN = {
    "cp949": "---\nname: 한글 메모\n---\n둥지 heron".encode("cp949"),
    "euc-jp": "---\nname: 巣のメモ\n---\n鷺 heron".encode("euc-jp"),
    "gb18030": "---\nname: 鹭的笔记\n---\n鹭 heron".encode("gb18030"),
    "koi8-r": "---\nname: Заметка\n---\nцапля heron".encode("koi8-r"),
    "latin-1": "---\nname: Nøtât\n---\nhéron heron".encode("latin-1"),
    "utf-16": "---\nname: breit\n---\nheron".encode("utf-16"),
    "utf-16-be": "---\nname: breit\n---\nheron".encode("utf-16-be"),
    "utf-8-cut": "---\nname: ü\n---\nheron ü".encode()[:-1],
    "surrogates": b"---\nname: \xed\xa0\x80x\n---\nheron \xed\xbf\xbf",
    "overlong": b"---\nname: \xc0\xaf\n---\nheron \xf8\x88\x80\x80\x80",
    "bytes": bytes(range(256)) * 4 + b" heron",
}


@pytest.mark.parametrize("locale", ["ascii", "cp1252"])
def test_D33_files_in_any_encoding_and_every_reply_is_utf8(locale: str, tmp_path: Path) -> None:
    """The driver decodes each reply strictly."""
    env = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with Talk(BUG_DAEMON, env={**env, "PYTHONIOENCODING": locale}) as talk:
        talk.initialize(OPTIONS)
        talk.configure(**{**DEFAULTS, "model": {"provider": "none"}})
        root = open_session(talk, tmp_path)
        for name, data in FOREIGN.items():
            (root / f"{name}.md").write_bytes(data)
        with open(os.path.join(os.fsencode(root), b"caf\xe9.md"), "wb") as odd:
            odd.write(b"heron")
        names = {Path(document["path"]).stem for document in listed(talk)}
        assert names == set(FOREIGN)
        for name in FOREIGN:
            talk.result("memory/read", {"sessionId": "s", "path": f"{root}/{name}.md"})
        found = talk.result("memory/search", {"sessionId": "s", "query": "heron"})
        assert found["total"] >= 9
        start = {"sessionId": "s", "query": "heron", "waitMs": 2_000}
        assert talk.result("recall/start", start)["poll"]["outcome"] == "delivered"
        assert talk.shutdown() == 0


HALF = r"\ud800"


def test_D32_half_surrogates_in_every_field(tmp_path: Path) -> None:
    """As JSON.stringify writes them: in ids, names, text, paths and queries. What is stored, said
    and logged afterwards is valid."""
    env = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    with Daemon(BUG_DAEMON, env=env) as daemon:
        daemon.initialize()

        def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            body = json.dumps(request("HALF", method, params)).replace("HALF", f"{HALF}x\\udfff")
            daemon.write(frame(body.encode()))
            answer = daemon.receive()
            assert answer["id"] == "\ufffdx\ufffd"
            return answer

        session = {"sessionId": "s-HALF", "workspace": str(tmp_path)}
        opened = ask("session/open", {**session, "title": "HALF"})["result"]
        assert opened["sessionId"] == "s-\ufffdx\ufffd"
        write = {
            "sessionId": "s-HALF", "scope": "project", "type": "project", "title": "heron HALF",
            "description": "HALF", "body": "nest HALF heron", "keywords": ["HALF"],
            "usageScenarios": ["HALF"],
        }  # fmt: skip
        written = ask("memory/write", write)["result"]
        Path(written["path"]).read_bytes().decode("utf-8")
        ask("memory/write", {**write, "path": "HALF.md"})
        ask("memory/read", {"sessionId": "s-HALF", "path": "HALF"})
        assert ask("memory/list", {"sessionId": "s-HALF"})["result"]["total"] >= 1
        assert (
            ask("memory/search", {"sessionId": "s-HALF", "query": "heron HALF"})["result"]["total"]
            >= 1
        )
        message = {"id": "HALF", "role": "user", "text": "HALF"}
        ask("transcript/didAppend", {"sessionId": "s-HALF", "messages": [message]})
        ask(
            "recall/start",
            {
                "sessionId": "s-HALF",
                "query": "heron HALF",
                "waitMs": 2_000,
                "lane": "HALF",
                "recallId": "HALF",
                "pollToken": "HALF",
                "turnId": "HALF",
            },
        )
        ask("session/timeline", {"sessionId": "s-HALF"})
        ask("session/list", {})
        ask("HALF", {"HALF": "HALF"})
        assert daemon.shutdown() == 0
        daemon.log_records()


# D56: costly YAML


def bombs() -> dict[str, bytes]:
    lines = [b"a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [b"%c: &%c [%b]" % (c, c, b", ".join([b"*%c" % (c - 1)] * 9)) for c in b"bcdefghij"]
    return {
        "aliases": alias_bomb(),
        "308 bytes": b"---\n" + b"\n".join(lines) + b"\n---\n",
        "merge keys": b"---\nb: &b {a: 1}\n" + b"k: {<<: *b}\n" * 500 + b"---\n",
        "nesting": b"---\na: " + b"[" * 100_000 + b"\n---\n",
        "closed nesting": b"---\na: " + b"{a: " * 50_000 + b"}" * 50_000 + b"\n---\n",
        "indents": b"---\n" + b"".join(b" " * n + b"a:\n" for n in range(500)) + b"---\n",
        "scalar": b"---\na: " + b"x" * 200_000 + b"\n---\n",
        "folded": b"---\na: >\n" + b"  x\n\n" * 40_000 + b"---\n",
        "tags": b"---\na: !!python/object/apply:os.system ['touch pwned']\n---\n",
        "many tags": b"---\n" + b"".join(b"k%d: !t%d x\n" % (n, n) for n in range(900)) + b"---\n",
        "keys": b"---\n" + b"? " * 8_000 + b"\n---\n",
        "dashes": b"---\n" + b"- " * 8_000 + b"\n---\n",
        "quotes": b"---\na: " + b"'" * 15_001 + b"\n---\n",
        "escapes": b'---\na: "' + b"\\x41" * 4_000 + b'"\n---\n',
        "fences": b"---\n" * 60_000,
    }  # fmt: skip


def test_D56_a_folder_full_of_bombs_costs_little_and_hides_nothing(
    talk: Talk, tmp_path: Path
) -> None:
    root = open_session(talk, tmp_path)
    (root / "good.md").write_text(memory("Heron", "heron nest"))
    listed(talk)
    before = Daemon.result(talk, "bugs/memory")["rss"]
    made = bombs()
    for name, data in made.items():
        (root / f"{name}.md").write_bytes(data)
    names = {Path(document["path"]).stem for document in listed(talk)}
    assert names == {"good", *made}
    after = Daemon.result(talk, "bugs/memory")["rss"]
    assert after - before < 10 << 20
    start = {"sessionId": "s", "query": "heron nest", "waitMs": 2_000}
    assert talk.result("recall/start", start)["poll"]["outcome"] == "delivered"
    assert not list(tmp_path.rglob("pwned"))
    assert not Path("pwned").exists()


# Found on the way: the tidying of one start took the temporary file of a writer at work


def test_I19_tidying_up_leaves_living_writers_alone(tmp_path: Path) -> None:
    root = project_root(tmp_path / "data", "k")
    stop = threading.Event()
    tidied = 0

    def tidy() -> None:
        nonlocal tidied
        while not stop.is_set():
            RootIndex(root, Store(tmp_path / "state"), ANALYST)._tidy()
            tidied += 1

    tidier = threading.Thread(target=tidy)
    tidier.start()
    try:
        for number in range(200):
            editing.write(root, None, write_params(f"m{number}"), Writer("model"), time.time())
    finally:
        stop.set()
        tidier.join()
    assert tidied > 0
    assert len(os.listdir(root.path)) == 200
    (Path(root.path) / f"{files.TEMPORARY}9-x").write_text("left by a crash")
    (Path(root.home.path) / f"{files.TEMPORARY}9-x").write_text("left by a crash")
    RootIndex(root, Store(tmp_path / "state"), ANALYST)._tidy()
    assert not list((tmp_path / "data").rglob(f"{files.TEMPORARY}*"))
