"""`transcript/follow`: an agent's own file, read as it grows, and no other file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from oncue.transcript import follow as follow_module
from oncue.transcript.confined import agent_folders, confine
from oncue.transcript.events import Appended, Event, Prompt, Reset, Steering, TurnEnded
from oncue.transcript.follow import Follower
from oncue_protocol import (
    LimitExceeded,
    OutsideRoots,
    TranscriptFollowParams,
    TranscriptFollowResult,
    TranscriptFormat,
)
from transcript_maker import SESSION, Claude, Gemini, lines, text, use

T = TypeVar("T")


async def at_once(what: Callable[[], T]) -> T:
    """Reads on the main loop, so that a virtual clock decides everything."""
    await trio.lowlevel.checkpoint()
    return what()


class Desk:
    """A home with one agent's folder, and a follower that notes what it is given."""

    def __init__(self, home: Path, nursery: trio.Nursery) -> None:
        self.folder = home / ".claude" / "projects" / "shop"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / f"{SESSION}.jsonl"
        self.events: list[Event] = []
        self.live: list[Event] = []
        self.follower = Follower(nursery, self.sink, roots=agent_folders(home), run=at_once)

    def sink(self, events: Sequence[Event], live: bool) -> None:
        self.events += events
        if live:
            self.live += events

    async def follow(
        self, path: Path | str | None = None, form: TranscriptFormat = "claude"
    ) -> TranscriptFollowResult:
        path = self.file if path is None else path
        return await self.follower.follow(
            TranscriptFollowParams(session_id="s", path=str(path), format=form)
        )

    def texts(self) -> list[str]:
        return [
            event.message.text
            for event in self.events
            if isinstance(event, Prompt | Steering | Appended)
        ]

    def append(self, data: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(data)


@pytest.fixture
async def desk(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> Desk:
    return Desk(tmp_path, nursery)


def turn(writer: Claude, words: str) -> bytes:
    writer.records.clear()
    writer.user(words)
    writer.say(f"m{writer.count}", text(f"re {words}"))
    return writer.bytes()


async def test_T9_a_growing_file_is_read_from_where_it_was(
    desk: Desk, autojump_clock: MockClock
) -> None:
    writer = Claude()
    desk.append(turn(writer, "one"))

    result = await desk.follow()
    await trio.sleep(1)
    assert result == TranscriptFollowResult(path=str(desk.file), resumed=False)
    assert desk.texts() == ["one"]

    data = turn(writer, "two")
    desk.append(data[:50])
    await trio.sleep(0.3)
    desk.append(data[50:])
    await trio.sleep(0.3)
    assert desk.texts() == ["one", "re one", "two"]
    assert desk.follower.statistics().bytes_read == desk.file.stat().st_size
    assert desk.follower.statistics().restarts == 0


async def test_T4_what_is_unfinished_goes_out_when_the_file_is_quiet(
    desk: Desk, autojump_clock: MockClock
) -> None:
    writer = Claude()
    writer.user("go")
    writer.say("m1", use("c1"))
    desk.append(writer.bytes())
    await desk.follow()
    await trio.sleep(0.6)
    assert len(desk.texts()) == 1

    await trio.sleep(2)
    assert [e.message.id for e in desk.events if isinstance(e, Appended)] == ["m1"]

    writer.records.clear()
    writer.result("c1")
    desk.append(writer.bytes())
    await trio.sleep(0.6)
    assert [e.message.id for e in desk.events if isinstance(e, Appended)] == ["m1", "u3"]
    assert not any(isinstance(e, TurnEnded) for e in desk.events)


async def test_T3_what_happened_before_is_not_live(desk: Desk, autojump_clock: MockClock) -> None:
    writer = Claude()
    desk.append(turn(writer, "old one") + turn(writer, "old two"))
    await desk.follow()
    await trio.sleep(3)
    assert desk.live[:1] == [desk.events[-1]], "the answer that settled"
    desk.live.clear()

    writer.records.clear()
    writer.user("[Request interrupted by user]")
    desk.append(writer.bytes())
    await trio.sleep(0.3)
    assert desk.live == [TurnEnded("aborted", "u3")]


async def test_T9_followed_twice_it_goes_on_and_looks_at_once(
    desk: Desk, autojump_clock: MockClock
) -> None:
    writer = Claude()
    desk.append(turn(writer, "one"))
    await desk.follow()
    await trio.sleep(120)

    desk.append(turn(writer, "two"))
    result = await desk.follow(f"file://{desk.file}")
    await trio.testing.wait_all_tasks_blocked()

    assert result.resumed
    assert desk.texts() == ["one", "re one", "two"]
    assert desk.follower.statistics().files == 1


async def test_T9_a_file_that_is_not_there_yet_is_waited_for(
    desk: Desk, autojump_clock: MockClock
) -> None:
    later = desk.folder.parent / "new" / "s.jsonl"

    result = await desk.follow(later)
    await trio.sleep(5)
    later.parent.mkdir()
    later.write_bytes(turn(Claude(), "one"))
    await trio.sleep(3)

    assert not result.resumed
    assert desk.texts() == ["one", "re one"]
    assert desk.follower.statistics().failures == 0


@pytest.mark.parametrize("how", ["cut", "replaced", "written anew"])
async def test_T9_a_file_that_is_not_the_same_is_begun_again(
    desk: Desk, autojump_clock: MockClock, how: str
) -> None:
    desk.append(turn(Claude(), "one") + turn(Claude(), "two"))
    await desk.follow()
    await trio.sleep(1)
    size = desk.file.stat().st_size

    data = turn(Claude(), "three")
    if how == "cut":
        desk.file.write_bytes(data)
    elif how == "replaced":
        other = desk.file.with_suffix(".tmp")
        other.write_bytes(data + data)
        other.replace(desk.file)
    else:
        desk.file.write_bytes((data * 9)[: size + 10])
    await trio.sleep(1)

    assert "three" in desk.texts()
    assert desk.follower.statistics().restarts == 1


async def test_T8_a_rewind_is_followed(desk: Desk, autojump_clock: MockClock) -> None:
    writer = Claude()
    writer.user("one")
    kept = writer.say("m1", text("a"))
    writer.user("two")
    desk.append(writer.bytes())
    await desk.follow()
    await trio.sleep(1)

    writer.records.clear()
    writer.user("three", parentUuid=kept["uuid"])
    desk.append(writer.bytes())
    await trio.sleep(1)

    after = desk.events[desk.events.index(Reset("rewound")) :]
    texts = [e.message.text for e in after if isinstance(e, Prompt | Appended)]
    assert texts == ["one", "a", "three"]


async def test_T4_a_session_that_is_one_object_is_read_anew_and_told_once(
    tmp_path: Path, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    desk = Desk(tmp_path, nursery)
    chats = tmp_path / ".gemini" / "tmp" / "4be1" / "chats"
    chats.mkdir(parents=True)
    file = chats / "session-1.json"
    writer = Gemini()
    writer.user("one")
    file.write_bytes(writer.whole(2))
    await desk.follow(file, "gemini")
    await trio.sleep(5)
    assert desk.texts() == ["one"]

    writer.add("gemini", content="a")
    file.write_bytes(writer.whole(2)[:-30])
    await trio.sleep(5)
    file.write_bytes(writer.whole(2))
    await trio.sleep(5)

    assert desk.texts() == ["one", "a"]
    assert desk.live == []


async def test_I8_a_large_file_comes_in_small_pieces(desk: Desk, autojump_clock: MockClock) -> None:
    writer = Claude()
    for number in range(3_000):
        writer.user(f"request {number} " + "x" * 100)
    desk.append(writer.bytes())
    pieces: list[int] = []
    sink = desk.sink

    def noting(events: Sequence[Event], live: bool) -> None:
        pieces.append(len(events))
        sink(events, live)

    desk.follower._sink = noting
    await desk.follow()
    await trio.sleep(5)

    assert len(desk.texts()) == 3_000
    assert max(pieces) < 1_000


async def test_T9_a_closed_follower_says_no_more(desk: Desk, autojump_clock: MockClock) -> None:
    desk.append(turn(Claude(), "one"))
    await desk.follow()
    await trio.sleep(1)
    desk.follower.close()
    seen = len(desk.events)

    desk.append(turn(Claude(), "two"))
    await trio.sleep(5)

    assert len(desk.events) == seen


async def test_D28_a_cancelled_request_leaves_nothing_behind(
    desk: Desk, autojump_clock: MockClock
) -> None:
    desk.append(turn(Claude(), "one"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.follow()

    await trio.sleep(5)

    assert scope.cancelled_caught
    assert desk.follower.statistics().files == 0
    assert desk.events == []


async def test_F18_cancelled_at_any_moment_it_ends_and_says_no_more(tmp_path: Path) -> None:
    """The real worker thread, and a cancellation after each of its first looks."""
    for looks in range(1, 6):
        async with trio.open_nursery() as nursery:
            desk = Desk(tmp_path / str(looks), nursery)
            desk.append(turn(Claude(), "one"))
            done = 0

            async def counting(what: Callable[[], T], looks: int = looks) -> T:
                nonlocal done
                result = await follow_module._in_thread(what)
                done += 1
                if done == looks:
                    nursery.cancel_scope.cancel()
                return result

            desk.follower = Follower(
                nursery,
                desk.sink,
                roots=agent_folders(tmp_path / str(looks)),
                run=counting,
            )
            with trio.fail_after(30):
                await desk.follow()
                await trio.sleep_forever()
        assert done == looks
        assert desk.texts() == (["one"] if looks > 2 else desk.texts())


async def test_T9_the_worker_thread_reads(tmp_path: Path, nursery: trio.Nursery) -> None:
    desk = Desk(tmp_path, nursery)
    desk.follower = Follower(nursery, desk.sink, roots=agent_folders(tmp_path))
    desk.append(turn(Claude(), "one"))

    await desk.follow()
    with trio.fail_after(30):
        while not desk.texts():
            await trio.testing.wait_all_tasks_blocked(0.01)

    assert desk.texts() == ["one"]
    desk.follower.close()


async def test_L1006_a_session_follows_a_few_files_only(
    desk: Desk, autojump_clock: MockClock
) -> None:
    for number in range(follow_module.MAX_FILES):
        await desk.follow(desk.folder / f"{number}.jsonl")

    with pytest.raises(LimitExceeded) as refused:
        await desk.follow(desk.folder / "one-more.jsonl")

    assert refused.value.detail is not None
    assert refused.value.detail["limit"] == "followedFiles"
    assert (await desk.follow(desk.folder / "0.jsonl")).resumed


async def test_T9_another_format_begins_anew(desk: Desk, autojump_clock: MockClock) -> None:
    desk.append(turn(Claude(), "one"))
    await desk.follow(form="qwen")
    await trio.sleep(1)

    result = await desk.follow(form="claude")
    await trio.sleep(1)

    assert not result.resumed
    assert desk.texts()[-1:] == ["one"]


# Where a file may be (I23)


async def refused(desk: Desk, path: Path | str) -> str:
    with pytest.raises(OutsideRoots) as error:
        await desk.follow(path)
    assert error.value.code == 1004
    assert desk.follower.statistics().files == 0
    return error.value.message


async def test_I23_only_below_the_agents_folders(
    desk: Desk, autojump_clock: MockClock, tmp_path: Path
) -> None:
    outside = tmp_path / "secret.jsonl"
    outside.write_bytes(turn(Claude(), "secret"))
    settings = tmp_path / ".claude" / "settings.json"
    settings.write_text("{}")
    for path in (
        outside,
        settings,
        tmp_path / ".claude" / "projects",
        tmp_path / ".claude" / "projects-of-others" / "x.jsonl",
        "relative.jsonl",
        "",
        "/",
        f"{desk.folder}/../../../secret.jsonl",
        f"file://{desk.folder}/%2e%2e/%2e%2e/%2e%2e/secret.jsonl",
        f"{desk.folder}/nul\0.jsonl",
        "file://[broken/x.jsonl",
        "http://example.org/x.jsonl",
    ):
        await refused(desk, path)


async def test_I23_only_transcripts(desk: Desk, autojump_clock: MockClock) -> None:
    (desk.folder / "oauth.txt").write_text("token")

    assert ".jsonl" in await refused(desk, desk.folder / "oauth.txt")


async def test_I23_no_link_leads_away(
    desk: Desk, autojump_clock: MockClock, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "s.jsonl"
    secret.write_bytes(turn(Claude(), "secret"))
    (desk.folder / "link.jsonl").symlink_to(secret)
    (desk.folder / "dir").symlink_to(outside)
    (desk.folder / "dangling.jsonl").symlink_to(tmp_path / "nothing")
    os.link(secret, desk.folder / "hard.jsonl")

    for name in ("link.jsonl", "dir/s.jsonl", "dangling.jsonl", "hard.jsonl"):
        await refused(desk, desk.folder / name)


async def test_I23_only_regular_files(desk: Desk, autojump_clock: MockClock) -> None:
    os.mkfifo(desk.folder / "pipe.jsonl")
    (desk.folder / "folder.jsonl").mkdir()

    await refused(desk, desk.folder / "pipe.jsonl")
    await refused(desk, desk.folder / "folder.jsonl")


async def test_I23_only_files_of_this_user(
    desk: Desk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.append(turn(Claude(), "theirs"))
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)

    assert "another user" in await refused(desk, desk.file)


async def test_I23_a_link_put_there_later_is_not_followed(
    desk: Desk, autojump_clock: MockClock, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(turn(Claude(), "secret"))
    desk.append(turn(Claude(), "one"))
    await desk.follow()
    await trio.sleep(1)

    desk.file.unlink()
    desk.file.symlink_to(secret)
    await trio.sleep(5)

    assert desk.texts() == ["one", "re one"]
    assert desk.follower.statistics().failures > 0


def test_I23_a_home_that_is_reached_through_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / ".codex" / "sessions").mkdir(parents=True)
    home = tmp_path / "home"
    home.symlink_to(real)
    file = real / ".codex" / "sessions" / "rollout-1.jsonl"
    file.write_bytes(lines([{}]))

    for path in (home / ".codex" / "sessions" / "rollout-1.jsonl", file):
        confined = confine(str(path), agent_folders(home))
        assert confined.path == str(file)
        os.close(confined.open())
