"""Local settling: one conversation, which knows by notification when a recall has something, and
so asks the daemon only then. Recall never raises into a turn: errors of the daemon are logged and
count as "nothing remembered"; only `ConnectionLost` and cancellation pass.

The transcript sent is kept, so that `transcript/resyncRequired` and a replaced daemon
(`session/lost`) can be answered.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from oncue_protocol import (
    MAIN_LANE,
    Delivery,
    DeliveryPoint,
    Message,
    OncueError,
    RecallAcknowledgeParams,
    RecallCancelParams,
    RecallEndedParams,
    RecallPollResult,
    RecallSettledParams,
    ResetReason,
    Role,
    SessionLostParams,
    SessionOpenResult,
    SessionRoleChangedParams,
    Stage,
    ToolResult,
    TranscriptDidAppendParams,
    TranscriptDidCompactParams,
    TranscriptDidResetParams,
    TranscriptResyncRequiredParams,
    TranscriptWillCompactParams,
    TurnDidEndParams,
    TurnEndReason,
)

from .errors import ClientError

if TYPE_CHECKING:
    from .client import Client

log = logging.getLogger("oncue_client")
EDITOR_WAIT_MS = 30
"""recall.md R16: what a user does not notice; 0 is the strict form, hooks use 100."""
CLOSE_S = 2.0
"""So long `session/close` may take on leaving; the end of the connection closes it anyway."""


class Session:
    """One conversation of one driver, in one lane. Use as an asynchronous context manager.

    A turn is: `user_message` (at most one delivery, to be put before the user's words),
    then after each round of tools `tool_results` (at most one, after all results), then
    `turn_end`. What is delivered goes into the message verbatim and stays there (R15).
    """

    def __init__(
        self,
        client: Client,
        *,
        workspace: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        lane: str = MAIN_LANE,
        wait_ms: int = EDITOR_WAIT_MS,
        title: str | None = None,
        private: bool = False,
        close: bool = True,
    ) -> None:
        self.client = client
        self.workspace = None if workspace is None else str(Path(workspace).absolute())
        self.session_id = session_id or f"{uuid.uuid4()}"
        """Chosen here, unless given; a known id resumes that session."""
        self.lane = lane
        self.wait_ms = wait_ms
        """How long `user_message` may wait for the fast stage, ms (R16)."""
        self.opened: SessionOpenResult | None = None
        self.role: Role = "driver"
        """`observer` after another driver took over: nothing is sent or taken then."""
        self.turn_id: str | None = None
        """Of the turn that is going on."""
        self.recall_id: str | None = None
        """Of the live recall; None when there is nothing more to come in this turn."""
        self.last_message_id: str | None = None
        self._title = title
        self._private = private
        self._close = close
        self._sent: list[Message] = []
        self._places: dict[str, int] = {}
        self._ready: Stage | None = None
        self._lost = False
        self._announced = "recall/settled" in client.options.notifications
        self._acknowledges = client.options.acknowledge_deliveries
        self._off: list[Callable[[], None]] = []

    async def __aenter__(self) -> Self:
        subscribed: list[tuple[str, Callable[..., object]]] = [
            ("transcript/resyncRequired", self._resync),
            ("session/lost", self._session_lost),
            ("session/roleChanged", self._role_changed),
        ]
        if self._announced:
            subscribed.append(("recall/settled", self._settled))
        if "recall/ended" in self.client.options.notifications:
            subscribed.append(("recall/ended", self._ended))
        self._off = [self.client.on(method, handler) for method, handler in subscribed]
        try:
            await self._open()
        except BaseException:
            self._unsubscribe()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self.turn_id is not None:
                self.turn_end("aborted")
            if self._close and self.role == "driver" and self.client.lost is None:
                with (
                    trio.move_on_after(CLOSE_S, shield=True),
                    suppress(OncueError, ClientError),
                ):
                    await self.client.session_close(session_id=self.session_id)
        finally:
            self._unsubscribe()

    # A turn

    async def user_message(
        self,
        text: str,
        *,
        message_id: str | None = None,
        excluded_paths: Sequence[str] = (),
        recent_tools: Sequence[str] = (),
    ) -> Delivery | None:
        """A new turn: report the user's words, start the recall, and take what is ready within
        `wait_ms`. A delivery goes before the words, in the same message. Left by cancellation
        (Esc), the recall is cancelled too (R4)."""
        message = Message(id=message_id or f"{uuid.uuid4()}", role="user", text=text)
        await self.append([message])
        result = await self.start_recall(
            text,
            turn_id=message.id,
            excluded_paths=excluded_paths,
            recent_tools=recent_tools,
            wait_ms=self.wait_ms,
        )
        if result is not None or self.wait_ms:
            return self._taken(result)
        return await self.take("userQuery")

    async def start_recall(
        self,
        query: str,
        *,
        turn_id: str | None = None,
        excluded_paths: Sequence[str] = (),
        recent_tools: Sequence[str] = (),
        wait_ms: int = 0,
    ) -> RecallPollResult | None:
        """The first half of `user_message` alone: begin a turn and start its recall. With
        `wait_ms` 0 call `take("userQuery")` just before the request goes to the model."""
        if self.turn_id is not None:
            log.debug("turn %s was not ended; the new one replaces it", self.turn_id)
        self.turn_id = turn_id or f"{uuid.uuid4()}"
        self.recall_id = recall_id = f"{uuid.uuid4()}"
        self._ready = None
        if self.role != "driver":
            self.recall_id = None
            return None
        try:
            await self._open()
            started = await self.client.recall_start(
                session_id=self.session_id,
                query=query,
                lane=self.lane,
                turn_id=self.turn_id,
                recall_id=recall_id,
                wait_ms=wait_ms,
                excluded_paths=excluded_paths,
                recent_tools=recent_tools,
            )
        except trio.Cancelled:
            self.cancel("abort")
            raise
        except OncueError as error:
            self._turn_goes_on("recall/start", error)
            self.recall_id = None
            return None
        if started.recall_id != recall_id and self.recall_id == recall_id:
            self.recall_id = started.recall_id
        return started.poll

    async def tool_results(
        self, results: Sequence[ToolResult] | Message, *, message_id: str | None = None
    ) -> Delivery | None:
        """One round of tools has ended: report all its results, and take what is ready. A
        delivery goes after the last result of the round, never between them (R8)."""
        if isinstance(results, Message):
            message = results
        else:
            message = Message(
                id=message_id or f"{uuid.uuid4()}", role="tool", tool_results=tuple(results)
            )
        await self.append([message])
        return await self.take("toolResult")

    async def take(self, point: DeliveryPoint) -> Delivery | None:
        """A look at one delivery point: no wait, and no request at all where nothing can be
        there. What is returned is yours, once."""
        recall_id = self.recall_id
        if recall_id is None or self.role != "driver" or (self._announced and self._ready is None):
            await trio.lowlevel.checkpoint()
            return None
        self._ready = None  # before asking: what settles meanwhile sets it again
        try:
            answer = await self.client.recall_poll(
                session_id=self.session_id, lane=self.lane, point=point, recall_id=recall_id
            )
        except OncueError as error:
            self._turn_goes_on("recall/poll", error)
            return None
        return self._taken(answer)

    def acknowledge(self, delivery: Delivery, *, accepted: bool = True) -> None:
        """Say that the model took a delivery or, `accepted=False`, that it was never sent and
        may come again at the next point. Only where `OncueOptions.acknowledge_deliveries`."""
        self.client.notify_nowait(
            "recall/acknowledge",
            RecallAcknowledgeParams(delivery_id=delivery.delivery_id, accepted=accepted),
        )
        if not accepted:
            self._ready = "refined"

    def turn_end(self, reason: TurnEndReason = "completed") -> None:
        """The turn is over: its recall ends with it (R11). Never waits, so it is fit for a
        `finally` in a cancelled scope."""
        turn_id, self.turn_id = self.turn_id, None
        self.recall_id = None
        self._ready = None
        if self.role == "driver":
            self.client.notify_nowait(
                "turn/didEnd",
                TurnDidEndParams(
                    session_id=self.session_id, lane=self.lane, turn_id=turn_id, reason=reason
                ),
            )

    def cancel(self, reason: str | None = None) -> None:
        """End the live recall, the turn goes on. Never waits."""
        recall_id, self.recall_id = self.recall_id, None
        self._ready = None
        if recall_id is not None:
            self.client.notify_nowait(
                "recall/cancel",
                RecallCancelParams(
                    session_id=self.session_id, lane=self.lane, recall_id=recall_id, reason=reason
                ),
            )

    # The transcript

    async def append(self, messages: Sequence[Message]) -> None:
        """Report new messages of the conversation, in order; one whose id was reported before
        replaces it. Waits only while much is still unsent."""
        if not messages or self.role != "driver":
            return
        await self._open()
        after = self.last_message_id
        self._keep(messages)
        await self.client.transcript_did_append(
            session_id=self.session_id, lane=self.lane, after_message_id=after, messages=messages
        )

    def reset(self, reason: ResetReason = "cleared") -> None:
        """The conversation was cleared or rewound (`rewound`)."""
        self._sent.clear()
        self._places.clear()
        self.last_message_id = None
        self.recall_id = None
        self._tell(
            "transcript/didReset",
            TranscriptDidResetParams(session_id=self.session_id, reason=reason),
        )

    def will_compact(self) -> None:
        """A compaction begins: nothing is delivered until it has ended."""
        self._tell(
            "transcript/willCompact", TranscriptWillCompactParams(session_id=self.session_id)
        )

    def did_compact(
        self, *, kept_from_message_id: str | None = None, context_tokens: int | None = None
    ) -> None:
        """History was compacted; what came before `kept_from_message_id` may be recalled again."""
        self._tell(
            "transcript/didCompact",
            TranscriptDidCompactParams(
                session_id=self.session_id,
                kept_from_message_id=kept_from_message_id,
                context_tokens=context_tokens,
            ),
        )

    # Inside

    async def _open(self) -> None:
        """Open, once; again after the daemon was replaced."""
        if self.opened is not None and not self._lost:
            return
        self.opened = await self.client.session_open(
            session_id=self.session_id,
            workspace=self.workspace,
            title=self._title,
            private=self._private,
        )
        self._lost = False
        self.session_id = self.opened.session_id
        known = self.opened.last_message_id
        if self._sent:
            self._resend(known)
        else:
            self.last_message_id = known

    def _keep(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.id in self._places:
                self._sent[self._places[message.id]] = message
            else:
                self._places[message.id] = len(self._sent)
                self._sent.append(message)
                self.last_message_id = message.id

    def _resend(self, known: str | None) -> None:
        """Everything after `known`, or everything where we do not know it either."""
        first = 0 if known is None else self._places.get(known, -1) + 1
        if messages := self._sent[first:]:
            self._tell(
                "transcript/didAppend",
                TranscriptDidAppendParams(
                    session_id=self.session_id,
                    lane=self.lane,
                    after_message_id=known,
                    messages=tuple(messages),
                ),
            )

    def _taken(self, answer: RecallPollResult | None) -> Delivery | None:
        if answer is None:
            return None
        closed = answer.outcome in ("empty", "none") or (
            answer.outcome == "delivered"
            and answer.stage == "refined"
            and not self._acknowledges  # else it may be refused, and come again
        )
        if closed and answer.recall_id in (None, self.recall_id):
            self.recall_id = None
        elif answer.outcome == "delivered" and self._ready == "fast":
            self._ready = None  # that was what the notification told of
        return answer.delivery if answer.outcome == "delivered" else None

    def _tell(self, method: str, params: object) -> None:
        if self.role == "driver":
            self.client.notify_nowait(method, params)

    def _turn_goes_on(self, what: str, error: OncueError) -> None:
        log.warning("%s of session %s failed, the turn goes on: %s", what, self.session_id, error)

    def _unsubscribe(self) -> None:
        for off in self._off:
            off()
        self._off = []

    # Notifications: plain functions, run on the reader in the order of arrival

    def _settled(self, params: RecallSettledParams) -> None:
        if params.session_id == self.session_id and params.recall_id == self.recall_id:
            self._ready = params.stage

    def _ended(self, params: RecallEndedParams) -> None:
        if params.session_id == self.session_id and params.recall_id == self.recall_id:
            self.recall_id = None
            self._ready = None

    def _resync(self, params: TranscriptResyncRequiredParams) -> None:
        if (params.session_id, params.lane) == (self.session_id, self.lane):
            self._resend(params.last_message_id)

    def _session_lost(self, params: SessionLostParams) -> None:
        if params.session_id == self.session_id:
            self._lost = True

    def _role_changed(self, params: SessionRoleChangedParams) -> None:
        if params.session_id == self.session_id:
            self.role = params.role
            self.recall_id = None
