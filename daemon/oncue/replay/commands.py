"""`oncue replay` and `oncue demo`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import click
import trio
from attrs import frozen
from rich.console import Console

from oncue.replay import timeline
from oncue.replay.errors import ReplayError
from oncue.replay.lender import Script, schedule, sidecar
from oncue.replay.live import Screen
from oncue.replay.machine import Lines
from oncue.replay.notes import panel as notes_panel
from oncue.replay.pace import BUDGET_S, Speed
from oncue.replay.player import PROMPT_WAIT_MS
from oncue.replay.recording import FORMATS, Recording, Survey
from oncue.replay.report import Notes
from oncue.replay.run import Play, perform
from oncue.replay.stage import Stage
from oncue_protocol import TranscriptFormat

DEMO = Path(__file__).parent / "demo"
DEMO_MEMORY = "the demo's own, in a temporary folder"
DEMO_BUDGET_S = 60.0
"""The demo's pauses are as its story wants them: a slow model needs long turns."""
SPEEDS = ("real", "fast", "max")
WIDTH_WITHOUT_TERMINAL = 100
CANNOT = 2
"""Exit code where a replay is not possible as asked."""
INTERRUPTED = 130


def replay_main(
    transcript: Path,
    *,
    memory: Path | None = None,
    workspace: str | None = None,
    transcript_format: TranscriptFormat | None = None,
    speed: Speed = "fast",
    latency: str | None = None,
    wait_ms: int = PROMPT_WAIT_MS,
    as_json: bool = False,
    notes: bool | None = None,
    verbose: bool = False,
    save_notes: Path | None = None,
    daemon: str | None = None,
    console: Console | None = None,
) -> int:
    """Play one recorded session; returns the exit code."""
    try:
        play = Play(
            recording=Recording(transcript, transcript_format),
            memory=memory,
            workspace=workspace,
            speed=speed,
            budget_s=BUDGET_S,
            script=None if latency is None else schedule(latency),
            prompt_wait_ms=wait_ms,
            command=daemon,
        )
    except ReplayError as error:
        return _refuse(error)
    return show(
        play,
        as_json=as_json,
        console=console,
        title=f"oncue replay {transcript.name}",
        showing=Showing(notes, verbose, save_notes),
    )


def demo_main(
    *,
    speed: Speed = "fast",
    model: bool = True,
    latency: str | None = None,
    wait_ms: int = PROMPT_WAIT_MS,
    as_json: bool = False,
    notes: bool | None = None,
    verbose: bool = False,
    save_notes: Path | None = None,
    daemon: str | None = None,
    console: Console | None = None,
) -> int:
    """Play the bundled session with the bundled memories; returns the exit code."""
    try:
        script = (schedule(latency) if latency else sidecar(DEMO / "model.json")) if model else None
    except ReplayError as error:
        return _refuse(error)
    play = Play(
        recording=Recording(DEMO / "session.jsonl", "claude"),
        memory=DEMO / "memory",
        shown_memory=DEMO_MEMORY,
        speed=speed,
        budget_s=DEMO_BUDGET_S,
        script=script,
        prompt_wait_ms=wait_ms,
        command=daemon,
    )
    return show(
        play,
        as_json=as_json,
        console=console,
        title="oncue demo",
        showing=Showing(notes, verbose, save_notes),
    )


@frozen
class Showing:
    """What is shown beside the recalls."""

    notes: bool | None = None
    """None: a few lines of each section; True: all of the notes; False: none."""
    verbose: bool = False
    """Whether decisions that began no run are told one by one."""
    save_notes: Path | None = None
    """File to keep the notes in; it must not exist."""

    def check(self) -> None:
        """Before anything is played. Raises `ReplayError`."""
        if self.save_notes is not None and os.path.lexists(self.save_notes):
            raise ReplayError(f"{self.save_notes} exists: give --save-notes a new file")

    def save(self, notes: Notes | None) -> str | None:
        """Keep them; returns where, or None. Raises `ReplayError`."""
        if self.save_notes is None or notes is None or notes.is_template:
            return None
        try:
            self.save_notes.touch(0o600, exist_ok=False)
            self.save_notes.write_text(notes.text, "utf-8")
        except OSError as error:
            raise ReplayError(
                f"the notes cannot be kept in {self.save_notes}: {error.strerror or error}"
            ) from error
        return str(self.save_notes.absolute())


def show(
    play: Play,
    *,
    as_json: bool,
    console: Console | None,
    title: str,
    showing: Showing | None = None,
) -> int:
    """Perform `play` and show it; returns the exit code."""
    showing = showing or Showing()
    try:
        showing.check()
        survey = play.recording.survey()
        if as_json:
            trio.run(_as_lines, play, survey, showing)
        else:
            trio.run(_on_screen, play, survey, console or terminal(), title, showing)
    except ReplayError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def terminal() -> Console:
    """The user's terminal; without one, plain text of a fixed width."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, emoji=False, width=WIDTH_WITHOUT_TERMINAL)
    return console


async def _as_lines(play: Play, survey: Survey, showing: Showing) -> None:
    lines = Lines(click.echo, verbose=showing.verbose)

    def ready(stage: Stage, files: int) -> Lines:
        lines.event(
            "replay",
            transcript=str(play.recording.path),
            format=survey.info.agent,
            sessionId=survey.info.session_id,
            turns=survey.turns,
            messages=survey.messages,
            memory=stage.shown_memory,
            memoryFiles=files,
            model="none" if play.script is None else "scripted",
            scriptedLatencies=None if play.script is None else play.script.latencies,
            speed=play.speed,
            promptWaitMs=play.prompt_wait_ms,
        )
        return lines

    sums = await perform(play, survey, ready)
    saved = showing.save(sums.notes)
    if sums.notes is not None and showing.notes is not False:
        lines.notes(sums.notes, saved)
    lines.summary(sums)


async def _on_screen(
    play: Play, survey: Survey, console: Console, title: str, showing: Showing
) -> None:
    screen = Screen(console, survey.turns, verbose=showing.verbose)

    def ready(stage: Stage, files: int) -> Screen:
        console.print(timeline.header(introduction(play, survey, stage, files), title))
        console.print(timeline.legend(play.script is not None, console.width))
        console.print()
        return screen.start()

    with screen:
        sums = await perform(play, survey, ready)
    console.print()
    console.print(timeline.totals(sums))
    saved = showing.save(sums.notes)
    if sums.notes is not None and showing.notes is not False:
        whole = showing.notes is True
        console.print(notes_panel(sums.notes, width=console.width, whole=whole, saved=saved))


def introduction(play: Play, survey: Survey, stage: Stage, files: int) -> list[tuple[str, str]]:
    """What is played, with what, and what of it is scripted."""
    minutes = survey.meter.recorded_s / 60
    lines = [
        (
            "session",
            f"{survey.turns} turns, {survey.messages} messages, {minutes:.0f} min as recorded "
            f"({survey.info.agent} format)",
        ),
        ("memory", f"{files} files, {stage.shown_memory}"),
        ("model", model_line(play.script)),
        (
            "waiting",
            f"recall/start never waits; the look at the prompt at most {play.prompt_wait_ms} ms; "
            "looks at tool results never",
        ),
    ]
    if survey.skipped:
        lines.append(("skipped", f"{survey.skipped} lines or parts that say nothing to us"))
    return lines


def model_line(script: Script | None) -> str:
    """The model, honestly."""
    if script is None:
        return "none: what the local index finds is ranked and delivered"
    choice = (
        f"its choices too (from {script.source})"
        if not script.chooses_by_words
        else "it picks what shares most words with the query"
    )
    return (
        f"scripted, no real one is asked: latencies are scripted ({', '.join(script.latencies)}), "
        f"{choice}"
    )


def _refuse(error: ReplayError) -> int:
    click.echo(f"oncue: {error}", err=True)
    return CANNOT


_speed = click.option(
    "--speed",
    type=click.Choice(SPEEDS),
    default="fast",
    show_default=True,
    help="real: pauses as recorded; fast: shortened; max: none.",
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
_wait = click.option(
    "--wait-ms",
    type=click.IntRange(0, 2000),
    default=PROMPT_WAIT_MS,
    show_default=True,
    help="What a prompt grants the fast stage; 0: nothing.",
)
_daemon = click.option("--daemon", metavar="COMMAND", help="Another daemon than this one's.")
_latency = click.option(
    "--latency",
    metavar="LIST",
    help="Lend a scripted model that takes so long, turn by turn: 0.9s,2.5s,fail,never.",
)
_notes = click.option(
    "--notes/--no-notes",
    default=None,
    help="The session notes at the end: all of them, or none. Default: some lines a section.",
)
_verbose = click.option(
    "--verbose", is_flag=True, help="Also decisions about notes that began no run."
)
_save = click.option(
    "--save-notes",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keep the notes in this new file; else they go with the temporary folder.",
)


@click.command("replay")
@click.argument("transcript", type=click.Path(path_type=Path))
@click.option(
    "--memory",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Memory files to use (copied; nothing is written there). Default: your own, only read.",
)
@click.option("--workspace", metavar="FOLDER", help="Default: the recorded one.")
@click.option(
    "--format", "transcript_format", type=click.Choice(FORMATS), help="Default: detected."
)
@_speed
@_latency
@_wait
@_json
@_notes
@_verbose
@_save
@_daemon
def replay_command(**options: Any) -> None:
    """Play a recorded agent session through a daemon, and show what was recalled when.

    TRANSCRIPT is a session of Claude Code, Qwen Code, Gemini CLI or Codex CLI, or our own JSONL
    of transcript messages. Without --latency no model takes part.
    """
    sys.exit(replay_main(cast(Path, options.pop("transcript")), **options))


@click.command("demo")
@_speed
@click.option(
    "--no-model", "model", is_flag=True, flag_value=False, default=True, help="Local only."
)
@_latency
@_wait
@_json
@_notes
@_verbose
@_save
@_daemon
def demo_command(**options: Any) -> None:
    """Play the bundled session with the bundled memories: a slow model, and nobody waits.

    Everything is temporary; your own memory is neither read nor written.
    """
    sys.exit(demo_main(**options))
