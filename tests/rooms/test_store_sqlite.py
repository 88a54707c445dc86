"""The store: lazy, private, never wrong, and well again when the fault is over (M6; I26-I28)."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw
import pytest
import trio

from memory_support import Clock, memory, room
from oncue.finder import LibraryFinder
from oncue.memory import index
from oncue.memory.roots import Root
from oncue.ports import Query
from oncue.store import opening, sqlite
from oncue.store.opening import APPLICATION_ID, SCHEMA_VERSION
from oncue.store.place import shared_file_system
from oncue.store.sqlite import Store
from oncue_protocol import MemoryListParams
from oncue_protocol.errors import StoreUnavailable


@asynccontextmanager
async def store(
    folder: Path | None, shared: Callable[[str], str | None] = lambda _: None
) -> AsyncIterator[Store]:
    made = Store(folder, wall=Clock(), shared=shared)
    try:
        yield made
    finally:
        await made.aclose()


def roots(connection: apsw.Connection) -> list[str]:
    return [path for (path,) in connection.execute("SELECT path FROM root ORDER BY path")]


def enter(path: str) -> Callable[[apsw.Connection], int]:
    return lambda connection: index.root_id(connection, Root(path, (), "user"))


async def test_M6_nothing_is_opened_before_first_use(tmp_path: Path) -> None:
    async with store(tmp_path / "state") as made:
        assert not (tmp_path / "state").exists()
        assert made.health.state == "ok"
        assert await made.read(roots) == []
        assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "state" / "index.db").stat().st_mode) == 0o600


async def test_M6_a_write_is_all_or_nothing(tmp_path: Path) -> None:
    async with store(tmp_path) as made:

        def half(connection: apsw.Connection) -> None:
            index.root_id(connection, Root("/half", (), "user"))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await made.write(half)
        await made.write(enter("/whole"))
        assert await made.read(roots) == ["/whole"]
    async with store(tmp_path) as made:
        assert await made.read(roots) == ["/whole"]


async def test_M6_readers_cannot_write(tmp_path: Path) -> None:
    async with store(tmp_path) as made:
        with pytest.raises(StoreUnavailable):
            await made.read(enter("/x"))
        await made.write(enter("/y"))
        assert made.health.state == "ok"


async def test_M6_settings_of_the_file(tmp_path: Path) -> None:
    async with store(tmp_path) as made:

        def ask(connection: apsw.Connection) -> list[object]:
            names = ("journal_mode", "user_version", "application_id", "journal_size_limit")
            return [connection.pragma(name) for name in names]

        assert await made.read(ask) == [
            "wal",
            SCHEMA_VERSION,
            APPLICATION_ID,
            opening.JOURNAL_LIMIT,
        ]


async def test_after_close_it_is_unavailable(tmp_path: Path) -> None:
    async with store(tmp_path) as made:
        await made.write(enter("/x"))
    for call in (made.read(roots), made.write(enter("/y"))):
        with pytest.raises(StoreUnavailable) as caught:
            await call
        assert caught.value.reason == "closed"
    assert not (tmp_path / "index.db-wal").exists(), "the log is folded in at the end"


async def test_a_cancelled_write_leaves_the_store_usable(tmp_path: Path) -> None:
    async with store(tmp_path) as made:
        await made.write(enter("/a"))
        started, go = threading.Event(), threading.Event()

        def slow(connection: apsw.Connection) -> None:
            started.set()
            go.wait(10)
            enter("/slow")(connection)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.write, slow)
            await trio.to_thread.run_sync(started.wait)
            nursery.cancel_scope.cancel()
        go.set()
        await made.write(enter("/b"))
        assert await made.read(roots) == ["/a", "/b", "/slow"]


# --- other processes --------------------------------------------------------------------------


@contextmanager
def lock_held(path: Path) -> Iterator[None]:
    """The write lock, held by another process."""
    code = (
        "import apsw, sys\nc = apsw.Connection(sys.argv[1])\nc.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\nsys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate("\n", timeout=30)


async def test_D35_a_held_write_lock_shows_and_heals(tmp_path: Path) -> None:
    async with store(tmp_path) as made:
        await made.write(enter("/a"))
        with lock_held(tmp_path / "index.db"):
            with pytest.raises(StoreUnavailable) as caught:
                await made.write(enter("/b"), deadline_s=0.2)
            assert (caught.value.reason, caught.value.retryable) == ("busy", True)
            assert made.health.state == "degraded"
            assert "busy" in (made.health.reason or "")
            assert made.health.since is not None
            assert await made.read(roots) == ["/a"], "reading goes on"
        await made.write(enter("/b"))
        assert made.health.state == "ok"
        assert await made.read(roots) == ["/a", "/b"]


async def test_D35_status_says_so_while_a_write_still_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_WARNING_S", 0.05)
    async with store(tmp_path) as made:
        await made.write(enter("/a"))
        async with trio.open_nursery() as nursery:
            with lock_held(tmp_path / "index.db"):
                nursery.start_soon(made.write, enter("/b"))
                with trio.fail_after(5):
                    while made.health.state == "ok":
                        await trio.sleep(0.01)
        assert made.health.state == "ok"
        assert await made.read(roots) == ["/a", "/b"]


async def test_D37_eight_writers_and_no_busy(tmp_path: Path) -> None:
    stores = [Store(tmp_path, wall=Clock(), shared=lambda _: None) for _ in range(8)]

    async def work(made: Store, name: int) -> None:
        for n in range(25):
            await made.write(enter(f"/{name}/{n}"))
            await made.read(roots)

    try:
        async with trio.open_nursery() as nursery:
            for name, made in enumerate(stores):
                nursery.start_soon(work, made, name)
        assert len(await stores[0].read(roots)) == 200
        assert {made.health.state for made in stores} == {"ok"}
        assert await stores[0].read(lambda c: c.pragma("integrity_check")) == "ok"
    finally:
        for made in stores:
            await made.aclose()


async def test_D38_a_pinned_log_raises_an_alarm_and_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_ALARM", 300_000)
    async with store(tmp_path) as made:
        await made.write(enter("/a"))
        reader = apsw.Connection(str(tmp_path / "index.db"))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM root").fetchall()

        def fill(connection: apsw.Connection) -> None:
            connection.executemany(
                "INSERT OR REPLACE INTO problem VALUES (1, ?, 'x', ?)",
                [(str(n), random.Random(n).randbytes(500).hex()) for n in range(100)],
            )

        refused = 0
        for _ in range(20):
            try:
                await made.write(fill)
            except StoreUnavailable as error:
                assert error.reason == "busy"
                refused += 1
        assert refused
        assert made.health.state == "degraded"
        assert (tmp_path / "index.db-wal").stat().st_size < 600_000
        reader.close(True)
        await made.write(fill)
        assert made.health.state == "ok"


# --- where it lies ----------------------------------------------------------------------------


async def test_D39_no_write_ahead_log_on_a_shared_file_system(tmp_path: Path) -> None:
    async with store(tmp_path, shared=lambda _: "nfs") as made:
        await made.write(enter("/a"))
        assert await made.read(lambda c: c.pragma("journal_mode")) == "delete"
        assert made.health.state == "degraded"
        assert "nfs" in (made.health.reason or "")
        assert not (tmp_path / "index.db-wal").exists()
    async with store(tmp_path) as made:  # the same file, local again
        assert await made.read(roots) == ["/a"]
        assert made.health.state == "ok"


def test_D39_a_local_folder_is_local(tmp_path: Path) -> None:
    assert shared_file_system("/proc") is None
    assert shared_file_system(str(tmp_path / "missing")) is None


async def test_D40_an_old_library_is_not_trusted_with_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opening.library_version() >= opening.MINIMUM_LIBRARY
    monkeypatch.setattr(sqlite, "library_version", lambda: 3_051_002)
    async with store(tmp_path / "state") as made:
        await made.write(enter("/a"))
        assert made.in_memory
        assert made.health.state == "degraded"
        assert "3.51.3" in (made.health.reason or "")
        await made.heal()
        assert made.in_memory
        assert not (tmp_path / "state").exists()


async def test_an_unusable_state_folder_is_degraded_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    state = tmp_path / "file" / "state"
    async with room(tmp_path / "rest", state=state) as here:
        await here.write("One", "heron")
        assert here.store.in_memory
        assert here.store.health.state == "degraded"
        assert (await here.finder.find(Query("heron", 5))).hits
        monkeypatch.setattr(sqlite, "RETRY_S", 0.0)
        await here.library.refresh()
        assert here.store.in_memory
        (tmp_path / "file").unlink()
        await here.library.refresh()
        assert not here.store.in_memory
        assert here.store.health.state == "ok"
        assert (await here.finder.find(Query("heron", 5))).hits
        assert (state / "index.db").exists()


async def test_a_link_in_place_of_the_index_is_not_followed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "victim").write_text("precious")
    (state / "index.db").symlink_to(tmp_path / "victim")
    async with store(state) as made:
        await made.write(enter("/a"))
        assert made.in_memory
        assert made.health.state == "degraded"
    assert (tmp_path / "victim").read_text() == "precious"


async def test_memory_by_choice_is_ok() -> None:
    async with store(None) as made:
        await made.write(enter("/a"))
        assert await made.read(roots) == ["/a"]
        assert made.health.state == "ok"
        await made.heal()


# --- full disk, damage, versions --------------------------------------------------------------


async def test_D41_a_full_disk_is_said_and_heals(tmp_path: Path) -> None:
    async with store(tmp_path) as made:
        await made.write(enter("/a"))
        pages = await made.read(lambda c: c.pragma("page_count"))
        await made.write(lambda c: c.pragma("max_page_count", pages))

        def fill(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO problem VALUES (1, 'x', 'y', ?)", ("z" * 100_000,))

        with pytest.raises(StoreUnavailable) as caught:
            await made.write(fill)
        assert caught.value.reason == "full"
        assert made.health.state == "degraded"
        assert await made.read(roots) == ["/a"]
        connection = made._opened.writer if made._opened else None
        assert connection is not None
        connection.pragma("max_page_count", 1 << 30)
        await made.write(fill)
        assert made.health.state == "ok"


async def test_F17_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    async with store(tmp_path) as made:
        await made.write(enter("/new"))
    connection = apsw.Connection(str(tmp_path / "index.db"))
    connection.pragma("user_version", SCHEMA_VERSION + 1)
    connection.close()
    before = (tmp_path / "index.db").read_bytes()
    async with store(tmp_path) as made:
        await made.write(enter("/old"))
        assert await made.read(roots) == ["/old"]
        assert made.in_memory
        assert made.health.state == "degraded"
        assert "newerSchema" in (made.health.reason or "")
    assert (tmp_path / "index.db").read_bytes() == before


async def test_F17_an_older_schema_is_built_anew(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("One", "heron")
    connection = apsw.Connection(str(tmp_path / "state" / "index.db"))
    connection.execute("ALTER TABLE document RENAME TO documents; CREATE VIEW old AS SELECT 1")
    connection.pragma("user_version", 0)
    connection.close()
    async with room(tmp_path) as here:
        await here.library.refresh()
        assert (await here.finder.find(Query("heron", 5))).hits
        assert here.store.health.state == "ok"
        tables = await here.store.read(
            lambda c: [n for (n,) in c.execute("SELECT name FROM sqlite_schema")]
        )
        assert "documents" not in tables
        assert "old" not in tables


def damage_garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(20_000))


def damage_truncate(path: Path, rng: random.Random) -> None:
    os.truncate(path, path.stat().st_size // 2 + rng.randrange(100))


def damage_header(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[16:40] = rng.randbytes(24)
    path.write_bytes(data)


def damage_pages(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = rng.randbytes(64)
    path.write_bytes(data)


def damage_zero(path: Path, rng: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def damage_foreign(path: Path, rng: random.Random) -> None:
    path.unlink()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE cookies (a)")
    connection.close()


def damage_text(path: Path, rng: random.Random) -> None:
    """A bit of a stored body is another one: a wrong answer, if nobody looks."""
    data = path.read_bytes()
    assert b"heronbody" in data
    path.write_bytes(data.replace(b"heronbody", b"heronbodx"))


@pytest.mark.parametrize(
    "damage",
    [
        damage_garbage,
        damage_truncate,
        damage_header,
        damage_pages,
        damage_zero,
        damage_foreign,
        damage_text,
    ],
)
async def test_D44_a_damaged_index_is_set_aside_and_rebuilt(
    tmp_path: Path, damage: Callable[[Path, random.Random], None]
) -> None:
    async with room(tmp_path) as here:
        for n in range(40):
            here.put(f"m{n}.md", memory(f"heron {n}", f"heronbody {n}"))
        await here.library.refresh()
    damage(tmp_path / "state" / "index.db", random.Random(1))
    async with room(tmp_path) as here:
        await here.finder.find(Query("heronbody", 50))
        await here.library.refresh()
        found = await here.finder.find(Query("heronbody", 50))
        assert len(found.hits) == 40
        assert all(hit.document.body.startswith("heronbody ") for hit in found.hits)
        assert here.store.health.state == "ok"
        assert "damaged" in (here.store.health.reason or "")
        assert await here.store.read(lambda c: c.pragma("integrity_check")) == "ok"
        aside = list((tmp_path / "state").glob("index.damaged-*.db"))
        assert len(aside) == 1


async def test_D44_the_log_of_another_database(tmp_path: Path) -> None:
    for name in ("a", "b"):
        async with room(tmp_path / name) as here:
            for n in range(20):
                here.put(f"{name}{n}.md", memory(f"heron {name}{n}", f"body {name}"))
            await here.library.refresh()
            log = here.folder / "state" / "index.db-wal"
            assert log.stat().st_size > 0
            shutil.copy(log, tmp_path / f"{name}.wal")
    shutil.copy(tmp_path / "b.wal", tmp_path / "a" / "state" / "index.db-wal")
    async with room(tmp_path / "a") as here:
        await here.library.refresh()
        listed = await here.library.list(MemoryListParams(scope="project"))
        assert sorted(d.title for d in listed.documents) == sorted(f"heron a{n}" for n in range(20))
        found = await here.finder.find(Query("heron", 50))
        assert {hit.document.body for hit in found.hits} == {"body a"}
        assert await here.store.read(lambda c: c.pragma("integrity_check")) == "ok"


async def test_D44_damaged_files_do_not_pile_up(tmp_path: Path) -> None:
    for n in range(5):
        async with store(tmp_path) as made:
            made.wall = Clock(1_790_000_000.0 + 60 * n)
            await made.write(enter("/a"))
        (tmp_path / "index.db").write_bytes(b"x" * 5_000)
    async with store(tmp_path) as made:
        await made.write(enter("/a"))
    assert len(list(tmp_path.glob("index.damaged-*.db"))) == opening.KEPT_DAMAGED


async def test_D44_damage_while_it_is_open(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(40):
            here.put(f"m{n}.md", memory(f"heron {n}", "heronbody " * 50))
        await here.library.refresh()
        await here.store.write(lambda c: c.execute("PRAGMA user_version"))
        opened = here.store._opened
        assert opened is not None
        opened.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage_pages(tmp_path / "state" / "index.db", random.Random(2))
        opened.reader.execute("PRAGMA shrink_memory")
        opened.writer.execute("PRAGMA shrink_memory")
        here.put("new.md", memory("heron new", "heronbody"))
        finder = LibraryFinder(here.library, here.finder.prepared, 10.0)
        here.nursery.start_soon(here.libraries.run)
        found = await finder.find(Query("heronbody", 60))
        assert len(found.hits) == 41, "the search itself waits for the index to be built anew"
        assert "damaged" in (here.store.health.reason or "")
