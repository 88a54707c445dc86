"""oncue_client against the real daemon process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from clients.client_support import is_running, own_folders, real_daemon
from oncue_client import Client, ConnectionLost, connect
from oncue_client.blocking import Client as BlockingClient
from oncue_protocol import PROTOCOL_VERSION, MethodNotFound

DEADLINE = 30.0


@asynccontextmanager
async def daemon(folder: Path, **options: Any) -> AsyncIterator[Client]:
    with trio.fail_after(DEADLINE):
        async with connect(real_daemon(), env=own_folders(folder), **options) as client:
            yield client


async def test_it_shakes_hands_and_leaves_with_exit_code_0(tmp_path: Path) -> None:
    async with daemon(tmp_path) as client:
        assert client.capabilities is not None
        assert client.capabilities.protocol_version == PROTOCOL_VERSION
        status = await client.daemon_status()
        assert status.pid == client.pid
        assert status.clients == 1
        with pytest.raises(MethodNotFound):
            await client.request("no/suchMethod")
        await client.workspace_did_change_configuration(settings={"oncue": {}})
        assert (await client.daemon_status()).uptime_ms >= status.uptime_ms
    assert client.transport.process.returncode == 0
    assert not is_running(client.pid)


async def test_its_death_is_told_with_the_signal(tmp_path: Path) -> None:
    async with daemon(tmp_path) as client:
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(ConnectionLost, match="signal 9"):
            while True:
                await client.daemon_status()


async def test_a_megabyte_each_way_and_a_thousand_requests(tmp_path: Path) -> None:
    async with daemon(tmp_path) as client:

        async def ask() -> None:
            assert (await client.daemon_status()).pid == client.pid

        await client.workspace_did_change_configuration(settings={"other": "x" * 5_000_000})
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(ask)


async def test_the_cancelled_outer_scope_ends_it_in_order(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with daemon(tmp_path) as client:
            scope.cancel()
            await trio.sleep_forever()
    assert client.transport.process.returncode == 0


def test_the_blocking_client(tmp_path: Path) -> None:
    with BlockingClient(real_daemon(), env=own_folders(tmp_path)) as client:
        assert client.daemon_status().pid == client.inner.pid


def test_the_test_client(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "oncue_client"),
            *("request", "daemon/status", "expect", "result", '{"clients": 1}'),
            *("request", "no/suchMethod", "expect", "error", "methodNotFound"),
        ],
        env=own_folders(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
