"""What people and machines are shown."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from rich.console import Console

from oncue.replay import picture, timeline
from oncue.replay.commands import demo_command, model_line, replay_command, replay_main
from oncue.replay.lender import schedule
from oncue.replay.live import Screen
from oncue.replay.machine import Lines
from oncue.replay.report import Handed, Totals, Turn

TURNS = [
    Turn(
        1, "t1", "The deploy hangs.\nCan you find out why?", 0.0, "r1", 0.2, 3.1, 6, 2.9, 2531.0,
        [
            Handed("userQuery", 0, 3.0, "fast", "fast", ("Staging needs the tunnel",), ("a",), 40),
            Handed("toolResult", 6, 2540.0, "refined", "model", ("Roll back", "x" * 90), ("b",), 5),
        ],
        "consumed", "delivered", 2900.0, "completed", 2500.0,
    ),
    Turn(
        2, "t2", "請求書のPDFで日本語の文字が豆腐(□)になります。原因を調べてください。" * 2,
        0.0, "r2", 0.2, 9.0, 1, 2.0, None, [], "cancelled", "noSafeDeliveryPoint", 700.0,
        "completed", math.inf,
    ),
    Turn(3, "t3", "stop\x1b[31m\a", 0.0, "r3", 0.2, 1.0, 0, None, None, [], "cancelled", "abort",
         400.0, "aborted"),
    Turn(4, "t4", "", 0.0, None, ended_ms=10.0),
    Turn(5, "t5", "long", 0.0, "r5", 0.2, 1.0, 30, None, None, [], None, None, 9000.0),
]  # fmt: skip


def shown(width: int, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal, highlight=False, emoji=False, _environ={}
    )
    console.print(timeline.header([("session", "29 turns"), ("model", "none")], "oncue demo"))
    console.print(timeline.legend(True, width))
    screen = Screen(console, len(TURNS))
    sums = Totals()
    with screen.start():
        for turn in TURNS:
            screen.tick(turn, 1.0)
            screen.turn_ended(turn)
            sums.add(turn)
        screen.noted("compacted", 5)
        screen.tick(None, 1.0)
    console.print(timeline.totals(sums))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_every_line_fits_the_terminal(width: int) -> None:
    for line in shown(width).splitlines():
        assert cell_len(line) <= width, line


def test_nothing_but_text_goes_where_there_is_no_terminal() -> None:
    text = shown(100)
    assert "\x1b" not in text and "\r" not in text and "\a" not in text
    assert "Staging needs the tunnel" in text
    assert "tool 6 +2.5 s" in text
    assert "stopped with the turn (Esc)" in text
    assert "turn over before the search" in text
    assert "history compacted" in text
    assert "2.5 s" in text


def test_a_terminal_gets_colour_and_progress() -> None:
    text = shown(100, terminal=True)
    assert "\x1b[" in text
    assert "0/5 turns" in text
    assert "\x1b[31m" not in text.replace("\x1b[31;", ""), "no escape of the recording's own"


def test_marks_differ_without_colour() -> None:
    marks = (timeline.FAST, timeline.REFINED, timeline.SEARCH, timeline.ON, timeline.OLD)
    assert len(set(marks)) == len(marks)
    assert all(cell_len(mark) == 1 for mark in (*marks, timeline.LOST, timeline.CUT))


def test_a_long_turn_is_cut_visibly_and_a_lower_bound_is_said_to_be_one() -> None:
    layout = timeline.Layout.of(100)
    assert timeline.bar(TURNS[4], layout).plain.endswith(timeline.CUT)
    assert cell_len(timeline.bar(TURNS[4], layout).plain) == layout.bar
    unknown = Turn(1, "t", "q", 0.0, "r", ended_ms=100.0, state="cancelled", reason="reset")
    assert "≥ 100 ms" in timeline.block(unknown, 100).plain


def test_machines_get_one_event_a_line() -> None:
    written: list[str] = []
    lines = Lines(written.append)
    sums = Totals()
    for turn in TURNS:
        lines.turn_started(turn)
        lines.stage_ready(turn, "refined")
        for handed in turn.handed:
            lines.handed(turn, handed)
        lines.turn_ended(turn)
        sums.add(turn)
    lines.summary(sums)
    events = [json.loads(line) for line in written]
    assert [event["event"] for event in events[:5]] == [
        "turnStarted",
        "stageReady",
        "delivered",
        "delivered",
        "turnEnded",
    ]
    assert all("\n" not in line for line in written)
    never = next(e for e in events if e["event"] == "turnStarted" and e["turn"] == 2)
    assert never["scriptedModel"] == "never" and "scriptedModelMs" not in never
    assert events[-1]["event"] == "summary"
    assert events[-1]["oldLost"] == 3


def test_the_screen_says_what_is_scripted() -> None:
    assert model_line(None).startswith("none")
    said = model_line(schedule("0.9s,never"))
    assert "scripted, no real one is asked" in said
    assert "0.9 s, never" in said


# Errors


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(replay_command, arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


def test_a_missing_file_is_refused_in_words(tmp_path: Path) -> None:
    assert "there is no file" in refused(str(tmp_path / "none.jsonl"))
    said = refused(str(tmp_path))
    assert "is a folder" in said and "~/.claude/projects" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no recording of a format known"),
        ("Dear diary,\n42\n[1]\n", "no recording of a format known"),
        ('{"type":"summary","summary":"x","leafUuid":"u"}\n', "no message that a user typed"),
    ],
)
def test_T1_a_file_that_is_no_recording_is_refused_in_words(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text(content, "utf-8")
    assert said in refused(str(file))


def test_bad_options_are_refused_in_words(tmp_path: Path) -> None:
    demo = Path(timeline.__file__).parent / "demo" / "session.jsonl"
    assert "not understood" in refused(str(demo), "--latency", "soon")
    assert "there is no folder" in refused(str(demo), "--memory", str(tmp_path / "none"))
    assert "cannot start the daemon" in refused(
        str(demo), "--memory", str(demo.parent / "memory"), "--daemon", "/no/such/program"
    )
    result = CliRunner().invoke(demo_command, ["--speed", "warp"])
    assert result.exit_code == 2


def test_a_file_that_may_not_be_read_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    assert replay_main(loop) == 2
    assert str(loop) in capsys.readouterr().err


def test_the_picture_fetches_nothing_and_names_no_machine() -> None:
    album = picture.Album()
    album.head = [("memory", "the demo's own")]
    album.turns = TURNS
    svg = picture.draw(album, Totals())
    assert "<svg " in svg and "Roll&#160;back" in svg
    assert "@font-face" not in svg and "url(http" not in svg
    assert str(Path.home()) not in svg


async def test_a_compaction_is_shown_after_the_turn_it_came_in() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=100, _environ={}), 1)
    with screen.start():
        screen.turn_started(TURNS[4])
        screen.noted("compacted", 4)
        screen.tick(TURNS[4], 1.0)
        screen.turn_ended(TURNS[4])
    text = out.getvalue()
    assert text.index("long") < text.index("history compacted")
