"""One replay from beginning to end: survey, stage, daemon, memory, player."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio
from attrs import frozen

from oncue.replay.errors import ReplayError
from oncue.replay.extractions import Extractions
from oncue.replay.history import Request
from oncue.replay.lender import Lender, Script
from oncue.replay.pace import Speed
from oncue.replay.player import PROMPT_WAIT_MS, Observer, Player
from oncue.replay.recording import Recording, Survey
from oncue.replay.report import Totals
from oncue.replay.stage import Scope, Stage, build, copy_memory, copy_own
from oncue_client import Client, ClientError, connect
from oncue_protocol import OncueError, OncueOptions, converter

INDEXED_WITHIN_S = 10.0
"""Until copied memory files are found; a folder of 10,000 files takes about a second."""
LOOK_AGAIN_S = 0.1
"""Where the file system cannot be watched, no notification comes (M10)."""
SPOKEN = (
    "transcript/didAppend", "recall/start", "recall/poll", "recall/peek", "turn/didEnd",
    "recall/settled", "recall/ended", "model/generate", "memory/extractionEnded", "memory/wait",
    "session/timeline", "notes/read",
)  # fmt: skip
NOTIFICATIONS = ("recall/settled", "recall/ended", "memory/didChange", "memory/extractionEnded")


@frozen
class Play:
    """What to play, and how."""

    recording: Recording
    memory: Path | None = None
    """Folder of memory files; None: the user's own, only read."""
    shown_memory: str | None = None
    """What to call that folder; None: by its path."""
    workspace: str | None = None
    """None: the recorded one."""
    speed: Speed = "fast"
    budget_s: float = 45.0
    """All pauses together at the speed `fast`."""
    script: Script | None = None
    """The scripted model; None: no model at all."""
    prompt_wait_ms: int = PROMPT_WAIT_MS
    command: str | None = None
    """The daemon's command; None: this installation's."""


async def perform(
    play: Play,
    survey: Survey,
    ready: Callable[[Stage, int], Observer],
    on_request: Callable[[Request], None] | None = None,
) -> Totals:
    """Run it. `ready` is told the stage and the number of memory files, and gives the observer.

    Raises `ReplayError` with words for the user where the daemon cannot be run or is lost."""
    lender = Lender(play.script) if play.script is not None else None
    options = OncueOptions(
        notifications=NOTIFICATIONS,
        model_provider=lender is not None,
        settings={
            "model": {"provider": "client" if lender is not None else "none"},
            # A script that picks memories cannot write notes.
            "extraction": {"extractor": "outline"},
        },
    )
    converter.prepare(SPOKEN)  # our own first use of a method is no round trip
    workspace = play.workspace or survey.info.workspace
    with build(workspace, play.memory, play.shown_memory) as stage:
        try:
            async with connect(
                play.command,
                options=options,
                env=stage.environment,
                model=None if lender is None else lender.serve,
            ) as client:
                session_id, files, notes_path = await _open(client, stage, survey)
                observer, sums = ready(stage, files), Totals()
                extractions = Extractions(client, session_id, observer, sums)
                player = Player(
                    client,
                    session_id,
                    observer,
                    pace=survey.meter.pace(play.speed, play.budget_s),
                    lender=lender,
                    prompt_wait_ms=play.prompt_wait_ms,
                    on_request=on_request,
                    totals=sums,
                    extractions=extractions,
                )
                off = extractions.listen()
                try:
                    await player.play(play.recording.events())
                    await extractions.finish(notes_path)
                finally:
                    off()
                await client.session_close(session_id=session_id, reason="the recording is over")
                return sums
        except ClientError as error:
            raise ReplayError(f"the daemon could not be used: {error}") from error
        except OncueError as error:
            raise ReplayError(
                f"the daemon refused a request of the replay: {error}; this is a fault of oncue, "
                "please report it with the command that you ran"
            ) from error


async def _open(client: Client, stage: Stage, survey: Survey) -> tuple[str, int, str | None]:
    """Open the session, copy the memory files where the daemon says, and wait until they are
    found. Returns the session's id, the number of memory files, and the path of the notes."""
    opened = await client.session_open(
        session_id=survey.info.session_id[:256],
        workspace=stage.workspace,
        title="replay",
    )
    if stage.memory is not None:
        roots: dict[Scope, Path] = {
            root.scope: Path(root.path) for root in opened.memory_roots if root.writable
        }
        if not roots:
            raise ReplayError("the daemon names no folder for memory files; see its log")
        await _copied(client, opened.session_id, partial(copy_memory, stage.memory, roots))
    elif stage.mine is not None:
        own = [Path(root.path) for root in opened.memory_roots]
        await _copied(client, opened.session_id, partial(copy_own, stage.mine, stage.data, own))
    listed = await client.memory_list(session_id=opened.session_id)
    return opened.session_id, listed.total, opened.notes_path


async def _copied(client: Client, session_id: str, copy: Callable[[], int]) -> None:
    """Copy, and wait until the copies are found; not for ever: the daemon may refuse some."""
    before = (await client.memory_list(session_id=session_id)).total
    with client.notifications("memory/didChange") as changes:
        expected = before + await trio.to_thread.run_sync(copy)
        with trio.move_on_after(INDEXED_WITHIN_S):
            while (await client.memory_list(session_id=session_id)).total < expected:
                with trio.move_on_after(LOOK_AGAIN_S):
                    await anext(changes)
