"""The `client` provider: the editor lends its own model through `model/generate`."""

from __future__ import annotations

from typing import Any, Protocol

from attrs import frozen

from oncue_protocol import ModelGenerateParams, ModelGenerateResult

DEADLINE_GRACE_S = 0.5
"""The client is told the deadline and may answer at its very end; ours is a little later."""


class ClientPeer(Protocol):
    """What this provider needs of a connection (`wire.peer.Peer` has it)."""

    @property
    def closed(self) -> bool: ...

    async def request(self, method: str, params: Any, deadline_s: float) -> Any: ...


class ModelUnavailableError(Exception):
    """There is no model to ask just now; recall falls back to the ranked list."""


@frozen
class ClientGenerator:
    """ports.Generator over one connection: the session's driver, where it advertised
    `modelProvider`. Cancelling the caller's scope sends `$/cancelRequest` (the peer does).

    Raises ModelUnavailableError where the connection has closed, and what `Peer.request` raises:
    the client's error answer, or the deadline."""

    peer: ClientPeer

    async def generate(self, request: ModelGenerateParams) -> ModelGenerateResult:
        """Ask once; never retried here, so that retry layers cannot multiply (D69)."""
        if self.peer.closed:
            raise ModelUnavailableError("the client that lends its model has disconnected")
        deadline_s = request.deadline_ms / 1000 + DEADLINE_GRACE_S
        answer = await self.peer.request("model/generate", request, deadline_s)
        if not isinstance(answer, ModelGenerateResult):
            raise ModelUnavailableError(
                f"model/generate must answer an object with text, not {type(answer).__name__}"
            )
        return answer
