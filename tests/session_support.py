"""Test doubles for sessions: a client that notes what it is told, and a registry on mock clocks."""

from __future__ import annotations

from typing import Any

import trio

from oncue.extraction.ports import Tools
from oncue.ports import Finder
from oncue.session import Session, no_endpoint
from oncue.sessions import Sessions
from oncue.settings import ConnectionSettings, ModelChoice, RecallSettings
from oncue_protocol import (
    ModelGenerateResult,
    OncueOptions,
    RecallPollParams,
    RecallPollResult,
    RecallStartParams,
    RecallStartResult,
    SessionOpenParams,
    StoreUnavailable,
)
from recall_doubles import NOW, ScriptedFinder, hits

OPEN_SETTINGS = ConnectionSettings(
    recall=RecallSettings(min_confidence=0.0, fast_min_confidence=0.0)
)
LENDING = ConnectionSettings(recall=OPEN_SETTINGS.recall, model=ModelChoice(provider="client"))


class FakeClient:
    """A connection; `said` is what it was told."""

    def __init__(
        self,
        number: int,
        settings: ConnectionSettings = OPEN_SETTINGS,
        options: OncueOptions | None = None,
        answer: str = '{"ids": ["m1"]}',
    ) -> None:
        self.id = number
        self.settings = settings
        self.options = options or OncueOptions(notifications=("recall/ended", "recall/settled"))
        self.closed = False
        self.said: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self._answer = answer

    def notify(self, method: str, params: Any = None) -> None:
        self.said.append((method, params))

    def wants(self, notification: str) -> bool:
        return notification in self.options.notifications or notification in (
            "session/roleChanged",
            "transcript/resyncRequired",
        )

    async def request(self, method: str, params: Any, deadline_s: float) -> Any:
        self.asked.append(params)
        await trio.sleep(1)
        return ModelGenerateResult(text=self._answer)

    def told(self, method: str) -> list[Any]:
        """Params of what it was told by this name."""
        return [params for name, params in self.said if name == method]


class Desk:
    """All sessions, one scripted search, a wall clock that a test may set."""

    def __init__(self, nursery: trio.Nursery, finder: ScriptedFinder | None = None) -> None:
        self.now = NOW
        self.finder = finder or ScriptedFinder(hits("a", "b", "c"))
        self.closed: list[str] = []
        self.sessions = Sessions(
            nursery=nursery,
            wall=lambda: self.now,
            defaults=OPEN_SETTINGS,
            open_finder=self._open,
            open_tools=self._no_tools,
            endpoint=no_endpoint,
            on_close=self.closed.append,
        )

    async def _open(self, session: Session) -> Finder:
        return self.finder

    async def _no_tools(self, session: Session) -> Tools:
        raise StoreUnavailable("there are no notes in these tests", reason="none")

    def open(self, client: FakeClient, session_id: str = "s", **members: Any) -> Session:
        """`session/open`."""
        return self.opened(client, session_id, **members)[0]

    def opened(
        self, client: FakeClient, session_id: str = "s", **members: Any
    ) -> tuple[Session, bool]:
        """`session/open`: the session, and whether it was known."""
        workspaces = members.pop("workspaces", ())
        fallback = members.pop("fallback", ())
        params = SessionOpenParams(session_id=session_id, **members)
        return self.sessions.open(client, params, workspaces, fallback)


def start(session: Session, **members: Any) -> RecallStartResult:
    """`recall/start`, as the handler does it."""
    params = RecallStartParams(session_id=session.id, **{"query": "deploy", **members})
    return session.recalls.start(session.prepare(params))


def poll(session: Session, **members: Any) -> RecallPollResult:
    """`recall/poll`."""
    members = {"point": "userQuery", **members}
    return session.recalls.poll(RecallPollParams(session_id=session.id, **members))
