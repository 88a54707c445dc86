"""Cursors and the one fenced commit: notes and cursor move together, once (X9, X12, I18, §5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.notes_ports import NotesMovedError
from oncue.store.claims import Claim, Claims, LostClaimError
from oncue.store.cursors import KEPT_RANGES, Cursor, Cursors, NotWantedError
from oncue.store.sessions_db import SessionsDb


class Desk:
    def __init__(self, folder: Path) -> None:
        self.db = SessionsDb(folder)
        self.claims = Claims(self.db)
        self.cursors = Cursors(self.db, self.claims)
        self.notes = "old"

    def claim(self, session_id: str = "s") -> Claim:
        answer = self.claims.claim(self.cursors.lease_name(session_id))
        assert isinstance(answer, Claim)
        return answer

    def commit(
        self, claim: Claim, key: str, cursor: Cursor, text: str | None = "new"
    ) -> str | None:
        def publish() -> str:
            assert text is not None
            self.notes = text
            return text

        return self.cursors.commit(
            claim,
            "s",
            key,
            cursor,
            publish=None if text is None else publish,
            is_wanted=lambda: True,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "state")
    yield made
    made.db.close()


def cursor(through: str, revision: str | None = "new") -> Cursor:
    return Cursor(through, through, 12_000, True, revision, through.encode() * 3)


def test_I18_notes_and_cursor_move_together(desk: Desk) -> None:
    claim = desk.claim()
    assert desk.cursors.load("s") is None
    assert desk.commit(claim, "k1", cursor("m1")) == "new"
    assert (desk.notes, desk.cursors.load("s")) == ("new", cursor("m1"))
    assert [one.session_id for one in desk.cursors.known()] == ["s"]


def test_X12_neither_moves_for_who_was_taken_over(desk: Desk, tmp_path: Path) -> None:
    claim = desk.claim()
    other = Desk(tmp_path / "state")
    other.claims.stale_boot_s = other.claims.stale_mono_s = 0.0
    second = other.claim()
    for attempt in (
        lambda: desk.commit(claim, "k1", cursor("m1")),
        lambda: desk.cursors.intend(claim, "s", "k1", cursor("m1"), "new"),
        lambda: desk.cursors.reconcile(claim, "s", None),
    ):
        with pytest.raises(LostClaimError):
            attempt()
    assert (desk.notes, desk.cursors.load("s")) == ("old", None)
    assert other.commit(second, "k1", cursor("m1"), "theirs") == "theirs"
    other.db.close()


def test_X12_neither_moves_where_the_run_was_voided(desk: Desk) -> None:
    claim = desk.claim()
    with pytest.raises(NotWantedError):
        desk.cursors.commit(
            claim, "s", "k", cursor("m1"), publish=lambda: "new", is_wanted=lambda: False
        )
    assert (desk.notes, desk.cursors.load("s")) == ("old", None)


@pytest.mark.parametrize("error", [NotesMovedError(), OSError(28, "No space left on device")])
def test_I18_neither_moves_where_publishing_fails(desk: Desk, error: Exception) -> None:
    claim = desk.claim()

    def publish() -> str:
        raise error

    with pytest.raises(type(error)):
        desk.cursors.commit(claim, "s", "k", cursor("m1"), publish=publish, is_wanted=lambda: True)
    assert desk.cursors.load("s") is None
    assert desk.commit(claim, "k", cursor("m1")) == "new"


def test_I18_a_range_is_applied_once(desk: Desk) -> None:
    claim = desk.claim()
    assert desk.commit(claim, "k1", cursor("m1"), "first") == "first"
    assert desk.commit(claim, "k1", cursor("m1"), "again") is None
    assert desk.notes == "first"


def test_I18_a_crash_between_notes_and_cursor_is_finished_by_the_next_run(desk: Desk) -> None:
    claim = desk.claim()
    desk.cursors.intend(claim, "s", "k1", cursor("m1"), "new")
    # Here the notes were put in place, and the process died before its commit.
    desk.claims.release(claim)
    again = desk.claim()
    assert desk.cursors.reconcile(again, "s", "new") == cursor("m1")
    assert desk.cursors.load("s") == cursor("m1")
    assert desk.commit(again, "k1", cursor("m1"), "twice") is None
    assert desk.notes == "old"


@pytest.mark.parametrize("revision", [None, "old", "edited by the user"])
def test_I18_a_crash_before_the_notes_were_written_moves_nothing(
    desk: Desk, revision: str | None
) -> None:
    claim = desk.claim()
    desk.cursors.intend(claim, "s", "k1", cursor("m1"), "new")
    assert desk.cursors.reconcile(claim, "s", revision) is None
    assert desk.cursors.reconcile(claim, "s", "new") is None  # the intent is gone
    assert desk.commit(claim, "k1", cursor("m1")) == "new"


def test_a_commit_without_notes_moves_the_cursor(desk: Desk) -> None:
    assert desk.commit(desk.claim(), "k1", cursor("m1", None), None) is None
    assert desk.cursors.load("s") == cursor("m1", None)


def test_a_flipped_bit_is_no_cursor(desk: Desk) -> None:
    desk.commit(desk.claim(), "k1", cursor("m1"))
    desk.db.write(lambda c: c.execute("UPDATE cursor SET ids = ?", (b"other",)))
    assert desk.cursors.load("s") is None


def test_idempotency_keys_are_bounded(desk: Desk) -> None:
    for number in range(KEPT_RANGES + 10):
        desk.commit(desk.claim(), f"k{number}", cursor(f"m{number}"))
    count = desk.db.read(lambda c: c.execute("SELECT count(*) FROM applied").get)
    assert count == KEPT_RANGES
    assert desk.commit(desk.claim(), f"k{KEPT_RANGES + 9}", cursor("m"), "again") is None


def test_forget_keeps_the_token_and_purge_leaves_nothing(desk: Desk) -> None:
    claim = desk.claim()
    desk.commit(claim, "k1", cursor("message-of-this-session"))
    desk.cursors.intend(claim, "s", "k2", cursor("message-of-this-session"), "r")
    desk.cursors.forget("s")
    assert desk.cursors.load("s") is None
    desk.commit(claim, "k1", cursor("message-of-this-session"))
    assert desk.cursors.purge("s") == 3  # cursor, idempotency key, lease
    assert desk.cursors.purge("s") == 0
    with pytest.raises(LostClaimError):
        desk.commit(claim, "k3", cursor("m3"))
    assert desk.claim().token > claim.token
    desk.db.close()
    for path in desk.db.folder.iterdir():
        assert b"message-of-this-session" not in path.read_bytes(), path


def test_two_sessions_do_not_disturb_each_other(desk: Desk) -> None:
    one, other = desk.claim("s"), desk.claim("t")
    desk.commit(one, "k1", cursor("m1"))
    assert desk.cursors.load("t") is None
    desk.cursors.purge("t")
    assert desk.cursors.load("s") == cursor("m1")
    assert desk.claims.beat(one)
    assert not desk.claims.beat(other)
