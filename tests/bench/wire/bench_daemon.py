"""The real daemon with four more handlers, the ones that the peers have too."""

from __future__ import annotations

import sys
from typing import Any


def handlers() -> dict[str, Any]:
    import threading

    import trio
    from attrs import frozen

    from oncue.wire.peer import Peer
    from oncue_protocol.converter import structure

    @frozen(kw_only=True)
    class Echo:
        text: str = ""

    globals()["Peer"] = Peer  # pygls looks annotations up in the function's globals

    def echo(peer: Peer, params: Any) -> None:
        structure(params, Echo)  # what every real handler's params go through

    async def task(peer: Peer, params: Any) -> None:
        structure(params, Echo)

    async def sleep(peer: Peer, params: Any) -> None:
        await trio.sleep(params["seconds"])

    def burn(peer: Peer, params: Any) -> None:
        def spin() -> None:
            while True:
                pass

        threading.Thread(target=spin, daemon=True).start()

    return {"test/echo": echo, "test/task": task, "test/sleep": sleep, "test/burn": burn}


if __name__ == "__main__":
    from oncue import serve

    sys.exit(serve.main(sys.argv[2:], handlers))
