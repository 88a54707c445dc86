"""Front matter: read forgivingly, changed without losing anything (M4, M5; D52, D54, D56)."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory_support import alias_bomb
from oncue.memory.files import MAX_FILE_BYTES
from oncue.memory.front_matter import (
    MAX_FRONT_MATTER_BYTES,
    FrontMatterUnreadableError,
    parse,
    render,
    update,
)

PLAIN = "---\nname: Deploys\ndescription: when to deploy\n---\n\nOn Mondays.\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("lead", ["", "\n", "\n \n"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "latin-1"]
)
def test_D54_front_matter_is_found_whatever_the_encoding_and_line_ends(
    newline: str, lead: str, encoding: str
) -> None:
    data = (lead + PLAIN).replace("\n", newline).encode(encoding)
    parsed = parse(data)
    assert parsed.fields == {"name": "Deploys", "description": "when to deploy"}
    assert parsed.body == "On Mondays."
    assert parsed.newline == newline
    assert parsed.editable


def test_D54_mixed_line_ends() -> None:
    parsed = parse(b"---\r\nname: a\ndescription: b\r---\r\none\ntwo\rthree")
    assert parsed.fields == {"name": "a", "description": "b"}
    assert parsed.body == "one\ntwo\nthree"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain prose",
        "# heading\n\n---\nname: not front matter\n---\n",
        "---",
        "---\n\nprose between rules\n\n---\nmore",
        "---\n- a\n- b\n---\nlist, no mapping",
        "----\nname: x\n----\n",
        "--- # heading-like\ntext\n---\n",
    ],
)
def test_M5_no_front_matter_is_all_body(text: str) -> None:
    parsed = parse(text.encode())
    assert parsed.fields == {}
    assert parsed.body == text.strip("\n")
    assert parsed.problems == ()


def test_D54_no_closing_fence_is_body_and_its_fields_are_salvaged() -> None:
    parsed = parse(b"---\nname: open\ndescription: never closed\n\nbody")
    assert parsed.fields["name"] == "open"
    assert "body" in parsed.body
    assert [p.code for p in parsed.problems] == ["unclosed"]
    with pytest.raises(FrontMatterUnreadableError):
        update(b"---\nname: open\n\nbody", {"name": "x"}, None)


def test_M5_scalars_are_text_as_written() -> None:
    parsed = parse(
        b"---\ncreated: 2026-01-02\nversion: 1.10\nyes: no\nnothing: ~\nempty:\n"
        b"keywords: [on, 0x10]\n---\n"
    )
    assert parsed.fields == {
        "created": "2026-01-02",
        "version": "1.10",
        "yes": "no",
        "nothing": None,
        "empty": None,
        "keywords": ["on", "0x10"],
    }


def test_M5_broken_yaml_is_salvaged_and_reported_with_its_line() -> None:
    parsed = parse(b"---\nname: a\ndescription: one: two\n---\nbody")
    assert parsed.fields == {"name": "a", "description": "one: two"}
    assert parsed.body == "body"
    assert not parsed.editable
    assert parsed.problems[0].code == "yaml"
    assert "line 3" in parsed.problems[0].message


def test_M5_windows_quotes_and_control_characters_do_not_hide_the_rest() -> None:
    data = b"---\nname: \x93Quoted\x94 \x07\ndescription: d\n---\nbody"
    parsed = parse(data)
    assert parsed.fields == {"name": "\ufffdQuoted\ufffd \ufffd", "description": "d"}
    assert parsed.editable
    changed = update(data, {"description": "e"}, None)
    assert changed == data.replace(b"description: d", b"description: e")


HOSTILE = {
    "aliases": (alias_bomb(), "alias"),
    "anchor alone": (b"---\na: &x y\n---\n", "alias"),
    "tag": (b"---\na: !!python/name:os.system x\n---\n", "tag"),
    "binary": (b"---\na: !!binary aGk=\n---\n", "tag"),
    "flow nesting": (b"---\na: " + b"[" * 5_000 + b"]" * 5_000 + b"\n---\n", None),
    "nesting of 10^5": (b"---\na: " + b"[" * 100_000 + b"\n---\n", None),
    "closed nesting of 10^5": (b"---\na: " + b"[" * 50_000 + b"]" * 50_000 + b"\n---\n", None),
    "mappings": (b"---\na: " + b"{a: " * 3_000 + b"\n---\n", None),
    "block nesting": (
        b"---\n" + b"".join(b" " * n + b"a:\n" for n in range(100)) + b"---\n",
        "depth",
    ),
    "10 MB scalar": (b"---\na: " + b"x" * 10_000_000 + b"\n---\n", None),
    "10 MB of lines": (b"---\n" + b"a\n" * 5_000_000, None),
    "many keys": (b"---\n" + b"".join(b"k%d: v\n" % n for n in range(2_000)) + b"---\n", None),
    "question marks": (b"---\n" + b"? " * 5_000 + b"\n---\n", None),
    "dashes": (b"---\n" + b"- " * 5_000 + b"\n---\n", None),
    "quotes": (b"---\na: " + b'"' * 10_000 + b"\n---\n", None),
    "merge": (b"---\n<<: {a: b}\n---\n", None),
    "directive": (b"---\n%YAML 9.9\n---\n", None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_D56_hostile_yaml_costs_little_and_is_refused(name: str) -> None:
    data, code = HOSTILE[name]
    tracemalloc.start()
    try:
        parsed = parse(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if len(data) <= MAX_FILE_BYTES:  # larger files are never read
        assert peak <= 10_000_000
    if code is not None:
        assert code in [p.code for p in parsed.problems]
        assert not parsed.editable


def test_D56_limit_of_the_block() -> None:
    room = MAX_FRONT_MATTER_BYTES - len("name: \n")
    assert parse(f"---\nname: {'x' * room}\n---\n".encode()).editable
    over = parse(f"---\nname: {'x' * (room + 1)}\n---\nbody".encode())
    assert [p.code for p in over.problems] == ["tooLong"]
    assert over.body == "body"


UNPARSABLE = [
    b"---\nname: a\ndescription: one: two\n---\nbody\n",
    b"---\nname: [open\n---\nbody\n",
    b'---\r\nname: "open\r\n---\r\nbody\r\n',
    b"---\nname: !tag x\n---\nbody\n",
    b"---\nname: &a x\nb: *a\n---\nbody\n",
    b"\xef\xbb\xbf---\nname: a: b\n---\nbody\n",
    alias_bomb(),
]


@pytest.mark.parametrize("data", UNPARSABLE)
def test_D52_unparsable_front_matter_is_never_rewritten(data: bytes) -> None:
    with pytest.raises(FrontMatterUnreadableError) as caught:
        update(data, {"updated": "2026-01-01T00:00:00Z"}, None)
    assert caught.value.problems
    with pytest.raises(FrontMatterUnreadableError):
        update(data, {}, "another body")


def test_M4_update_keeps_what_a_user_added() -> None:
    before = (
        "---\n# my own notes\nname: Old   # the name\nowner: {team: [a, b]}\ntype: user\n"
        "keywords:\n  - one   # first\n  - two\n\n# at the end\n---\n\nBody stays.\n\n\n"
    )
    after = update(before.encode(), {"type": "feedback", "updated": "2026-01-02"}, None).decode()
    assert after == before.replace("type: user", "type: feedback").replace(
        "# at the end\n", "# at the end\nupdated: 2026-01-02\n"
    )


def test_M4_update_without_a_change_is_byte_equal() -> None:
    before = b"\xef\xbb\xbf---\r\nname: a   \r\nx:   [ 1,2 ]\r\n...\r\n\r\n body \r\n"
    parsed = parse(before)
    assert update(before, {"name": "a", "x": ["1", "2"]}, parsed.body) == before


def test_M4_update_removes_and_replaces_multi_line_values() -> None:
    before = (
        b"---\nname: a\ndescription: >\n  long\n  text\nlist:\n- 1\n- 2\n# c\nlast: z\n---\nb\n"
    )
    after = update(before, {"description": "short", "list": None}, None)
    assert after == b"---\nname: a\ndescription: short\n# c\nlast: z\n---\nb\n"


def test_M4_update_of_a_flow_mapping() -> None:
    after = update(b"---\n{name: a, own: [1, {b: c}]}\n---\nbody\n", {"name": "b"}, None)
    assert parse(after).fields == {"name": "b", "own": ["1", {"b": "c"}]}


def test_M4_update_adds_front_matter_where_there_is_none() -> None:
    after = update(b"just text\r\nmore\r\n", {"name": "n"}, None)
    assert after == b"---\r\nname: n\r\n---\r\n\r\njust text\r\nmore\r\n"


def test_M4_update_keeps_the_encoding_and_falls_back_to_utf8() -> None:
    latin = "---\nname: Müller\n---\nStraße\n".encode("latin-1")
    assert update(latin, {"type": "user"}, None).decode("latin-1").count("ü") == 1
    other = update(latin, {"name": "東京"}, None)
    assert parse(other).fields["name"] == "東京"
    assert "Straße" in other.decode("utf-8")


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80)
value = text | st.lists(text.filter(bool), min_size=1, max_size=4)
keys = st.sampled_from(["name", "description", "type", "keywords", "created", "x-y", "no", "ключ"])
fields = st.dictionaries(keys, value, max_size=5)


@given(fields, text)
def test_M5_what_is_rendered_is_read_back(given_fields: dict[str, str], body: str) -> None:
    parsed = parse(render(given_fields, body))
    assert parsed.problems == ()
    assert parsed.fields == given_fields
    assert parsed.body == body.replace("\r\n", "\n").replace("\r", "\n").strip("\n")


@given(fields)
def test_M5_other_yaml_readers_see_the_same_text(given_fields: dict[str, str]) -> None:
    inner = render(given_fields, "").decode().split("---\n")[1]
    loaded = yaml.load(inner, Loader=yaml.CSafeLoader) or {}
    for key, expected in given_fields.items():
        if key != "created":  # stamps are written as stamps
            assert loaded[key] == expected


@given(fields, fields, st.sampled_from(["\n", "\r\n"]), st.none() | text)
def test_M4_update_gives_the_merged_fields(
    before: dict[str, str], changed: dict[str, str], newline: str, body: str | None
) -> None:
    original = render(before, "the body").decode().replace("\n", newline).encode()
    after = parse(update(original, changed, body))
    assert after.fields == {**before, **changed}
    if body is None:
        assert after.body == "the body"


@given(st.binary(max_size=400))
def test_M5_parse_takes_any_bytes(data: bytes) -> None:
    for made in (data, b"---\n" + data, b"---\nname: " + data + b"\n---\n" + data):
        parsed = parse(made)
        parsed.body.encode("utf-8", "strict" if parsed.encoding != "utf-16-le" else "replace")
        if parsed.editable:
            with contextlib.suppress(FrontMatterUnreadableError):
                update(made, {"name": "n"}, None)
