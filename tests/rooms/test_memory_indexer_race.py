"""A refresh beside a write (memory.md M7): what is written meanwhile stays in the index."""

from __future__ import annotations

from pathlib import Path

from oncue.memory import indexer
from oncue.memory.analyst import PlainAnalyst
from oncue.memory.libraries import Libraries
from oncue.store.sqlite import Store
from oncue_protocol import MemoryListParams, MemoryWriteParams


async def test_M7_a_refresh_does_not_take_out_what_is_written_beside_it(
    tmp_path: Path, monkeypatch: object
) -> None:
    libraries = Libraries(tmp_path / "data", Store(tmp_path / "state"), PlainAnalyst())
    library = await libraries.open(str(tmp_path))
    params = MemoryWriteParams(
        scope="user", type="user", title="First", description="One", body="first"
    )
    await library.write(params)
    (user,) = [of for of in library.indexes if of.root.scope == "user"]
    listing = indexer.RootIndex._list

    async def list_then_write(self: indexer.RootIndex):  # type: ignore[no-untyped-def]
        found = await listing(self)
        monkeypatch.undo()  # type: ignore[attr-defined]
        data = b"---\nname: Second\n---\nsecond\n"
        written = tmp_path / "data/user/memory/second.md"
        written.write_bytes(data)
        await self.store.write(
            lambda connection: indexer.index.put(
                connection,
                root=self.root,
                rows=[
                    indexer.rows.row_of(
                        self.root,
                        "second.md",
                        data,
                        indexer.files.read(self.root, "second.md")[1],
                        indexer.HUMAN,
                        self.analyst,
                    )
                ],
            )
        )
        return found

    monkeypatch.setattr(indexer.RootIndex, "_list", list_then_write)  # type: ignore[attr-defined]
    assert (await user.refresh()).removed == ()
    titles = [d.title for d in (await library.list(MemoryListParams())).documents]
    assert sorted(titles) == ["First", "Second"]
