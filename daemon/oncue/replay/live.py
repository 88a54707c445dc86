"""Shows a replay while it runs: finished turns above, the live one and the progress below."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from oncue.replay import notes, timeline
from oncue.replay.report import Decision, Extraction, Handed, Turn


class Screen:
    """An Observer for people. Draws only when ticked: never while a round trip is measured."""

    def __init__(self, console: Console, turns: int, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self.console = console
        self.turns = turns
        self.turns_done = 0
        self._live: Live | None = None
        self._pending: list[Text] = []
        self._after: list[Text] = []
        self._is_turn_live = False
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def start(self) -> Self:
        """Begin to draw, below what has been printed."""
        self.console.print(timeline.scale(timeline.Layout.of(self.console.width)))
        if self._live is not None:
            self._live.start()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._flush()
        if self._live is not None:
            self._live.stop()

    def turn_started(self, turn: Turn) -> None:
        self._is_turn_live = True

    def stage_ready(self, turn: Turn, stage: str) -> None:
        pass

    def handed(self, turn: Turn, handed: Handed) -> None:
        pass

    def turn_ended(self, turn: Turn) -> None:
        self.turns_done += 1
        self._is_turn_live = False
        self._pending.append(timeline.block(turn, self.console.width))
        self._pending += self._after
        self._after.clear()

    def noted(self, what: str, turn: int) -> None:
        said = {
            "compacted": "history compacted: what fell out of it may be recalled again",
            "reset": "history rewound or cleared: what was delivered is forgotten",
        }.get(what)
        if said:
            line = Text(f"    ┄┄ {said} ┄┄", style="magenta")
            (self._after if self._is_turn_live else self._pending).append(line)

    def extraction(self, run: Extraction) -> None:
        self._pending.append(notes.run_line(run, self.console.width))

    def decided(self, decision: Decision) -> None:
        if self._verbose:
            self._pending.append(notes.decision_line(decision, self.console.width))

    def tick(self, turn: Turn | None, now_s: float) -> None:
        self._flush()
        if self._live is None:
            return
        parts: list[Text | Table] = []
        if turn is not None:
            now_ms = (now_s - turn.started_s) * 1000
            parts.append(timeline.block(turn, self.console.width, now_ms))
        progress = Table.grid(padding=(0, 1))
        progress.add_row(
            Text("    "),
            ProgressBar(total=max(self.turns, 1), completed=self.turns_done, width=30),
            Text(f"{self.turns_done}/{self.turns} turns", style="bright_black"),
        )
        self._live.update(Group(*parts, progress), refresh=True)

    def _flush(self) -> None:
        for text in self._pending:
            self.console.print(text, no_wrap=True, crop=True)
        self._pending.clear()
