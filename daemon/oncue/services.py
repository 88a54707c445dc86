"""What takes time to load: memory files, index, ranker, followed transcripts.

Loaded in a worker thread when the first session opens, never before `initialize` is answered
(wire.md §3.6, D13). A search waits for it; a recall's start does not.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from attrs import frozen

from oncue.finder import RankAnalyst
from oncue.folders import Folders
from oncue.followers import Followers
from oncue.memories import Memories
from oncue.memory.indexer import Changes
from oncue.memory.libraries import Libraries
from oncue.memory.roots import Root
from oncue.settings import MemorySettings
from oncue.store.sqlite import Store


@frozen
class Services:
    """One of each a daemon."""

    store: Store
    libraries: Libraries
    memories: Memories
    followers: Followers


def build(
    folders: Folders,
    settings: MemorySettings,
    nursery: trio.Nursery,
    on_change: Callable[[Root, Changes], None],
) -> Services:
    """Build them; nothing is opened or read before it is used."""
    store = Store(folders.state)
    analyst = RankAnalyst()
    libraries = Libraries(
        folders.data, store, analyst, trash_days=settings.trash_days, on_change=on_change
    )
    return Services(store, libraries, Memories(libraries, analyst), Followers(nursery))
