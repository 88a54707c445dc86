"""Handlers by method name; one small file a method family.

A handler takes `(peer: Peer, params: P)`. Its annotations must resolve at run time: pygls' feature
table binds the peer by them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oncue.wire.handlers import lifecycle, memory, notes, recall, sessions, transcript

HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    **lifecycle.HANDLERS,
    **sessions.HANDLERS,
    **transcript.HANDLERS,
    **recall.HANDLERS,
    **memory.HANDLERS,
    **notes.HANDLERS,
}
