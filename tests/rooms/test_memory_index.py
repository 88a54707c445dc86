"""The index follows the files (M6, M7; D36, D53), and the finder asks it (memory.md §3)."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import apsw
import attrs
import pytest
import trio
import trio.testing

from memory_support import ANALYST, Room, bad_files, memory, room
from oncue.finder import LibraryFinder, Prepared
from oncue.memory import index, indexer, rows
from oncue.memory.analyst import Analysed, PlainAnalyst
from oncue.memory.files import Signature
from oncue.memory.libraries import Libraries
from oncue.memory.roots import Root
from oncue.ports import Document, Query
from oncue.recall import ranking
from oncue.store.sqlite import Store
from oncue_protocol import MemoryListParams
from oncue_protocol.errors import StoreUnavailable


async def titles(here: Room, query: str, limit: int = 20) -> list[str]:
    found = await here.finder.find(Query(query, limit))
    return sorted(hit.document.title for hit in found.hits)


async def test_M7_edits_with_an_editor_are_seen_by_a_refresh(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        one = here.put("one.md", memory("One", "heron"))
        here.put("two.md", memory("Two", "heron"))
        await here.library.refresh()
        assert await titles(here, "heron") == ["One", "Two"]
        one.write_text(memory("One", "stork"))
        (here.project / "two.md").rename(here.project / "three.md")
        (here.project / "sub").mkdir()
        here.put("sub/four.md", memory("Four", "heron"))
        await here.library.refresh()
        assert await titles(here, "heron") == ["Four", "Two"]
        assert await titles(here, "stork") == ["One"]
        found = await here.finder.find(Query("heron", 5))
        assert {h.document.relative_path for h in found.hits} == {"three.md", "sub/four.md"}
        (here.project / "three.md").unlink()
        await here.library.refresh()
        assert await titles(here, "heron") == ["Four"]


async def test_M7_an_edit_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        one = here.put("one.md", memory("One", "heron"))
        await here.library.refresh()
        before = one.stat()
        one.write_text(memory("One", "stork"))
        os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))
        await here.library.refresh()
        assert await titles(here, "stork") == ["One"], "the change time and raciness tell"


async def test_M7_what_is_unchanged_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "RACY_NS", 0)
    async with room(tmp_path) as here:
        for n in range(20):
            here.put(f"m{n}.md", memory(f"m{n}"))
        await here.library.refresh()
        reads: list[str] = []
        real = indexer.files.read

        def counted(root: Root, relative: str) -> tuple[bytes, Signature]:
            reads.append(relative)
            return real(root, relative)

        monkeypatch.setattr(indexer.files, "read", counted)
        await here.library.refresh()
        assert reads == []
        (here.project / "m3.md").touch()
        await here.library.refresh()
        assert reads == ["m3.md"]


async def test_M7_a_recall_asks_for_a_refresh_and_does_not_wait(tmp_path: Path) -> None:
    async with room(tmp_path, background=True) as here:
        await here.library.refresh()
        here.put("one.md", memory("One", "heron"))
        assert await titles(here, "heron") == []
        with trio.fail_after(10):
            while await titles(here, "heron") != ["One"]:
                await trio.sleep(0.05)


async def test_M7_a_folder_never_indexed_is_waited_for_by_the_search(tmp_path: Path) -> None:
    async with room(tmp_path, background=True) as here:
        here.put("one.md", memory("One", "heron"))
        finder = LibraryFinder(here.library, Prepared(ANALYST), 10.0)
        found = await finder.find(Query("heron", 5))
        assert [hit.document.title for hit in found.hits] == ["One"]


async def test_M7_warm_start_answers_from_the_index_before_any_scan(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        here.put("one.md", memory("One", "heron"))
        await here.library.refresh()
    async with room(tmp_path) as here:
        finder = LibraryFinder(here.library, Prepared(ANALYST), 1e9)
        found = await finder.find(Query("heron", 5))
        assert [hit.document.title for hit in found.hits] == ["One"]


async def test_refreshes_at_the_same_time_are_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = 0
    real = indexer.files.scan

    def counted(root: Root) -> object:
        nonlocal scans
        scans += 1
        return real(root)

    async with room(tmp_path) as here:
        here.put("one.md", memory("One"))
        monkeypatch.setattr(indexer.files, "scan", counted)
        of = here.library.indexes[0]
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(of.refresh)
        assert scans <= 2


async def test_who_waits_behind_a_cancelled_refresh_gets_a_whole_one(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(100):
            here.put(f"m{n}.md", memory(f"m{n}", "heron"))
        of = here.library.indexes[0]
        scope = trio.CancelScope()

        async def cancelled() -> None:
            with scope:
                await of.refresh()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(of.refresh)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(cancelled)
            await trio.testing.wait_all_tasks_blocked()
            here.put("late.md", memory("late", "stork"))
            nursery.start_soon(of.refresh)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        assert await titles(here, "stork") == ["late"]


async def test_D36_no_transaction_spans_files_or_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = threading.Event()
    sizes: list[int] = []
    real_put, real_read = index.put, indexer.files.read

    def put(connection: apsw.Connection, root: Root, rows: list[rows.Row]) -> None:
        assert connection.in_transaction
        inside.set()
        sizes.append(len(rows))
        real_put(connection, root, rows)
        inside.clear()

    def read(root: Root, relative: str) -> tuple[bytes, Signature]:
        assert not inside.is_set()
        return real_read(root, relative)

    monkeypatch.setattr(index, "put", put)
    monkeypatch.setattr(indexer.files, "read", read)
    async with room(tmp_path) as here:
        for n in range(300):
            here.put(f"m{n}.md", memory(f"m{n}", "words " * 200))
        await here.library.refresh()
    assert sum(sizes) == 300
    assert max(sizes) <= indexer.BATCH_FILES


async def test_a_cancelled_refresh_leaves_a_usable_index(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(200):
            here.put(f"m{n}.md", memory(f"m{n}", "heron"))
        for _ in range(3):
            with trio.move_on_after(0.03):
                await here.library.refresh()
        await here.library.refresh()
        assert (await here.library.list(MemoryListParams())).total == 200
        assert await here.store.read(lambda c: c.pragma("integrity_check")) == "ok"


async def test_D53_thirty_kinds_of_bad_files_among_good_ones(tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(memory("canary", "zebra"))
    async with room(tmp_path) as here:
        kinds = bad_files(here.project, outside)
        assert len(kinds) >= 30
        for n in range(200):
            here.put(f"good{n:03}.md", memory(f"Good {n:03}", "heron nest"))
        with trio.fail_after(60):
            await here.library.refresh()
            await here.library.refresh()
        found = await here.finder.find(Query("heron nest", 300))
        assert len(found.hits) == 200
        told = {Path(p.path).name: p.code for p in await here.library.problems(1000)}
        assert told == {name: code for name, code in kinds.items() if code is not None}
        listed: list[str] = []
        page = await here.library.list(MemoryListParams())
        while True:
            listed += [Path(d.path).name for d in page.documents]
            for document in page.documents:
                document.title.encode("utf-8")
                document.description.encode("utf-8")
            if page.cursor is None:
                break
            page = await here.library.list(MemoryListParams(cursor=page.cursor))
        unread = {"link", "hardLink", "notRegular", "name"}
        expected = {name for name, code in kinds.items() if code not in unread}
        assert {name for name in listed if not name.startswith("good")} == expected
        assert len(listed) == 200 + len(expected)
        assert (await here.finder.find(Query("zebra", 5))).hits == ()
        assert (await here.finder.find(Query("sparse", 5))).hits, "found by its name"
        assert (await here.finder.find(Query("Straße", 5))).hits
        assert outside.read_text() == memory("canary", "zebra")


async def test_D53_one_bad_file_does_not_stop_a_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(tmp_path) as here:
        for n in range(5):
            here.put(f"m{n}.md", memory(f"m{n}", "heron"))
        real = indexer.files.read

        def failing(root: Root, relative: str) -> tuple[bytes, Signature]:
            if relative == "m2.md":
                raise indexer.UnfitFileError("unreadable", "cannot be read")
            if relative == "m3.md":
                raise FileNotFoundError
            return real(root, relative)

        monkeypatch.setattr(indexer.files, "read", failing)
        await here.library.refresh()
        assert await titles(here, "heron") == ["m0", "m1", "m4"]
        assert [p.code for p in await here.library.problems()] == ["unreadable"]


async def test_a_busy_index_does_not_break_search_write_or_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(tmp_path) as here:
        await here.write("One", "heron")

        async def busy(*_: object, **__: object) -> object:
            raise StoreUnavailable("busy", reason="busy")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "write", busy)
            result = await here.write("Two", "heron")
            assert Path(result.path).exists(), "the file is the truth"
            assert await titles(here, "heron") == ["One"]
            assert (await here.library.list(MemoryListParams())).total == 1
        await here.library.refresh()
        assert await titles(here, "heron") == ["One", "Two"]


async def test_another_analyst_indexes_anew(tmp_path: Path) -> None:
    @attrs.frozen
    class Upper(PlainAnalyst):
        version: str = "upper-1"

        def analyse(self, document: Document) -> Analysed:
            return attrs.evolve(super().analyse(document), body="flamingo")

    async with room(tmp_path) as here:
        await here.write("One", "heron")
    store = Store(tmp_path / "state", shared=lambda _: None)
    try:
        libraries = Libraries(tmp_path / "data", store, Upper())
        library = await libraries.open(str(tmp_path / "work" / "project"))
        await library.refresh()
        found = await store.read(partial(_candidates, roots=library.roots, terms=["flamingo"]))
        assert [f.analysis for f in found] == ["upper-1"]
        assert await store.read(partial(_candidates, roots=library.roots, terms=["heron"])) == ()
    finally:
        await store.aclose()


def _candidates(
    connection: apsw.Connection, roots: tuple[Root, ...], terms: list[str]
) -> tuple[rows.IndexedDocument, ...]:
    return index.candidates(connection, index.roots_of(connection, roots), terms).found


# --- the finder ------------------------------------------------------------------------------


async def test_what_the_index_keeps_is_what_the_ranker_prepares(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        here.put("a.md", memory("Heron `retryQueue`", "# One\n\nStraße 東京\n\n## Two\n\nheron"))
        here.put("b.md", "")
        await here.library.refresh()
        page = await here.store.read(
            lambda c: index.page(c, index.roots_of(c, here.library.roots), None, 10)
        )
        for found in page.found:
            kept = Prepared(ANALYST).candidate(found).prepared
            assert kept == ranking.prepare_document(found.document)
            stale = attrs.evolve(found, analysis="older", prepared=b"nonsense")
            assert Prepared(ANALYST).candidate(stale).prepared == kept


async def test_excluded_paths_and_limit(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(10):
            here.put(f"m{n}.md", memory(f"m{n}", "heron"))
        await here.library.refresh()
        excluded = frozenset(str(here.project / f"m{n}.md") for n in range(8))
        found = await here.finder.find(Query("heron", 5, excluded), wants_candidates=True)
        assert sorted(h.document.title for h in found.hits) == ["m8", "m9"]
        assert sorted(d.title for d in found.candidates) == ["m8", "m9"]
        assert found.total == 10
        assert len((await here.finder.find(Query("heron", 3))).hits) == 3


async def test_R7_candidates_of_a_large_library(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(300):
            path = here.put(f"m{n:03}.md", memory(f"m{n:03}", "heron" if n < 250 else "stork"))
            os.utime(path, ns=(0, (1_700_000_000 + n) * 10**9))
        await here.library.refresh()
        found = await here.finder.find(Query("heron", 5), wants_candidates=True)
        assert len(found.hits) == 5
        assert len(found.candidates) == 200
        assert len({d.path for d in found.candidates}) == 200
        recent = {d.title for d in found.candidates if d.body == "stork"}
        assert {f"m{n}" for n in range(280, 300)} <= recent
        nothing = await here.finder.find(Query("xylophone", 5), wants_candidates=True)
        assert nothing.hits == ()
        assert len(nothing.candidates) == 200, "a model may see what words do not"


async def test_frequencies_are_right_beyond_the_candidates(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(300):
            here.put(f"m{n:03}.md", memory(f"m{n:03}", "heron" + " stork" * (n % 3 == 0)))
        await here.library.refresh()
        terms = ranking.rank_query("heron stork xylophone").terms

        def ask(connection: apsw.Connection) -> index.Candidates:
            return index.candidates(
                connection, index.roots_of(connection, here.library.roots), terms
            )

        found = await here.store.read(ask)
        assert len(found.found) == index.MAX_CANDIDATES
        assert found.corpus.documents == 300
        assert found.corpus.frequencies is not None
        assert sorted(found.corpus.frequencies.values()) == [0, 100, 300]


async def test_corpus_figures_stay_right_under_change(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(10):
            here.put(f"m{n}.md", memory(f"m{n}", "one two three"))
        await here.library.refresh()
        (here.project / "m0.md").unlink()
        here.put("m1.md", memory("m1", "heron " * 10))
        await here.library.refresh()

        def ask(connection: apsw.Connection) -> tuple[index.Corpus, tuple[int, ...]]:
            known = index.roots_of(connection, here.library.roots)
            counted = connection.execute(
                "SELECT count(*), sum(name_length), sum(description_length), sum(body_length), "
                "sum(keyword_length) FROM document"
            ).fetchone()
            return index.corpus(connection, known, None), counted

        corpus, counted = await here.store.read(ask)
        assert attrs.astuple(corpus)[:5] == counted


async def test_a_cancelled_search_ends_at_once(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("One", "heron")
        started, go = threading.Event(), threading.Event()

        class Slow(Prepared):
            def candidate(self, found: rows.IndexedDocument) -> ranking.Candidate:
                started.set()
                go.wait(10)
                return super().candidate(found)

        finder = LibraryFinder(here.library, Slow(ANALYST), 0.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finder.find, Query("heron", 5))
            await trio.to_thread.run_sync(started.wait)
            nursery.cancel_scope.cancel()
        assert not go.is_set()
        go.set()
        assert await titles(here, "heron") == ["One"]


QUERIES = ["", " ", "the", '"', "' OR 1=1 --", "NEAR(a b)", "a* b^", "x" * 9_999, "\0", "\ud83d"]


@pytest.mark.parametrize("query", QUERIES)
async def test_any_query_is_answered(tmp_path: Path, query: str) -> None:
    async with room(tmp_path) as here:
        await here.write("One", "heron")
        await here.finder.find(Query(query, 5), wants_candidates=True)
        assert here.store.health.state == "ok"


async def test_workspaces_do_not_see_each_other(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("One", "heron")
        (tmp_path / "work" / "other").mkdir()
        other = await here.libraries.open(str(tmp_path / "work" / "other"))
        found = await LibraryFinder(other, here.finder.prepared, 0.0).find(
            Query("heron", 5), wants_candidates=True
        )
        assert (found.hits, found.candidates, found.total) == ((), (), 0)
        both = await here.libraries.open(str(tmp_path / "work" / "other"), str(here.workspace))
        found = await LibraryFinder(both, here.finder.prepared, 0.0).find(Query("heron", 5))
        assert [h.document.title for h in found.hits] == ["One"]


async def test_a_refresh_that_fails_does_not_end_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(tmp_path, background=True) as here:
        calls = 0
        seen = trio.Event()
        real = indexer.RootIndex._refresh

        async def failing(of: indexer.RootIndex) -> indexer.Changes:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ZeroDivisionError
            if calls == 2:
                raise StoreUnavailable("busy", reason="busy")
            seen.set()
            return await real(of)

        monkeypatch.setattr(indexer.RootIndex, "_refresh", failing)
        with trio.fail_after(10):
            while not seen.is_set():
                here.library.refresh_soon()
                await trio.sleep(0.05)
