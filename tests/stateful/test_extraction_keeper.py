"""The real keeper under any order of messages, turns, resets, requests, failures and time.

I15-I18, X5, X9-X11, X14, X18: at most one run, exactly one end for each start, calls and results
never parted, every message worked on exactly once in effect and in order, starts only where the
truth table says so, no claim left behind.
The long campaign: `pytest -m slow tests/stateful/test_extraction_keeper.py`.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from keeper_doubles import (
    FAILS,
    Bench,
    ScriptedExtractor,
    calls,
    inline,
    results,
    says,
    user,
)
from oncue.extraction.events import Decided, RunEnded, RunStarted
from oncue.store.claims import Claim, Claims
from oncue.store.sessions_db import SessionsDb
from oncue.transcript.bodies import estimate
from oncue.transcript.state import Transcript
from oncue_protocol import Message, Usage

THRESHOLDS: dict[str, Any] = {
    "minimum_message_tokens_to_init": 200,
    "minimum_tokens_between_update": 100,
    "tool_calls_between_updates": 3,
}


class Walk:
    """A conversation at random, as far as an agent could have it."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.bench = bench
        self.chance = chance
        self.number = 0
        self.open: list[str] = []
        self.sent: list[str] = []
        self.done: list[str] = []
        """Messages of successful runs since the last reset, in order."""
        self.context = 0

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def send(self, *messages: Message) -> None:
        self.sent += [message.id for message in messages]
        self.bench.append(*messages)

    def step(self) -> None:
        chance = self.chance
        what = chance.choices(
            ["user", "ask", "answer", "says", "turn", "manual", "fail", "cancel", "rewind",
             "clear", "compact", "batch", "late"],
            [4, 8, 14, 6, 3, 2, 1, 1, 1, 1, 1, 3, 1],
        )[0]  # fmt: skip
        getattr(self, what)()

    def usage(self) -> int:
        self.context += self.chance.randint(0, 120)
        return self.context

    def user(self) -> None:
        self.send(user(self.name("u"), "words " * self.chance.randint(1, 20)))

    def ask(self) -> None:
        names = [self.name("c") for _ in range(self.chance.randint(1, 4))]
        self.open = names
        self.send(calls(self.name("a"), *names, context=self.usage()))

    def answer(self) -> None:
        if self.open:
            self.chance.shuffle(self.open)
            cut = self.chance.randint(1, len(self.open))
            now, self.open = self.open[:cut], self.open[cut:]
            self.send(results(self.name("r"), *now))

    def late(self) -> None:
        """A result for a call that its turn left behind."""
        self.send(results(self.name("r"), f"c{self.chance.randint(1, self.number + 1)}"))

    def says(self) -> None:
        self.open = []
        self.send(says(self.name("a"), self.usage()))

    def batch(self) -> None:
        names = [self.name("c") for _ in range(2)]
        self.send(
            user(self.name("u")),
            calls(self.name("a"), names[0], context=self.usage()),
            results(self.name("r"), names[0]),
            calls(self.name("a"), names[1], context=self.usage()),
        )
        self.open = [names[1]]

    def turn(self) -> None:
        if self.chance.random() < 0.5:
            self.bench.keeper.turn_ended()
        else:
            self.bench.keeper.turn_started()

    def manual(self) -> None:
        self.bench.extract(self.chance.choice(["manual", "compaction", "close", "auto"]))

    def fail(self) -> None:
        extractor = self.bench.extractor
        extractor.error = None if extractor.error else FAILS

    def cancel(self) -> None:
        self.bench.keeper.cancel()

    def rewind(self) -> None:
        """What survives is sent again; it was made by this walk, so only its ids count."""
        before = [entry.message for entry in self.bench.conversation.entries]
        kept = before[: self.chance.randint(0, len(before))]
        self.bench.conversation.reset(rewound=True)
        self.bench.keeper.did_reset("rewound")
        self.sent = []
        self.open = []
        known = set(self.done)
        self.done = []
        for message in kept:
            if message.id not in known:
                break
            self.done.append(message.id)
        if kept:
            self.send(*kept)

    def clear(self) -> None:
        self.bench.conversation.reset()
        self.bench.keeper.did_reset("cleared")
        self.sent, self.open, self.done, self.context = [], [], [], 0

    def compact(self) -> None:
        self.context //= 4
        self.bench.conversation.compact(None, self.context)
        self.bench.keeper.did_compact()


class Watch:
    """Judges each event and snapshot as it comes."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.running: str | None = None
        self.ended: set[str] = set()
        self.snapshots = 0

    def look(self) -> None:
        bench = self.walk.bench
        for event in bench.events:
            if isinstance(event, RunStarted):
                assert self.running is None
                assert event.run_id not in self.ended
                self.running = event.run_id
            elif isinstance(event, RunEnded):
                assert event.run_id == self.running
                self.running = None
                self.ended.add(event.run_id)
            else:
                assert isinstance(event, Decided)
                if event.trigger == "auto" and event.decision in ("started", "armed"):
                    assert event.reason in ("toolCallThreshold", "naturalPause")
        bench.events.clear()
        assert (bench.keeper.status().state == "running") == (self.running is not None)
        for snapshot in bench.extractor.seen[self.snapshots :]:
            asked = {call.id for m in snapshot.messages for call in m.tool_calls}
            assert asked == {r.call_id for m in snapshot.messages for r in m.tool_results}
        self.snapshots = len(bench.extractor.seen)


async def walk_through(seed: int, steps: int, folder: Path) -> int:
    chance = random.Random(seed)
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery, folder, ScriptedExtractor(), **THRESHOLDS)
        walk = Walk(bench, chance)
        watch = Watch(walk)
        report = bench.keeper._report

        def reported(task: Any, result: Any) -> None:
            if result.progress is not None and not task.is_forgotten:
                ids = [m.id for m in bench.extractor.seen[-1].messages]
                assert ids[-1] == result.progress.through
                new = [one for one in ids if one not in walk.done]
                begin = len(walk.done)
                assert walk.sent[begin : begin + len(new)] == new, "out of order, or not all"
                walk.done += new
            report(task, result)

        bench.keeper._report = reported  # type: ignore[method-assign]
        for _ in range(steps):
            bench.extractor.seconds = chance.choice([0.0, 0.0, 1.0, 20.0, 300.0])
            walk.step()
            watch.look()
            if chance.random() < 0.5:
                await trio.sleep(chance.choice([0.0, 0.5, 5.0, 60.0, 200.0]))
                watch.look()
        # At the end everything can be brought up to date, whatever has happened.
        bench.extractor.error, bench.extractor.seconds = None, 0.0
        bench.keeper.turn_ended()
        await bench.idle()
        bench.extract()
        await bench.idle()
        watch.look()
        assert bench.keeper.status().state == "idle"
        assert bench.keeper.lag.messages == 0
        assert walk.done == walk.sent
        other = Claims(SessionsDb(folder))
        assert isinstance(other.claim("extraction/s"), Claim)
        other.db.close()
        bench.claims.db.close()
        nursery.cancel_scope.cancel()
    return len(watch.ended)


def run(seed: int, steps: int) -> int:
    real = trio.to_thread.run_sync
    trio.to_thread.run_sync = inline  # type: ignore[assignment]
    try:
        with tempfile.TemporaryDirectory() as folder:
            clock = trio.testing.MockClock(autojump_threshold=0)
            return trio.run(walk_through, seed, steps, Path(folder), clock=clock)
    finally:
        trio.to_thread.run_sync = real


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.integers(1, 60))
@example(0, 60)
def test_I15_I18_any_walk_through_a_conversation(seed: int, steps: int) -> None:
    run(seed, steps)


def test_the_walks_are_about_something() -> None:
    assert sum(run(seed, 60) for seed in range(10)) > 40


@pytest.mark.slow
def test_I15_I18_ten_thousand_walks() -> None:
    for seed in range(10_000):
        run(seed, 100)


# ---- the transcript's running figures against a count from scratch ------------------------------


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """From few ids, so that messages are repeated and grow."""
    number = draw(st.integers(0, 6))
    role = ["user", "assistant", "tool", "assistant"][number % 4]
    text = "word " * draw(st.integers(0, 8))
    if role == "user":
        return user(f"m{number}", text)
    if role == "tool":
        return results(
            f"m{number}", *draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
        )
    names = draw(st.lists(st.sampled_from("abc"), max_size=3, unique=True))
    usage = draw(st.none() | st.integers(0, 500))
    made = calls(f"m{number}", *names)
    return Message(
        id=made.id,
        role="assistant",
        text=text,
        tool_calls=made.tool_calls,
        usage=None if usage is None else Usage(input_tokens=usage),
    )


@given(st.lists(st.lists(messages(), min_size=1, max_size=4), max_size=12))
def test_X3_X9_running_figures_are_those_of_a_count_from_scratch(
    batches: list[list[Message]],
) -> None:
    made = Transcript(keeps_unsummarised=True)
    for batch in batches:
        made.append(batch)
    known = [entry.message for entry in made.entries]
    context = 0
    for message in known:
        if message.role == "assistant" and message.usage is not None:
            context = message.usage.input_tokens
        else:
            context += estimate(message)
    assert made.context_tokens == context
    assert made.tool_calls == sum(len(m.tool_calls) for m in known if m.role == "assistant")
    assert made.lag_messages == len(known)
    assert made.lag_tokens == sum(map(estimate, known))
    assistants = [m for m in known if m.role == "assistant"]
    assert made.pauses == (bool(assistants) and not assistants[-1].tool_calls)
    found = made.unsummarised()
    if found is not None:
        made.summarise(found.through)
        assert made.lag_messages == len(known) - found.count
        assert made.lag_tokens == sum(map(estimate, known[found.count :]))
