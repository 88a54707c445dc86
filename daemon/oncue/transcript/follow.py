"""Following an agent's own transcript file as it grows: `transcript/follow` (protocol.md).

One `Follower` a session. Each file has a task that looks at it four times a second while it
changes, reads what is new in a worker thread, and hands the events to the session on the main
loop. A cancelled request leaves nothing behind; the tasks end with the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import trio
from attrs import define, field, frozen

from oncue_protocol import (
    LimitExceeded,
    OncueError,
    TranscriptFollowParams,
    TranscriptFollowResult,
)

from .confined import Confined, agent_folders, confine
from .events import Event
from .tail import Step, Tail

POLL_S = 0.25
"""While the file changes: what a user does not notice, and next to no work."""
IDLE_POLL_S = 1.0
"""When it has been quiet for `IDLE_AFTER_S`, or cannot be read."""
IDLE_AFTER_S = 60.0
SETTLE_AFTER_S = 1.0
"""Quiet for so long, an unfinished response goes out as it stands (it waits for a tool, mostly)."""
MAX_FILES = 8
"""A session: its file, and those that a resume or a fork began. More is a mistake."""

Sink = Callable[[Sequence[Event], bool], None]
"""Takes events in order, on the main loop, and whether they are live: False while what happened
before is being caught up with, so that history never touches the recall of the present turn."""

T = TypeVar("T")


class Runner(Protocol):
    """Runs a blocking function elsewhere and gives its result."""

    async def __call__(self, what: Callable[[], T], /) -> T: ...


@frozen
class FollowStatistics:
    """How the files of a session are followed; numbers alone."""

    files: int
    bytes_read: int
    restarts: int
    failures: int
    """Looks at a file that failed; it is tried again."""
    skipped: Mapping[str, int]


@define
class _Followed:
    tail: Tail
    form: str
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    wake: trio.Event = field(factory=trio.Event)
    failures: int = 0


class Follower:
    """The files that one session follows. Starts no recalls: its events are messages."""

    def __init__(
        self,
        nursery: trio.Nursery,
        sink: Sink,
        *,
        roots: Sequence[Path] | None = None,
        run: Runner | None = None,
    ) -> None:
        """`nursery`: the session's. `roots`: folders to read below, by default the agents'.
        `run`: where to read, by default a worker thread."""
        self._nursery = nursery
        self._sink = sink
        self._roots = agent_folders() if roots is None else tuple(roots)
        self._run: Runner = _in_thread if run is None else run
        self._files: dict[str, _Followed] = {}
        self._is_closed = False

    async def follow(self, params: TranscriptFollowParams) -> TranscriptFollowResult:
        """Begin to follow a file; one that is followed is looked at right away and goes on from
        where it was. A file that is not there yet is waited for.

        Raises OutsideRoots (1004), LimitExceeded (1006)."""
        confined = confine(params.path, self._roots)
        await self._run(lambda: _check(confined))
        known = self._files.get(confined.path)
        if known is not None and known.form == params.format:
            known.wake.set()
            return TranscriptFollowResult(path=confined.path, resumed=True)
        if known is not None:
            known.scope.cancel()
        elif len(self._files) >= MAX_FILES:
            raise LimitExceeded(
                f"a session follows at most {MAX_FILES} files: open another session",
                limit="followedFiles",
                value=MAX_FILES,
                sent=len(self._files) + 1,
            )
        tail = Tail(confined.open, confined.path, params.format)
        followed = self._files[confined.path] = _Followed(tail, params.format)
        if not self._is_closed:
            self._nursery.start_soon(self._keep_up, followed)
        return TranscriptFollowResult(path=confined.path, resumed=False)

    def close(self) -> None:
        """Stop following; nothing reaches the sink afterwards."""
        self._is_closed = True
        for followed in self._files.values():
            followed.scope.cancel()

    def statistics(self) -> FollowStatistics:
        """How it goes."""
        tails = [followed.tail for followed in self._files.values()]
        skipped: dict[str, int] = {}
        for tail in tails:
            for reason, number in tail.skipped.items():
                skipped[reason] = skipped.get(reason, 0) + number
        return FollowStatistics(
            files=len(tails),
            bytes_read=sum(tail.offset for tail in tails),
            restarts=sum(tail.restarts for tail in tails),
            failures=sum(followed.failures for followed in self._files.values()),
            skipped=skipped,
        )

    async def _keep_up(self, followed: _Followed) -> None:
        with followed.scope:
            changed_at = trio.current_time()
            while True:
                step = await self._look(followed, followed.tail.step)
                if step is not None and (step.changed or step.more):
                    changed_at = trio.current_time()
                if step is not None and step.more:
                    continue
                quiet = trio.current_time() - changed_at
                if quiet >= SETTLE_AFTER_S:
                    await self._look(followed, followed.tail.settle)
                slow = step is None or quiet >= IDLE_AFTER_S
                await self._pause(followed, IDLE_POLL_S if slow else POLL_S)

    async def _look(self, followed: _Followed, what: Callable[[], Step]) -> Step | None:
        """One look, its events passed on; None: it failed, and is tried again."""
        try:
            step = await self._run(what)
        except FileNotFoundError:
            return None
        except (OSError, OncueError):
            followed.failures += 1
            return None
        if step.events and not followed.scope.cancel_called:
            self._sink(step.events, step.live)
        return step

    async def _pause(self, followed: _Followed, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await followed.wake.wait()
        if followed.wake.is_set():
            followed.wake = trio.Event()


def _check(confined: Confined) -> None:
    """Say now what could never be followed; whatever may pass is tried again later."""
    try:
        file = confined.open()
    except OSError:
        return
    os.close(file)


async def _in_thread(what: Callable[[], T]) -> T:
    done: list[T] = []

    def job() -> None:
        done.append(what())

    await trio.to_thread.run_sync(job, abandon_on_cancel=True)
    return done[0]
