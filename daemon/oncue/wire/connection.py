"""One connection from its first byte to its last: reader, outbox, requests, and their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio
from structlog import get_logger

from oncue.wire.outbox import Outbox
from oncue.wire.peer import Peer
from oncue.wire.rpc import Rpc
from oncue.wire.stdio import Reader

log = get_logger("oncue.wire")

ANSWER_S: Final = 0.15
"""What is cancelled at the end gets this long to be answered; `exit` has 1 s in all."""
FLUSH_S: Final = 0.4
"""And what is answered this long to be read."""


async def serve_connection(
    peer: Peer,
    handlers: Mapping[str, Callable[..., Any]],
    *,
    read_fd: int,
    write_fd: int,
    max_message_bytes: int,
    task_status: trio.TaskStatus[Rpc] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `peer` until it ends; `peer.end_reason` says why. The descriptors are non-blocking
    and stay the caller's. On return no task of the connection runs, except a thread that cannot
    be stopped."""
    outbox = Outbox(write_fd)
    rpc = Rpc(peer, outbox)
    peer.link = rpc
    rpc.register(handlers)
    reader = Reader(
        read_fd,
        max_body=max_message_bytes,
        on_body=rpc.handle,
        on_batch=outbox.flush,
        is_over=lambda: peer.end_reason is not None,
    )

    async def read() -> None:
        error = await reader.run()
        if error is not None:
            log.warning("malformed frame", reason=error.reason)
            rpc.refuse_stream(str(error))
            outbox.flush()
            peer.end("malformed")
        peer.end("eof")

    async def write() -> None:
        peer.end(await outbox.drain())

    async with trio.open_nursery() as connection:
        connection.start_soon(write)
        async with trio.open_nursery() as requests:
            peer.nursery = requests
            requests.start_soon(read)
            task_status.started(rpc)
            await peer.wait_end()
            rpc.cancel_all()
            await rpc.wait_idle(ANSWER_S)
            outbox.flush()
            await outbox.wait_empty(FLUSH_S)
            peer.closed = True
            rpc.close()
            requests.cancel_scope.cancel()
        outbox.close("closed")
        connection.cancel_scope.cancel()
    log.info("connection ended", reason=peer.end_reason, peer=peer.id)
