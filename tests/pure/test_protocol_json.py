"""JSON in and out: what the decoder refuses, what is mended."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue_protocol import ParseError
from oncue_protocol.jsontext import dumps, loads


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": 1} {}',
        b'"\xff"',
        b'"\xed\xa0\xbd"',
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"1e999",
        b"1" * 5000,
        b"[" * 1025 + b"]" * 1025,
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'"\\ud83d',
        b'["\\ud83d",]',
        b'"\\x"',
        b"\\ud83d",
        b"01",
    ],
    ids=range(22),
)
def test_what_is_not_json_is_one_kind_of_error(body: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        loads(body)
    assert caught.value.code == -32700
    assert set(caught.value.detail or {}) == {"line", "column"}


def test_nesting_up_to_the_decoders_limit_is_read() -> None:
    value = loads(b"[" * 1024 + b"]" * 1024)
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == 1023


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\uDE00"', "\ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\\ud83d \ud83d"', "\\ud83d \ufffd"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\ud83dx\u00e4"', "\ufffdx\u00e4"),
    ],
)
def test_half_a_surrogate_pair_becomes_the_replacement_character(body: bytes, text: str) -> None:
    assert loads(body) == text


def test_numbers() -> None:
    assert loads(b"18446744073709551615") == 2**64 - 1
    assert loads(b"-9223372036854775808") == -(2**63)
    big = loads(b"18446744073709551616")
    assert type(big) is float
    assert big == 2.0**64
    assert type(loads(b"1.0")) is float
    assert type(loads(b"1")) is int


def test_bodies_may_be_any_buffer() -> None:
    assert loads(bytearray(b"[1]")) == loads(memoryview(b"[1]")) == [1]
    assert loads(bytearray(rb'"\ud83d"')) == "\ufffd"


def test_writing_mends_what_orjson_refuses() -> None:
    assert dumps({"a": "\ud83d"}) == b'{"a":"\\ufffd"}'
    assert dumps(["\ud83d\\ud83d"]) == b'["\\ufffd\\\\ud83d"]'
    assert dumps(2**70) == str(2**70).encode()
    assert dumps(("a", None)) == b'["a",null]'
    assert dumps("\u00e4") == '"\u00e4"'.encode()
    assert dumps(math.nan) == b"null"
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    assert dumps(deep) == b"[" * 401 + b"]" * 401
    with pytest.raises(TypeError):
        dumps(object())


TEXTS = st.text(st.characters())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)  # fmt: skip


@given(JSON)
def test_reading_what_the_standard_library_writes(value: Any) -> None:
    text = json.dumps(value)
    body = text.encode()
    got = loads(body)
    assert _same(got, value)


@given(JSON)
def test_reading_what_was_written(value: Any) -> None:
    body = dumps(value)
    body.decode("utf-8")
    assert _same(loads(body), value)


def _same(got: Any, value: Any) -> bool:
    """Equal but for what is documented: halves of pairs, integers beyond 64 bits."""
    if isinstance(value, str):
        # Two halves in a row are a pair to whoever reads them from JSON.
        return got == value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") or (
            got.replace("\ufffd", "") == "".join(c for c in _joined(value) if not _half(c))
        )
    if isinstance(value, int) and not isinstance(value, bool):
        return got == value if -(2**63) <= value < 2**64 else got == float(value)
    if isinstance(value, list):
        return len(got) == len(value) and all(map(_same, got, value))
    if isinstance(value, dict):
        if any(_half(c) for key in value for c in key):
            return isinstance(got, dict)
        return set(got) == set(value) and all(_same(got[k], value[k]) for k in value)
    return bool(got == value)


def _joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _half(character: str) -> bool:
    return "\ud800" <= character <= "\udfff" or character == "\ufffd"


@given(st.binary())
def test_any_bytes_give_a_value_or_a_parse_error(body: bytes) -> None:
    try:
        loads(body)
    except ParseError as error:
        assert error.message
