"""Section edits: what a run may do to the notes, and what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notes_support import BUDGETS, TITLES, assert_whole, blank, edits, files, markdown, written
from oncue.notes.document import parse, repaired
from oncue.notes.edits import apply, check_shrink
from oncue.notes.template import DEFAULT
from oncue.notes_ports import NoteBudgets, NotesRefusedError, SectionEdit

titles = st.sampled_from(TITLES) | st.sampled_from(["now", "LOG", " Task ", "Mine", "", "# Log"])
edit = st.builds(SectionEdit, titles, markdown, st.none() | markdown | st.just("- a"))


@given(files, st.lists(st.lists(edit, max_size=4), max_size=3))
@settings(max_examples=250, deadline=None)
def test_I21_after_any_edits_all_sections_are_there_once_in_order(
    text: str, runs: list[list[SectionEdit]]
) -> None:
    document = repaired(parse(text))
    for run in runs:
        before = document
        try:
            document = apply(document, [*run, SectionEdit("Now", "now")])
        except NotesRefusedError:
            document = before
        assert_whole(document)


def test_X19_a_whole_body_or_a_part_that_occurs_once() -> None:
    document = written(Task="one two two", Now="x")
    after = apply(document, [SectionEdit("Task", "three", "one"), *edits(Now="y", Log="- l")])
    assert after.content("Task") == "three two two"
    assert after.content("Log") == "- l"
    for old in ("two", "four", "", "  "):
        with pytest.raises(NotesRefusedError, match="old text for 'Task'"):
            apply(document, [SectionEdit("Task", "z", old), *edits(Now="y")])


def test_X19_old_text_is_found_whatever_the_line_ends() -> None:
    document = parse(written(Task="one\ntwo", Now="x").text.replace("\n", "\r\n"))
    after = apply(document, [SectionEdit("Task", "1\r\n2", "one\r\ntwo"), *edits(Now="y")])
    assert after.content("Task") == "1\n2"


@pytest.mark.parametrize("title", ["Plan", "", "/etc/passwd", "../Now", "# Now", "Now\nTask"])
def test_X19_an_unknown_section_is_refused(title: str) -> None:
    with pytest.raises(NotesRefusedError, match="there is no section"):
        apply(blank(), [SectionEdit(title, "x"), *edits(Now="y")])


def test_X20_a_run_that_changes_anything_refreshes_now() -> None:
    with pytest.raises(NotesRefusedError, match="'Now' was not refreshed although Task changed"):
        apply(blank(), edits(Task="x"))
    with pytest.raises(NotesRefusedError, match="'Now'"):
        apply(written(Now="n"), edits(Task="x", Now="  "))
    assert apply(written(Task="x"), edits(Task="x")).content("Task") == "x"  # changes nothing
    assert apply(written(Now="n"), edits(Task="x", Now="n")).content("Task") == "x"


def test_X20_an_own_heading_repeated_is_taken_off() -> None:
    now = DEFAULT.sections[1]
    for text in (
        f"{now.heading}\n{now.line}\n\nhere",
        f"{now.heading}\n\nhere",
        f"{now.line}\nhere",
    ):
        assert apply(blank(), edits(Now=text)).content("Now") == "here"


def test_X20_other_headings_become_level_two_and_the_templates_are_refused() -> None:
    after = apply(blank(), edits(Now="# Step\n\ntext\n\nStep two\n===\n\n```\n# kept\n```"))
    assert after.content("Now") == "## Step\n\ntext\n\nStep two\n---\n\n```\n# kept\n```"
    for heading in ("# Log", "#   log  #", "Log\n==="):
        with pytest.raises(NotesRefusedError, match="holds the heading of 'Log'"):
            apply(blank(), edits(Now=f"text\n\n{heading}\n\nmore"))
    with pytest.raises(NotesRefusedError, match="holds the heading of"):
        apply(blank(), edits(Now=DEFAULT.text))


def test_X20_a_fence_left_open_is_closed() -> None:
    after = apply(blank(), edits(Now="```py\nx = 1"))
    assert after.content("Now") == "```py\nx = 1\n```"
    assert_whole(after)


def test_D49_a_runaway_answer_is_refused() -> None:
    with pytest.raises(NotesRefusedError, match="shorten it"):
        apply(blank(), edits(Now="x" * 300_000))


LONG = "\n".join(f"- line {n} of what was done" for n in range(60))


def test_X22_notes_do_not_shrink_by_more_than_thirty_percent() -> None:
    before = written(Now="n", Task=LONG, Log=LONG)
    for text in ("", "- gone", LONG[: len(LONG) // 4]):
        after = apply(before, edits(Task=text, Now="m"))
        with pytest.raises(NotesRefusedError, match="shrink the notes from"):
            check_shrink(before, after, BUDGETS)
    check_shrink(before, apply(before, edits(Task=LONG[: len(LONG) * 3 // 5], Now="m")), BUDGETS)


def test_X22_where_they_are_over_budget_they_may_shrink_but_not_vanish() -> None:
    before = written(Now="n", Task=LONG, Log=LONG)
    tight = NoteBudgets(200, 12_000)
    half = apply(before, edits(Task=LONG[: len(LONG) // 4], Log=LONG[: len(LONG) // 4], Now="m"))
    check_shrink(before, half, tight)
    with pytest.raises(NotesRefusedError, match="shrink the notes"):
        check_shrink(before, apply(before, edits(Task="", Log="- x", Now="m")), tight)


def test_X22_empty_notes_are_refused_however_small_they_were() -> None:
    before = written(Now="n", Log="- a")
    after = before.with_contents({"Now": "", "Log": ""})
    with pytest.raises(NotesRefusedError, match="leave the notes empty"):
        check_shrink(before, after, BUDGETS)


def test_X22_a_shorter_now_alone_is_no_loss() -> None:
    before = written(Now=LONG, Log="- a")
    check_shrink(before, apply(before, edits(Now="short", Log="- a\n- b")), BUDGETS)
