"""What every type of the protocol is made of: limits, shared words, the method record (pure).

Members are snake_case here and camelCase on the wire. `None`, absent and default mean the
same. Durations are whole milliseconds, times RFC 3339 UTC, tuples are JSON arrays.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from attrs import frozen

PROTOCOL_VERSION = 1
"""The version that this package describes."""

MAX_RECALL_WAIT_MS = 2_000
"""Longest `waitMs` of recall/start and recall/poll: Vim gives up a synchronous call after 2 s."""

MAX_EXTRACTION_WAIT_MS = 15_000
"""Longest `waitMs` of memory/extract, memory/wait and session/close (X15)."""

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Longest message body: room for a transcript with images, small enough to hold in memory."""

MAX_IDENTIFIER_CHARACTERS = 256
"""Longest id that a client may choose: it is a key of tables and logs, not a document."""

MAX_NESTING = 64
"""Free JSON (a tool's input, a schema) is kept down to this depth: whatever handles it later
may be recursive, and no sensible tool input is deeper (T4)."""

MAX_PROBLEMS = 8
"""Problems named in one error: enough to mend a request, small enough for a status line."""


@frozen
class Limits:
    """Bounds of a value, used inside `Annotated`; checked on the way in, shown in the schema."""

    minimum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    format: str | None = None
    """`format` of JSON Schema: documentation, not checked."""


@frozen
class FreeJson:
    """Any JSON value, used inside `Annotated`. What is nested deeper than `depth` is replaced by
    a string that says so, because refusing a transcript for it would stop its sync for good."""

    depth: int = MAX_NESTING


@frozen
class OtherMembers:
    """Members of an object that its class does not name, kept as they came; used inside
    `Annotated`. `shapes` names the classes that document those that have a meaning."""

    shapes: tuple[tuple[str, str], ...]


class Wire:
    """Base of the classes on the wire: equal by value, hashable where their members are.

    Written once here, because attrs would generate it anew for each of a hundred classes, which
    takes 30 ms of every start."""

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[Any, ...]]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, a.name) == getattr(other, a.name) for a in self.__attrs_attrs__)

    def __hash__(self) -> int:
        return hash((self.__class__, *(getattr(self, a.name) for a in self.__attrs_attrs__)))

    def __repr__(self) -> str:
        """Members that have their default are left out, as on the wire."""
        values = ((a, getattr(self, a.name)) for a in self.__attrs_attrs__)
        shown = ", ".join(f"{a.name}={value!r}" for a, value in values if a.default != value)
        return f"{self.__class__.__name__}({shown})"


Identifier = Annotated[str, Limits(min_length=1, max_length=MAX_IDENTIFIER_CHARACTERS)]
Milliseconds = Annotated[int, Limits(minimum=0)]
Count = Annotated[int, Limits(minimum=0)]
Tokens = Annotated[int, Limits(minimum=0)]
Time = Annotated[str, Limits(format="date-time")]
JsonValue = Annotated[Any, FreeJson()]
JsonObject = Annotated[dict[str, Any], FreeJson()]

Kind = Literal["request", "notification"]
Direction = Literal["client", "daemon"]

Scope = Literal["user", "project"]
MemoryType = Literal["user", "feedback", "project", "reference"]
DocumentType = Literal["user", "feedback", "project", "reference", "notes"]
Origin = Literal["mine", "repository", "agent"]
Trust = Literal["trusted", "quarantined"]
WrittenBy = Literal["human", "model", "import"]
Placement = Literal["prepend", "append"]
Strategy = Literal["fast", "ranked", "model", "fallback"]
Stage = Literal["fast", "refined"]


@frozen(kw_only=True)
class Method:
    """One row of the table of methods."""

    name: str
    """Its name on the wire."""
    kind: Kind
    """Whether it is answered."""
    direction: Direction
    """Who sends it."""
    summary: str
    """What it is for, in one sentence."""
    params: type[Any] | None = None
    """Class of its parameters; None: it has none, and whatever comes is ignored."""
    result: type[Any] | None = None
    """Class of its result; None: a notification, or the result is `null`."""
    also_notification: bool = False
    """A request that may be sent as a notification too."""
    base: bool = False
    """One of the Language Server Protocol's own methods."""
