"""`memory/*`: memory files, as far as recall needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncue.memory.library import Library
from oncue.wire.peer import Peer
from oncue_protocol import (
    InvalidParams,
    MemoryForgetParams,
    MemoryForgetResult,
    MemoryListParams,
    MemoryListResult,
    MemoryReadParams,
    MemoryReadResult,
    MemorySearchParams,
    MemorySearchResult,
    MemoryWriteParams,
    MemoryWriteResult,
)


async def memory_write(peer: Peer, params: MemoryWriteParams) -> MemoryWriteResult:
    """Write one memory file."""
    library = await _library(peer, params)
    return await library.write(params, session_id=params.session_id)


async def memory_list(peer: Peer, params: MemoryListParams) -> MemoryListResult:
    """Page through the memories."""
    return await (await _library(peer, params)).list(params)


async def memory_search(peer: Peer, params: MemorySearchParams) -> MemorySearchResult:
    """Search the memories."""
    library = await _library(peer, params)
    return await library.search(params, peer.daemon.memories.finder(library))


async def memory_read(peer: Peer, params: MemoryReadParams) -> MemoryReadResult:
    """One memory with its body."""
    return await (await _library(peer, params)).read(params)


async def memory_forget(peer: Peer, params: MemoryForgetParams) -> MemoryForgetResult:
    """Move memories to the trash."""
    library = await _library(peer, params)
    return await library.forget(params, peer.daemon.memories.finder(library))


async def _library(peer: Peer, params: Any) -> Library:
    """The workspace that is meant: of the session, as named, or the only one of this connection."""
    memories = peer.daemon.memories
    if params.session_id is not None:
        return await memories.of(peer.daemon.sessions.get(params.session_id))
    if params.workspace is not None:
        return await memories.open((params.workspace,))
    mine = peer.daemon.sessions.of(peer)
    if len({session.workspaces for session in mine}) == 1:
        return await memories.of(mine[0])
    raise InvalidParams(
        "which workspace is meant? name 'sessionId' or 'workspace' "
        f"(this connection has {len(mine)} open sessions)",
        path="params.workspace",
    )


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "memory/write": memory_write,
    "memory/list": memory_list,
    "memory/search": memory_search,
    "memory/read": memory_read,
    "memory/forget": memory_forget,
}
