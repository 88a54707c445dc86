"""The examples of clients/README.md and clients/python/README.md, run as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from clients.client_support import SESSION_OPEN, Script, delivery, scripted

CLIENTS = Path(__file__).parents[2] / "clients"
SCRIPT: Script = {
    "session/open": [
        [{"result": {**SESSION_OPEN[0]["result"], "sessionId": "s"}}],
    ],
    "recall/start": [
        [
            {"notify": ["recall/settled", {"sessionId": "s", "recallId": "r", "lane": "main"}]},
            {
                "result": {
                    "recallId": "r",
                    "state": "pending",
                    "poll": {"outcome": "delivered", "stage": "fast", "delivery": delivery()},
                }
            },
        ]
    ],
    "recall/poll": [[{"result": {"outcome": "empty"}}]],
    "session/close": [[{"result": None}]],
    "memory/search": [[{"result": {"documents": [], "total": 0}}]],
}


def blocks(readme: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)


def run(code: str, folder: Path) -> str:
    shim = folder / "oncue"
    shim.write_text(f"#!/bin/sh\nexec {shlex.join(scripted(SCRIPT))}\n")
    shim.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "ONCUE_COMMAND": str(shim),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_without_any_library(tmp_path: Path) -> None:
    (code,) = blocks(CLIENTS / "README.md", "python")
    assert run(code + "\nprint(repr(prompt), daemon.returncode)", tmp_path) == (
        "'remembered\\n\\nhow do we cut a release?' 0\n"
    )


def test_the_asynchronous_example(tmp_path: Path) -> None:
    example = blocks(CLIENTS / "python" / "README.md", "python")[0]
    assert run("results = []\n" + example, tmp_path) == ""


def test_the_synchronous_example(tmp_path: Path) -> None:
    example = blocks(CLIENTS / "python" / "README.md", "python")[1]
    assert "text='remembered'" in run(example, tmp_path)
