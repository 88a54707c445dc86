"""The user's own template and prompt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.notes.document import new, repaired
from oncue.notes.overrides import load_prompt, load_template
from oncue.notes.template import DEFAULT, TemplateError, parse_template, substitute

OWN = "# Now\n_where it stands_\n\n# Ideas\n*for later*\n"


def test_X24_a_template_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "template.md").write_text(OWN)
    template, warning = load_template(tmp_path)
    assert warning is None
    assert [(s.title, s.line, s.description) for s in template.sections] == [
        ("Now", "_where it stands_", "where it stands"),
        ("Ideas", "*for later*", "for later"),
    ]
    assert template.text == repaired(new(template)).text == OWN


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no level-1 heading"),
        ("words", "no level-1 heading"),
        ("```\n# Now\n_x_\n```\n", "no level-1 heading"),
        ("before\n\n" + OWN, "text before"),
        ("# Ideas\n_x_\n", "'Now' is missing"),
        (OWN + "# now\n_x_\n", "a title occurs twice"),
        ("# Now\n", "does not consist of"),
        ("# Now\nno italics\n", "does not consist of"),
        ("# Now\n_x_\n\ntext below\n", "does not consist of"),
        ("Now\n===\n_x_\n", "is not `# Title`"),
        ("#  Now\n_x_\n", "is not `# Title`"),
        ("# Now #\n_x_\n", "is not `# Title`"),
        ("# Now\n_x_\n\n# \n_y_\n", "is not `# Title`"),
        ("".join(f"# S{n}\n_x_\n" for n in range(50)), "more than 40 sections"),
    ],
)
def test_X24_a_broken_template_falls_back_with_a_warning(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "template.md").write_text(text)
    template, warning = load_template(tmp_path)
    assert template == DEFAULT
    assert warning is not None and why in warning and str(tmp_path / "template.md") in warning


def test_X24_no_file_is_no_warning(tmp_path: Path) -> None:
    assert load_template(tmp_path) == (DEFAULT, None)
    assert load_prompt(tmp_path) == (None, None)


@pytest.mark.parametrize("name", ["template.md", "prompt.md"])
@pytest.mark.parametrize("what", ["pipe", "folder", "large", "latin", "loop"])
def test_X24_whatever_lies_there_is_said_and_stops_nothing(
    tmp_path: Path, name: str, what: str
) -> None:
    path = tmp_path / name
    match what:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "large":
            path.write_text(OWN * 10_000)
        case "latin":
            path.write_bytes(b"# Now\n_caf\xe9_\n")
        case "loop":
            path.symlink_to(path)
    loaded, warning = load_template(tmp_path) if name == "template.md" else load_prompt(tmp_path)
    assert loaded == (DEFAULT if name == "template.md" else None)
    assert warning is not None and "is not used: " in warning and name in warning


def test_X24_a_prompt_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_bytes(b"\xef\xbb\xbfRead {{currentNotes}}\r\n")
    assert load_prompt(tmp_path) == ("Read {{currentNotes}}\n", None)
    (tmp_path / "prompt.md").write_text(" \n")
    text, warning = load_prompt(tmp_path)
    assert text is None and warning is not None and "it is empty" in warning


def test_X24_names_are_replaced_in_one_pass_and_unknown_ones_stay() -> None:
    values = {"currentNotes": "{{notesPath}} {{currentNotes}}", "notesPath": "/n.md"}
    text = "{{currentNotes}} | {{notesPath}} | {{other}} | {{ notesPath }} | {notesPath} | {{}}"
    assert substitute(text, values) == (
        "{{notesPath}} {{currentNotes}} | /n.md | {{other}} | {{ notesPath }} | {notesPath} | {{}}"
    )


@given(st.text(st.sampled_from("{}ab")), st.text(st.sampled_from("{}ab\\1")))
def test_X24_no_value_is_read_as_a_pattern(text: str, value: str) -> None:
    assert substitute(text, {}) == text
    assert substitute(f"{text} {{{{name}}}}", {"name": value}).endswith(value)


@given(st.text())
def test_X24_any_text_is_a_template_or_an_error(text: str) -> None:
    try:
        template = parse_template(text)
    except TemplateError:
        return
    assert repaired(new(template)).text == template.text
