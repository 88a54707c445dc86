"""`Peer`: one connection as the handlers see it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol

import trio

from oncue.settings import ConnectionSettings
from oncue_protocol import OncueOptions

if TYPE_CHECKING:
    from oncue.daemon import Daemon

ALWAYS_SENT = frozenset(
    {
        "session/lost",
        "session/roleChanged",
        "transcript/resyncRequired",
        "window/logMessage",
    }
)
"""Notifications that need not be asked for; the others go only to who named them."""


class Stage(enum.Enum):
    """Where a connection is in LSP's life cycle."""

    NEW = "new"
    """Before `initialize`."""
    SERVING = "serving"
    SHUT_DOWN = "shutDown"
    """`shutdown` was answered; only `exit` is left."""


class Link(Protocol):
    """What a peer needs of the message layer (wire/rpc.py)."""

    def send_notification(self, method: str, params: Any) -> None: ...

    async def send_and_wait(self, method: str, params: Any, deadline_s: float) -> Any: ...

    def cancel_all(self) -> None: ...

    def methods(self) -> tuple[str, ...]: ...


class Peer:
    """One client's connection. Lives from its first byte to its last; sessions live longer."""

    link: Link
    """Set by whoever builds the connection, before the first message."""
    nursery: trio.Nursery
    """Tasks that end with the connection; set when it starts."""

    def __init__(self, number: int, daemon: Daemon, settings: ConnectionSettings) -> None:
        self.id = number
        """Counts connections of this process, from 1."""
        self.daemon = daemon
        self.settings = settings
        """This connection's settings; replaced as a whole when they change."""
        self.options = OncueOptions()
        """What the client asked for in `initialize`."""
        self.workspaces: tuple[str, ...] = ()
        """Folders that the client named in `initialize`: for sessions that name none."""
        self.stage = Stage.NEW
        self.trace = "off"
        self.client_name = ""
        self.closed = False
        """Nothing that is sent from now on arrives."""
        self.end_reason: str | None = None
        """Why the connection ends (`exit`, `eof`, `malformed`, `parent`, `signal`, `stalled`,
        `overflow`, `broken`), once it does."""
        self._ended = trio.Event()

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; dropped when the connection is closed. Never waits."""
        if not self.closed:
            self.link.send_notification(method, params)

    def wants(self, notification: str) -> bool:
        """Whether the client is to get this notification: always sent, or asked for."""
        return notification in ALWAYS_SENT or notification in self.options.notifications

    async def request(self, method: str, params: Any, deadline_s: float) -> Any:
        """Ask the client, and return its result as the method's result class.

        Raises `trio.TooSlowError` after `deadline_s` seconds, `RequestFailed` for an error reply,
        a reply that is not a result of this method, or a connection that closes, and
        `LimitExceeded` where too many are waiting. Cancelled, or too slow: the client is told
        with `$/cancelRequest`, and what it answers afterwards is ignored (D29).
        """
        return await self.link.send_and_wait(method, params, deadline_s)

    @property
    def exit_code(self) -> int:
        """What the process, or the forwarder, exits with: 0 after `shutdown`, else 1; 2 when the
        stream was malformed (wire.md §2, §3)."""
        if self.end_reason == "malformed":
            return 2
        return 0 if self.stage is Stage.SHUT_DOWN else 1

    def shut_down(self) -> None:
        """`shutdown`: whatever is running is cancelled and answered, nothing new is accepted."""
        self.stage = Stage.SHUT_DOWN
        self.link.cancel_all()

    def end(self, reason: str) -> None:
        """End this connection soon; the first reason counts. Never waits."""
        if self.end_reason is None:
            self.end_reason = reason
            self._ended.set()

    async def wait_end(self) -> None:
        """Return once the connection is to end."""
        await self._ended.wait()
