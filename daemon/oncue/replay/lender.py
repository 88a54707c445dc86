"""The scripted model that a player lends to the daemon: slow, failing or silent on purpose.

It is no model, and the screen says so: after the time that the script names it picks the titles
that the script names, or, where the script names none, the documents whose titles and
descriptions share most words with the query.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import trio
from attrs import field, frozen

from oncue.replay.errors import ReplayError
from oncue.replay.report import Turn
from oncue.text import analyzer
from oncue_protocol import ModelGenerateParams, ModelGenerateResult, RequestFailed

FAILS_AFTER_S = 0.5
"""A failing model takes a moment to fail."""
LEXICAL_PICKS = 3
"""At most so many documents where the script names no titles."""

# A manifest line of recall.md §7: id, type, then what the entry says.
_ENTRY = re.compile(r"^(m[1-9][0-9]{0,2}) \[[a-z]+\] (.*)$", re.MULTILINE)
_LATENCY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)?")

Ending = Literal["answers", "fails", "never"]


@frozen
class Plan:
    """What the model does in one turn."""

    ending: Ending
    latency_s: float
    """Until it answers or fails; infinite where it never does."""
    titles: tuple[str, ...] | None = None
    """Documents to pick; None: by words in common."""

    @property
    def label(self) -> str:
        if self.ending == "answers":
            return f"{self.latency_s:g} s"
        return self.ending


def plan(latency: object, titles: Sequence[str] | None = None) -> Plan:
    """From seconds as a number, `0.9s`, `900ms`, `fail` or `never`. `ReplayError` otherwise."""
    picks = None if titles is None else tuple(titles)
    if latency == "fail":
        return Plan("fails", FAILS_AFTER_S, picks)
    if latency == "never":
        return Plan("never", math.inf, picks)
    match = _LATENCY.fullmatch(str(latency).strip())
    if match is None:
        raise ReplayError(
            f"a latency of {str(latency)!r} is not understood: give seconds (0.9s), milliseconds "
            "(900ms), fail or never"
        )
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1)
    return Plan("answers", seconds, picks)


@frozen
class Script:
    """What the model does in which turn."""

    plans: tuple[Plan, ...]
    by_query: Mapping[str, Plan] = field(factory=dict)
    """Looked at first."""
    source: str = "--latency"
    """Where it comes from, for the screen."""

    def plan_of(self, turn: Turn) -> Plan:
        return self.by_query.get(turn.query) or self.plans[(turn.number - 1) % len(self.plans)]

    @property
    def chooses_by_words(self) -> bool:
        return any(plan.titles is None for plan in self.by_query.values() or self.plans)

    @property
    def latencies(self) -> tuple[str, ...]:
        """Each once, in the order in which they come."""
        plans = self.by_query.values() or self.plans
        return tuple(dict.fromkeys(plan.label for plan in plans))


def schedule(text: str) -> Script:
    """From `0.9s,2.5s,fail`: one plan a turn, over and over. `ReplayError` where it is bad."""
    return Script(tuple(plan(part.strip()) for part in text.split(",")))


def sidecar(path: Path) -> Script:
    """From a file as `demo/model.json`. `ReplayError` where it cannot be read."""
    try:
        turns: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["turns"]
        plans = {turn["query"]: plan(turn["latency"], turn["choose"]) for turn in turns}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReplayError(f"the model's script {path} cannot be read: {error}") from error
    return Script((plan(0.9),), plans, path.name)


class Lender:
    """Serves `model/generate`. The player says which turn it is."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._turn: Turn | None = None

    def begin(self, turn: Turn) -> None:
        """The recall of `turn` is about to start."""
        self._turn = turn
        plan = self.script.plan_of(turn)
        turn.planned_ms = plan.latency_s * 1000
        turn.does_fail = plan.ending == "fails"

    async def serve(self, params: ModelGenerateParams) -> ModelGenerateResult:
        """One request of the daemon. Cancelled where the daemon cancels it."""
        turn = self._turn
        if turn is None or params.purpose != "select":
            return ModelGenerateResult(text="NOTHING_TO_ADD")
        plan = self.script.plan_of(turn)
        await trio.sleep(plan.latency_s)
        if plan.ending == "fails":
            raise RequestFailed("the scripted model fails here, as scripted")
        manifest = entries("\n".join(message.text for message in params.messages))
        if plan.titles is None:
            ids = by_words(turn.query, manifest)
        else:
            ids = by_titles(plan.titles, manifest)
        return ModelGenerateResult(text=json.dumps({"ids": ids}))


def entries(text: str) -> dict[str, str]:
    """Manifest id to the rest of its line."""
    return {match[1]: match[2] for match in _ENTRY.finditer(text)}


def by_titles(titles: Sequence[str], manifest: Mapping[str, str]) -> list[str]:
    """Ids of the entries that hold one of `titles`, in the order of `titles`."""
    found = (
        next((name for name, line in manifest.items() if title in line), None) for title in titles
    )
    return [name for name in found if name is not None]


def by_words(query: str, manifest: Mapping[str, str]) -> list[str]:
    """Ids of the entries that share most terms with the query, at least one."""
    asked = set(analyzer.terms(query))
    shared = {
        name: len(asked.intersection(analyzer.terms(line))) for name, line in manifest.items()
    }
    best = sorted((name for name in shared if shared[name]), key=lambda name: -shared[name])
    return best[:LEXICAL_PICKS]
