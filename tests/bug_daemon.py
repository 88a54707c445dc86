"""The real daemon with every handler of the other test daemons, and what the bug corpus looks at.

Imported by nothing; run as `python tests/bug_daemon.py serve --stdio`; with `BARE` in its
environment it has none of the others' handlers. From its first line on it
notes what the process reaches for: connections, names, children, files.
"""

from __future__ import annotations

import os
import sys
from typing import Any

REACHED: list[tuple[str, str]] = []
"""(audit event, its first argument), in order."""
_WATCHED = {
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.fork",
    "sqlite3.connect",
}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _WATCHED:
        REACHED.append((event, repr(arguments[0]) if arguments else ""))
    elif event == "open" and isinstance(arguments[0], str | bytes):
        REACHED.append((event, os.fsdecode(arguments[0])))


sys.addaudithook(_audit)

Json = dict[str, Any]


def handlers() -> Json:
    from oncue.wire import outbox
    from oncue.wire.peer import Peer

    # get_type_hints looks names up in the function's globals
    globals()["Peer"] = Peer

    def reached(peer: Peer, params: Json) -> Json:
        """What the process has reached for up to now, and what it has imported."""
        return {"reached": REACHED, "modules": sorted(sys.modules)}

    def memory(peer: Peer, params: Json) -> Json:
        """Resident bytes and open descriptors, once garbage is collected."""
        import gc

        gc.collect()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return {"rss": pages * os.sysconf("SC_PAGE_SIZE"), "fds": len(os.listdir("/proc/self/fd"))}

    def patience(peer: Peer, params: Json) -> None:
        """How long a client may take no byte."""
        outbox.STALL_S = params["seconds"]  # type: ignore[misc]

    ours = {
        "bugs/reached": reached,
        "bugs/memory": memory,
        "bugs/patience": patience,
    }
    if "BARE" in os.environ:  # the others import what a daemon needs only later
        return ours
    import recall_daemon
    import testdaemon

    return {**testdaemon.handlers(), **recall_daemon.handlers(), **ours}


def main() -> None:
    from oncue import serve

    serve.main(sys.argv[2:], handlers)


if __name__ == "__main__":
    main()
