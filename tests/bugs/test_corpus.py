"""The table in README.md against the tests: every row is there, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (D\d\d) \| [^|]+ \| ([^|]+) \|$", re.M)
TABLE = dict(ROW.findall((TESTS / "bugs" / "README.md").read_text("utf-8")))


def test_every_row_is_accounted_for() -> None:
    assert list(TABLE) == [f"D{number:02}" for number in range(1, 83)]
    for row, told in TABLE.items():
        assert "`" in told or "another issue: " in told, row


def test_every_row_is_tested_where_the_table_says() -> None:
    for row, told in TABLE.items():
        by_id = told.replace("(by the spec's sections)", "").split(", `e2e/test_recall_ends")[0]
        for name in re.findall(r"`([^`]+)`", by_id):
            text = (TESTS / name).read_text("utf-8")
            assert re.search(rf"def test_\w*{row}_", text), f"{name} has no test of {row}"
