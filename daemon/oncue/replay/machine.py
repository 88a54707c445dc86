"""A replay as JSON lines, for machines: one event a line, the summary last.

Times since the recall's start are in milliseconds. Members are camelCase, as on the wire; what is
not known is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from oncue.replay.report import Decision, Extraction, Handed, Notes, Spread, Totals, Turn
from oncue.replay.timeline import finite


class Lines:
    """An Observer that writes."""

    def __init__(self, write: Callable[[str], object], *, verbose: bool = False) -> None:
        self._write = write
        self._verbose = verbose

    def event(self, event: str, **members: Any) -> None:
        known = {name: value for name, value in members.items() if value is not None}
        self._write(orjson.dumps({"event": event, **known}).decode())

    def turn_started(self, turn: Turn) -> None:
        self.event(
            "turnStarted",
            turn=turn.number,
            turnId=turn.turn_id,
            query=turn.query,
            recallId=turn.recall_id,
            startMs=_ms(turn.start_ms),
            scriptedModelMs=_ms(turn.planned_ms),
            scriptedModel=_script(turn),
        )

    def stage_ready(self, turn: Turn, stage: str) -> None:
        since = turn.fast_ms if stage == "fast" else turn.settled_ms
        self.event("stageReady", turn=turn.number, stage=stage, sinceStartMs=_ms(since))

    def handed(self, turn: Turn, handed: Handed) -> None:
        self.event(
            "delivered",
            turn=turn.number,
            point=handed.point,
            round=handed.round,
            stage=handed.stage,
            strategy=handed.strategy,
            sinceStartMs=_ms(handed.late_ms),
            titles=handed.titles,
            paths=handed.paths,
            textTokens=handed.tokens,
        )

    def turn_ended(self, turn: Turn) -> None:
        old = turn.old()
        self.event(
            "turnEnded",
            turn=turn.number,
            way=turn.way,
            rounds=turn.rounds,
            durationMs=_ms(turn.ended_ms),
            fastReadyMs=_ms(turn.fast_ms),
            settledMs=_ms(turn.settled_ms),
            waitedMs=_ms(turn.waited_ms),
            state=turn.state,
            reason=turn.reason,
            documents=turn.documents,
            oldWaitedMs=_ms(old.waited_ms),
            oldLost=old.is_lost,
            oldIsAtLeast=old.is_at_least,
        )

    def noted(self, what: str, turn: int) -> None:
        self.event(what, turn=turn)

    def extraction(self, run: Extraction) -> None:
        self.event(
            "extraction",
            turn=run.turn,
            runId=run.run_id,
            sinceTurnStartMs=_ms(run.into_ms),
            afterTurn=run.into_ms is None,
            reason=run.reason,
            armed=run.was_armed,
            tookMs=_ms(run.took_ms),
            outcome=run.outcome,
            why=run.why,
        )

    def decided(self, decision: Decision) -> None:
        if self._verbose:
            self.event(
                "extractionDecision",
                turn=decision.turn,
                decision=decision.decision,
                reason=decision.reason,
            )

    def notes(self, notes: Notes, saved: str | None) -> None:
        """The notes as they are at the end."""
        self.event(
            "notes",
            text=notes.text,
            isTemplate=notes.is_template,
            lagMessages=notes.lag_messages,
            path=saved,
        )

    def tick(self, turn: Turn | None, now_s: float) -> None:
        pass

    def summary(self, sums: Totals) -> None:
        """The last line."""
        self.event(
            "summary",
            turns=sums.turns,
            recalls=sums.recalls,
            documents=sums.documents,
            deliveriesAtUserQuery=sums.deliveries_at_prompt,
            deliveriesAtToolResult=sums.deliveries_at_tools,
            silent=sums.silent,
            stopped=sums.stopped,
            takenAfterOldLimit=sums.late,
            waitedMs=_ms(sums.waited_ms),
            waitedPerTurn=_spread(sums.per_turn.spread()),
            oldWaitedMs=_ms(sums.old_ms),
            oldWaitedPerTurn=_spread(sums.old_per_turn.spread()),
            oldLost=sums.old_lost,
            oldIsAtLeast=sums.old_is_at_least,
            recallStart=_spread(sums.starts.spread()),
            recallPollAtUserQuery=_spread(sums.first_polls.spread()),
            recallPollAtToolResult=_spread(sums.polls.spread()),
            extractions=sums.runs,
            extractionDecisions=sums.decisions,
            messages=sums.messages,
            compactions=sums.compactions,
            resets=sums.resets,
            resyncs=sums.resyncs,
            skipped=sums.skipped,
            recordedMs=_ms(sums.recorded_s * 1000),
            playedMs=_ms(sums.played_s * 1000),
        )


def _script(turn: Turn) -> str | None:
    if turn.planned_ms is None:
        return None
    if turn.does_fail:
        return "fails"
    return "answers" if finite(turn.planned_ms) is not None else "never"


def _ms(milliseconds: float | None) -> float | None:
    known = finite(milliseconds)
    return None if known is None else round(known, 3)


def _spread(spread: Spread) -> dict[str, float]:
    return {
        "count": spread.count,
        "p50Ms": round(spread.p50, 3),
        "p99Ms": round(spread.p99, 3),
        "maxMs": round(spread.largest, 3),
    }
