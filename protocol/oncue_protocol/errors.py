"""Every error of the protocol (protocol.md, Errors; pure).

A handler raises one; the wire sends `to_response_error()`; a client turns that back into the
same class with `from_response_error()`. Slowness is never an error.
"""

# ruff: noqa: N818 - the names are protocol.md's
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class OncueError(Exception):
    """An answer that is an error. `data` on the wire always holds name, retryable and detail."""

    code: int = -32803
    name: str = "requestFailed"
    when: ClassVar[str] = "an error that this version does not know"
    """When it is sent, for the generated documentation."""

    def __init__(
        self,
        message: str,
        *,
        detail: Mapping[str, Any] | None = None,
        retryable: bool = False,
        **members: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What is wrong, where, and what to do."""
        self.retryable = retryable
        """Whether the same request may succeed later without being changed."""
        self.detail = detail
        """More about it, by name; never content of files or messages."""
        self.members = members
        """Further members of `data`, as protocol.md names them."""

    def to_response_error(self) -> dict[str, Any]:
        """The `error` member of a JSON-RPC response."""
        data = {
            **self.members,
            "name": self.name,
            "retryable": self.retryable,
            "detail": {} if self.detail is None else dict(self.detail),
        }
        return {"code": self.code, "message": self.message, "data": data}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, retryable={self.retryable})"


class ParseError(OncueError):
    """-32700: the body is not JSON in UTF-8, or the frame is broken."""

    code = -32700
    name = "parseError"
    when = "a frame or its JSON is broken"


class InvalidRequest(OncueError):
    """-32600: JSON, but no request. `id` (a duplicate one) goes into `data.id`."""

    code = -32600
    name = "invalidRequest"
    when = "not a JSON-RPC 2.0 message, an id in flight, or one out of place"


class MethodNotFound(OncueError):
    """-32601: no such method."""

    code = -32601
    name = "methodNotFound"
    when = "the daemon does not serve this method"


class InvalidParams(OncueError):
    """-32602: the parameters do not fit; `path` says where."""

    code = -32602
    name = "invalidParams"
    when = "parameters do not fit; the message begins with the JSON path of what is wrong"

    def __init__(
        self,
        message: str,
        *,
        path: str = "params",
        detail: Mapping[str, Any] | None = None,
        retryable: bool = False,
        **members: Any,
    ) -> None:
        merged = {"path": path, **(detail or {})}
        super().__init__(message, detail=merged, retryable=retryable, **members)
        self.path = str(merged["path"])
        """JSON path of the first thing that is wrong, as in `params.messages[3].id`."""


class InternalError(OncueError):
    """-32603: a mistake of ours; the log has the details."""

    code = -32603
    name = "internalError"
    when = "a mistake of the daemon's; its log says more"


class ServerNotInitialized(OncueError):
    """-32002: `initialize` must come first."""

    code = -32002
    name = "serverNotInitialized"
    when = "a request came before `initialize`"


class RequestCancelled(OncueError):
    """-32800: cancelled by the client, and by nobody else."""

    code = -32800
    name = "requestCancelled"
    when = "the client cancelled it with `$/cancelRequest`"


class ServerCancelled(OncueError):
    """-32802: cancelled by the daemon, which is shutting down."""

    code = -32802
    name = "serverCancelled"
    when = "the daemon is shutting down"

    def __init__(self, message: str, *, retryable: bool = True, **members: Any) -> None:
        super().__init__(message, retryable=retryable, **members)


class RequestFailed(OncueError):
    """-32803: well formed, but it failed."""

    code = -32803
    name = "requestFailed"
    when = "well formed, but it failed"


class SessionNotFound(OncueError):
    """1001: unknown or closed session."""

    code = 1001
    name = "sessionNotFound"
    when = "unknown or closed session"


class RecallNotFound(OncueError):
    """1002: this `recallId` never existed here (an ended one is `outcome: none`)."""

    code = 1002
    name = "recallNotFound"
    when = "this `recallId` never existed here; an ended one is `outcome: none`"


class RevisionConflict(OncueError):
    """1003: the file changed since it was read; `revision` is the one it has now."""

    code = 1003
    name = "revisionConflict"
    when = "the file changed since it was read; `data.revision` is its revision now"

    def __init__(
        self,
        message: str,
        *,
        revision: str | None,
        detail: Mapping[str, Any] | None = None,
        retryable: bool = False,
        **members: Any,
    ) -> None:
        super().__init__(message, detail=detail, retryable=retryable, revision=revision, **members)
        self.revision = revision
        """Revision now; None: there is no such file."""


class OutsideRoots(OncueError):
    """1004: a path that leaves the memory roots."""

    code = 1004
    name = "outsideRoots"
    when = "a path that leaves the memory roots"


class StoreUnavailable(OncueError):
    """1005: the database cannot be used; `reason` says why."""

    code = 1005
    name = "storeUnavailable"
    when = "the store cannot be used now; `data.reason` says why"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "unknown",
        detail: Mapping[str, Any] | None = None,
        retryable: bool = True,
        **members: Any,
    ) -> None:
        super().__init__(message, detail=detail, retryable=retryable, reason=reason, **members)
        self.reason = reason
        """Short word for logs and tests: `busy`, `full`, `readOnly`, `damaged`."""


class LimitExceeded(OncueError):
    """1006: more than a limit allows. `detail` names the limit, its value and what was sent."""

    code = 1006
    name = "limitExceeded"
    when = "more than a limit allows; `data.detail` is `{limit, value, sent}`"

    def __init__(
        self,
        message: str,
        *,
        limit: str = "unknown",
        value: int | None = None,
        sent: int | None = None,
        detail: Mapping[str, Any] | None = None,
        retryable: bool = False,
        **members: Any,
    ) -> None:
        merged = {"limit": limit, "value": value, "sent": sent, **(detail or {})}
        super().__init__(message, detail=merged, retryable=retryable, **members)


class SecretRefused(OncueError):
    """1007: a write holds a credential. `detail.rules` names the rules, never the value."""

    code = 1007
    name = "secretRefused"
    when = "a write contains a credential; `data.detail.rules` names the rules that found it"

    def __init__(
        self,
        message: str,
        *,
        rules: Sequence[str] = (),
        detail: Mapping[str, Any] | None = None,
        retryable: bool = False,
        **members: Any,
    ) -> None:
        merged = {"rules": list(rules), **(detail or {})}
        super().__init__(message, detail=merged, retryable=retryable, **members)


ERRORS: dict[int, type[OncueError]] = {
    cls.code: cls
    for cls in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        ServerNotInitialized,
        RequestCancelled,
        ServerCancelled,
        RequestFailed,
        SessionNotFound,
        RecallNotFound,
        RevisionConflict,
        OutsideRoots,
        StoreUnavailable,
        LimitExceeded,
        SecretRefused,
    )
}
"""Every error class by its code."""


def from_response_error(error: Mapping[str, Any]) -> OncueError:
    """The exception for the `error` member of a response; an unknown code gives an `OncueError`
    that carries it. Never raises, whatever the peer sent."""
    code = error.get("code")
    cls = ERRORS.get(code, OncueError) if type(code) is int else OncueError
    raw = error.get("data")
    data: dict[str, Any] = dict(raw) if isinstance(raw, Mapping) else {}
    name = data.pop("name", None)
    retryable = data.pop("retryable", False) is True
    detail = data.pop("detail", None)
    made = cls.__new__(cls)
    OncueError.__init__(
        made,
        str(error.get("message", "the peer gave no message")),
        detail=detail if isinstance(detail, Mapping) else None,
        retryable=retryable,
    )
    made.members = {str(key): value for key, value in data.items()}
    if cls is OncueError:
        made.code = code if type(code) is int else OncueError.code
        made.name = name if isinstance(name, str) else "unknown"
    elif isinstance(made, InvalidParams):
        made.path = str((made.detail or {}).get("path", "params"))
    elif isinstance(made, RevisionConflict):
        revision = data.get("revision")
        made.revision = revision if isinstance(revision, str) else None
    elif isinstance(made, StoreUnavailable):
        made.reason = str(data.get("reason", "unknown"))
    return made
