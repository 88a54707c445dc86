"""Budgets: what is over them is condensed, the oldest first, visibly, never inside a fence."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from notes_support import assert_whole, files, written
from oncue.notes.blocks import fences
from oncue.notes.budget import condensed, shortened
from oncue.notes.document import parse, repaired
from oncue.notes_ports import NoteBudgets
from oncue.text import tokens

LINES = [f"- line {n} of the work" for n in range(200)]
TEXT = "\n".join(LINES)


@given(files, st.integers(1, 60), st.integers(10, 500))
@settings(max_examples=250, deadline=None)
def test_X21_condensing_is_idempotent_and_keeps_the_shape(text: str, one: int, all_: int) -> None:
    budgets = NoteBudgets(one, all_)
    once = condensed(repaired(parse(text)), budgets).document
    assert_whole(once)
    assert condensed(once, budgets).document.text == once.text
    assert condensed(parse(once.text), budgets).document.text == once.text


def test_X21_the_oldest_lines_go_and_a_line_says_how_many() -> None:
    found = condensed(written(Log=TEXT), NoteBudgets(200, 12_000))
    kept = found.document.content("Log").split("\n")
    assert kept[0].startswith("_(") and kept[0].endswith("older lines left out)_")
    rest = kept[2:]
    assert rest == LINES[-len(rest) :]
    assert kept[0] == f"_({200 - len(rest)} older lines left out)_"
    assert tokens.estimate(found.document.content("Log")) <= 200
    assert found.removed == {"Log": "\n".join(LINES[: -len(rest)])}


def test_X21_the_count_goes_on() -> None:
    budgets = NoteBudgets(200, 12_000)
    once = condensed(written(Log=TEXT), budgets).document
    more = once.content("Log") + "\n" + "\n".join(f"- new {n}" for n in range(50))
    again = condensed(once.with_contents({"Log": more}), budgets)
    kept = again.document.content("Log").split("\n")
    assert kept[0] == f"_({250 - len(kept[2:])} older lines left out)_"
    assert "older lines" not in again.removed["Log"]


def test_X21_a_fence_stays_whole_or_goes_whole() -> None:
    fence = "```\n" + "\n".join(f"code {n}" for n in range(40)) + "\n```"
    text = f"{TEXT}\n\n{fence}\n\n{TEXT}"
    for budget in range(100, 2_000, 97):
        short = shortened(text, budget * 1_000)
        blocks = fences(short)
        assert ("code 0" in short) == ("code 39" in short) == bool(blocks)
        assert short.count("```") in (0, 2)


def test_X21_quotations_and_what_hangs_below_a_line_are_not_torn() -> None:
    unit = "- item\n  below it\n\n  ```\n  # code\n  ```"
    text = "\n".join([TEXT, unit, "> quoted\n> ```\n> x\n> ```", "- last"])
    for budget in range(30, 120, 7):
        short = shortened(text, budget * 1_000)
        assert ("- item" in short) == ("# code" in short)
        assert ("> quoted" in short) == ("> x" in short)


def test_X21_a_single_giant_line_keeps_its_end_in_any_script() -> None:
    for text in ("word " * 5_000, "漢字" * 5_000, "x" * 20_000):
        short = shortened(text, 100_000)
        assert tokens.estimate(short) <= 100
        assert short.startswith("_(beginning left out)_ ")
        assert text.rstrip().endswith(short[-20:])
        assert shortened(short, 100_000) == short


def test_X21_now_and_problems_are_kept_longest() -> None:
    budgets = NoteBudgets(2_000, 2_500)
    before = written(Now=TEXT[:2_000], Problems=TEXT[:2_000], Log=TEXT, Task=TEXT, Files=TEXT)
    after = condensed(before, budgets).document
    assert tokens.estimate(after.text) <= 2_500
    assert after.content("Now") == before.content("Now")
    assert after.content("Problems") == before.content("Problems")
    assert len(after.content("Log")) < len(before.content("Log"))
    tighter = condensed(before, NoteBudgets(2_000, 1_200)).document
    assert tokens.estimate(tighter.text) <= 1_200
    assert tokens.estimate(tighter.content("Now")) > tokens.estimate(tighter.content("Log"))


def test_I20_sections_of_the_users_own_are_never_condensed() -> None:
    text = written(Log=TEXT).text + f"\n# Mine\n\n{TEXT}\n"
    after = condensed(parse(text), NoteBudgets(100, 500)).document
    assert after.text.endswith(f"# Mine\n\n{TEXT}\n")
