"""What takes time to load: memory files, index, ranker, followed transcripts.

Loaded in a worker thread when the first session opens, never before `initialize` is answered
(wire.md §3.6, D13). A search waits for it; a recall's start does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio
from attrs import frozen

from oncue.finder import RankAnalyst
from oncue.folders import Folders
from oncue.followers import Followers
from oncue.memories import Memories
from oncue.memory.indexer import Changes
from oncue.memory.libraries import Libraries
from oncue.memory.roots import Root
from oncue.models.http import HttpGenerator
from oncue.notebooks import Notebooks
from oncue.settings import DaemonSettings
from oncue.store.sqlite import Store


@frozen
class Services:
    """One of each a daemon."""

    store: Store
    libraries: Libraries
    memories: Memories
    followers: Followers
    notebooks: Notebooks
    endpoint: HttpGenerator


def build(
    folders: Folders,
    settings: DaemonSettings,
    environment: Mapping[str, str],
    nursery: trio.Nursery,
    on_change: Callable[[Root, Changes], None],
) -> Services:
    """Build them; nothing is opened or read before it is used."""
    store = Store(folders.state)
    analyst = RankAnalyst()
    libraries = Libraries(
        folders.data, store, analyst, trash_days=settings.memory.trash_days, on_change=on_change
    )
    memories = Memories(libraries, analyst)
    notebooks = Notebooks(
        config=folders.config,
        data=folders.data,
        state=folders.state,
        memories=memories,
        retention_days=settings.memory.notes_retention_days,
        wall=time.time,
    )
    endpoint = HttpGenerator(settings.endpoint, environment)
    return Services(store, libraries, memories, Followers(nursery), notebooks, endpoint)
