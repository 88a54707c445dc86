"""One session: roles, lanes, transcript, settings and what it tells whom (virtual clock)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from oncue.session import MAX_TRANSCRIPT_LANES, Session
from oncue.settings import RecallSettings
from oncue.transcript.state import Applied, Resync
from oncue_protocol import (
    InvalidParams,
    Message,
    OncueOptions,
    RequestFailed,
    TranscriptDidAppendParams,
    TranscriptDidCompactParams,
    TranscriptDidResetParams,
    TurnDidEndParams,
)
from recall_doubles import ScriptedFinder, hits
from session_support import LENDING, Desk, FakeClient, poll, start

settle = trio.testing.wait_all_tasks_blocked


@pytest.fixture
async def desk(nursery: trio.Nursery) -> Desk:
    return Desk(nursery)


def append(session: Session, client: FakeClient, *ids: str, **members: Any) -> Applied | Resync:
    messages = tuple(Message(id=one, role="user", text=one) for one in ids)
    params = TranscriptDidAppendParams(session_id=session.id, messages=messages, **members)
    return session.append(client, params)


def end(session: Session, reason: Any = "completed", **members: Any) -> None:
    session.turn_ended(TurnDidEndParams(session_id=session.id, reason=reason, **members))


def events(session: Session) -> list[str]:
    return [entry.event for entry in session.timeline.page(None).entries]


# ---- roles -----------------------------------------------------------------------------------


async def test_session_newest_driver_takes_over_and_the_older_looks_on(desk: Desk) -> None:
    older, newer = FakeClient(1), FakeClient(2)
    session = desk.open(older)
    desk.open(newer)
    [changed] = older.told("session/roleChanged")
    assert (changed.session_id, changed.role) == ("s", "observer")
    assert (session.role_of(older), session.role_of(newer)) == ("observer", "driver")
    session.require_driver(newer)
    with pytest.raises(RequestFailed) as caught:
        session.require_driver(older)
    assert caught.value.detail == {"role": "observer"}
    # Opened again by who drives it: nobody is told anything.
    desk.open(newer)
    assert newer.said == [] and len(older.said) == 1
    # And back.
    desk.open(older)
    assert (session.role_of(older), session.role_of(newer)) == ("driver", "observer")
    assert session.leave(newer) is False
    assert session.leave(older) is True


async def test_session_detached_has_several_drivers(desk: Desk) -> None:
    clients = [FakeClient(number) for number in range(3)]
    for client in clients:
        session = desk.open(client, lifetime="detached")
    assert all(session.role_of(client) == "driver" for client in clients)
    assert all(client.said == [] for client in clients)
    assert session.summary(clients[0]).drivers == 3
    assert session.leave(clients[2]) is False


async def test_session_driver_that_asks_to_look_on_still_drives(desk: Desk) -> None:
    client = FakeClient(1)
    session = desk.open(client)
    desk.open(client, role="observer")
    assert session.role_of(client) == "driver"
    assert session.summary(client).observers == 0


async def test_session_tells_who_asked_and_nobody_else(desk: Desk) -> None:
    driver = FakeClient(1, options=OncueOptions(notifications=("recall/ended",)))
    observer = FakeClient(2, options=OncueOptions(notifications=("recall/settled",)))
    silent = FakeClient(3, options=OncueOptions())
    session = desk.open(driver)
    desk.open(observer, role="observer")
    desk.open(silent, role="observer")
    recall_id = start(session).recall_id
    await settle()
    poll(session)
    assert [name for name, _ in driver.said] == ["recall/ended"]
    assert [name for name, _ in observer.said] == ["recall/settled"]
    assert silent.said == []
    assert driver.told("recall/ended")[0].recall_id == recall_id


# ---- settings --------------------------------------------------------------------------------


async def test_session_follows_the_settings_of_its_driver_as_they_change(desk: Desk) -> None:
    one, other = FakeClient(1), FakeClient(2)
    mine, theirs = desk.open(one, "mine"), desk.open(other, "theirs")
    fewer = attrs.evolve(one.settings.recall, max_documents=1)
    one.settings = attrs.evolve(one.settings, recall=fewer)  # didChangeConfiguration
    for session, count in ((mine, 1), (theirs, 3)):
        start(session)
        await settle()
        delivery = poll(session).delivery
        assert delivery is not None and len(delivery.documents) == count


async def test_session_takes_the_settings_of_who_took_over(desk: Desk) -> None:
    one, other = FakeClient(1), FakeClient(2)
    session = desk.open(one)
    other.settings = attrs.evolve(
        other.settings, recall=attrs.evolve(RecallSettings(), max_documents=2)
    )
    desk.open(other)
    assert session.settings.recall.max_documents == 2
    session.leave(other)
    assert session.settings.recall.max_documents == 2  # the last ones known


# ---- the model -------------------------------------------------------------------------------


@pytest.mark.parametrize(("lends", "wants"), [(True, False), (False, True), (False, False)])
async def test_session_asks_no_model_that_is_not_lent_and_wanted(
    desk: Desk, autojump_clock: MockClock, lends: bool, wants: bool
) -> None:
    client = FakeClient(1, options=OncueOptions(model_provider=lends))
    client.settings = LENDING if wants else client.settings
    session = desk.open(client)
    start(session)
    await trio.sleep(5)
    assert client.asked == []


async def test_session_asks_the_newest_driver_that_lends_one(
    desk: Desk, autojump_clock: MockClock
) -> None:
    lender = FakeClient(1, LENDING, OncueOptions(model_provider=True))
    plain = FakeClient(2, LENDING, OncueOptions())
    observer = FakeClient(3, LENDING, OncueOptions(model_provider=True))
    session = desk.open(lender, lifetime="detached")
    desk.open(plain, lifetime="detached")
    desk.open(observer, role="observer")
    start(session)
    await trio.sleep(5)
    assert (len(lender.asked), plain.asked, observer.asked) == (1, [], [])
    lender.closed = True
    start(session)
    await settle()
    assert len(lender.asked) == 1
    delivery = poll(session).delivery
    assert delivery is not None and delivery.strategy == "ranked"


# ---- the transcript --------------------------------------------------------------------------


async def test_session_gap_is_answered_to_who_sent_it(desk: Desk) -> None:
    client, observer = FakeClient(1), FakeClient(2)
    session = desk.open(client)
    desk.open(observer, role="observer")
    append(session, client, "m1", "m2")
    assert isinstance(append(session, client, "m9", after_message_id="m8"), Resync)
    [asked] = client.told("transcript/resyncRequired")
    assert (asked.session_id, asked.last_message_id) == ("s", "m2")
    assert observer.said == [] and session.last_message_id == "m2"


async def test_session_lanes_have_transcripts_of_their_own(desk: Desk) -> None:
    client = FakeClient(1)
    session = desk.open(client)
    append(session, client, "m1")
    append(session, client, "s1", lane="sub")
    assert isinstance(append(session, client, "s2", after_message_id="s1", lane="sub"), Applied)
    assert isinstance(append(session, client, "m2", after_message_id="m1"), Applied)
    assert session.last_message_id == "m2"


async def test_session_keeps_the_transcripts_of_the_lanes_used_last(desk: Desk) -> None:
    client = FakeClient(1)
    session = desk.open(client)
    append(session, client, "m1")
    for index in range(MAX_TRANSCRIPT_LANES - 1):
        append(session, client, "x1", lane=f"l{index}")
    append(session, client, "x2", lane="l0")
    append(session, client, "x1", lane="one more")  # l1 makes room, main and l0 do not
    again = {"after_message_id": "x2", "lane": "l0"}
    assert isinstance(append(session, client, "x3", **again), Applied)
    assert isinstance(append(session, client, "m2", after_message_id="m1"), Applied)
    lost = append(session, client, "x2", after_message_id="x1", lane="l1")
    assert lost == Resync(None)  # from the beginning, then


async def test_R10_session_knows_what_is_still_in_context(desk: Desk) -> None:
    client = FakeClient(1)
    session = desk.open(client)
    append(session, client, "m1")
    start(session)
    await settle()
    poll(session)  # a, b and c went with m1
    append(session, client, "m2")

    async def found() -> int:
        start(session)
        await settle()
        return 3 - len(desk.finder.queries[-1].excluded_paths)

    for kept, count in (("m1", 0), ("m2", 3)):
        session.will_compact()
        session.did_compact(TranscriptDidCompactParams(session_id="s", kept_from_message_id=kept))
        assert await found() == count
    assert events(session).count("compactionStarted") == 2


async def test_session_reset_forgets_messages_turns_and_recalls(desk: Desk) -> None:
    client = FakeClient(1)
    session = desk.open(client)
    append(session, client, "m1")
    start(session, turn_id="t1")
    session.did_reset(TranscriptDidResetParams(session_id="s", reason="cleared"))
    assert session.last_message_id is None
    status = session.status()
    assert status.turn_id is None and status.recall is None
    assert client.told("recall/ended")[0].reason == "reset"
    assert isinstance(append(session, client, "m2", after_message_id="m1"), Resync)


# ---- turns and the timeline ------------------------------------------------------------------


async def test_session_turns_are_of_their_lanes(desk: Desk) -> None:
    session = desk.open(FakeClient(1))
    start(session, turn_id="t1")
    start(session, turn_id="u1", lane="sub")
    end(session, lane="sub")
    assert session.status().turn_id == "t1"
    end(session, turn_id="t0")
    assert session.status().turn_id == "t1"
    end(session)
    assert session.status().turn_id is None


async def test_session_turn_starts_once_however_often_its_recall_does(desk: Desk) -> None:
    session = desk.open(FakeClient(1))
    start(session, turn_id="t1", recall_id="r1")
    start(session, turn_id="t1", recall_id="r1")  # a repeated request
    start(session, turn_id="t1", recall_id="r2")
    start(session, speculative=True)
    start(session, turn_id="t2")
    assert events(session).count("turnStarted") == 2
    assert events(session).count("recallStarted") == 3


async def test_session_timeline_pages_stay_in_step_while_it_grows(desk: Desk) -> None:
    session = desk.open(FakeClient(1))
    for index in range(600):
        end(session, turn_id=f"t{index}")
    first = session.timeline.page(None)
    assert len(first.entries) == 500 and first.cursor is not None
    for index in range(600, 3_000):
        end(session, turn_id=f"t{index}")
    # What fell off meanwhile is skipped, nothing comes twice.
    rest = session.timeline.page(first.cursor)
    entries = (*first.entries, *rest.entries)
    seen = [entry.turn_id for entry in entries if entry.event == "turnEnded"]
    assert len(seen) == len(set(seen))
    assert rest.entries[0].turn_id == "t1000"
    with pytest.raises(InvalidParams):
        session.timeline.page("-1")
    assert session.timeline.page("999999").entries == ()


async def test_session_injected_text_is_no_query(desk: Desk) -> None:
    session = desk.open(FakeClient(1))
    start(session)
    await settle()
    delivery = poll(session).delivery
    assert delivery is not None
    start(session, query=f"{delivery.text}\nand now?")
    await settle()
    assert desk.finder.queries[-1].text.strip() == "and now?"


async def test_session_late_memories_delay_nobody(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    desk = Desk(nursery, ScriptedFinder(hits("a"), seconds=3))
    session = desk.open(FakeClient(1))
    before = trio.current_time()
    start(session)
    assert poll(session).outcome == "pending"
    assert trio.current_time() == before
    await trio.sleep(3.1)
    assert poll(session).outcome == "delivered"


async def test_session_that_has_closed_starts_nothing_and_tells_nobody(
    desk: Desk, autojump_clock: MockClock
) -> None:
    client = FakeClient(1)
    session = desk.open(client)
    start(session)
    desk.sessions.close("s")
    assert len(client.told("recall/ended")) == 1
    session.close("shutdown")
    await trio.sleep(5)
    assert len(client.told("recall/ended")) == 1
    assert desk.finder.running == 0
    assert session.role_of(client) is None
    assert events(session)[-1] == "sessionClosed"
