"""Outputs of tools for the demo's session: made up, plausible, the same every time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Arguments = dict[str, Any]


def pytest(arguments: Arguments, random: Random) -> str:
    """A run of pytest with `pytest` tests of `path`, one of them `failed`."""
    count, path, failed = arguments["pytest"], arguments["path"], arguments.get("failed")
    module = path.rsplit("/", 1)[-1].removeprefix("test_").removesuffix(".py")
    subjects = (
        "empty",
        "one",
        "many",
        "negative",
        "rounding",
        "unicode",
        "closed",
        "late",
        "draft",
    )
    verbs = ("is_kept", "is_refused", "sorts_last", "counts_once", "shows_in_list", "needs_rights")
    names = [
        f"test_{module}_{random.choice(subjects)}_{random.choice(verbs)}" for _ in range(count)
    ]
    if failed:
        names[count // 2] = failed
    lines = [
        "============================= test session starts ==============================",
        "platform linux -- Python 3.11.9, pytest-8.3.5, pluggy-1.5.0",
        "rootdir: /home/mira/code/ledgerline, configfile: pyproject.toml",
        f"plugins: anyio-4.9.0, cov-6.1.1\ncollected {count} items\n",
    ]
    for at, name in enumerate(names, 1):
        verdict = "FAILED" if name == failed else "PASSED"
        lines.append(f"{path}::{name} {verdict}".ljust(72) + f"[{at * 100 // count:3}%]")
    seconds = 0.4 + count * 0.37
    if failed:
        lines += [
            "\n=================================== FAILURES ===================================",
            f"_____ {failed} _____\n",
            f">       assert actual == expected\nE       AssertionError: in {path}",
            f"{path}:{random.randint(20, 140)}: AssertionError",
            f" 1 failed, {count - 1} passed in {seconds:.2f}s ".center(80, "="),
        ]
        return "Exit code 1\n" + "\n".join(lines)
    lines.append("\n" + f" {count} passed in {seconds:.2f}s ".center(80, "="))
    return "\n".join(lines)


def dots(arguments: Arguments, random: Random) -> str:
    """`dots` quiet runs of one test."""
    return "\n".join(
        f"{'.':<72}[100%]\n1 passed in {random.uniform(2.1, 3.4):.2f}s"
        for _ in range(arguments["dots"])
    )


def access(arguments: Arguments, random: Random) -> str:
    """`access` lines of an access log."""
    paths = ("/healthz", "/api/invoices", "/api/customers", "/dunning", "/api/payments", "/login")
    minute, second, lines = 38, 0, []
    for _ in range(arguments["access"]):
        second += random.randint(0, 5)
        minute, second = minute + second // 60, second % 60
        path = arguments.get("path") or random.choice(paths)
        method = "POST" if "webhooks" in path else "GET"
        request = f"{random.getrandbits(32):08x}"
        took = random.choice((3, 4, 6, 9, 14, 22, 31, 48, 1204))
        lines.append(
            f"2026-03-12T19:{minute % 60:02}:{second:02}.{random.randint(0, 999):03}+01:00 INFO "
            f"request={request} {method} {path} status={204 if method == 'POST' else 200} "
            f"took_ms={took} client=198.51.100.{random.randint(2, 250)}"
        )
    return "\n".join(lines)


def deploy(arguments: Arguments, random: Random) -> str:
    """`deploy` lines of a blue/green deploy that ends in `result`."""
    lines = ["==> building 9f31c2e", "#1 [internal] load build definition from Dockerfile"]
    for step in range(2, arguments["deploy"] - 12):
        layer = f"sha256:{random.getrandbits(96):024x}"
        lines.append(f"#{step} extracting {layer} {random.uniform(0.1, 4.0):.1f}s done")
    lines += ["==> pushing registry.example.com/ledgerline:9f31c2e", "==> starting slot green"]
    lines += ["==> waiting for health check of green"] + ["."] * 6
    return "\n".join([*lines, arguments["result"]])


def docker(arguments: Arguments, random: Random) -> str:
    """`docker` steps of an image build, with an error `failed` at the end where there is one."""
    lines = []
    for step in range(1, arguments["docker"] + 1):
        lines.append(
            f"#{step} [runtime {step}/{arguments['docker']}] sha256:{random.getrandbits(64):016x}"
        )
        lines.append(f"#{step} DONE {random.uniform(0.1, 9.0):.1f}s")
    if failed := arguments.get("failed"):
        return "Exit code 100\n" + "\n".join(
            [*lines, f"#{len(lines)} ERROR: exit code: 100", failed]
        )
    faces = ("Regular", "Medium", "Bold", "Black")
    fonts = [
        f"/usr/share/fonts/opentype/noto/NotoSansCJK-{face}.ttc: Noto Sans CJK JP" for face in faces
    ]
    return "\n".join([*lines, "naming to docker.io/library/ledgerline:dev done", *fonts])


def gitlog(arguments: Arguments, random: Random) -> str:
    """`gitlog` commits, after `prefix`."""
    subjects = (
        "Book a payment event once", "Keep the books in Berlin time", "Show drafts greyed out",
        "Import camt.053 statements", "Send reminders at nine", "Name the customer in the subject",
        "Check the VAT number when a customer is added", "Refuse invoices without lines",
        "Cache the exchange rates of the day", "Print totals by currency", "Log slow queries",
        "Say which line of an import is wrong",
    )  # fmt: skip
    lines = [
        f"{random.getrandbits(28):07x} {subjects[at % len(subjects)]}"
        for at in range(arguments["gitlog"])
    ]
    return str(arguments["prefix"]) + "\n".join(lines)


def explain(arguments: Arguments, random: Random) -> str:
    """The plan before (`seq`) and after (`index`) the partial index."""
    if arguments["explain"] == "index":
        return (
            " Limit  (cost=0.43..21.07 rows=100) (actual time=0.041..0.832 rows=100 loops=1)\n"
            "   Buffers: shared hit=41\n"
            "   ->  Index Scan using invoices_open_due_idx on invoices\n"
            "         Index Cond: (due_date < (CURRENT_DATE - 14))\n"
            " Planning Time: 0.214 ms\n Execution Time: 0.871 ms"
        )
    workers = "\n".join(
        f"         Worker {at}:  Sort Method: top-N heapsort  Memory: {random.randint(60, 90)}kB"
        for at in range(4)
    )
    return (
        " Limit  (cost=88214.11..88225.78 rows=100) (actual time=4087.2..4101.9 rows=100)\n"
        "   Buffers: shared hit=1204 read=61842\n"
        "   ->  Gather Merge  (cost=88214.11..91022.40 rows=24070 width=214)\n"
        "         Workers Planned: 4\n         Workers Launched: 4\n"
        f"{workers}\n"
        "         ->  Parallel Seq Scan on invoices  (actual time=1.9..3984.5 rows=4214 loops=5)\n"
        "               Filter: ((state = 'open') AND (due_date < (CURRENT_DATE - 14)))\n"
        "               Rows Removed by Filter: 421066\n"
        " Planning Time: 0.310 ms\n Execution Time: 4102.6 ms"
    )


def worker(arguments: Arguments, random: Random) -> str:
    """`worker` lines of the job worker's journal."""
    head = (
        "● ledgerline-worker.service - Ledgerline background jobs\n"
        "     Active: active (running) since Wed 2026-03-11 08:12:40 CET; 2 days ago\n"
        "   Main PID: 1844 (ledgerline)\n"
    )
    lines = [
        f"Mar 13 14:58:{at:02} staging ledgerline[1844]: job {51200 + at * 2} failed: "
        "450 4.7.1 sandbox domain: hourly limit of 100 messages reached"
        for at in range(arguments["worker"])
    ]
    return head + "\n".join(lines)


def load(arguments: Arguments, random: Random) -> str:
    """One line a second of a load test of `load` seconds."""
    lines = ["second  requests  errors  p50_ms  p99_ms"]
    lines += [
        f"{second:>6}  {random.randint(1180, 1310):>8}  {0:>6}  {random.uniform(17, 24):>6.1f}"
        f"  {random.uniform(48, 71):>6.1f}"
        for second in range(1, arguments["load"] + 1)
    ]
    return "\n".join(lines)


def datev(arguments: Arguments, random: Random) -> str:
    """`datev` rows of the tax adviser's export as it was."""
    rows = ["Umsatz,Soll/Haben,WKZ,Konto,Gegenkonto,Belegdatum,Belegfeld 1,Buchungstext$"]
    rows += [
        f'"{random.randint(20, 2400)},{random.randint(0, 99):02}",S,EUR,{10042 + at},8400,'
        f"{random.randint(1, 28):02}02,2026-{200 + at:04},M-CM-^Vlhandel Nord {at}$"
        for at in range(arguments["datev"] - 1)
    ]
    return "\n".join(rows)


def overdue(arguments: Arguments, random: Random) -> str:
    """`overdue` lines of `ledger overdue`."""
    names = ("Kanzlei Dr. Wehrle", "Ostermann & Co", "Hotel Alpina", "Studio Nove", "Minato KK")
    return "\n".join(
        f"2025-{1100 + at * 7}  {random.choice(names):<30}  {random.randint(40, 4000):,}.00 EUR  "
        f"{random.randint(31, 140):>4} d"
        for at in range(arguments["overdue"])
    )


OUTPUTS: dict[str, Callable[[Arguments, Random], str]] = {
    function.__name__: function
    for function in (
        pytest, dots, access, deploy, docker, gitlog, explain, worker, load, datev, overdue,
    )
}  # fmt: skip
"""The first key of a story's `gen` names the function; all of `gen` are its arguments."""
