"""The notes as a document: slices that give the same bytes, and sections that never change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notes_support import PAIRS, TITLES, assert_whole, blank, files, lines_of, markdown, written
from oncue.notes.blocks import closed, contained, headings
from oncue.notes.document import new, parse, repaired, view
from oncue.notes.template import DEFAULT
from oncue.notes_ports import NoteBudgets


@given(files)
@settings(max_examples=300, deadline=None)
def test_X20_any_file_is_parsed_and_written_byte_for_byte(text: str) -> None:
    assert parse(text).text == text


@given(files)
@settings(max_examples=300, deadline=None)
def test_I21_whatever_the_file_holds_repair_gives_all_sections_once_in_order(text: str) -> None:
    document = repaired(parse(text))
    assert_whole(document)
    assert repaired(document).text == document.text
    assert repaired(parse(document.text)).contents() == document.contents()


@given(st.lists(st.sampled_from(PAIRS), max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_F11_sections_dropped_doubled_and_reordered_lose_no_line(
    order: list[str], data: st.DataObject
) -> None:
    text = "".join(
        f"{pair}\n- line {number} {data.draw(st.sampled_from('abc'))}\n\n"
        for number, pair in enumerate(order)
    )
    document = repaired(parse(text))
    assert_whole(document)
    assert lines_of(text) == lines_of(document.text)


def test_X20_there_are_ten_sections_of_our_own() -> None:
    assert " ".join(TITLES) == ("Title Now Task Files Commands Problems System Lessons Results Log")
    assert repaired(new()).text == DEFAULT.text
    assert new().is_template
    assert not written(Log="- a").is_template


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_X23_a_file_keeps_its_line_ends_where_a_section_changes(end: str) -> None:
    text = written(Log="- a\n- b").text.replace("\n", end)
    document = parse(text).with_contents({"Task": "one\ntwo"})
    assert document.text.replace(end, "") == document.text.replace("\r", "").replace("\n", "")
    assert document.content("Task") == "one\ntwo"
    assert document.content("Log") == "- a\n- b"


def test_X20_a_hash_in_a_fence_is_no_heading() -> None:
    fenced = "```sh\n# Now\n# x\n```"
    document = written(Task=fenced, Log="- a")
    assert document.content("Task") == fenced
    assert document.content("Log") == "- a"
    assert [h.title for h in headings(f"{fenced}\n\n# Real\n")] == ["Real"]


def test_F11_a_fence_that_a_user_left_open_swallows_no_section() -> None:
    text = written(Task="before", Log="- a").text.replace("before", "before\n```\ncode")
    document = repaired(parse(text))
    assert document.content("Task") == "before\n```\ncode\n```"
    assert document.content("Log") == "- a"
    assert_whole(document)


def test_F11_a_template_that_is_quoted_in_a_fence_stays_a_quotation() -> None:
    quoted = f"```\n{DEFAULT.text}```"
    document = written(Results=quoted, Log="- a")
    assert document.content("Results") == quoted.strip()
    assert document.content("Log") == "- a"


def test_I20_what_users_add_stays_where_it_is() -> None:
    text = written(Task="t", Log="- a").text
    text = "mine first\n\n" + text.replace("# Files", "# Mine\n\nown text\n\n# Files")
    document = repaired(parse(text))
    assert document.text == text
    assert document.preamble == "mine first\n\n"
    changed = document.with_contents({"Task": "other"})
    assert changed.text == text.replace("\nt\n", "\nother\n")


def test_F11_what_was_changed_on_headings_is_put_back_and_kept_as_text() -> None:
    text = written(Now="here").text
    broken = text.replace("# Now\n", "# NOW #\n").replace(DEFAULT.sections[2].line, "_my words_")
    document = repaired(parse(broken))
    assert_whole(document)
    assert document.content("Now") == "here"
    assert document.content("Task") == "_my words_"


def test_F11_a_section_that_is_there_twice_becomes_one() -> None:
    text = written(Log="- a").text + "\n# Log\n\n- b\n"
    document = repaired(parse(text))
    assert document.content("Log") == "- a\n\n- b"
    assert_whole(document)


def test_X20_underlined_headings_are_headings_too() -> None:
    text = written(Task="t").text.replace("# Now\n", "Now\n===\n")
    assert repaired(parse(text)).text.count("# Now\n") == 1


@given(markdown)
@settings(max_examples=200, deadline=None)
def test_a_contained_text_leaves_nothing_open(text: str) -> None:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    inside = contained(text)
    assert not headings(inside)
    assert [h.title for h in headings(f"{inside}\n\n# After\n")] == ["After"]
    assert closed(inside) == inside


@pytest.mark.parametrize(
    "hostile",
    ["- a\n" * 5_000, "> " * 5_000, "```\n" * 5_000, "<!--" * 5_000, "[a\n" * 5_000, "#" * 20_000,
     "# Log\n" * 2_000, "=\n" * 5_000, "a\n=\n" * 3_000],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_no_file_takes_forever(hostile: str) -> None:
    """Quadratic ones would take minutes: the suite's own limit catches them."""
    assert_whole(repaired(parse(hostile)))


def test_X21_a_view_says_how_large_sections_are() -> None:
    shown = view(written(Log="- word\n" * 50), "r", NoteBudgets(20, 10_000))
    assert [section.title for section in shown.sections] == list(TITLES)
    log = shown.sections[-1]
    assert log.over_budget and log.tokens > 20 and log.body.startswith("- word")
    assert shown.sections[0].description == DEFAULT.sections[0].line.strip("_")
    assert not shown.is_template and shown.revision == "r"
    assert shown.text == written(Log="- word\n" * 50).text
    assert view(blank(), None, NoteBudgets(20, 10_000)).is_template
