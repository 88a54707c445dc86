"""The real daemon with handlers that misbehave on request, run through the real `main`.

Imported by nothing; run as `python tests/testdaemon.py serve --stdio`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import json
import logging
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Awaitable
from typing import Any

Json = dict[str, Any]
RUNS: list[str] = []
"""Tags of handlers that began to run."""
LATE = {"count": 0}


def handlers() -> Json:
    import trio
    from pygls.exceptions import JsonRpcMethodNotFound

    from oncue.wire.peer import Peer
    from oncue.wire.rpc import thread
    from oncue_protocol import LimitExceeded

    print("import-time noise")
    if "ONCUE_TEST_GUARD" in os.environ:
        guard()
    # get_type_hints looks names up in the function's globals
    globals()["Peer"] = Peer

    def ping(peer: Peer, params: Json) -> Json:
        return {"pong": (params or {}).get("text", "")}

    def big(peer: Peer, params: Json) -> Json:
        return {"text": "x" * params["bytes"]}

    def odd(peer: Peer, params: Json) -> Json:
        return {"text": "half \ud83d, bad \udce9 file name"}

    def unsayable(peer: Peer, params: Json) -> Json:
        return {"value": object()}

    def wrong(peer: Peer, params: Json) -> None:
        name = params.get("as", "ValueError")
        if name == "SystemExit":
            sys.exit(3)
        if name == "KeyboardInterrupt":
            raise KeyboardInterrupt
        if name == "LimitExceeded":
            raise LimitExceeded("too many canaries", limit="canaries", value=1, sent=2)
        if name == "JsonRpcMethodNotFound":
            raise JsonRpcMethodNotFound("not here")
        raise {"ValueError": ValueError, "RecursionError": RecursionError}[name](params["text"])

    async def wrong_later(peer: Peer, params: Json) -> None:
        await trio.lowlevel.checkpoint()
        if params.get("group"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_raise, params["text"])
                nursery.start_soon(trio.sleep_forever)
        wrong(peer, params)

    async def _raise(text: str) -> None:
        raise LookupError(text)

    async def sleep(peer: Peer, params: Json) -> Json:
        RUNS.append(params.get("tag", ""))
        await trio.sleep(params["seconds"])
        return {"slept": params["seconds"]}

    async def shielded(peer: Peer, params: Json) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(params["seconds"])

    async def done_in_spite(peer: Peer, params: Json) -> Json:
        RUNS.append("in spite")
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            return {"done": "in spite of it"}
        return {}

    def half(peer: Peer, params: Json) -> Awaitable[Json]:
        RUNS.append("inline part")
        return sleep(peer, params)

    @thread
    def blocked(peer: Peer, params: Json) -> Json:
        RUNS.append(params.get("tag", ""))
        time.sleep(params["seconds"])
        LATE["count"] += 1
        return {"slept": params["seconds"]}

    @thread
    def computing(peer: Peer, params: Json) -> Json:
        end = time.monotonic() + params["seconds"]
        while time.monotonic() < end:
            sum(range(1000))
        return {}

    def runs(peer: Peer, params: Json) -> Json:
        tasks = trio.lowlevel.current_statistics().tasks_living
        return {"runs": RUNS, "late": LATE["count"], "tasks": tasks}

    def violations(peer: Peer, params: Json) -> Json:
        if params.get("provoke"):
            os.listdir("/")
        return {"violations": VIOLATIONS}

    def noise(peer: Peer, params: Json) -> Json:
        text = params.get("text", "noise")
        print(text)
        print(text, file=sys.stderr)
        sys.stdout.flush()
        warnings.warn(text, stacklevel=1)
        logging.getLogger("some.library").error("about %s", text)
        libc = ctypes.CDLL(None)
        libc.puts(b"c-level noise")
        libc.fflush(None)
        with contextlib.suppress(BlockingIOError):  # of a full stderr
            os.write(1, b"fd 1 noise\n")
        os.system("echo child noise")
        atexit.register(print, "at exit")
        return {}

    def log(peer: Peer, params: Json) -> Json:
        from structlog import get_logger

        logger = get_logger("test")
        begun = time.perf_counter()
        for index in range(params["count"]):
            logger.info("test event", index=index, session=params.get("text", ""), state="ok")
        return {"seconds": time.perf_counter() - begun}

    def status(peer: Peer, params: Json) -> Json:
        try:
            asyncio.get_running_loop()
            loop = True
        except RuntimeError:
            loop = False
        dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
        import resource

        mask = os.umask(0o077)
        return {
            "asyncio": loop,
            "dumpable": dumpable,
            "core": list(resource.getrlimit(resource.RLIMIT_CORE)),
            "umask": mask,
            "descriptors": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in ("0", "1", "2")},
            "modules": [name for name in ("click", "rich", "httpx") if name in sys.modules],
        }

    async def ask(peer: Peer, params: Json) -> Json:
        try:
            return {"answer": await peer.request(params["method"], {}, params["seconds"])}
        except Exception as error:
            return {"error": type(error).__name__, "message": str(error)}

    def tell(peer: Peer, params: Json) -> None:
        peer.notify("test/told", params)

    async def tell_later(peer: Peer, params: Json) -> None:
        await trio.sleep(0)
        raise ValueError("a notification's canary")

    return {
        "test/ping": ping,
        "test/big": big,
        "test/odd": odd,
        "test/unsayable": unsayable,
        "test/raise": wrong,
        "test/raiseLater": wrong_later,
        "test/sleep": sleep,
        "test/shielded": shielded,
        "test/doneInSpite": done_in_spite,
        "test/half": half,
        "test/thread": blocked,
        "test/compute": computing,
        "test/runs": runs,
        "test/violations": violations,
        "test/noise": noise,
        "test/log": log,
        "test/process": status,
        "test/ask": ask,
        "test/tell": tell,
        "test/tellLater": tell_later,
    }


VIOLATIONS: list[str] = []
BLOCKING = ("open", "os.", "shutil.", "socket.", "sqlite3.", "subprocess.", "time.sleep", "glob.")
"""Audit events that mean work for a thread."""


def guard() -> None:
    """While a message is handled inline: note whatever may block (wire.md §1)."""
    from oncue.wire import rpc

    current: list[str] = []
    handle = rpc.Rpc.handle

    def watched(self: Any, body: bytes) -> None:
        current.append(json.loads(body).get("method", "a response"))
        try:
            handle(self, body)
        finally:
            current.pop()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if current and event.startswith(BLOCKING) and threading.current_thread() is main_thread:
            method = current.pop()  # what follows reads source files
            where = "".join(traceback.format_stack(limit=6))
            VIOLATIONS.append(f"{method}: {event}\n{where}")
            current.append(method)

    main_thread = threading.main_thread()
    rpc.Rpc.handle = watched  # type: ignore[method-assign, assignment]
    sys.addaudithook(audit)


def main() -> None:
    from oncue import serve

    serve.main(sys.argv[2:], handlers)


if __name__ == "__main__":
    main()
