"""What recall costs a turn: against side queries of every latency, under load, and in memory.

    python tests/bench/recall_bench.py [wait|load|memory ...] [--turns 20] [--starts 1000000]

`wait`    added wait of a turn (start, look at the prompt, six looks at tool results) for side
          queries of 0, 0.9, 2.5, 10 s and never, beside what awaiting the same query up to 2.5 s
          would cost.
`load`    start and poll latency while 64 searches wait for a model.
`memory`  resident memory before and after so many starts that nobody polls.

All of it through the real daemon process; the model is a stub with the given latency.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import trio
from wire_bench import machine

import oncue_client
from oncue_protocol import ModelGenerateParams, ModelGenerateResult, OncueOptions

LATENCIES: dict[str, float] = {"0": 0.0, "0.9 s": 0.9, "2.5 s": 2.5, "10 s": 10.0, "never": 1e9}
BLOCKED_S = 2.5
"""The old design awaited the search this long, then went on without it."""
TOOL_ROUNDS = 6
TOOL_S = 0.05
QUERY = "may I deploy the tracker to production on a friday?"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["wait", "load", "memory"])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--starts", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}\n")
    if "wait" in options.parts:
        trio.run(waits, options.turns)
    if "load" in options.parts:
        trio.run(load, 2_000)
    if "memory" in options.parts:
        memory(options.starts)
    return 0


def environment(folder: str) -> dict[str, str]:
    """Own folders; compiled modules may be cached."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return env | {f"ONCUE_{k}_DIR": f"{folder}/{k}" for k in ("CONFIG", "DATA", "STATE", "RUNTIME")}


class Slow:
    """A model that takes its time, and then chooses the first memory."""

    def __init__(self) -> None:
        self.latency = 0.0

    async def __call__(self, params: ModelGenerateParams) -> ModelGenerateResult:
        await trio.sleep(min(self.latency, 3_600))
        return ModelGenerateResult(text='{"ids": ["m1"]}')


async def remember(client: oncue_client.Client, session_id: str) -> None:
    """Memories about the query, and others."""
    for number in range(20):
        topic = "deploying the tracker to production" if number < 3 else f"subject {number}"
        await client.memory_write(
            session_id=session_id,
            scope="project",
            type="project",
            title=f"Notes {number} on {topic}",
            description=f"What was decided about {topic}",
            body=f"We agreed on this about {topic}.\n" * 10,
        )


async def waits(turns: int) -> None:
    """The table of added waits."""
    print("| side query | strict: p50 / p99 / max | waitMs 30: p50 / p99 / max | old design |")
    print("| --- | --- | --- | --- |")
    model = Slow()
    for name, latency in LATENCIES.items():
        model.latency = latency
        cells = []
        for wait_ms in (0, 30):
            samples: list[float] = []
            with tempfile.TemporaryDirectory() as folder:
                async with oncue_client.connect(env=environment(folder), model=model) as client:
                    opened = await client.session_open(workspace=folder)
                    await remember(client, opened.session_id)
                    samples += [
                        await turn(client, opened.session_id, wait_ms) for _ in range(turns)
                    ]
            cells.append(shown(samples))
        print(f"| {name} | {cells[0]} | {cells[1]} | {min(latency, BLOCKED_S) * 1e3:,.0f} ms |")
    print()


async def turn(client: oncue_client.Client, session_id: str, wait_ms: int) -> float:
    """One turn as an agent plays it; seconds that it waited for recall."""
    waited = 0.0
    before = trio.current_time()
    await client.recall_start(session_id=session_id, query=QUERY, wait_ms=wait_ms)
    if wait_ms == 0:
        await client.recall_poll(session_id=session_id, point="userQuery")
    waited += trio.current_time() - before
    for _ in range(TOOL_ROUNDS):
        await trio.sleep(TOOL_S)
        before = trio.current_time()
        await client.recall_poll(session_id=session_id, point="toolResult")
        waited += trio.current_time() - before
    await client.transcript_did_reset(session_id=session_id, reason="cleared")
    return waited


async def load(count: int) -> None:
    """Latency of one session's calls beside 64 searches of others."""
    model = Slow()
    model.latency = 1e9
    options = OncueOptions(notifications=())
    print("| while 64 searches run | p50 | p99 | max |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder)
        async with oncue_client.connect(env=env, model=model, options=options) as client:
            mine = (await client.session_open(workspace=folder)).session_id
            await remember(client, mine)
            for number in range(64):
                other = await client.session_open(workspace=folder, session_id=f"s{number}")
                await client.recall_start(session_id=other.session_id, query=QUERY)
            await trio.sleep(1)
            starts, polls = [], []
            for _ in range(count):
                before = trio.current_time()
                await client.recall_start(session_id=mine, query=QUERY)
                middle = trio.current_time()
                await client.recall_poll(session_id=mine, point="toolResult")
                polls.append(trio.current_time() - middle)
                starts.append(middle - before)
            print(f"| recall/start | {shown(starts).replace(' / ', ' | ')} |")
            print(f"| recall/poll | {shown(polls).replace(' / ', ' | ')} |\n")


def memory(starts: int) -> None:
    """Resident memory over many starts that nobody polls, in 64 lanes by turns."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "oncue", "serve", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(folder) | {"ONCUE_RECALL_LIFETIME_MS": "1000"},
        )
        assert process.stdin is not None and process.stdout is not None
        answers = bodies(process.stdout.fileno())

        def call(msg_id: int, method: str, params: dict[str, object]) -> None:
            process.stdin.write(framed(msg_id, method, params))  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            while next(answers).get("id") != msg_id:
                pass

        call(1, "initialize", {"capabilities": {}})
        call(2, "session/open", {"sessionId": "s", "workspace": folder})
        sent = 10

        def storm(number: int) -> None:
            nonlocal sent
            while number > 0:
                batch = bytearray()
                for _ in range(100):
                    params = {"sessionId": "s", "lane": f"l{sent % 16}", "query": QUERY}
                    batch += framed(sent, "recall/start", params)
                    sent += 1
                process.stdin.write(batch)  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                for _ in range(100):
                    next(answers)
                number -= 100

        storm(20_000)
        time.sleep(3)
        base = resident(process.pid)
        began = time.monotonic()
        storm(starts)
        took = time.monotonic() - began
        time.sleep(3)
        after = resident(process.pid)
        process.kill()
        process.wait()
    print("| starts never polled | resident before | after | drift | starts/s |")
    print("| --- | --- | --- | --- | --- |")
    drift = (after - base) / base
    print(f"| {starts:,} | {base:.1f} MB | {after:.1f} MB | {drift:+.1%} | {starts / took:,.0f} |")


def framed(msg_id: int, method: str, params: dict[str, object]) -> bytes:
    """A request as a frame."""
    body = json.dumps({"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def bodies(fd: int) -> Iterator[dict[str, object]]:
    """Messages from a pipe."""
    data = b""
    while True:
        head, mark, rest = data.partition(b"\r\n\r\n")
        length = int(head.rpartition(b" ")[2]) if mark else 0
        if mark and len(rest) >= length:
            data = rest[length:]
            yield json.loads(rest[:length])
            continue
        more = os.read(fd, 1 << 16)
        if not more:
            raise SystemExit("the daemon ended")
        data += more


def resident(pid: int) -> float:
    """Resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def shown(samples: list[float]) -> str:
    """p50 / p99 / max in milliseconds."""
    ordered = sorted(samples)
    picks = (ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1])
    return " / ".join(f"{value * 1e3:.2f} ms" for value in picks)


if __name__ == "__main__":
    sys.exit(main())
