"""All sessions of a daemon: who may end them, and what ends them in time (virtual clock)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import oncue.sessions as sessions_module
from oncue.sessions import IDLE_S, MAX_CLOSED, SWEEP_S
from oncue_protocol import LimitExceeded, SessionNotFound
from session_support import Desk, FakeClient, poll, start


async def test_session_ids_are_made_where_none_is_chosen(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    client = FakeClient(1)
    made = [desk.open(client, session_id=None) for _ in range(3)]  # type: ignore[arg-type]
    assert len({session.id for session in made}) == 3
    assert all(len(session.id) >= 32 for session in made)  # nobody guesses another's (T4)


async def test_session_unknown_and_closed_ones_are_told_apart(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    desk.open(FakeClient(1))
    desk.sessions.close("s")
    with pytest.raises(SessionNotFound, match="is closed"):
        desk.sessions.get("s")
    with pytest.raises(SessionNotFound, match="is not known"):
        desk.sessions.get("t")
    with pytest.raises(SessionNotFound):
        desk.sessions.close("s")
    assert desk.closed == ["s"]


async def test_session_ends_with_its_drivers_connection(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    driver, observer, passing = FakeClient(1), FakeClient(2), FakeClient(3)
    session = desk.open(driver)
    for client in (observer, passing):
        desk.open(client, role="observer")
    start(session)
    desk.sessions.disconnected(passing)
    assert session.is_open
    desk.sessions.disconnected(driver)
    assert not session.is_open and desk.sessions.open_count == 0
    [event] = observer.told("recall/ended")
    assert event.reason == "sessionClosed"


async def test_session_that_nobody_drives_ends_with_its_last_onlooker(
    nursery: trio.Nursery,
) -> None:
    desk = Desk(nursery)
    one, two, stranger = FakeClient(1), FakeClient(2), FakeClient(3)
    desk.open(one, role="observer")
    desk.open(two, role="observer")
    desk.sessions.disconnected(stranger)
    desk.sessions.disconnected(one)
    assert desk.sessions.open_count == 1
    desk.sessions.disconnected(two)
    assert desk.sessions.open_count == 0


async def test_session_detached_outlives_every_connection(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    hook = FakeClient(1)
    session = desk.open(hook, lifetime="detached")
    recall_id = start(session).recall_id
    desk.sessions.disconnected(hook)
    assert session.is_open and session.role_of(hook) is None
    later = FakeClient(2)
    assert desk.opened(later, lifetime="detached") == (session, True)
    live = session.recalls.live()
    assert live is not None and live.recall_id == recall_id


@pytest.fixture
def sweeping(nursery: trio.Nursery) -> Desk:
    desk = Desk(nursery)
    nursery.start_soon(desk.sessions.sweep)
    return desk


async def test_session_detached_ends_when_nobody_spoke_to_it_for_half_a_day(
    sweeping: Desk,
    autojump_clock: MockClock,
) -> None:
    client = FakeClient(1)
    session = sweeping.open(client, lifetime="detached")
    await trio.sleep(IDLE_S - 60)
    start(session)
    await trio.sleep(IDLE_S - 60)
    assert session.is_open
    await trio.sleep(60 + 2 * SWEEP_S)
    assert not session.is_open


async def test_session_idleness_is_no_matter_of_the_wall_clock(
    sweeping: Desk, autojump_clock: MockClock
) -> None:
    session = sweeping.open(FakeClient(1), lifetime="detached")
    sweeping.now += 10 * IDLE_S  # the user set the clock
    await trio.sleep(3 * SWEEP_S)
    assert session.is_open
    sweeping.now -= 20 * IDLE_S
    start(session)
    await trio.sleep(3 * SWEEP_S)
    assert session.is_open


async def test_session_of_a_connection_may_idle_for_ever(
    sweeping: Desk, autojump_clock: MockClock
) -> None:
    session = sweeping.open(FakeClient(1))
    await trio.sleep(IDLE_S + 3 * SWEEP_S)
    assert session.is_open


async def test_session_detached_ends_within_5_s_of_its_owners_death(
    sweeping: Desk, autojump_clock: MockClock
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    assert owner.stdin is not None
    try:
        session = sweeping.open(FakeClient(1), lifetime="detached", owner_pid=owner.pid)
        other = sweeping.open(FakeClient(1), session_id="t", owner_pid=owner.pid)
        await trio.sleep(10 * SWEEP_S)
        assert session.is_open
    finally:
        owner.stdin.close()
        owner.wait()
    await trio.sleep(SWEEP_S + 0.1)
    assert not session.is_open
    assert other.is_open  # it ends with its connection, whoever owns it
    assert SWEEP_S <= 5


async def test_session_owner_that_cannot_be_seen_ends_nothing(
    sweeping: Desk, autojump_clock: MockClock
) -> None:
    session = sweeping.open(FakeClient(1), lifetime="detached", owner_pid=2**31 - 1)
    await trio.sleep(10 * SWEEP_S)
    assert session.is_open


async def test_session_reopened_keeps_what_is_in_front_of_the_model(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    client = FakeClient(1)
    session = desk.open(client)
    start(session)
    await trio.testing.wait_all_tasks_blocked()
    assert poll(session).delivery is not None
    desk.sessions.close("s")
    again, resumed = desk.opened(client)
    assert again is session and resumed
    start(session)
    await trio.testing.wait_all_tasks_blocked()
    assert poll(session).outcome == "empty"
    assert desk.finder.queries[-1].excluded_paths == {"/m/a.md", "/m/b.md", "/m/c.md"}


async def test_session_closed_ones_are_forgotten_in_the_end(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    client = FakeClient(1)
    for index in range(MAX_CLOSED + 1):
        desk.open(client, f"s{index}")
        desk.sessions.close(f"s{index}")
    assert desk.opened(client, "s0")[1] is False
    assert desk.opened(client, f"s{MAX_CLOSED}")[1] is True


async def test_session_open_ones_are_limited(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MAX_OPEN", 3)
    desk = Desk(nursery)
    client = FakeClient(1)
    for index in range(3):
        desk.open(client, f"s{index}")
    with pytest.raises(LimitExceeded) as caught:
        desk.open(client, "s3")
    assert caught.value.detail == {"limit": "openSessions", "value": 3, "sent": 4}
    assert caught.value.retryable
    assert desk.opened(client, "s1")[1] is True  # what is open may be opened
    desk.sessions.close("s0")
    desk.open(client, "s3")


async def test_session_workspace_is_its_drivers(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    driver, observer = FakeClient(1), FakeClient(2)
    session = desk.open(driver, fallback=("/of/initialize",))
    assert session.workspaces == ("/of/initialize",)
    desk.open(observer, role="observer", workspaces=("/elsewhere",), fallback=("/window",))
    assert session.workspaces == ("/of/initialize",)
    desk.open(driver, fallback=("/another",))
    assert session.workspaces == ("/of/initialize",)  # only said by the way
    desk.open(driver, workspaces=("/moved", "/more"))
    assert session.workspaces == ("/moved", "/more")
    assert session.status().workspace == "/moved"


async def test_sessions_known_are_listed_the_latest_first(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    client = FakeClient(1)
    for name in ("old", "gone", "new"):
        desk.open(client, name)
        desk.now += 10
    desk.sessions.close("gone")
    desk.now += 10
    start(desk.sessions.get("old"))
    assert [session.id for session in desk.sessions.known()] == ["old", "new", "gone"]
    assert {session.id for session in desk.sessions.of(client)} == {"old", "new"}


async def test_sessions_shut_down_end_every_recall_once(nursery: trio.Nursery) -> None:
    desk = Desk(nursery)
    client = FakeClient(1)
    for name in ("s", "t"):
        start(desk.open(client, name, lifetime="detached"))
    desk.sessions.shut_down()
    desk.sessions.shut_down()
    ends = client.told("recall/ended")
    assert [event.reason for event in ends] == ["shutdown", "shutdown"]
    counters = desk.sessions.counters()
    assert counters["recalls"] == 2 and counters["liveRecalls"] == 0
