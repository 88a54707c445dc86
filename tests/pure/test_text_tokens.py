"""Token estimates against recorded tokenizer counts, and the laws they keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.text.tokens import estimate, weight
from pure.recorded_tokens import RECORDED


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_D73_within_35_percent_of_recorded_counts(name: str) -> None:
    text, *counts = RECORDED[name]
    for count in counts:
        assert 0.65 * count <= estimate(text) <= 1.35 * count


def test_D73_a_mixed_session_is_within_35_percent() -> None:
    texts = [text for text, *_ in RECORDED.values()]
    for at in (1, 2):
        count = sum(recorded[at] for recorded in RECORDED.values())
        assert 0.65 * count <= sum(map(estimate, texts)) <= 1.35 * count


@given(st.text(), st.text())
def test_X10_weights_are_additive_and_estimates_monotone(one: str, other: str) -> None:
    assert weight(one + other) == weight(one) + weight(other)
    assert estimate(one) <= estimate(one + other) <= estimate(one) + estimate(other)
    assert estimate(one) + estimate(other) <= estimate(one + other) + 1
    assert (estimate(one) > 0) == bool(one)


def test_script_averages_are_those_of_the_specification() -> None:
    assert 3.5 <= 400 / estimate("word and " * 44 + "four") <= 5.5
    assert 1.0 <= 300 / estimate("数据库" * 100) <= 1.5
    assert 1.0 <= 300 / estimate("データ" * 100) <= 1.5
    assert 1.0 <= 300 / estimate("데이터" * 100) <= 1.5


def test_T9_estimate_of_a_megabyte() -> None:
    assert estimate("\ud800\0" * 2**19) > 0


def test_X10_what_a_character_of_each_class_weighs() -> None:
    classes = {
        "aZ\r\0\x7f\u1200": 235, " \t": 150, "09": 720, "!/:@[`{~\n\"\\]": 480, "ßé": 480,
        "Яλ": 320,
        "אب": 330, "हไ": 400, "\u2014€": 800, "한": 710, "库。": 720, "のカ": 670, "\ufe0f": 500,
        "\U00010330": 1_500, "😀": 1_900, "\U00020000": 2_500,
    }  # fmt: skip
    for characters, expected in classes.items():
        assert {weight(one) for one in characters} == {expected}, characters
    assert weight("".join(classes)) == sum(len(text) * each for text, each in classes.items())
