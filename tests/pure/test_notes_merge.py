"""Three-way merge by section: nothing that the user saved is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from notes_support import (
    TITLES,
    assert_whole,
    blank,
    files,
    lines_of,
    markdown,
    plain,
    written,
)
from oncue.notes.document import parse, repaired
from oncue.notes.edits import apply
from oncue.notes.merge import merge, restored
from oncue.notes_ports import NotesRefusedError, SectionEdit

contents = st.dictionaries(st.sampled_from(TITLES), plain, max_size=5)


@given(contents, contents, contents)
@settings(max_examples=200, deadline=None)
def test_I20_every_line_ends_up_in_the_file_or_in_the_conflict_copy(
    base: dict[str, str], run: dict[str, str], user: dict[str, str]
) -> None:
    before = blank().with_contents(base)
    ours, theirs = before.with_contents(run), before.with_contents(user)
    merged = merge(before, ours, theirs)
    assert_whole(merged.document)
    kept = lines_of(merged.document.text)
    for title in TITLES:
        old, new, now = (d.content(title) for d in (before, ours, theirs))
        if now != old:
            assert merged.document.content(title) == now  # the user's text stands
            if new not in (old, now):
                assert merged.conflicts[title] == new
        else:
            assert merged.document.content(title) == new
    assert set(merged.conflicts) <= set(run)
    copy = lines_of(merged.conflict_text("n.md"))
    for title, text in user.items():
        if text != before.content(title):
            assert lines_of(text) <= kept
    assert all(lines_of(text) <= copy for text in merged.conflicts.values() if text)


@given(files, files, st.lists(st.tuples(st.sampled_from(TITLES), markdown), max_size=3))
@settings(max_examples=200, deadline=None)
def test_I20_no_line_of_any_file_is_lost(base: str, user: str, run: list[tuple[str, str]]) -> None:
    before, theirs = repaired(parse(base)), repaired(parse(user))
    try:
        ours = apply(before, [SectionEdit(*edit) for edit in (*run, ("Now", "- now"))])
    except NotesRefusedError:
        return
    merged = merge(before, ours, theirs)
    assert_whole(merged.document)
    for title in TITLES:
        # Either the user changed it, then it stands; or not, then the run may have.
        if theirs.content(title) != before.content(title):
            assert merged.document.content(title) == theirs.content(title)
    added = lines_of(theirs.text) - lines_of(before.text)
    kept = lines_of(merged.document.text)
    assert not [line for line in added - kept if not line.startswith(("#", "="))]


def test_X23_each_side_keeps_what_it_alone_changed() -> None:
    before = written(Now="n", Task="t", Log="- l")
    merged = merge(
        before,
        before.with_contents({"Now": "n2", "Log": "- l\n- run"}),
        before.with_contents({"Task": "t of the user"}),
    )
    assert not merged.conflicts
    assert merged.document.contents() | {} == before.contents() | {
        "Now": "n2",
        "Log": "- l\n- run",
        "Task": "t of the user",
    }


def test_X23_line_ends_and_blank_lines_alone_are_no_change() -> None:
    before = written(Log="- l")
    theirs = parse(before.text.replace("\n", "\r\n").replace("- l", "\r\n- l\r\n"))
    merged = merge(before, before.with_contents({"Log": "- l\n- run"}), theirs)
    assert not merged.conflicts
    assert merged.document.content("Log") == "- l\n- run"
    assert "\n" not in merged.document.text.replace("\r\n", "")


def test_X23_text_of_the_users_own_is_never_the_runs() -> None:
    before = written(Log="- l")
    theirs = parse("first\n\n" + before.text + "\n# Mine\n\nown\n")
    merged = merge(before, before.with_contents({"Log": "- run"}), theirs)
    assert merged.document.text.startswith("first\n\n# Title")
    assert merged.document.text.endswith("- run\n\n# Mine\n\nown\n")


def test_F11_a_section_whose_heading_is_gone_comes_back_an_emptied_one_does_not() -> None:
    last = written(Task="t", Files="f", Log="- l")
    torn = parse(last.text[: last.text.index("# Files")])
    assert restored(torn, last).contents() == last.contents()
    emptied = last.with_contents({"Files": ""})
    assert restored(emptied, last).content("Files") == ""
    assert restored(torn, None).content("Files") == ""
