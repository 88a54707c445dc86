"""The real daemon with a search that fails or hangs on request, and more than one connection.

Imported by nothing; run as `python tests/recall_daemon.py serve --stdio`. What it changes: owners
and idleness of detached sessions are looked at twenty times a second, and three methods more.
"""

from __future__ import annotations

import os
import sys
from typing import Any

Json = dict[str, Any]


def handlers() -> Json:
    import trio

    from oncue import sessions
    from oncue.memories import Memories
    from oncue.ports import Finder, Found, Query
    from oncue.wire.peer import Peer
    from oncue_protocol import StoreUnavailable

    # get_type_hints looks names up in the function's globals
    globals()["Peer"] = Peer
    sessions.SWEEP_S = 0.05
    real = Memories.finder

    class Broken:
        """A local search that raises, or never ends."""

        def __init__(self, how: str) -> None:
            self.how = how

        async def find(self, query: Query, *, wants_candidates: bool = False) -> Found:
            if self.how == "hang":
                await trio.sleep_forever()
            if self.how == "store":
                raise StoreUnavailable("the index cannot be read", reason="damaged")
            raise ValueError(f"canary {query.text}")

    def search(peer: Peer, params: Json) -> None:
        """`how`: `raise`, `store`, `hang`, or anything else for the real one."""
        how = params["how"]
        broken: Finder | None = Broken(how) if how in ("raise", "store", "hang") else None
        Memories.finder = real if broken is None else (lambda *_: broken)  # type: ignore[method-assign]

    def idle(peer: Peer, params: Json) -> None:
        """Detached sessions may idle so many seconds."""
        sessions.IDLE_S = params["seconds"]

    def tasks(peer: Peer, params: Json) -> Json:
        """Living tasks of the daemon."""
        return {"tasks": trio.lowlevel.current_statistics().tasks_living}

    async def connect(peer: Peer, params: Json) -> None:
        """One more connection, over two FIFOs, for as long as this one lasts."""
        daemon = peer.daemon
        other = daemon.new_peer()
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        read_fd = os.open(params["read"], os.O_RDONLY | flags)
        write_fd = os.open(params["write"], os.O_WRONLY | flags)

        async def serve(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            try:
                await daemon._connect(other, read_fd, write_fd, task_status)
            finally:
                os.close(read_fd)
                os.close(write_fd)

        daemon.rpcs[other.id] = await peer.nursery.start(serve)

    return {
        "test/search": search,
        "test/idle": idle,
        "test/tasks": tasks,
        "test/connect": connect,
    }


def main() -> None:
    from oncue import serve

    serve.main(sys.argv[2:], handlers)


if __name__ == "__main__":
    main()
