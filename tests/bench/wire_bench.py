"""The wire against its peers: medians of interleaved rounds, one client in C for all.

    python tests/bench/wire_bench.py [--rounds 5] [--quick]

Needs gcc. The node peer needs `vscode-jsonrpc` (`npm install vscode-jsonrpc@8.2.1` anywhere, with
NODE_PATH pointing there); without it its column says so. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "wire"
PYTHON = sys.executable
ROWS: list[tuple[str, str, str, int, tuple[str, ...]]] = [
    # name, scenario, extra, count, servers
    ("ping RTT p50, µs", "rtt", "test/echo", 20_000, ("floor", "oncue", "node", "pylsp", "pygls")),
    ("served by a task RTT p50, µs", "rtt", "test/task", 10_000, ("floor", "oncue", "node")),
    (
        "64 in flight, messages/s",
        "pipeline",
        "test/echo",
        64_000,
        ("floor", "oncue", "node", "pylsp", "pygls"),
    ),
    (
        "64 in flight, CPU µs/message",
        "pipeline",
        "test/echo",
        64_000,
        ("floor", "oncue", "node", "pylsp", "pygls"),
    ),
    ("1 MB request p50, µs", "big", "test/echo", 100, ("floor", "oncue", "node")),
    ("cancel → answer p50, µs", "cancel", "test/sleep", 200, ("oncue", "node")),
    ("poll RTT p50, 3 documents, µs", "recall", "", 1_000, ("oncue",)),
    ("start RTT p50, µs", "start", "", 1_000, ("oncue",)),
    (
        "poll beside 100 tasks and a CPU-bound thread p50, µs",
        "crowd",
        "",
        2_000,
        ("oncue",),
    ),
    (
        "spawn → initialize answered, ms",
        "spawn",
        "-",
        1,
        ("floor", "oncue", "node", "pylsp", "pygls"),
    ),
    (
        "resident after initialize, MB",
        "spawn",
        "-",
        1,
        ("floor", "oncue", "node", "pylsp", "pygls"),
    ),
]
FIELDS = {"messages/s": "per_second", "CPU µs": "cpu_us", "spawn": "ms", "resident": "rss_mb"}
PINNED = ("rtt", "recall", "cancel")
"""Client and server share one core here: else an idle machine measures how long its other core
takes to wake, which is the same for all and more than any of them."""
SLOW = {"pygls": 0.05, "pylsp": 0.3, "node": 0.3}
"""Slower peers get fewer messages, so that a round takes seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), 0.1 if options.quick else 1.0)
        results = bench.run(options.rounds)
    print(table(results, options.rounds))
    return 0


class Bench:
    """Builds the C programs, a folder of memories, and runs rounds."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.scale = scale
        for name in ("floor", "client"):
            subprocess.run(
                ["gcc", "-O2", "-o", str(folder / name), str(HERE / f"{name}.c")], check=True
            )
        self.environment = dict(os.environ)
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for kind in ("CONFIG", "DATA", "STATE", "RUNTIME"):
            self.environment[f"ONCUE_{kind}_DIR"] = str(folder / kind.lower())
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.commands: dict[str, list[str]] = {
            "floor": [str(folder / "floor")],
            "oncue": [PYTHON, str(HERE / "bench_daemon.py"), "serve", "--stdio"],
            "pylsp": [PYTHON, str(HERE / "pylsp_server.py")],
            "pygls": [PYTHON, str(HERE / "pygls_server.py")],
        }
        probe = ["node", "-e", "require('vscode-jsonrpc/node')"]
        if shutil.which("node") and subprocess.run(probe, capture_output=True).returncode == 0:
            self.commands["node"] = ["node", str(HERE / "node_server.js")]
        self._remember()

    def _remember(self) -> None:
        """Three memories about the query of the recall scenario."""
        from oncue_client import blocking

        with blocking.Client(env=self.environment) as client:
            session = client.session_open(workspace=str(self.workspace))
            for number, title in enumerate(("Deploy windows", "Deploy checklist", "Deploy rights")):
                client.memory_write(
                    session_id=session.session_id,
                    scope="project",
                    type="project",
                    title=title,
                    description=f"How we deploy the tracker to production, part {number}",
                    body="Deploy the tracker to production only after staging is green.\n" * 6,
                )

    def run(self, rounds: int) -> dict[tuple[str, str], list[float]]:
        """Figures by (row, server), a value a round; servers take turns within a round."""
        figures: dict[tuple[str, str], list[float]] = {}
        for number in range(rounds):
            for name, scenario, extra, count, servers in ROWS:
                if scenario == "start" or "CPU µs" in name or "resident" in name:
                    continue  # measured with the row before
                for server in servers:
                    if server not in self.commands:
                        continue
                    for row, value in self._measure(name, scenario, extra, count, server):
                        figures.setdefault((row, server), []).append(value)
            print(f"round {number + 1} of {rounds} done", file=sys.stderr)
        return figures

    def _measure(
        self, name: str, scenario: str, extra: str, count: int, server: str
    ) -> list[tuple[str, float]]:
        count = max(int(count * self.scale * SLOW.get(server, 1.0)), 1)
        if scenario in ("recall", "crowd"):
            extra = str(self.workspace)
        command = [str(self.folder / "client"), scenario, str(count), extra]
        done = subprocess.run(
            [*command, *self.commands[server]],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            preexec_fn=pin if scenario in PINNED else None,
        )
        if done.returncode != 0:
            raise SystemExit(f"{server}, {scenario}: {done.stderr}")
        found = {}
        for line in done.stdout.splitlines():
            found.update({(v := json.loads(line))["scenario"]: v})
        values = []
        for row, row_scenario, *_ in ROWS:
            if row == name or (row_scenario == scenario and row_scenario in ("pipeline", "spawn")):
                values.append((row, found[scenario][field_of(row)]))
            elif row_scenario == "start" and "start" in found:
                values.append((row, found["start"]["p50_us"]))
        return values


def pin() -> None:
    """Run on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def field_of(row: str) -> str:
    """Which figure of the client's answer a row shows."""
    return next((field for word, field in FIELDS.items() if word in row), "p50_us")


def table(figures: dict[tuple[str, str], list[float]], rounds: int) -> str:
    """Markdown, with the machine and the date."""
    servers = ("floor", "oncue", "node", "pylsp", "pygls")
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {machine()}, Python {platform.python_version()}; "
        f"medians of {rounds} interleaved rounds",
        "",
        "| figure | " + " | ".join(servers) + " |",
        "| --- |" + " --- |" * len(servers),
    ]
    for row, *_ in ROWS:
        cells = [shown(figures.get((row, server))) for server in servers]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(values: list[Any] | None) -> str:
    """The median, as exact as it deserves."""
    if not values:
        return "–"
    value = statistics.median(values)
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def machine() -> str:
    """Cores, processor and kernel, without the machine's name."""
    processor = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores of {processor}, Linux {platform.release().split('-')[0]}"


if __name__ == "__main__":
    sys.exit(main())
