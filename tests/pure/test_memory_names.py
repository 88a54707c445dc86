"""Names of memory files, descriptions, and the derived index (M1, M4; D51, D61, T2; pure)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.finder import interleave
from oncue.memory import names
from oncue.memory.document import describe, one_line, stem_title
from oncue.memory.front_matter import parse
from oncue.memory.manifest import MAX_BYTES, MAX_LINES, Entry, manifest
from oncue.ports import Document

HOSTILE_NAMES = [
    "../x", "a/../../x", "/etc/x", "..\\..\\x", "%2e%2e/x", "%2e%2e%2fx", "a\0b", "x" * 300,
    "CON", "con.txt", "nul", "LPT1", "trailing dot.", "trailing space ", "..", ".", "", " ",
    ".hidden", "C:\\x", "\\\\?\\C:\\x", "a/b", "MEMORY", "memory", "🙂", "\u202egnp.exe", "a\nb",
    "ﬁne", "Ｗｉｄｅ", "İstanbul", "straße", "日本語のメモ", "한글 메모", "-", "---",
    "a" + "\u0301" * 300,
]  # fmt: skip


@pytest.mark.parametrize("title", HOSTILE_NAMES)
def test_D61_any_title_gives_a_harmless_name(title: str) -> None:
    check(names.slug(title))


@given(st.text(max_size=400))
def test_D61_any_text_gives_a_harmless_name(title: str) -> None:
    check(names.slug(title))


def check(name: str) -> None:
    assert names.problem_with(f"{name}.md") is None
    assert name == unicodedata.normalize("NFC", name)
    assert 1 <= len(name.encode()) <= names.MAX_NAME_BYTES
    assert not set(name) & set('/\\.:*?"<>|\0 ')


def test_M4_slug_is_readable_and_stable() -> None:
    assert names.slug("Incident: doubled Halvex delivery e-mails!") == (
        "incident-doubled-halvex-delivery-e-mails"
    )
    assert names.slug("提交偏好") == "提交偏好"
    assert names.slug("x" * 300) != names.slug("x" * 301)
    assert names.slug("") == names.slug("")


@pytest.mark.parametrize(
    "path",
    [
        "../x.md", "a/../../x.md", "a/../x.md", "/etc/x.md", "..", "a/..", "x.md/..", "./x.md",
        "a//x.md", "\0.md", "a\0/x.md", "%2e%2e/x.md", "CON.md", "a/nul.md", "x.md.", "x.md ",
        "x.txt", ".x.md", ".git/x.md", "C:x.md", "C:/x.md", "a\\b.md", "MEMORY.md", "memory.md",
        "sub/MEMORY.md", "x" * 300 + ".md", "a/" * 20 + "x.md", "a\u202eb.md", "a\nb.md", "a?.md",
        "",
    ],
)  # fmt: skip
def test_D61_paths_that_may_not_be_written(path: str) -> None:
    assert names.problem_with(path) is not None


@pytest.mark.parametrize("path", ["x.md", "a/b.md", "日本.md", "x y.md", "x.MD", "a.b.markdown"])
def test_D61_paths_that_may_be_written(path: str) -> None:
    assert names.problem_with(path) is None
    assert names.way_out(path) is None


@given(st.text(max_size=60))
def test_T2_one_line_fields_hold_no_invisible_characters(text: str) -> None:
    line = one_line(text, 40)
    assert len(line) <= 40
    assert "\n" not in line
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in line)
    assert one_line(line, 40) == line


def test_M5_what_a_file_leaves_out_comes_from_elsewhere() -> None:
    bare = describe(parse(b"# Deploy windows\n\n> Deploys on Mondays.\n\nMore."), "a/b.md", "user")
    assert bare.title == "Deploy windows"
    assert bare.description == "Deploys on Mondays."
    assert bare.type == "user"
    nothing = describe(parse(b""), "infra/deploy-window_2.md", "project")
    assert (nothing.title, nothing.description, nothing.type) == ("deploy window 2", "", "project")
    assert stem_title("x.md") == "x"


def test_M1_spellings_of_other_agents() -> None:
    told = describe(
        parse(
            b"---\nTitle: T\ndescription: [a, b]\nmetadata:\n  type: Feedback\n"
            b"keywords: one, two\nusageScenarios:\n- when lost\n---\nbody"
        ),
        "x.md",
        "project",
    )
    assert told.title == "T"
    assert told.description == "a, b"
    assert told.type == "feedback"
    assert told.keywords == ("one", "two")
    assert told.usage_scenarios == ("when lost",)


def entries(count: int, size: int = 10) -> list[Entry]:
    return [Entry(f"m{n}.md", f"Memory {n}", "d" * size) for n in range(count)]


def test_D51_index_at_its_cap_in_lines() -> None:
    room = MAX_LINES - 3
    assert manifest(entries(room - 1)).left_out == ()
    full = manifest(entries(room))
    assert full.left_out == ()
    assert full.text.count("\n") == MAX_LINES
    over = manifest(entries(room + 1))
    assert over.left_out == (f"m{room}.md",), "the oldest, which come last, are left out"
    assert over.text == full.text


def test_D51_index_at_its_cap_in_bytes() -> None:
    made = manifest([Entry(f"m{n}.md", "記" * 100, "憶" * 100) for n in range(150)])
    assert len(made.text.encode()) <= MAX_BYTES
    assert made.text.endswith("\n"), "whole lines only"
    assert len(made.left_out) + made.text.count("- [") == 150


def test_M1_index_lines_cannot_be_forged() -> None:
    made = manifest([Entry("a b.md", "x](http://evil)\n# heading", "one\ntwo")])
    assert made.text.count("\n") == 4
    assert "](http" not in made.text
    assert "(a%20b.md)" in made.text


def documents(prefix: str, count: int) -> list[Document]:
    return [
        Document(f"/{prefix}{n}.md", f"{prefix}{n}.md", prefix, "", "user", "user", "")
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("best", "recent", "expected"),
    [(0, 0, 0), (3, 0, 3), (0, 300, 200), (300, 300, 200), (180, 5, 185)],
)
def test_R7_manifest_of_the_best_and_the_most_recent(best: int, recent: int, expected: int) -> None:
    chosen = interleave(documents("b", best), documents("r", recent))
    assert len(chosen) == expected
    assert len({d.path for d in chosen}) == expected
    kept = [d for d in chosen if d.title == "b"]
    assert kept == documents("b", best)[: len(kept)], "rank order is kept"
    if best >= 180 and recent >= 20:
        assert sum(d.title == "r" for d in chosen[:50]) >= 4, "spread evenly"
