"""`memory/*`: memory files, as far as recall needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from oncue.memories import Memories
    from oncue.memory.library import Library


async def memory_write(peer: Peer, params: MemoryWriteParams) -> MemoryWriteResult:
    """Write one memory file."""
    _, library = await _meant(peer, params)
    return await library.write(params, session_id=params.session_id)


async def memory_list(peer: Peer, params: MemoryListParams) -> MemoryListResult:
    """Page through the memories."""
    _, library = await _meant(peer, params)
    return await library.list(params)


async def memory_search(peer: Peer, params: MemorySearchParams) -> MemorySearchResult:
    """Search the memories."""
    memories, library = await _meant(peer, params)
    return await library.search(params, memories.finder(library))


async def memory_read(peer: Peer, params: MemoryReadParams) -> MemoryReadResult:
    """One memory with its body."""
    _, library = await _meant(peer, params)
    return await library.read(params)


async def memory_forget(peer: Peer, params: MemoryForgetParams) -> MemoryForgetResult:
    """Move memories to the trash."""
    memories, library = await _meant(peer, params)
    return await library.forget(params, memories.finder(library))


async def _meant(peer: Peer, params: Any) -> tuple[Memories, Library]:
    """The workspace that is meant: of the session, as named, or the only one of this connection.
    Raises SessionNotFound, InvalidParams."""
    sessions = peer.daemon.sessions
    mine = sessions.of(peer)
    if params.session_id is not None:
        mine = [sessions.get(params.session_id)]
    elif params.workspace is None and len({session.workspaces for session in mine}) != 1:
        raise InvalidParams(
            "params: which workspace is meant? name 'sessionId' or 'workspace' "
            f"(this connection has {len(mine)} open sessions)"
        )
    memories = (await peer.daemon.services()).memories
    if params.session_id is None and params.workspace is not None:
        return memories, await memories.open((params.workspace,))
    return memories, await memories.of(mine[0])


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "memory/write": memory_write,
    "memory/list": memory_list,
    "memory/search": memory_search,
    "memory/read": memory_read,
    "memory/forget": memory_forget,
}
