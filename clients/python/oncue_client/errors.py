"""What can go wrong on the client's side of the pipe. What the daemon answers with an error is
an `oncue_protocol.OncueError`; the two families never mix."""

from __future__ import annotations

from collections.abc import Sequence


class ClientError(Exception):
    """Base of everything that this package raises by itself."""


class DaemonNotStarted(ClientError):  # noqa: N818 - says what happened, as trio's errors do
    """The daemon's command could not be run, or it ended or refused before `initialize` was
    answered. The message names the command and says what to do."""


class ConnectionLost(ClientError):  # noqa: N818
    """The daemon is gone, or what it writes is no frame: every request in flight fails with this,
    and so does every later one. Nothing is sent again by itself."""

    def __init__(
        self, reason: str, *, exit_code: int | None = None, stderr_lines: Sequence[str] = ()
    ) -> None:
        self.reason = reason
        """What was seen, in words."""
        self.exit_code = exit_code
        """Of the daemon's process; negative: the signal that killed it; None: still running."""
        self.stderr_lines = tuple(stderr_lines)
        """The last lines that it wrote to stderr, oldest first (empty where not collected)."""
        text = f"connection to the daemon is lost: {reason}"
        if exit_code is not None:
            ended = f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
            text += f" ({ended})"
        if self.stderr_lines:
            text += "; its last words:\n  " + "\n  ".join(self.stderr_lines)
        super().__init__(text)

    def again(self) -> ConnectionLost:
        """An equal error to raise elsewhere: one exception object raised by many tasks would
        collect all their tracebacks."""
        return ConnectionLost(self.reason, exit_code=self.exit_code, stderr_lines=self.stderr_lines)


class UnexpectedAnswer(ClientError):  # noqa: N818
    """The daemon answered with something that is no result of the method: a mistake there, or
    another version of the protocol. The message says where it does not fit."""


class RequestTimedOut(ClientError):  # noqa: N818
    """`blocking.Client` only: no answer in the time allowed; the daemon was told to cancel."""
