"""Codex children: forks and subagents begin with a copy of their parent (pure).

The copy's lines are restamped with the time of the fork, so their times say nothing. What a
turn's id says counts: ids are UUIDs of version 7, which begin with the time they were made at.
A turn older than the thread is the parent's. Where ids say nothing, the child's own turns are
those that begin more than a second after the copy was written.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from attrs import define

from . import fields
from .fields import Json

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_GAP = timedelta(seconds=1)


@define
class Child:
    """A fork or a subagent, and whether it has come to its own first turn."""

    id: str
    parent: str | None
    is_subagent: bool
    _is_fork: bool
    _began: datetime | None
    _is_copying: bool = True
    _has_parent_meta: bool = False

    @classmethod
    def of(cls, meta: Json, when: str | None) -> Child | None:
        """What a `session_meta` says; None: an ordinary session."""
        source = fields.mapping(meta.get("source"))
        subagent = source.get("subagent")
        spawn = fields.mapping(fields.mapping(subagent).get("thread_spawn"))
        forked_from = fields.ident(meta.get("forked_from_id"))
        parent = fields.ident(meta.get("parent_thread_id"))
        parent = parent or fields.ident(spawn.get("parent_thread_id"))
        if not (forked_from or parent or subagent):
            return None
        return cls(
            id=fields.ident(meta.get("id")) or "",
            parent=parent or forked_from,
            is_subagent=bool(subagent or parent),
            is_fork=forked_from is not None,
            began=_moment(when),
        )

    def saw_parent(self) -> None:
        """A second `session_meta`: the parent's, so a copy follows."""
        self._has_parent_meta = True

    def is_copy(self, kind: str, payload: Json, when: str | None) -> bool:
        """Whether this line still belongs to the copy."""
        if not self._is_copying:
            return False
        begins = kind == "turn_context" or payload.get("type") in ("task_started", "turn_started")
        turn = fields.ident(payload.get("turn_id")) if begins else None
        if turn and _UUID7.fullmatch(turn) and _UUID7.fullmatch(self.id):
            self._is_copying = turn < self.id
        elif not (self._has_parent_meta or self._is_fork):
            self._is_copying = False  # a subagent that was given no copy
        elif begins or (payload.get("type") == "message" and payload.get("role") == "user"):
            moment = _moment(when)
            if moment is not None and self._began is not None:
                self._is_copying = moment - self._began <= _GAP
        return self._is_copying


def _moment(when: str | None) -> datetime | None:
    return datetime.fromisoformat(when) if when else None
