"""What the tests of the memory rooms share: a library in a temporary folder, hostile files."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from attrs import define, field

from oncue.finder import LibraryFinder, Prepared, RankAnalyst
from oncue.memory.libraries import Libraries
from oncue.memory.library import Library
from oncue.store.sqlite import Store
from oncue_protocol import MemoryWriteParams, MemoryWriteResult

ANALYST = RankAnalyst()


@define
class Clock:
    """A wall clock that the test moves."""

    now: float = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@define
class Room:
    """A library with everything around it."""

    library: Library
    libraries: Libraries
    store: Store
    finder: LibraryFinder
    clock: Clock
    folder: Path
    workspace: Path
    nursery: trio.Nursery = field(repr=False)

    @property
    def project(self) -> Path:
        return Path(self.library.roots[0].path)

    @property
    def user(self) -> Path:
        return Path(self.library.roots[-1].path)

    async def write(self, title: str, body: str = "body", **members: object) -> MemoryWriteResult:
        return await self.library.write(write_params(title, body, **members))

    def put(self, name: str, data: str | bytes, *, scope: str = "project") -> Path:
        path = (self.project if scope == "project" else self.user) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


def write_params(title: str, body: str = "body", **members: object) -> MemoryWriteParams:
    values: dict[str, object] = {
        "scope": "project",
        "type": "project",
        "title": title,
        "description": f"about {title}",
        "body": body,
        **members,
    }
    return MemoryWriteParams(**values)  # type: ignore[arg-type]


@asynccontextmanager
async def room(
    folder: Path,
    *,
    background: bool = False,
    shared: Callable[[str], str | None] = lambda _: None,
    state: Path | None = None,
) -> AsyncIterator[Room]:
    """A library over `folder`; with `background` its refreshes run by themselves."""
    workspace = folder / "work" / "project"
    workspace.mkdir(parents=True, exist_ok=True)
    clock = Clock()
    store = Store(state or folder / "state", wall=clock, shared=shared)
    libraries = Libraries(folder / "data", store, ANALYST, clock)
    async with trio.open_nursery() as nursery:
        if background:
            nursery.start_soon(libraries.run)
        library = await libraries.open(str(workspace))
        finder = LibraryFinder(library, Prepared(ANALYST), 0.0)
        try:
            yield Room(library, libraries, store, finder, clock, folder, workspace, nursery)
        finally:
            nursery.cancel_scope.cancel()
            await store.aclose()


def memory(title: str, body: str = "body", description: str = "") -> str:
    return (
        f"---\nname: {title}\ndescription: {description or title}\ntype: project\n---\n\n{body}\n"
    )


def bad_files(folder: Path, outside: Path) -> dict[str, str | None]:
    """One bad file of each of thirty kinds in `folder`; name → code of the problem that has to be
    reported (None: none has to be, but it must disturb nobody). `outside` is a canary."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, str | None] = {}

    def put(name: str, data: bytes, code: str | None) -> None:
        (folder / name).write_bytes(data)
        kinds[name] = code

    put("utf16-bom.md", "---\nname: wide\n---\nkörper".encode("utf-16"), "encoding")
    put("utf16-bare.md", "---\nname: wide\n---\nbody text".encode("utf-16-le"), "encoding")
    put("utf32.md", "---\nname: wider\n---\nbody".encode("utf-32"), "encoding")
    put("latin1.md", "---\nname: Müller\n---\nStraße".encode("latin-1"), "encoding")
    put("cp949.md", "---\nname: 한글\n---\n메모리".encode("cp949"), "encoding")
    put("ff-fe.md", b"\xff\xfe", "encoding")
    put("half-utf8.md", "---\nname: cut\n---\nü".encode()[:-1], "encoding")
    put("surrogate.md", b"---\nname: s\n---\n\xed\xa0\x80", "encoding")
    put("nul.md", b"---\nname: n\0ul\n---\nbo\0dy", "nul")
    put("bom-crlf.md", b"\xef\xbb\xbf---\r\nname: windows\r\n---\r\nbody\r\n", None)
    put("cr.md", b"---\rname: mac\r---\rbody\r", None)
    put("empty.md", b"", None)
    put("only-fence.md", b"---\n", None)
    put("rule.md", b"---\n\nprose\n\n---\nmore prose\n", None)
    put("unclosed.md", b"---\nname: open\ndescription: never closed\n\nbody", "unclosed")
    put("broken.md", b"---\nname: a\ndescription: one: two: three\n---\nbody", "yaml")
    put("tabs.md", b"---\nname:\n\t- tab\n---\nbody", "yaml")
    put("alias.md", b"---\na: &a [x]\nb: [*a, *a]\n---\nbody", "alias")
    put("bomb.md", alias_bomb(), "alias")
    put("tag.md", b"---\nname: !!python/object/apply:os.system [id]\n---\nbody", "tag")
    put("deep.md", b"---\nname: x\na: " + b"[" * 900 + b"]" * 900 + b"\n---\nbody", "depth")
    put("long.md", b"---\nname: x\nb: " + b"x" * 16_380 + b"\n---\nbody", "tooLong")
    put("twice.md", b"---\nname: a\nname: b\n---\nbody", "duplicateKey")
    put("large.md", b"---\nname: large\n---\n" + b"x" * (300 * 1024), "tooLarge")
    with (folder / "sparse.md").open("wb") as sparse:
        sparse.truncate(1 << 30)
    kinds["sparse.md"] = "tooLarge"
    (folder / "folder.md").mkdir()
    kinds["folder.md"] = "notRegular"
    os.mkfifo(folder / "fifo.md")
    kinds["fifo.md"] = "notRegular"
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)
        try:
            server.bind("socket.md")
        finally:
            os.chdir(here)
    kinds["socket.md"] = "notRegular"
    (folder / "link.md").symlink_to(outside)
    kinds["link.md"] = "link"
    (folder / "dangling.md").symlink_to(folder / "nowhere")
    kinds["dangling.md"] = "link"
    os.link(outside, folder / "hard.md")
    kinds["hard.md"] = "hardLink"
    (folder / "loop").symlink_to(folder)
    with open(os.path.join(os.fsencode(folder), b"n\xff.md"), "wb") as odd:
        odd.write(b"body")
    kinds["n\ufffd.md"] = "name"
    return kinds


def alias_bomb() -> bytes:
    """Some hundred bytes that unfold to gigabytes in a reader that follows aliases (D56)."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    return ("---\nname: bomb\n" + "\n".join(lines) + "\n---\nbody\n").encode()
