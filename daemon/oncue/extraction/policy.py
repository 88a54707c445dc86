"""When a run is worth it, and when it is safe (pure; extraction.md §1, X1-X7).

The table, read from above; the first row that fits decides:

| only auto | condition                                        | verdict | reason               |
| --------- | ------------------------------------------------ | ------- | -------------------- |
|           | the session is private                           | skip    | private              |
|           | extraction is switched off                       | skip    | disabled             |
| yes       | not initialised (X1)                             | skip    | belowInitThreshold   |
| yes       | not T: the context grew too little (X2)          | skip    | belowUpdateThreshold |
| yes       | T, not C, not N (X4)                             | skip    | waitingForPause      |
|           | nothing is unsummarised (X6)                     | skip    | nothingNew           |
| yes       | runs failed a short while ago (D68)              | skip    | backingOff           |
|           | a call of the newest response has no result (X5) | arm     | as below             |
| yes       | T and C                                          | run     | toolCallThreshold    |
| yes       | T and N                                          | run     | naturalPause         |
| no        |                                                  | run     | the trigger's name   |

Manual, compaction and close ignore the thresholds, never X5.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from oncue_protocol import ExtractionCounters, ExtractionThresholds, ExtractTrigger

Verdict = Literal["run", "arm", "skip"]
Reason = Literal[
    "private",
    "disabled",
    "belowInitThreshold",
    "belowUpdateThreshold",
    "waitingForPause",
    "nothingNew",
    "backingOff",
    "toolCallThreshold",
    "naturalPause",
    "manual",
    "compaction",
    "close",
]


@frozen
class Situation:
    """Everything a decision depends on."""

    trigger: ExtractTrigger
    counters: ExtractionCounters
    thresholds: ExtractionThresholds
    pauses: bool
    """N: the last assistant message asks for no tool."""
    in_tool_call: bool
    """A call of the newest response has no result, and its turn goes on."""
    unsummarised: bool
    """There are messages that no run has worked on, open calls included."""
    enabled: bool = True
    private: bool = False
    backing_off: bool = False


@frozen
class Verdicted:
    """A decision and why."""

    verdict: Verdict
    reason: Reason


def decide(s: Situation) -> Verdicted:
    """The table above."""
    if s.private:
        return Verdicted("skip", "private")
    if not s.enabled:
        return Verdicted("skip", "disabled")
    reason: Reason
    if s.trigger != "auto":
        reason = s.trigger
    else:
        counters, thresholds = s.counters, s.thresholds
        grown = counters.context_tokens - counters.tokens_at_last_extraction
        calls = counters.tool_calls_since
        if not counters.initialised:
            return Verdicted("skip", "belowInitThreshold")
        if grown < thresholds.minimum_tokens_between_update:
            return Verdicted("skip", "belowUpdateThreshold")
        if calls >= thresholds.tool_calls_between_updates:
            reason = "toolCallThreshold"
        elif s.pauses:
            reason = "naturalPause"
        else:
            return Verdicted("skip", "waitingForPause")
    if not s.unsummarised:
        return Verdicted("skip", "nothingNew")
    if s.trigger == "auto" and s.backing_off:
        return Verdicted("skip", "backingOff")
    return Verdicted("arm" if s.in_tool_call else "run", reason)
