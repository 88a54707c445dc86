"""The keeper on a virtual clock: when runs start, what they see, what moves (X5-X14, X16-X18)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve
from structlog.testing import capture_logs

from keeper_doubles import (
    FAILS,
    Bench,
    PaperNotes,
    ScriptedExtractor,
    calls,
    inline,
    results,
    says,
    user,
)
from oncue.extraction.events import RunEnded, RunStarted
from oncue.extraction.ports import Tools
from oncue.notes_ports import NotesRefusedError
from oncue.store.claims import Claims
from oncue.store.cursors import Cursor
from oncue.store.sessions_db import SessionsDb
from oncue_protocol import Message, StoreUnavailable

Clock = trio.testing.MockClock
BUSY = (user("u1"), says("a1", 12_000))
"""Enough for a run at a natural pause."""


@pytest.fixture(autouse=True)
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocking work is done at once, but where a test asks for `real_threads`."""
    if "real_threads" not in request.fixturenames:
        monkeypatch.setattr(trio.to_thread, "run_sync", inline)


@pytest.fixture
def real_threads() -> None:
    """See `threads`."""


def seen(bench: Bench) -> list[list[str]]:
    return [[m.id for m in snapshot.messages] for snapshot in bench.extractor.seen]


# ---- X5: when ------------------------------------------------------------------------------------


async def test_X7_each_append_is_evaluated(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), says("a1", 9_000))
    bench.append(user("u2"), calls("a2", "1", context=12_000))
    bench.append(results("r2", "1"))
    assert bench.decisions() == [("skipped", "belowInitThreshold"), ("skipped", "waitingForPause")]
    bench.append(says("a3", 12_500))
    assert bench.decisions()[-1] == ("started", "naturalPause")
    await bench.idle()
    assert seen(bench) == [["u1", "a1", "u2", "a2", "r2", "a3"]]
    assert bench.outcomes() == [("settled", None)]
    bench.append(user("u3"))
    assert bench.decisions()[-1] == ("skipped", "belowUpdateThreshold")


async def test_X5_armed_starts_when_the_last_result_arrives(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    assert bench.decisions() == [("armed", "toolCallThreshold")]
    assert bench.keeper.status().state == "armed"
    bench.append(results("r1", "2"))
    bench.append(user("s1", "steering"))
    bench.append(results("r2", "1"))
    assert bench.starts() == []
    bench.append(results("r3", "3"))
    assert len(bench.starts()) == 1
    await bench.idle()
    assert seen(bench) == [["u1", "a1", "r1", "s1", "r2", "r3"]]


async def test_X5_armed_starts_when_the_turn_ends(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    bench.keeper.turn_ended()
    assert len(bench.starts()) == 1
    await bench.idle()
    assert [m.tool_calls for m in bench.extractor.seen[0].messages] == [(), ()]


async def test_X5_armed_starts_when_the_next_turn_opens_not_with_steering(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    bench.append(user("s1", "steering"))
    assert bench.keeper.status().state == "armed"
    bench.keeper.turn_started()
    assert bench.keeper.status().state == "running"
    await bench.idle()


async def test_X5_armed_starts_behind_a_complete_response_of_the_same_batch(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    bench.append(results("r1", "1", "2", "3"), calls("a2", "4"))
    assert len(bench.starts()) == 1
    await bench.idle()
    assert seen(bench) == [["u1", "a1", "r1"]]
    assert bench.keeper.lag.messages == 1


@pytest.mark.parametrize("trigger", ["manual", "compaction", "close"])
async def test_X6_other_triggers_ignore_thresholds_but_not_the_tool_call(
    nursery: trio.Nursery, tmp_path: Path, trigger: str
) -> None:
    bench = Bench(nursery, tmp_path)
    assert bench.extract(trigger).decision == "skipped"
    bench.append(user("u1"), calls("a1", "1", context=100))
    answer = bench.extract(trigger)
    assert (answer.decision, answer.reason) == ("armed", trigger)
    bench.append(results("r1", "1"))
    await bench.idle()
    assert bench.outcomes() == [("settled", None)]
    answer = bench.extract(trigger)
    assert (answer.decision, answer.reason) == ("skipped", "nothingNew")


async def test_X27_private_sessions_have_no_runs(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path, private=True)
    bench.append(*BUSY)
    bench.keeper.turn_ended()
    assert bench.extract().reason == "private"
    assert await bench.keeper.load() is None
    bench.keeper.did_reset("cleared")
    await bench.keeper.quiet()
    assert bench.starts() == []
    assert list(tmp_path.iterdir()) == []


async def test_X7_disabled(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path, enabled=False)
    bench.append(*BUSY)
    assert bench.decisions() == [("skipped", "disabled")]


async def test_X7_switched_off_while_armed(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    assert bench.keeper.status().state == "armed"
    bench.settings = evolve(bench.settings, enabled=False)
    bench.append(results("r1", "1", "2", "3"))
    assert bench.keeper.status().state == "idle"
    assert bench.starts() == []


async def test_X7_I27_decisions_and_ends_stand_in_the_log_without_content(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(error=ValueError("canary")))
    with capture_logs() as logs:
        bench.append(user("u1", "canary"), says("a1", 12_000, text="canary"))
        await bench.idle()
    told = [(one["event"], one.get("reason"), one["log_level"]) for one in logs]
    assert ("extraction decided", "naturalPause", "info") in told
    assert ("extraction ended", "broke: ValueError", "warning") in told
    assert "canary" not in repr(logs)


# ---- X11: single flight --------------------------------------------------------------------------


async def test_X11_requests_during_a_run_join_it_and_one_run_trails(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    bench.append(*BUSY)
    await trio.testing.wait_all_tasks_blocked()
    run_id = bench.starts()[0].run_id
    bench.append(user("u2"), says("a2", 12_100))
    for _ in range(5):
        answer = bench.extract()
        assert (answer.decision, answer.run_id) == ("joined", run_id)
    bench.extractor.gate.set()
    await bench.idle()
    assert seen(bench) == [["u1", "a1"], ["u2", "a2"]]
    assert [type(e) for e in bench.events if isinstance(e, RunStarted | RunEnded)] == [
        RunStarted,
        RunEnded,
    ] * 2
    assert bench.notes.published == ["[u1,a1]", "[u1,a1][u2,a2]"]


async def test_X11_no_run_trails_where_nothing_is_new(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    bench.append(*BUSY)
    bench.extract()
    bench.extractor.gate.set()
    await bench.idle()
    assert len(bench.starts()) == 1
    assert bench.decisions()[-1] == ("skipped", "nothingNew")


async def test_X11_a_run_of_another_process_is_joined_by_waiting_for_its_claim(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    """It has covered the whole range meanwhile: nothing is left to do, and the cursor is ours."""
    other = Claims(SessionsDb(tmp_path))
    bench = Bench(nursery, tmp_path)
    held = other.claim("extraction/s")
    bench.append(*BUSY)
    await trio.sleep(5)
    assert bench.keeper.status().state == "running"
    assert bench.extractor.seen == []
    chosen = bench.conversation.unsummarised()
    assert chosen is not None
    bench.cursors.commit(
        held,  # type: ignore[arg-type]
        "s",
        "k",
        Cursor("a1", "a1", 12_000, True, None, chosen.ids),
        publish=None,
        is_wanted=lambda: True,
    )
    other.release(held)  # type: ignore[arg-type]
    await bench.idle()
    assert bench.outcomes() == [("settled", "nothingNew")]
    assert bench.extractor.seen == []
    assert (bench.keeper.processed_through, bench.keeper.lag.messages) == ("a1", 0)


# ---- X9, X10: what moves ------------------------------------------------------------------------


async def test_X9_success_moves_base_cursor_and_lag(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(user("u1"), calls("a1", "1", "2", "3", context=12_000))
    bench.append(results("r1", "1", "2", "3"))
    await bench.idle()
    keeper = bench.keeper
    assert (keeper.processed_through, keeper.last_summarized) == ("r1", None)
    counters = keeper.status().counters
    assert counters.tokens_at_last_extraction == counters.context_tokens
    assert counters.tool_calls_since == 0
    bench.append(says("a2", 17_100))
    await bench.idle()
    assert (keeper.processed_through, keeper.last_summarized) == ("a2", "a2")
    assert bench.cursors.load("s") is not None
    bench.append(user("u2"), calls("a3", "4", "5", "6", context=30_000))
    bench.append(results("r3", "4", "5", "6"))
    await bench.idle()
    assert (keeper.processed_through, keeper.last_summarized) == ("r3", "a2")


@pytest.mark.parametrize(
    ("extractor", "outcome", "reason"),
    [
        ({"error": FAILS}, "failed", "the endpoint answered 503"),
        ({"error": ValueError("secret sk-1234")}, "failed", "broke: ValueError"),
        ({"says_nothing": True}, "failed", "noVerifiedEdit"),
    ],
)
async def test_D65_X10_nothing_moves_without_a_verified_outcome(
    nursery: trio.Nursery, tmp_path: Path, extractor: Any, outcome: str, reason: str
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(**extractor))
    bench.append(*BUSY)
    await bench.idle()
    assert bench.outcomes() == [(outcome, reason)]
    assert bench.notes.text == ""
    assert bench.cursors.load("s") is None
    assert (bench.keeper.processed_through, bench.keeper.lag.messages) == (None, 2)
    assert bench.keeper.status().counters.tokens_at_last_extraction == 0


async def test_X10_nothing_to_add_is_a_success(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(adds=False))
    bench.append(*BUSY)
    await bench.idle()
    assert bench.outcomes() == [("settled", "nothingToAdd")]
    assert bench.notes.prepared == 0
    assert bench.keeper.status().counters.tokens_at_last_extraction == 12_000
    cursor = bench.cursors.load("s")
    assert cursor is not None
    assert (cursor.processed_through, cursor.notes_revision) == ("a1", None)


async def test_D66_a_hundred_turns_with_nothing_to_save(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """10,000 tokens to begin with, then 1,000 a turn: a run each 5,000, not each turn."""
    bench = Bench(nursery, tmp_path, ScriptedExtractor(adds=False))
    for turn in range(100):
        bench.append(user(f"u{turn}"), says(f"a{turn}", 10_000 + 1_000 * turn))
        bench.keeper.turn_ended()
        await bench.idle()
    assert len(bench.starts()) == 20
    assert bench.keeper.lag.messages <= 10


async def test_X9_refused_notes_move_nothing(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.notes.refuse = NotesRefusedError("the result is 40 % shorter")
    bench.append(*BUSY)
    await bench.idle()
    assert bench.outcomes() == [("failed", "notesRefused: the result is 40 % shorter")]
    bench.notes.refuse = OSError(28, "No space left on device")
    bench.extract()
    await bench.idle()
    assert bench.outcomes()[-1] == ("failed", "notesUnavailable: No space left on device")
    bench.notes.refuse = None
    bench.extract()
    await bench.idle()
    assert bench.outcomes()[-1] == ("settled", None)
    assert seen(bench) == [["u1", "a1"]] * 3


async def test_X23_notes_that_moved_are_merged_again(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.notes.moves = 2
    bench.append(*BUSY)
    await bench.idle()
    assert bench.outcomes() == [("settled", None)]
    assert (bench.notes.prepared, bench.notes.discarded) == (3, 2)
    bench.notes.moves = 99
    bench.append(user("u2"), says("a2", 18_000))
    await bench.idle()
    assert bench.outcomes()[-1][0] == "failed"
    assert (bench.notes.prepared, bench.notes.discarded) == (6, 5)
    assert bench.notes.published == ["[u1,a1]"]


# ---- X8: resets and compactions ------------------------------------------------------------------


async def test_X8_cleared_voids_the_run_and_archives_the_notes(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    bench.append(*BUSY)
    await trio.testing.wait_all_tasks_blocked()
    bench.conversation.reset()
    bench.keeper.did_reset("cleared")
    assert bench.outcomes() == [("cancelled", "reset")]
    assert bench.keeper.status().state == "idle"
    assert bench.keeper.status().counters.context_tokens == 0
    # A new run begins only when the old one has wound down and the notes are put away.
    bench.append(user("v1"), says("b1", 20_000))
    bench.extractor.gate = None
    await bench.idle()
    assert bench.archived == 1
    assert bench.notes.text == "[v1,b1]"
    cursor = bench.cursors.load("s")
    assert cursor is not None
    assert cursor.processed_through == "b1"


async def test_X8_rewound_voids_the_run_and_keeps_the_notes(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(*BUSY)
    await bench.idle()
    bench.extractor.gate = trio.Event()
    bench.append(user("u2"), says("a2", 18_000))
    await trio.testing.wait_all_tasks_blocked()
    bench.conversation.reset(rewound=True)
    bench.keeper.did_reset("rewound")
    assert bench.outcomes()[-1] == ("cancelled", "reset")
    bench.append(*BUSY)
    assert (bench.keeper.lag.messages, bench.keeper.processed_through) == (0, "a1")
    bench.extractor.gate = None
    bench.append(user("w2"), says("b2", 18_000))
    await bench.idle()
    assert bench.archived == 0
    assert bench.notes.text == "[u1,a1][w2,b2]"


async def test_X8_a_reset_while_notes_are_put_in_place(
    nursery: trio.Nursery, tmp_path: Path, real_threads: None
) -> None:
    """Too late to be stopped: the notes are archived behind it, and nothing of it is kept."""
    bench = Bench(nursery, tmp_path)
    bench.notes.hold = threading.Event()
    bench.append(*BUSY)
    while not bench.keeper._task or not bench.keeper._task.is_committing:
        await trio.sleep(0)
    assert not bench.keeper.cancel()
    bench.conversation.reset()
    bench.keeper.did_reset("cleared")
    bench.notes.hold.set()
    await bench.idle()
    assert bench.outcomes() == [("cancelled", "reset")]
    assert bench.archived == 1
    assert bench.cursors.load("s") is None
    assert (bench.keeper.processed_through, bench.keeper.last_summarized) == (None, None)
    assert bench.keeper.status().counters.tokens_at_last_extraction == 0


async def test_X8_compaction_sets_the_base(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(*BUSY)
    await bench.idle()
    bench.conversation.compact(None, 3_000)
    bench.keeper.did_compact()
    counters = bench.keeper.status().counters
    assert (counters.context_tokens, counters.tokens_at_last_extraction) == (3_000, 3_000)
    bench.append(user("u2"), says("a2", 7_900))
    assert bench.decisions()[-1] == ("skipped", "belowUpdateThreshold")
    bench.append(user("u3"), says("a3", 8_000))
    assert bench.decisions()[-1] == ("started", "naturalPause")
    await bench.idle()


# ---- X13, X14: every way a run may end -----------------------------------------------------------


def free_at_once(bench: Bench) -> bool:
    """Whether another process gets the claim now."""
    other = Claims(SessionsDb(bench.claims.db.folder))
    answer = other.claim(f"extraction/{bench.session_id}")
    other.db.close()
    return hasattr(answer, "owner")


@pytest.mark.parametrize("how", ["client", "close", "shutdown", "reset", "purge"])
async def test_X14_X18_every_end_releases_the_claim_and_is_told_once(
    nursery: trio.Nursery, tmp_path: Path, how: str
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    bench.append(*BUSY)
    await trio.testing.wait_all_tasks_blocked()
    assert not free_at_once(bench)
    if how == "client":
        assert not bench.keeper.cancel("another")
        assert bench.keeper.cancel(bench.starts()[0].run_id)
        assert not bench.keeper.cancel()
    elif how == "close":
        bench.keeper.close("sessionClosed")
    elif how == "shutdown":
        bench.keeper.close("shutdown")
    elif how == "reset":
        bench.conversation.reset(rewound=True)
        bench.keeper.did_reset("rewound")
    else:
        assert await bench.keeper.purge() == 1
    assert [e.outcome for e in bench.ends()] == ["cancelled"]
    await bench.keeper.quiet()
    assert len(bench.ends()) == 1
    assert bench.notes.published == []
    assert free_at_once(bench)


async def test_X14_the_daemon_ends_while_a_run_works(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
        bench.append(*BUSY)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert bench.outcomes() == [("cancelled", "shutdown")]
    assert free_at_once(bench)


async def test_X13_a_run_has_a_deadline_of_its_own(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=1e6))
    bench.append(*BUSY)
    await bench.idle()
    (end,) = bench.ends()
    assert (end.outcome, end.reason) == ("failed", "deadline: the run took longer than two minutes")
    assert 120_000 <= end.duration_ms <= 121_000
    assert 110 <= bench.extractor.deadlines[0] <= 115
    assert free_at_once(bench)


async def test_D17_X14_whatever_breaks_the_next_trigger_runs(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path)
    healthy = bench.tools
    broken: list[Any] = []

    class Broken:
        """Raises in the n-th call of anything."""

        def __init__(self, inner: Any, at: int) -> None:
            self.inner, self.left = inner, at

        def __getattr__(self, name: str) -> Any:
            found = getattr(self.inner, name)
            if not callable(found) or name == "lease_name":
                return found

            def call(*args: Any, **more: Any) -> Any:
                self.left -= 1
                if self.left == 0:
                    broken.append(name)
                    raise failure_now
                return found(*args, **more)

            return call

    number = 0
    for failure in (StoreUnavailable("busy", reason="busy"), RuntimeError("a mistake")):
        for part in ("leases", "cursors", "notes"):
            for at in (1, 2, 3):
                failure_now = failure
                parts: dict[str, Any] = {
                    "leases": healthy.leases,
                    "cursors": healthy.cursors,
                    "notes": healthy.notes,
                    "extractor": healthy.extractor,
                }
                parts[part] = Broken(parts[part], at)
                bench.tools = Tools(**parts)
                number += 1
                bench.append(user(f"u{number}"), says(f"a{number}", 1_000))
                before = len(bench.ends())
                bench.extract()
                await bench.idle()
                assert len(bench.ends()) == before + 1
                bench.tools = healthy
                bench.extract()
                await bench.idle()
                assert bench.ends()[-1].outcome == "settled"
                assert bench.keeper.lag.messages == 0
    assert {"claim", "release", "reconcile", "intend", "commit", "read", "prepare"} <= set(broken)


async def test_X12_a_run_that_was_taken_over_is_told_by_its_heartbeat(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=100))
    bench.append(*BUSY)
    await trio.sleep(1)
    other = Claims(SessionsDb(tmp_path), stale_boot_s=0.0, stale_mono_s=0.0)
    taken = other.claim("extraction/s")
    await bench.idle()
    (end,) = bench.ends()
    assert (end.outcome, end.reason) == ("stale", "takenOver")
    assert end.duration_ms < 10_000
    assert bench.notes.published == []
    assert other.beat(taken)  # type: ignore[arg-type]  # and nobody has released theirs


async def test_D18_a_slow_run_beats(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(seconds=100))
    bench.append(*BUSY)
    await bench.idle()
    assert bench.outcomes() == [("settled", None)]
    beats = bench.claims.db.read(lambda c: c.execute("SELECT beat FROM lease").get)
    assert isinstance(beats, int)
    assert beats >= 15


# ---- D68: back-off -------------------------------------------------------------------------------


async def test_D68_a_failing_endpoint_for_half_an_hour(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Clock
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(error=FAILS))
    for number in range(1_800):
        bench.append(user(f"u{number}"), says(f"a{number}", 12_000 + number))
        await trio.sleep(1)
    assert 5 <= len(bench.starts()) <= 7
    assert ("skipped", "backingOff") in bench.decisions()
    bench.extractor.error = None
    await trio.sleep(900)
    bench.append(user("u"), says("a", 20_000))
    await bench.idle()
    assert bench.outcomes()[-1] == ("settled", None)


# ---- X16, X17 ------------------------------------------------------------------------------------


async def test_X16_no_lock_is_held_while_the_extractor_works(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    bench.append(*BUSY)
    await trio.testing.wait_all_tasks_blocked()
    other = SessionsDb(tmp_path)
    other.write(lambda connection: connection.execute("SELECT 1"), deadline_s=0.5)
    other.close()
    bench.extractor.gate.set()
    await bench.idle()


async def test_X17_deciding_is_immediate_whatever_loads(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    opening = trio.Event()

    async def never() -> Tools:
        await opening.wait()
        raise AssertionError

    bench = Bench(nursery, tmp_path, opened=never)
    bench.append(*BUSY)
    assert bench.keeper.status().state == "running"
    answer = bench.extract()
    assert answer.decision == "joined"
    assert bench.keeper.cancel()


async def test_X17_a_snapshot_is_not_touched_by_what_comes_later(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path, ScriptedExtractor(gate=trio.Event()))
    bench.append(*BUSY)
    await trio.testing.wait_all_tasks_blocked()
    (snapshot,) = bench.extractor.seen
    before = snapshot.messages
    bench.append(says("a1", 12_000, text="a longer text than before"), user("u2"))
    assert snapshot.messages is before
    assert before[1].text == "done"
    bench.extractor.gate.set()
    await bench.idle()


# ---- §5: resume ----------------------------------------------------------------------------------


async def test_resume_with_the_cursor_of_another_daemon(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    first = Bench(nursery, tmp_path)
    first.append(*BUSY)
    await first.idle()
    first.keeper.close("shutdown")
    second = Bench(nursery, tmp_path, notes=first.notes)
    assert await second.keeper.load() == "a1"
    assert second.conversation.last_message_id == "a1"
    counters = second.keeper.status().counters
    assert (counters.context_tokens, counters.tokens_at_last_extraction) == (12_000, 12_000)
    assert counters.initialised
    assert second.keeper.last_summarized == "a1"
    second.append(user("u2"), says("a2", 16_999))
    assert second.decisions() == [("skipped", "belowUpdateThreshold")]
    second.append(user("u3"), says("a3", 17_000))
    await second.idle()
    assert second.notes.text == "[u1,a1][u2,a2,u3,a3]"


async def test_resume_where_everything_is_sent_again_applies_nothing_twice(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    talk: list[Message] = []
    for n in range(8):
        talk += [user(f"u{n}"), says(f"a{n}", 3_000 * n)]
    first = Bench(nursery, tmp_path)
    first.append(*talk)
    await first.idle()
    assert seen(first) == [[m.id for m in talk]]
    second = Bench(nursery, tmp_path, notes=first.notes)
    await second.keeper.load()
    for message in talk:
        second.append(message)
        await second.idle()
    assert second.starts() == []
    assert second.keeper.status().counters.tokens_at_last_extraction == 21_000
    second.append(user("u9"), says("a9", 25_999))
    await second.idle()
    assert second.starts() == []
    second.append(user("u10"), says("a10", 26_000))
    await second.idle()
    assert seen(second) == [["u9", "a9", "u10", "a10"]]


async def test_I18_a_range_that_was_applied_before_is_not_published_again(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Killed after the notes' write: the next daemon moves the cursor and runs for nothing."""
    first = Bench(nursery, tmp_path)
    first.append(*BUSY)
    await first.idle()
    cursor = first.cursors.load("s")
    assert cursor is not None
    first.claims.db.write(lambda c: c.execute("DELETE FROM cursor"))
    second = Bench(nursery, tmp_path, notes=first.notes)
    second.append(*BUSY)
    await second.idle()
    assert second.notes.published == ["[u1,a1]"]
    assert second.notes.discarded == 1
    assert second.outcomes() == [("settled", None)]
    found = second.cursors.load("s")
    assert found is not None
    assert (found.processed_through, found.ids) == (cursor.processed_through, cursor.ids)


async def test_purge_leaves_no_row(nursery: trio.Nursery, tmp_path: Path) -> None:
    bench = Bench(nursery, tmp_path)
    bench.append(*BUSY)
    await bench.idle()
    assert await bench.keeper.purge() == 3
    assert bench.cursors.load("s") is None
    assert bench.cursors.known() == ()


async def test_a_closed_session_starts_nothing_and_serves_again(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    bench = Bench(nursery, tmp_path)
    bench.keeper.close("sessionClosed")
    bench.append(*BUSY)
    assert bench.events == []
    bench.keeper.reopen()
    bench.append(user("u2"))
    await bench.idle()
    assert bench.outcomes() == [("settled", None)]


async def test_two_sessions_on_one_folder_do_not_disturb_each_other(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    benches = [Bench(nursery, tmp_path, session_id=name, notes=PaperNotes()) for name in "abc"]
    for bench in benches:
        bench.append(*BUSY)
    for bench in benches:
        await bench.idle()
        assert bench.outcomes() == [("settled", None)]
        assert bench.notes.text == "[u1,a1]"
