"""A daemon that does what it was told: `python scripted_daemon.py SCRIPT` with SCRIPT in JSON.

SCRIPT maps a method (also `$response` and `$start`) to a list of reactions, one a message, the
last one for all that follow; a reaction is a list of operations, done in order:

  {"result": X} {"error": {...}}   answer; strings `$params.a.b` and `$pid` in X are filled in
  {"notify": [METHOD, PARAMS]}     {"request": [ID, METHOD, PARAMS]}
  {"stderr": TEXT} {"raw": TEXT} {"sleepMs": N} {"exit": CODE} {"signal": N}
  {"flood": N}                     N bytes of notifications `flood`, written before anything is read
  {"release": METHOD, "result": X} answer the held request METHOD
  {"closeStdin": 1} {"closeStdout": 1} {"deaf": 1} {"ignoreSigterm": 1}

Without a reaction: `initialize`, `shutdown` and `exit` behave, `script/received` answers with all
messages received so far, other requests are held for ever, notifications are ignored.
Standard library only, blocking input and output: unlike a real daemon it is deaf while it writes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

CAPABILITIES = {
    "capabilities": {
        "experimental": {
            "oncue": {"protocolVersion": 1, "methods": [], "models": ["none"], "semantic": False}
        }
    },
    "serverInfo": {"name": "scripted"},
}


class Daemon:
    def __init__(self, script: dict[str, list[list[dict[str, Any]]]]) -> None:
        self.script = script
        self.received: list[Any] = []
        self.held: dict[str, Any] = {}
        self.was_shut_down = False

    def run(self) -> int:
        self.react("$start", {})
        while (message := self.read()) is not None:
            if message.get("method") != "script/received":
                self.received.append(message)
            method = message.get("method", "$response")
            if self.react(method, message):
                continue
            if method == "initialize":
                self.answer(message, CAPABILITIES)
            elif method == "shutdown":
                self.was_shut_down = True
                self.answer(message, None)
            elif method == "exit":
                return 0 if self.was_shut_down else 1
            elif method == "script/received":
                self.answer(message, self.received)
            elif "id" in message and method != "$response":
                self.held[method] = message
        return 0 if self.was_shut_down else 1

    def react(self, method: str, message: dict[str, Any]) -> bool:
        reactions = self.script.get(method)
        if not reactions:
            return False
        for operation in reactions.pop(0) if len(reactions) > 1 else reactions[0]:
            self.do(operation, message)
        return True

    def do(self, operation: dict[str, Any], message: dict[str, Any]) -> None:
        if "release" in operation:
            self.answer(self.held.pop(operation["release"]), operation["result"])
        elif "result" in operation:
            self.answer(message, fill(operation["result"], message.get("params") or {}))
        elif "error" in operation:
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": operation["error"]})
        elif "notify" in operation:
            method, params = operation["notify"]
            params = fill(params, message.get("params") or {})
            self.send({"jsonrpc": "2.0", "method": method, "params": params})
        elif "request" in operation:
            request_id, method, params = operation["request"]
            body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            self.send(body)
        elif "stderr" in operation:
            sys.stderr.write(operation["stderr"])
            sys.stderr.flush()
        elif "raw" in operation:
            self.write(operation["raw"].encode())
        elif "sleepMs" in operation:
            time.sleep(operation["sleepMs"] / 1000)
        elif "flood" in operation:
            body = {"jsonrpc": "2.0", "method": "flood", "params": {"x": "y" * 10_000}}
            for _ in range(operation["flood"] // 10_000):
                self.send(body)
        elif "exit" in operation:
            os._exit(operation["exit"])
        elif "signal" in operation:
            os.kill(os.getpid(), operation["signal"])
        elif "closeStdin" in operation:
            os.close(0)
            while True:
                time.sleep(60)
        elif "closeStdout" in operation:
            os.close(1)
        elif "deaf" in operation:
            while True:
                time.sleep(60)
        elif "ignoreSigterm" in operation:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def read(self) -> Any:
        length = 0
        while (line := sys.stdin.buffer.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = sys.stdin.buffer.read(length)
        return json.loads(body) if body else None

    def answer(self, message: dict[str, Any], result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        self.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]


def fill(value: Any, params: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: fill(member, params) for name, member in value.items()}
    if isinstance(value, list):
        return [fill(member, params) for member in value]
    if value == "$pid":
        return os.getpid()
    if isinstance(value, str) and value.startswith("$params."):
        found: Any = params
        for name in value.split(".")[1:]:
            found = found[name]
        return found
    return value


if __name__ == "__main__":
    sys.exit(Daemon(json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")).run())
