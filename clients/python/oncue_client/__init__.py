"""Python client of oncue: spawn the daemon, speak to it, on trio.

    async with oncue_client.connect() as client, client.session(workspace=".") as session:
        delivery = await session.user_message("how do we release?")

Scripts without an event loop use `oncue_client.blocking.Client`.
"""

from __future__ import annotations

from .client import Client, Notifications, connect
from .command import daemon_command
from .errors import ClientError, ConnectionLost, DaemonNotStarted, RequestTimedOut, UnexpectedAnswer
from .session import Session

__all__ = [
    "Client",
    "ClientError",
    "ConnectionLost",
    "DaemonNotStarted",
    "Notifications",
    "RequestTimedOut",
    "Session",
    "UnexpectedAnswer",
    "connect",
    "daemon_command",
]
