"""Draws the README's picture: `python -m oncue.replay.picture FILE.svg`.

Plays the demo for real, on this machine, and keeps some of its turns: figures are as measured.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import trio
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from oncue.replay import timeline
from oncue.replay.commands import DEMO, DEMO_BUDGET_S, DEMO_MEMORY, introduction
from oncue.replay.lender import sidecar
from oncue.replay.recording import Recording, Survey
from oncue.replay.report import Decision, Extraction, Handed, Totals, Turn
from oncue.replay.run import Play, perform
from oncue.replay.stage import Stage

WIDTH = 104
TURNS = (1, 2, 4, 6, 9, 10, 11, 12, 13, 14, 18, 22)
"""Of the demo: each kind once."""
THEME = TerminalTheme(
    (22, 24, 29),
    (214, 218, 224),
    [(22, 24, 29), (224, 108, 117), (126, 200, 130), (222, 178, 92),
     (88, 134, 196), (186, 140, 208), (86, 190, 205), (214, 218, 224)],
    [(118, 126, 140), (224, 108, 117), (126, 200, 130), (222, 178, 92),
     (88, 134, 196), (186, 140, 208), (86, 190, 205), (255, 255, 255)],
)  # fmt: skip
_FONT_FACES = re.compile(r"@font-face \{\{[^}]*\}\}\s*")
_FONT_FAMILY = re.compile(r"font-family: Fira Code, monospace;")
FONTS = (
    "font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, 'Noto Sans Mono CJK JP', "
    "monospace;"
)


class Album:
    """An Observer that keeps the turns."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.head: list[tuple[str, str]] = []

    def turn_started(self, turn: Turn) -> None:
        pass

    def stage_ready(self, turn: Turn, stage: str) -> None:
        pass

    def handed(self, turn: Turn, handed: Handed) -> None:
        pass

    def turn_ended(self, turn: Turn) -> None:
        self.turns.append(turn)

    def noted(self, what: str, turn: int) -> None:
        pass

    def extraction(self, run: Extraction) -> None:
        pass

    def decided(self, decision: Decision) -> None:
        pass

    def tick(self, turn: Turn | None, now_s: float) -> None:
        pass


def draw(album: Album, sums: Totals) -> str:
    """The picture as SVG. Fonts are the viewer's: nothing is fetched from anywhere."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, highlight=False,
        emoji=False, color_system="truecolor",
    )  # fmt: skip
    console.print(timeline.header(album.head, "oncue demo"))
    console.print(timeline.legend(True, WIDTH))
    console.print()
    console.print(timeline.scale(timeline.Layout.of(WIDTH)))
    for turn in album.turns:
        if turn.number in TURNS:
            console.print(timeline.block(turn, WIDTH), no_wrap=True, crop=True)
    console.print()
    console.print(timeline.totals(sums))
    from rich._export_format import CONSOLE_SVG_FORMAT

    form = _FONT_FAMILY.sub(FONTS, _FONT_FACES.sub("", CONSOLE_SVG_FORMAT))
    form = form.replace("<svg ", '<svg xml:space="preserve" ', 1)  # some viewers trim spaces
    return console.export_svg(
        title="oncue demo (some of its turns)", theme=THEME, code_format=form, unique_id="oncue"
    )


async def play() -> tuple[Album, Totals]:
    """The demo, with nobody watching."""
    recording = Recording(DEMO / "session.jsonl", "claude")
    survey: Survey = recording.survey()
    album = Album()
    demo = Play(
        recording=recording,
        memory=DEMO / "memory",
        shown_memory=DEMO_MEMORY,
        budget_s=DEMO_BUDGET_S,
        script=sidecar(DEMO / "model.json"),
    )

    def ready(stage: Stage, files: int) -> Album:
        album.head = introduction(demo, survey, stage, files)
        return album

    return album, await perform(demo, survey, ready)


def main(arguments: Sequence[str]) -> int:
    """Write the picture to the one file that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m oncue.replay.picture FILE.svg\n")
        return 2
    album, sums = trio.run(play)
    Path(arguments[0]).write_text(draw(album, sums), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
