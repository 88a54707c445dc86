"""What one log event costs the loop (wire.md §5): `python tests/bench/log_bench.py`.

Three kinds of stderr: a file, a pipe that somebody drains, and a pipe that nobody reads.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile

EVENTS = 20_000
ROUNDS = 5
CHILD = f"""
import json, os, sys, time
from oncue.wire import descriptors
descriptors.take()
from oncue import logs
logs.configure()
from structlog import get_logger
log = get_logger("bench")
for number in range(1_000):
    log.info("warm", count=number)
longest = 0.0
began = time.perf_counter()
for number in range({EVENTS}):
    one = time.perf_counter()
    log.info("recall settled", session="0f8fad5b-d9cb-469f-a165-70867728950e", count=number)
    longest = max(longest, time.perf_counter() - one)
took = time.perf_counter() - began
dropped = logs.statistics().dropped
with open(sys.argv[1], "w") as answer:
    json.dump([took / {EVENTS} * 1e6, longest * 1e3, dropped], answer)
os._exit(0)
"""


def measure(kind: str) -> tuple[float, float, int]:
    """(µs an event, longest ms, records dropped)."""
    with tempfile.NamedTemporaryFile() as answer, tempfile.TemporaryFile() as file:
        stderr = file if kind == "file" else subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", CHILD, answer.name], stderr=stderr)
        if kind == "drained pipe":
            child.communicate()
        child.wait()
        if child.stderr is not None:
            child.stderr.close()
        each, longest, dropped = json.load(answer)
    return each, longest, dropped


def main() -> None:
    print("| stderr | µs an event | longest, ms | dropped |\n| --- | --- | --- | --- |")
    for kind in ("file", "drained pipe", "unread pipe"):
        each, longest, dropped = zip(*(measure(kind) for _ in range(ROUNDS)), strict=True)
        row = (statistics.median(each), statistics.median(longest), statistics.median(dropped))
        print(f"| {kind} | {row[0]:.1f} | {row[1]:.2f} | {row[2]:,.0f} |")


if __name__ == "__main__":
    main()
