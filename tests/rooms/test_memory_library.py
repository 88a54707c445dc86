"""`memory/*` on real files and a real index (M1-M6; I19, I23, I24)."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from memory_support import memory, room, write_params
from oncue.memory import editing, files, writing
from oncue.memory.provenance import Writer
from oncue.memory.roots import project_root
from oncue_protocol import (
    MemoryForgetParams,
    MemoryListParams,
    MemoryReadParams,
    MemorySearchParams,
    MemoryWriteParams,
)
from oncue_protocol.errors import (
    InvalidParams,
    LimitExceeded,
    OutsideRoots,
    RequestFailed,
    RevisionConflict,
    SecretRefused,
    StoreUnavailable,
)

MODEL = Writer("model", "s1")


async def test_M1_a_written_memory_is_a_markdown_file(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        result = await here.write(
            "Deploy windows",
            "On Mondays.\r\n",
            keywords=("release", "it's, odd"),
            usage_scenarios=("when somebody asks to deploy",),
        )
        assert result.path == str(here.project / "deploy-windows.md")
        data = Path(result.path).read_bytes()
        assert result.revision == files.revision(data)
        assert data.decode() == (
            "---\nname: Deploy windows\ndescription: about Deploy windows\ntype: project\n"
            "keywords:\n  - release\n  - it's, odd\n"
            "usage_scenarios: [when somebody asks to deploy]\n"
            "created: 2026-09-21T14:13:20Z\nupdated: 2026-09-21T14:13:20Z\n---\n\nOn Mondays.\n"
        )
        read = await here.library.read(MemoryReadParams(path=result.path))
        assert read.body == "On Mondays."
        assert read.revision == result.revision
        assert read.document.keywords == ("release", "it's, odd")


async def test_M4_everything_is_private(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("One")
        await here.write("Two", scope="user", type="user")
        await here.library.forget(MemoryForgetParams(path="one.md"), here.finder)
        await here.library.refresh()
        for top in (tmp_path / "data", tmp_path / "state"):
            for where, folders, names in os.walk(top):
                for name in folders:
                    assert stat.S_IMODE((Path(where) / name).stat().st_mode) == 0o700, name
                for name in names:
                    assert stat.S_IMODE((Path(where) / name).stat().st_mode) == 0o600, name


async def test_M4_compare_and_swap(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        first = await here.write("One", "a")
        with pytest.raises(RevisionConflict) as caught:
            await here.write("One", "b")
        assert caught.value.revision == first.revision
        second = await here.write("One", "b", path=first.path, if_revision=first.revision)
        with pytest.raises(RevisionConflict) as caught:
            await here.write("One", "c", path=first.path, if_revision=first.revision)
        assert caught.value.revision == second.revision
        with pytest.raises(RevisionConflict) as caught:
            await here.write("Gone", path="gone.md", if_revision=first.revision)
        assert caught.value.revision is None
        assert "b\n" in Path(first.path).read_text()


async def test_D62_the_same_write_again_is_one_memory(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        first = await here.write("One", "same", keywords=("k",))
        here.clock.now += 100
        assert await here.write("One", "same\n", keywords=("k",)) == first
        assert await here.write("One", "same", path=first.path, if_revision="stale") == first
        listed = await here.library.list(MemoryListParams())
        assert listed.total == 1


async def test_M4_another_title_with_the_same_slug_gets_a_number(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        one = await here.write("C++ notes")
        two = await here.write("C notes!")
        three = await here.write("C / notes")
        names = [Path(r.path).name for r in (one, two, three)]
        assert names == ["c-notes.md", "c-notes-2.md", "c-notes-3.md"]


async def test_M4_what_a_user_added_stays(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        path = here.put(
            "x.md", "---\n# mine\ntitle: Old\nowner: me  # me\ntype: user\n---\n\nold body\n"
        )
        revision = files.revision(path.read_bytes())
        await here.write("New", "new body", path=str(path), if_revision=revision)
        text = path.read_text()
        assert text.startswith("---\n# mine\ntitle: New\nowner: me  # me\ntype: project\n")
        assert text.endswith("---\n\nnew body\n")
        assert "name:" not in text


async def test_D52_a_write_leaves_unparsable_front_matter_byte_equal(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        data = b"---\nname: a\ndescription: one: two\n---\r\nbody\n"
        path = here.put("x.md", data)
        with pytest.raises(RequestFailed) as caught:
            await here.write("New", path=str(path), if_revision=files.revision(data))
        assert caught.value.detail == {"reason": "frontMatter", "problems": ["yaml"]}
        assert path.read_bytes() == data
        await here.library.refresh()
        assert [(p.path, p.code) for p in await here.library.problems()] == [(str(path), "yaml")]
        listed = await here.library.list(MemoryListParams())
        assert [d.description for d in listed.documents] == ["one: two"]


async def test_I24_secrets_are_refused_by_rule(tmp_path: Path) -> None:
    token = "ghp_" + "k7Qw2ZrT9xLmB4vNc8Yp3HsJd6FgA1uE5oiX"
    async with room(tmp_path) as here:
        for members in ({"title": token}, {"body": f"the token {token}"}, {"description": token}):
            params = evolve(write_params("x"), **members)
            with pytest.raises(SecretRefused) as caught:
                await here.library.write(params)
            assert caught.value.detail is not None
            assert caught.value.detail["rules"]
            assert token not in str(caught.value.to_response_error())
        with pytest.raises(SecretRefused):
            await here.write("x", keywords=(token,))
        assert not here.project.exists()


@pytest.mark.parametrize(
    "path",
    [
        "../x.md", "a/../../x.md", "/etc/x.md", "/etc/passwd", "..", "x.md\0", "%2e%2e/x.md",
        "file:///etc/x.md", "file:///etc/%2e%2e/x.md", "CON.md", "x.md.", "x.md ", ".x.md",
        "C:\\x.md", "a\\..\\x.md", "MEMORY.md", "x" * 300 + ".md", "x.txt", "http://h/x.md", "",
        "../memory-evil/x.md", "../workspace.json", "../provenance.jsonl",
    ],
)  # fmt: skip
async def test_D61_paths_that_leave_the_roots_are_refused(tmp_path: Path, path: str) -> None:
    async with room(tmp_path) as here:
        await here.write("Inside")
        before = sorted(p for p in tmp_path.rglob("*") if "state" not in p.parts)
        for given in (path, f"{here.project}/{path}"):
            with pytest.raises(OutsideRoots) as caught:
                await here.write("X", path=given)
            assert caught.value.code == 1004
        if path not in (
            "CON.md",
            "x.md.",
            "x.md ",
            "%2e%2e/x.md",
            "x" * 300 + ".md",
            "a\\..\\x.md",
        ):
            with pytest.raises(OutsideRoots):
                await here.library.read(MemoryReadParams(path=path))
            with pytest.raises(OutsideRoots):
                await here.library.forget(MemoryForgetParams(path=path), here.finder)
        assert sorted(p for p in tmp_path.rglob("*") if "state" not in p.parts) == before


async def test_I23_links_below_a_root_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    canary = outside / "canary.md"
    canary.write_text(memory("canary", "zebra crossing"))
    async with room(tmp_path) as here:
        here.put("good.md", memory("good"))
        (here.project / "link.md").symlink_to(canary)
        (here.project / "sub").symlink_to(outside)
        os.link(canary, here.project / "hard.md")
        for path in ("link.md", "sub/canary.md", "hard.md"):
            with pytest.raises(OutsideRoots):
                await here.library.read(MemoryReadParams(path=path))
            with pytest.raises((OutsideRoots, RevisionConflict)):
                await here.write("X", path=path)
            with pytest.raises(OutsideRoots):
                await here.library.forget(MemoryForgetParams(path=path), here.finder)
        with pytest.raises(OutsideRoots):
            await here.write("X", path="sub/new.md")
        found = await here.library.search(MemorySearchParams(query="zebra crossing"), here.finder)
        assert found.total == 0
        assert sorted(p.name for p in outside.iterdir()) == ["canary.md"]
        assert canary.read_text() == memory("canary", "zebra crossing")


async def test_I23_a_root_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.md").write_text(memory("x"))
    async with room(tmp_path) as here:
        here.project.parent.mkdir(parents=True)
        here.project.symlink_to(elsewhere)
        await here.library.refresh()
        assert (await here.library.list(MemoryListParams())).total == 0
        assert [p.code for p in await here.library.problems()] == ["link"]
        with pytest.raises(OutsideRoots):
            await here.write("New")
        assert [p.name for p in elsewhere.iterdir()] == ["x.md"]


async def test_M4_a_memory_is_at_most_256_kib(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        with pytest.raises(LimitExceeded) as caught:
            await here.write("Big", "x" * (257 * 1024))
        assert caught.value.detail is not None
        assert caught.value.detail["limit"] == "memoryFileBytes"
        assert list(here.project.glob("*.md")) == []


async def test_M2_without_a_project_there_is_user_scope_only(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        library = await here.libraries.open("/")
        assert library.workspace_key is None
        assert library.why_no_project == "fileSystemRoot"
        assert [root.scope for root in library.memory_roots] == ["user"]
        with pytest.raises(InvalidParams, match="scope"):
            await library.write(write_params("x"))
        await library.write(write_params("x", scope="user"))
        assert (here.user / "x.md").exists()


async def test_M2_the_id_is_persisted_beside_the_memories(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        assert not (here.project.parent / "workspace.json").exists(), "nothing before a write"
        await here.write("One")
        text = (here.project.parent / "workspace.json").read_text()
        assert str(here.workspace) in text
        assert here.library.workspace_key in text  # type: ignore[operator]


async def test_M2_scopes_are_apart_and_shared(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("Heron", scope="user")
        await here.write("Stork")
        (tmp_path / "work" / "other").mkdir()
        other = await here.libraries.open(str(tmp_path / "work" / "other"))
        assert [d.title for d in (await other.list(MemoryListParams())).documents] == ["Heron"]
        ours = await here.library.list(MemoryListParams(scope="project"))
        assert [d.title for d in ours.documents] == ["Stork"]
        assert (await here.library.list(MemoryListParams())).total == 2
        found = await here.library.search(
            MemorySearchParams(query="heron stork", scope="user"), here.finder
        )
        assert [d.title for d in found.documents] == ["Heron"]


async def test_list_is_newest_first_and_pages_hold_still(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(120):
            path = here.put(f"m{n:03}.md", memory(f"m{n:03}"))
            os.utime(path, ns=(0, (1_700_000_000 + n // 2) * 10**9))
        page = await here.library.list(MemoryListParams())
        seen = [d.title for d in page.documents]
        here.put("newer.md", memory("newer"))
        (here.project / "m119.md").unlink()
        while page.cursor is not None:
            page = await here.library.list(MemoryListParams(cursor=page.cursor))
            seen += [d.title for d in page.documents]
        assert len(seen) == 120
        expected = sorted(range(120), key=lambda n: (-(n // 2), n))
        assert seen == [f"m{n:03}" for n in expected]
        for cursor in ("nonsense", "", "e30=", "W10=", "[" * 10_000):
            with pytest.raises(InvalidParams, match="cursor"):
                await here.library.list(MemoryListParams(cursor=cursor))


async def test_search_gives_snippets_and_pages(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        body = "# Rules\n\nNothing here.\n\nThe heron tracker deploys on Mondays.\nOnly then."
        result = await here.write("Deploy windows", body)
        for n in range(60):
            here.put(f"m{n}.md", memory(f"heron {n}", f"about heron {n}"))
        found = await here.library.search(
            MemorySearchParams(query="when does the heron tracker deploy?"), here.finder
        )
        best = found.documents[0]
        assert (best.title, best.revision) == ("Deploy windows", result.revision)
        assert best.snippet == "The heron tracker deploys on Mondays.\nOnly then."
        assert best.confidence is not None
        assert found.total == 61
        assert found.cursor is not None
        rest = await here.library.search(
            MemorySearchParams(query="when does the heron tracker deploy?", cursor=found.cursor),
            here.finder,
        )
        assert len({d.path for d in (*found.documents, *rest.documents)}) == 61
        with pytest.raises(InvalidParams, match="cursor"):
            await here.library.search(MemorySearchParams(query="x", cursor="-1"), here.finder)


@pytest.mark.parametrize(
    ("title", "body", "query"),
    [
        ("Deployment rules", "Deployed on Mondays.", "when are we deploying?"),
        ("Auslieferung", "Die Häuser werden montags beliefert.", "Welches Haus wird beliefert?"),
        ("部署窗口", "生产环境只在周一部署。", "什么时候可以部署生产环境"),
        ("デプロイの時間", "本番環境は月曜日だけ更新する。", "本番環境の更新はいつですか"),
        ("retry queue", "See src/carriers/retryQueue.ts", "what is in retry_queue?"),
    ],
)
async def test_M6_search_in_the_languages_of_the_users(
    tmp_path: Path, title: str, body: str, query: str
) -> None:
    async with room(tmp_path) as here:
        await here.write(title, body)
        await here.write("Unrelated cats", "zebra")
        found = await here.library.search(MemorySearchParams(query=query), here.finder)
        assert [d.title for d in found.documents] == [title]
        silent = await here.library.search(
            MemorySearchParams(query="xylophone quartz"), here.finder
        )
        assert silent.total == 0


async def test_M4_forget_moves_to_the_trash_and_is_undoable(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        result = await here.write("One", "secret sauce")
        data = Path(result.path).read_bytes()
        would = await here.library.forget(
            MemoryForgetParams(path=result.path, dry_run=True), here.finder
        )
        assert (would.dry_run, would.removed[0].trash_path) == (True, None)
        assert Path(result.path).exists()
        with pytest.raises(RevisionConflict):
            await here.library.forget(
                MemoryForgetParams(path=result.path, if_revision="0" * 64), here.finder
            )
        done = await here.library.forget(MemoryForgetParams(path=result.path), here.finder)
        trash = done.removed[0].trash_path
        assert trash is not None
        assert Path(trash).read_bytes() == data
        assert not Path(result.path).exists()
        assert (await here.library.list(MemoryListParams())).total == 0
        with pytest.raises(RequestFailed, match="no memory"):
            await here.library.read(MemoryReadParams(path=result.path))
        with pytest.raises(RequestFailed, match="no memory"):
            await here.library.forget(MemoryForgetParams(path=result.path), here.finder)
        assert await here.library.restore(trash) == result.path
        assert Path(result.path).read_bytes() == data
        assert (await here.library.list(MemoryListParams())).total == 1
        with pytest.raises(RequestFailed):
            await here.library.restore(trash)


async def test_M4_restore_overwrites_nothing_and_stays_inside(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("One", "old")
        done = await here.library.forget(MemoryForgetParams(path="one.md"), here.finder)
        trash = Path(done.removed[0].trash_path or "")
        await here.write("One", "new")
        with pytest.raises(RevisionConflict):
            await here.library.restore(str(trash))
        (here.project / "one.md").unlink()
        trash.with_suffix(".json").write_text('{"path": "../../../evil.md"}')
        with pytest.raises(RequestFailed):
            await here.library.restore(str(trash))
        for path in ("/etc/passwd", f"{trash.parent}/../workspace.json", "", str(trash.parent)):
            with pytest.raises(RequestFailed):
                await here.library.restore(path)


async def test_M4_forget_by_query_is_dry_by_default(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("Heron deploys", "heron")
        await here.write("Heron limits", "heron")
        await here.write("Cats", "zebra")
        query = MemoryForgetParams(query="heron")
        would = await here.library.forget(query, here.finder)
        assert would.dry_run
        assert {d.title for d in would.removed} == {"Heron deploys", "Heron limits"}
        assert len(list(here.project.glob("*.md"))) == 4
        done = await here.library.forget(
            MemoryForgetParams(query="heron", dry_run=False), here.finder
        )
        assert not done.dry_run
        assert all(Path(d.trash_path or "").exists() for d in done.removed)
        assert sorted(p.name for p in here.project.glob("*.md")) == ["MEMORY.md", "cats.md"]
        for wrong in (MemoryForgetParams(), MemoryForgetParams(path="a.md", query="b")):
            with pytest.raises(InvalidParams):
                await here.library.forget(wrong, here.finder)


async def test_M4_the_trash_is_emptied_after_30_days(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("Old")
        await here.write("New")
        await here.library.forget(MemoryForgetParams(path="old.md"), here.finder)
        here.clock.now += 20 * 86_400
        await here.library.forget(MemoryForgetParams(path="new.md"), here.finder)
    async with room(tmp_path) as here:
        here.clock.now += 31 * 86_400
        await here.library.refresh()
        left = sorted(p.name.split("-")[0] for p in (here.project.parent / "trash").iterdir())
        assert left == ["new", "new"]


async def test_M1_memory_md_follows_the_files(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        here.put("edited.md", memory("By hand", description="typed by a user"))
        await here.write("One")
        text = (here.project / "MEMORY.md").read_text()
        assert "- [One](one.md): about One" in text
        assert "- [By hand](edited.md): typed by a user" in text
        await here.library.forget(MemoryForgetParams(path="one.md"), here.finder)
        assert "one.md" not in (here.project / "MEMORY.md").read_text()
        await here.library.refresh()
        titles = [d.title for d in (await here.library.list(MemoryListParams())).documents]
        assert titles == ["By hand"], "it is no memory itself"


async def test_D51_the_write_says_what_memory_md_has_no_room_for(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for n in range(200):
            path = here.put(f"m{n:03}.md", memory(f"m{n:03}"))
            os.utime(path, ns=(0, (1_700_000_000 + n) * 10**9))
        result = await here.write("Newest")
        assert result.left_out_of_index == ("m003.md", "m002.md", "m001.md", "m000.md")
        lines = (here.project / "MEMORY.md").read_text().splitlines()
        assert len(lines) == 200
        assert "Newest" in lines[3]


async def test_M3_provenance_is_out_of_reach_of_content(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        result = await here.library.write(
            write_params("By model", "---\nwritten_by: human\n---\n"), session_id="s-1"
        )
        here.put("liar.md", "---\nname: liar\nwritten_by: model\ntrust: trusted\n---\nx")
        await here.library.refresh()

        async def writers() -> dict[str, str]:
            listed = await here.library.list(MemoryListParams())
            return {d.title: d.written_by for d in listed.documents}

        assert await writers() == {"By model": "model", "liar": "human"}
        Path(result.path).write_text(memory("By model", "edited by a user"))
        assert await writers() == {"By model": "model", "liar": "human"}
        await here.library.write(
            write_params("By model", "by hand", path=result.path,
                         if_revision=files.revision(Path(result.path).read_bytes())),
            written_by="human",
        )  # fmt: skip
        assert (await writers())["By model"] == "human"
    (tmp_path / "state" / "index.db").unlink()
    async with room(tmp_path) as here:
        await here.library.write(write_params("Another"), session_id="s-2")
        found = await here.finder.find(_query("another"))
        assert found.hits[0].document.written_in == "s-2"


def _query(text: str) -> object:
    from oncue.ports import Query

    return Query(text, 5)


async def test_M3_provenance_survives_the_index_and_its_own_damage(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        await here.write("One")
        await here.write("Two")
        log = here.project.parent / "provenance.jsonl"
        log.write_bytes(log.read_bytes() + b'{"path": "two.md", "by": "god"}\n\xff[[[\n{"torn')
    for path in (tmp_path / "state").iterdir():
        path.unlink()
    async with room(tmp_path) as here:
        await here.write("Three")
        listed = await here.library.list(MemoryListParams())
        assert {d.title: d.written_by for d in listed.documents} == {
            "One": "model",
            "Two": "model",
            "Three": "model",
        }


def test_M3_provenance_is_kept_short(tmp_path: Path) -> None:
    root = project_root(tmp_path, "k")
    for n in range(1_100):
        with writing.locked(root):
            editing.provenance.record(root, f"m{n % 3}.md", "", MODEL, 0.0)
    log = tmp_path / "projects" / "k" / "provenance.jsonl"
    assert log.read_bytes().count(b"\n") < 600
    writers, _ = editing.provenance.load(root)
    assert writers == {f"m{n}.md": MODEL for n in range(3)}


# --- crashes and races ---------------------------------------------------------------------------


def test_I19_an_error_at_any_step_leaves_one_whole_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project_root(tmp_path, "k")
    first = editing.write(root, None, write_params("One", "old"), MODEL, 0.0)
    path = Path(root.absolute(first.relative))
    params = write_params("One", "new", if_revision=files.revision(first.data))
    for call in ("open", "write", "fsync", "rename"):
        real = getattr(os, call)

        def failing(*args: object, _real: object = real, **kwargs: object) -> object:
            if _is_write(args):
                raise OSError(28, "No space left on device")
            return _real(*args, **kwargs)  # type: ignore[operator]

        def _is_write(args: tuple[object, ...], call: str = call) -> bool:
            return call != "open" or (len(args) > 1 and bool(int(args[1]) & os.O_CREAT))  # type: ignore[call-overload]

        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            with pytest.raises(StoreUnavailable) as caught:
                editing.write(root, first.relative, params, MODEL, 0.0)
        assert caught.value.reason == "full"
        assert path.read_bytes() == first.data
        assert [p.name for p in path.parent.iterdir()] == [path.name]
    editing.write(root, first.relative, params, MODEL, 0.0)
    assert b"new" in path.read_bytes()


CRASH = """
import os, sys
from pathlib import Path
from memory_support import write_params
from oncue.memory import editing
from oncue.memory.provenance import Writer
from oncue.memory.roots import project_root
root = project_root(Path(sys.argv[1]), "k")
step = sys.argv[2]
real = getattr(os, step)
def crash(*args, **kwargs):
    if step == "fsync":
        os._exit(9)
    real(*args, **kwargs)
    os._exit(9)
data = Path(root.absolute("one.md")).read_bytes()
os.rename = crash if step == "rename" else os.rename
if step == "fsync":
    import oncue.memory.writing as writing
    writing.os = type("os", (), {**vars(os), "fsync": staticmethod(crash)})
editing.write(root, "one.md",
    write_params("One", "new", if_revision=editing.files.revision(data)), Writer("model"), 0.0)
"""


@pytest.mark.parametrize(("step", "body"), [("fsync", "old"), ("rename", "new")])
async def test_I19_a_crash_leaves_a_whole_file_and_the_next_start_tidies_up(
    tmp_path: Path, step: str, body: str
) -> None:
    data = tmp_path / "data"
    root = project_root(data, "k")
    editing.write(root, None, write_params("One", "old"), MODEL, 0.0)
    done = run_python(CRASH, str(data), step)
    assert done.returncode == 9, done.stderr
    folder = data / "projects" / "k" / "memory"
    assert f"{body}\n" in (folder / "one.md").read_text()
    left = [p.name for p in folder.iterdir() if p.name.startswith(files.TEMPORARY)]
    assert len(left) == (step == "fsync")
    async with room(tmp_path) as here:
        of = here.libraries._index(root)
        await of.refresh()
    assert [p.name for p in folder.iterdir()] == ["one.md"]


WRITE = """
import sys
from pathlib import Path
from memory_support import write_params
from oncue.memory import editing, files
from oncue.memory.provenance import Writer
from oncue.memory.roots import project_root
from oncue_protocol.errors import RevisionConflict
root = project_root(Path(sys.argv[1]), "k")
name = sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for n in range(20):
    data = files.read(root, "one.md")[0]
    try:
        body = f"{name}-{n}\\n" + data.decode().split("---")[-1].strip()
        params = write_params("One", body, if_revision=files.revision(data))
        editing.write(root, "one.md", params, Writer("model"), 0.0)
        print("won", f"{name}-{n}")
    except RevisionConflict as error:
        assert error.revision != files.revision(data)
        print("lost", n)
"""


def run_python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_I20_two_processes_write_one_memory_and_no_write_is_lost(tmp_path: Path) -> None:
    root = project_root(tmp_path, "k")
    editing.write(root, None, write_params("One", "start"), MODEL, 0.0)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(tmp_path), name],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    won: list[str] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        won += [line.split()[1] for line in out.splitlines() if line.startswith("won")]
    final = files.read(root, "one.md")[0].decode()
    assert won
    assert all(mark in final for mark in won), "every write that was said to be done is there"


async def test_I20_an_edit_between_check_and_rename_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(tmp_path) as here:
        result = await here.write("One", "old")
        real = editing.update

        def slow(*args: object) -> bytes:
            Path(result.path).write_text(memory("One", "saved by a user meanwhile"))
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(editing, "update", slow)
        with pytest.raises(RevisionConflict) as caught:
            await here.write("One", "new", path=result.path, if_revision=result.revision)
        text = Path(result.path).read_bytes()
        assert b"saved by a user" in text
        assert caught.value.revision == files.revision(text)


def test_M4_a_held_lock_is_busy_not_for_ever(tmp_path: Path) -> None:
    root = project_root(tmp_path, "k")
    with (
        writing.locked(root),
        pytest.raises(StoreUnavailable) as caught,
        writing.locked(root, deadline_s=0.01),
    ):
        raise AssertionError("two hold it")
    assert (caught.value.reason, caught.value.retryable) == ("busy", True)


def test_write_params_are_whole() -> None:
    assert isinstance(write_params("x"), MemoryWriteParams)
