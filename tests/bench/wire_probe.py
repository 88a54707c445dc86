"""A quick look at the wire's speed, to profile with: `python tests/bench/wire_probe.py`.

Not the benchmark of wire.md §5 (that interleaves peers and uses a client in C): this client is
Python, writes ready-made frames and counts answers, so round trips hold some 3 µs of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e_driver import TEST_DAEMON, Daemon, frame, request

ROUNDS = 20_000
IN_FLIGHT = 64


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def probe(method: str, params: object, rounds: int) -> str:
    with Daemon(TEST_DAEMON, reads=False, stderr=subprocess.DEVNULL) as daemon:
        process = daemon.process
        assert process.stdin is not None
        assert process.stdout is not None
        to, back = process.stdin.fileno(), process.stdout.fileno()
        os.write(to, frame(request(1, "initialize", {})))
        os.read(back, 1 << 16)
        raw = frame(request(1, method, params))
        batch = b"".join(frame(request(i, method, params)) for i in range(IN_FLIGHT))
        os.write(to, batch)
        time.sleep(0.05)
        wanted = len(os.read(back, 1 << 16))
        times = []
        for _ in range(rounds):
            begun = time.perf_counter_ns()
            os.write(to, raw)
            os.read(back, 1 << 16)
            times.append(time.perf_counter_ns() - begun)
        times.sort()
        before, begun = cpu_seconds(process.pid), time.perf_counter()
        batches = max(1, rounds * 5 // IN_FLIGHT)
        for _ in range(batches):
            os.write(to, batch)
            got = 0
            while got < wanted:
                got += len(os.read(back, wanted - got))
        seconds = time.perf_counter() - begun
        messages = batches * IN_FLIGHT
        cpu = cpu_seconds(process.pid) - before
        return (
            f"{method:14} RTT p50 {statistics.median(times) / 1000:7.1f} µs  "
            f"p99 {times[len(times) * 99 // 100] / 1000:7.1f} µs  "
            f"pipelined {messages / seconds:9.0f}/s  CPU {cpu / messages * 1e6:5.2f} µs/message"
        )


def start() -> str:
    spans, memory = [], 0.0
    for _ in range(7):
        begun = time.perf_counter()
        with Daemon([sys.executable, "-m", "oncue", "serve", "--stdio"]) as daemon:
            daemon.result("initialize", {})
            spans.append(time.perf_counter() - begun)
            memory = rss_mb(daemon.process.pid)
    return f"spawn to initialize p50 {statistics.median(spans) * 1000:.0f} ms, RSS {memory:.1f} MB"


def main() -> None:
    print(json.dumps({"cpus": os.cpu_count(), "load": os.getloadavg()}))
    print(start())
    print(probe("test/ping", {"text": "x" * 120}, ROUNDS))
    print(probe("test/half", {"seconds": 0}, ROUNDS // 4))
    print(probe("daemon/status", {}, ROUNDS // 4))


if __name__ == "__main__":
    main()
