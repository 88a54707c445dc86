"""Outline notes: what is in them, folded once whatever is sent, beside what users write."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notes_support import BUDGETS, TITLES, assert_whole, blank, lines_of

sys.path.insert(0, str(Path(__file__).parents[1] / "eval"))

from outline_eval import demo_messages, fold, notes_of, score, without_notes
from outline_questions import DEMO
from outline_sessions import CHINESE, GERMAN, Talk, chinese, german

from oncue.extraction.extractors.outline_entries import Command, File, Lesson, Problem, Said, Turn
from oncue.extraction.extractors.outline_fold import Fold
from oncue.notes import document
from oncue.notes.document import parse
from oncue.notes.template import parse_template
from oncue.notes_ports import NoteBudgets
from oncue.text.secrets import find
from oncue_protocol import Message, ToolCall, ToolResult

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def safe_cuts(messages: Sequence[Message]) -> list[int]:
    """Indexes before which the conversation can be cut: no result loses its call, and no call
    its result."""
    called: dict[str, int] = {}
    joined = [0] * (len(messages) + 1)
    for number, message in enumerate(messages):
        for call in message.tool_calls:
            called.setdefault(call.id, number)
        for result in message.tool_results:
            first = called.get(result.call_id)
            if first is not None:
                joined[first + 1] += 1
                joined[number + 1] -= 1
    answered = {result.call_id for message in messages for result in message.tool_results}
    for call_id, number in called.items():
        if call_id not in answered:  # still running: its result is to come
            joined[number + 1] += 1
    cuts, depth = [], 0
    for number, change in enumerate(joined):
        depth += change
        if depth == 0:
            cuts.append(number)
    return cuts


def test_outline_notes_are_worth_more_than_the_last_messages() -> None:
    messages = demo_messages()
    notes, rest = score(notes_of(messages).text), score(without_notes(messages))
    assert notes.share >= 0.95, notes.missed
    assert rest.share <= 0.5
    assert notes.tokens <= 12_000
    assert all(answered * 10 >= asked * 8 for answered, asked in notes.by_kind.values())
    assert len(DEMO) >= 70


@pytest.mark.parametrize(("talk", "asked"), [(german(), GERMAN), (chinese(), CHINESE)])
def test_outline_notes_of_german_and_chinese_sessions_answer_questions(talk, asked) -> None:  # type: ignore[no-untyped-def]
    found = score(notes_of(talk).text, asked)
    assert found.share >= 0.9, found.missed


@pytest.mark.parametrize("talk", [demo_messages(), german(), chinese()], ids=["en", "de", "zh"])
def test_outline_is_idempotent_over_a_range(talk: list[Message]) -> None:
    once = fold(blank(), talk)
    assert fold(once, talk).text == once.text
    half = safe_cuts(talk)[len(safe_cuts(talk)) // 2]
    for again in (talk[:half], talk[half:], talk[half // 2 :]):
        assert fold(once, again).text == once.text


@pytest.mark.parametrize("talk", [demo_messages(), german(), chinese()], ids=["en", "de", "zh"])
def test_outline_of_two_parts_is_that_of_the_whole(talk: list[Message]) -> None:
    wide = NoteBudgets(20_000, 100_000)
    whole = fold(blank(), talk, wide).contents()
    for cut in safe_cuts(talk)[3:-1:7]:
        first = fold(blank(), talk[:cut], wide)
        parts = fold(first, talk[cut:], wide).contents()
        overlapping = fold(first, talk, wide).contents()
        # The working folder is known once two files were seen: till then paths are whole.
        titles = [t for t in TITLES if t not in ("Files", "System", "Problems", "Log", "Title")]
        assert {t: parts[t] for t in titles} == {t: whole[t] for t in titles}, cut
        assert parts == overlapping
        for title in ("Files", "Problems", "Log"):
            assert len(parts[title].split("\n")) == len(whole[title].split("\n")), (cut, title)


def test_outline_has_nothing_to_add_twice() -> None:
    notes = fold(blank(), german())
    run = Fold(document.view(notes, "r", BUDGETS), BUDGETS)
    assert list(run.unseen(german())) == []
    made = run.extracted()
    assert made.nothing_to_add and made.edits == ()


def test_outline_keeps_what_users_write_into_the_sections() -> None:
    talk = german()
    cut = safe_cuts(talk)[3]
    notes = fold(blank(), talk[:cut])
    mine = {title: f"my words on {title}\n\n{notes.content(title)}" for title in TITLES}
    mine["Task"] += "\n  - hung below by hand\n- [ ] a task of mine"
    mine["Files"] += "\n```\n- `in a fence`: read\n```"
    edited = notes.with_contents(mine)
    after = fold(edited, talk[cut:])
    for title in TITLES:
        lost = lines_of(mine[title]) - lines_of(after.content(title))
        assert not [line for line in lost if "my words" in line or "hand" in line or "mine" in line]
    assert "```\n- `in a fence`: read\n```" in after.content("Files")
    assert after.content("Title") == mine["Title"]
    assert_whole(after)


def test_outline_follows_a_failure_to_its_mending() -> None:
    t = Talk("x")
    t.user("Make it green.")
    t.does("Bash", {"command": "make test"}, "FAILED test_a - boom\nExit code 2")
    problems = fold(blank(), t.messages).content("Problems")
    assert problems.endswith("`make test` failed: FAILED test_a - boom → not mended so far")
    assert "Still open: `make test`" in fold(blank(), t.messages).content("Now")
    t.does(
        "Edit", {"file_path": "/c/w/a.py", "old_string": "x", "new_string": "y"}, "ok", say="Typo."
    )
    t.does("Bash", {"command": "make test"}, "5 passed")
    after = fold(blank(), t.messages)
    assert after.content("Problems").endswith(
        "failed: FAILED test_a - boom → Typo. → mended: changed /c/w/a.py; `make test` worked"
    )
    assert after.content("Commands") == "- `make test`: 2×, 1 failed, last worked: 5 passed"
    assert "open" not in after.content("Now")


def test_outline_does_not_take_another_success_for_the_mending() -> None:
    t = Talk("x")
    t.user("Go.")
    t.does("Bash", {"command": "uv run pytest tests/a.py"}, "boom\nExit code 1")
    t.does("Bash", {"command": "uv run pytest tests/b.py"}, "1 passed")
    assert "not mended" in fold(blank(), t.messages).content("Problems")


def test_outline_says_what_the_user_refused() -> None:
    t = Talk("x")
    t.user("Go.")
    t.does(
        "Bash", {"command": "rm -rf build"}, "The user doesn't want to proceed with this tool use."
    )
    notes = fold(blank(), t.messages)
    assert notes.content("Lessons") == "- Refused by the user: `rm -rf build`"
    assert notes.content("Problems") == ""
    assert notes.content("Commands") == "- `rm -rf build`: refused"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Please don't touch the lock file.", True),
        ("No, use the csv module instead.", True),
        ("Always run the linter first.", True),
        ("Bitte nie direkt auf main arbeiten.", True),
        ("Nimm lieber einen Generator.", True),
        ("不要推送到主分支。", True),
        ("以后请用中文回答。", True),
        ("モックは使わないでください。", True),
        ("今後は英語で書いてください。", True),
        ("The button does not work on Safari.", False),
        ("Where is the error rate?", False),
        ("Fix the failing test.", False),
        ("原因を調べて直してください。", False),
        ("Warum ist der Test rot?", False),
    ],
)
def test_outline_learns_from_corrections_in_four_languages(text: str, kept: bool) -> None:
    t = Talk("x")
    t.user(text)
    assert (fold(blank(), t.messages).content("Lessons") == f"- {text}") == kept


def test_outline_reads_the_tools_of_all_agents() -> None:
    t = Talk("x")
    t.user("Go.")
    t.does("str_replace_editor", {"command": "str_replace", "path": "/c/w/a.py",
                                  "old_str": "def f():", "new_str": "def g():"}, "ok")  # fmt: skip
    t.does("write_file", {"file_path": "/c/w/s/b.ts", "content": "export class B {}"}, "ok")
    t.does("MultiEdit", {"file_path": "/c/w/c.rs", "edits": [
        {"old_string": "a", "new_string": "pub fn c() {}"}]}, "ok")  # fmt: skip
    t.does("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Delete File: d.go\n"
                                 "*** Update File: e.go\n@@\n-x\n+func e() {}\n*** End Patch"]},
           "Success")  # fmt: skip
    t.does("read_many_files", {"paths": ["f.py", "g.py"]}, "...")
    t.does("run_shell_command", {"command": "go vet ./...", "description": "Vet"}, "")
    t.does("local_shell", {"command": ["bash", "-lc", "ls"]}, "a")
    found = fold(blank(), t.messages)
    assert found.content("Files").split("\n") == [
        "- `a.py`: edited; in it: f, g; changed: def f(): => def g():",
        "- `s/b.ts`: written; in it: B",
        "- `c.rs`: edited; in it: c; changed: a => pub fn c() {}",
        "- `d.go`: deleted",
        "- `e.go`: edited; in it: e; changed: x => func e() {}",
        "- `f.py`: read",
        "- `g.py`: read",
    ]
    assert found.content("Commands") == "- `go vet ./...` (Vet): worked\n- `ls`: worked: a"


def test_D78_no_secret_of_the_conversation_is_in_the_notes() -> None:
    t = Talk("x")
    t.user(f"Deploy with {TOKEN} please.")
    t.does("Bash", {"command": f"curl -H 'Authorization: Bearer {TOKEN}' https://api.example.com"},
           f"denied {TOKEN}\nExit code 1", say=f"I use {TOKEN}.")  # fmt: skip
    t.does("Write", {"file_path": f"/c/w/{TOKEN}", "content": f"def x(): return '{TOKEN}'"}, "ok")
    t.does(
        "Edit", {"file_path": "/c/w/b", "old_string": TOKEN, "new_string": f"k = {TOKEN}"}, TOKEN
    )
    t.says(f"Is {TOKEN} right?")
    made = Fold(document.view(blank(), None, BUDGETS), BUDGETS)
    for message in t.messages:
        made.feed(message)
    for edit in made.extracted().edits:
        assert TOKEN not in edit.new_text and not find(edit.new_text)


def test_X24_outline_fills_only_the_sections_that_a_template_has() -> None:
    template = parse_template("# Now\n_x_\n\n# Commands\n_y_\n")
    start = document.repaired(document.new(template))
    after = fold(start, german())
    assert "pytest" in after.content("Commands")
    assert after.text.count("\n# ") == 1


def test_outline_of_a_conversation_without_words() -> None:
    empty = [Message(id="1", role="assistant"), Message(id="2", role="system", text="reminder")]
    run = Fold(document.view(blank(), None, BUDGETS), BUDGETS)
    for message in empty:
        run.feed(message)
    assert run.extracted().nothing_to_add


words = st.text(max_size=40) | st.sampled_from(
    [
        "# Now",
        "```",
        "- [abcde] x",
        "→ mended",
        "`a`",
        "``",
        "x" * 3_000,
        "<!-- outline",
        "\u2028",
        "1×",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
inputs = values | st.dictionaries(
    st.sampled_from(
        ["command", "file_path", "path", "old_string", "new_string", "content", "edits"]
    ),
    values,
    max_size=4,
)
messages = st.lists(
    st.builds(
        lambda role, text, calls, results: Message(
            id="",
            role=role,
            text=text,
            tool_calls=tuple(ToolCall(id=i, name=n, input=g) for i, n, g in calls),
            tool_results=tuple(ToolResult(call_id=i, text=o, is_error=e) for i, o, e in results),
        ),
        st.sampled_from(["user", "assistant", "tool", "system"]),
        words,
        st.lists(st.tuples(st.sampled_from("abc"), words, inputs), max_size=2),
        st.lists(st.tuples(st.sampled_from("abc"), words, st.booleans()), max_size=2),
    ),
    max_size=6,
).map(lambda found: [attrs.evolve(m, id=f"m{n}") for n, m in enumerate(found)])


@given(messages)
@settings(max_examples=250, deadline=None)
def test_outline_of_any_messages_is_whole_and_folded_once(talk: list[Message]) -> None:
    once = fold(blank(), talk)
    assert_whole(once)
    again = parse(once.text)
    assert fold(again, talk).text == once.text


@given(words, words, st.integers(1, 9), st.integers(0, 9))
@settings(max_examples=200, deadline=None)
def test_entries_are_read_back_as_they_were_written(a: str, b: str, n: int, k: int) -> None:
    from oncue.extraction.extractors.outline_text import clip

    subject, text = clip(a, 60) or "x", clip(b, 60) or "x"
    failed = k if n > 1 else min(k, 1)
    for entry in (
        Said("abcde", text),
        Command(subject, "about", n, failed, "failed" if failed else "worked", text),
        File(subject, {"read": n, "edited": 1}, ["f", "g"], [text.replace(" ⏎ ", " ")]),
        Problem(subject, text, n, text, "not mended so far", "abcde"),
        Turn("abcde", "2026-01-01 10:00", text, n, k, ["a", "b"]),
        Lesson(text),
    ):
        line = entry.line(0)
        read = type(entry).parse(line)
        assert read is not None
        assert read.line(0) == line
        assert read.key == entry.key
