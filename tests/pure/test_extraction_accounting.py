"""Counters from conversations: anchors, bases, compactions, rewinds (X1, X3, X8-X10)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keeper_doubles import calls, results, says, user
from oncue.extraction.accounting import Accounting, Base
from oncue.transcript.state import Transcript
from oncue_protocol import Message

INIT = 10_000


class Talk:
    """A conversation and its counters."""

    def __init__(self) -> None:
        self.transcript = Transcript(keeps_unsummarised=True)
        self.counts = Accounting()

    def __call__(self, *messages: Message) -> Talk:
        self.transcript.append(messages)
        self.counts.observe(self.transcript, INIT)
        return self

    def run(self) -> None:
        """A run that is decided now and succeeds at once."""
        self.counts.run_decided()
        base = self.counts.now()
        chosen = self.transcript.unsummarised()
        assert chosen is not None
        self.transcript.summarise(chosen.through)
        self.counts.run_succeeded(base)

    @property
    def seen(self) -> tuple[int, int, int, bool]:
        found = self.counts.counters
        return (
            found.context_tokens,
            found.tokens_at_last_extraction,
            found.tool_calls_since,
            found.initialised,
        )


def test_X1_initialised_is_reached_once_and_for_all() -> None:
    talk = Talk()(user("u1"), says("a1", 9_999))
    assert talk.seen == (9_999, 0, 0, False)
    talk(says("a2", 10_000))
    assert talk.seen == (10_000, 0, 0, True)
    talk.transcript.compact(None, 1_000)
    talk.counts.compacted(talk.transcript)
    talk(says("a3", 1_200))
    assert talk.seen == (1_200, 1_000, 0, True)


def test_X3_X9_tool_calls_count_from_the_message_at_which_a_run_was_decided() -> None:
    talk = Talk()(user("u1"), calls("a1", "1", "2", context=12_000), results("r1", "1", "2"))
    assert talk.seen[1:] == (0, 2, True)
    talk.counts.run_decided()
    assert talk.seen[1:] == (0, 0, True)
    talk(calls("a2", "3"), results("r2", "3"))
    assert talk.seen[2] == 1
    # The run failed: the anchor stays where it was moved to, the base where it was.
    assert talk.seen[1] == 0


def test_X3_a_message_that_grows_has_its_new_calls_counted_once() -> None:
    talk = Talk()(user("u1"), calls("a1", "1"))
    talk(calls("a1", "1", "2"))
    talk(calls("a1", "1", "2"))
    assert talk.seen[2] == 2


def test_X9_X10_the_base_moves_to_the_snapshots_context() -> None:
    talk = Talk()(user("u1"), says("a1", 12_000))
    talk.counts.run_decided()
    base = talk.counts.now()
    talk(user("u2"), says("a2", 16_000))  # while it runs
    talk.counts.run_succeeded(base)
    assert talk.seen[:2] == (16_000, 12_000)


def test_X8_a_compaction_sets_the_base_to_the_new_size() -> None:
    talk = Talk()(user("u1"), says("a1", 30_000))
    talk.run()
    talk.transcript.compact(None, 4_000)
    talk.counts.compacted(talk.transcript)
    assert talk.seen[:2] == (4_000, 4_000)
    talk(user("u2"), says("a2", 8_999))
    assert talk.seen[:2] == (8_999, 4_000)


def test_X8_also_where_the_size_grew_or_nothing_was_extracted_yet() -> None:
    talk = Talk()(user("u1"), says("a1", 6_000))
    talk.transcript.compact("a1", 7_000)
    talk.counts.compacted(talk.transcript)
    assert talk.seen[:2] == (7_000, 7_000)


def test_X8_a_context_that_falls_without_a_word_sets_the_base_again() -> None:
    talk = Talk()(user("u1"), says("a1", 30_000))
    talk.run()
    talk(user("u2"), says("a2", 5_000))
    assert talk.seen[:2] == (5_000, 5_000)


def test_X8_a_compaction_while_a_run_works_is_not_undone_by_its_success() -> None:
    talk = Talk()(user("u1"), says("a1", 30_000))
    talk.counts.run_decided()
    base = talk.counts.now()
    talk.transcript.compact(None, 4_000)
    talk.counts.compacted(talk.transcript)
    talk.counts.run_succeeded(base)
    assert talk.seen[:2] == (4_000, 4_000)


def test_X8_a_correction_from_estimate_to_usage_is_no_fall() -> None:
    talk = Talk()(user("u1", "word " * 10_000))
    talk.run()
    base = talk.seen[1]
    assert base > 10_000
    talk(says("a1", round(base * 0.8)))
    assert talk.seen[:2] == (round(base * 0.8), base)
    talk(says("a2", round(base * 0.6)))  # more than an estimate can be wrong
    assert talk.seen[:2] == (round(base * 0.6), round(base * 0.6))


def test_X8_cleared_zeroes_everything() -> None:
    talk = Talk()(user("u1"), calls("a1", "1", context=30_000), results("r", "1"))
    talk.run()
    talk.transcript.reset()
    talk.counts.cleared()
    talk()
    assert talk.seen == (0, 0, 0, False)


def test_X8_rewound_counts_what_survived() -> None:
    first = [user("u1"), calls("a1", "1", context=12_000), results("r1", "1"), says("a2", 13_000)]
    talk = Talk()(*first)
    talk.run()
    talk(user("u2"), calls("a3", "2", context=30_000), results("r2", "2"), says("a4", 31_000))
    talk.run()
    talk.transcript.reset(rewound=True)
    talk.counts.rewound()
    talk(*first)
    assert talk.seen == (13_000, 13_000, 0, True)
    assert talk.transcript.lag_messages == 0
    talk(user("u3"), calls("b1", "9", context=14_000))
    assert talk.seen == (14_000, 13_000, 1, True)
    assert talk.transcript.lag_messages == 2


@given(st.integers(0, 200_000), st.integers(0, 200_000), st.integers(0, 300_000))
def test_X8_a_fall_is_never_a_growth(tokens: int, estimated: int, now: int) -> None:
    base = Base(tokens, min(estimated, tokens))
    if now >= tokens:
        assert not base.has_fallen(now)
    if now < tokens * 0.6:
        assert base.has_fallen(now)
