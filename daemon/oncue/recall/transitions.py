"""Every transition of a recall handle, in one table (pure; recall.md §3-§4).

* A handle moves by the table alone. A move that is not in it changes nothing; a report for a
  handle that has ended is counted as late and dropped. Ends are final.
* The reasons with which it ends, by how the turn ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from oncue_protocol import DeliveryPoint, Placement, RecallEndReason, RecallState, TurnEndReason

State = Literal[
    "pending",
    "fastOffered",
    "settled",
    "fastOfferedSettled",
    "offered",
    "consumed",
    "cancelled",
    "replaced",
    "expired",
]
"""States of a handle. The two `fastOffered…` are shown as `offered`: a fast delivery awaits its
acknowledgement while the search runs, or has settled."""

SHOWN: dict[State, RecallState] = {
    "pending": "pending",
    "fastOffered": "offered",
    "settled": "settled",
    "fastOfferedSettled": "offered",
    "offered": "offered",
    "consumed": "consumed",
    "cancelled": "cancelled",
    "replaced": "replaced",
    "expired": "expired",
}


Move = Literal[
    "reportFast",
    "settle",
    "sendFast",
    "offerFast",
    "consume",
    "offer",
    "accept",
    "refuse",
    "cancel",
    "replace",
    "expire",
]

_ENDS: dict[Move, State] = {"cancel": "cancelled", "replace": "replaced", "expire": "expired"}

TRANSITIONS: Mapping[State, Mapping[Move, State]] = {
    "pending": {
        "reportFast": "pending",
        "sendFast": "pending",
        "offerFast": "fastOffered",
        "settle": "settled",
        **_ENDS,
    },
    "fastOffered": {
        "accept": "pending",
        "refuse": "pending",
        "settle": "fastOfferedSettled",
        **_ENDS,
    },
    "fastOfferedSettled": {"accept": "settled", "refuse": "settled", **_ENDS},
    "settled": {"consume": "consumed", "offer": "offered", **_ENDS},
    "offered": {"accept": "consumed", "refuse": "settled", **_ENDS},
    "consumed": {},
    "cancelled": {},
    "replaced": {},
    "expired": {},
}

TURN_ENDS: Mapping[TurnEndReason, RecallEndReason] = {
    "completed": "noSafeDeliveryPoint",  # or alreadyDelivered: see `turn_ended`
    "aborted": "abort",
    "maxSessionTurns": "noSafeDeliveryPoint",
    "turnBudgetExhausted": "noSafeDeliveryPoint",
    "sessionTokenLimit": "noSafeDeliveryPoint",
    "controlSignal": "controlSignal",
    "loopDetected": "noSafeDeliveryPoint",
    "error": "noSafeDeliveryPoint",
}

PLACEMENTS: Mapping[DeliveryPoint, Placement] = {
    "userQuery": "prepend",  # memory leads the reminder block (R7)
    "toolResult": "append",  # a function response must follow its call directly (R8)
}
