"""Two kinds of settings, both frozen; every limit has its reason beside it.

**Daemon settings** belong to whoever started the daemon: defaults < `config.toml` in the
configuration folder < environment (`ONCUE_<SECTION>_<KEY>`, for instance `ONCUE_DAEMON_LOG_LEVEL`).
**Connection settings** start from the same places and add `initializationOptions.oncue` <
`workspace/didChangeConfiguration`; they affect the connection that sent them, nobody else.

A workspace can set neither endpoints, keys, roots nor executables: such sections are taken from the
user's own places only, and a client that sends them is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
from attrs import field, frozen

MAX_QUERY_CHARACTERS = 262_144
"""A query is never refused for its length; ranking reads its first and last 32 tokens, a model
the first 8,000 characters. This many are kept, so that a pasted log does not fill memory."""
MAX_LANES = 32
"""Lanes a session: agents run a handful of subagents; more is a client that forgets to end them."""
MAX_TOMBSTONES = 32
"""Ended recalls remembered a lane, to say why there is none; older ones are unknown again."""
MAX_POLL_TOKENS = 64
"""Answers kept a session for hooks that repeat a lost poll; fewer tool rounds are in flight."""
MAX_EARLY_CANCELS = 32
"""Cancels for recalls not yet started, remembered a session: keystrokes in flight, not more."""


def _between(minimum: float, maximum: float) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not minimum <= value <= maximum:
            raise ValueError(f"must be between {minimum:g} and {maximum:g}, not {value:g}")

    return check


@frozen
class RecallSettings:
    """How recall searches and what a delivery may hold."""

    enabled: bool = True
    fast_documents: int = field(default=2, validator=_between(0, 5))
    """Two are enough to help and too few to distract when no model has judged them; 0: off."""
    max_documents: int = field(default=5, validator=_between(1, 20))
    """More than five memories cost more attention than they bring."""
    max_document_chars: int = field(default=1_200, validator=_between(100, 20_000))
    """About 300 tokens; the path lets the agent read the rest."""
    max_delivery_chars: int = field(default=6_000, validator=_between(500, 100_000))
    """Five documents of full length."""
    lifetime_ms: int = field(default=600_000, validator=_between(1_000, 86_400_000))
    """Ten minutes: no turn that still wants its recall leaves it unasked for so long."""
    safety_ceiling_ms: int = field(default=30_000, validator=_between(100, 600_000))
    """Against hangs alone; there is no time limit on a search (R5)."""
    min_confidence: float = field(default=0.55, validator=_between(0, 1))
    """Below this the ranked list keeps silent: on the development set 0.55 finds .93 of what lies
    in the words and is silent on .81 of the near misses (tests/eval)."""
    fast_min_confidence: float = field(default=0.7, validator=_between(0, 1))
    """The fast stage speaks before any model has looked, so it must be surer: .90 and .88 there."""
    session_byte_budget: int = field(default=0, validator=_between(0, 1 << 30))
    """Bytes of delivered text a session may get in all; 0: off."""
    minimum_query_characters: int = field(default=0, validator=_between(0, 10_000))
    """Shorter queries start no search; CJK characters count as four (R14); 0: off."""


@frozen
class ExtractionSettings:
    """When session notes are written (extraction.md)."""

    enabled: bool = True
    extractor: Literal["outline", "model"] = "outline"
    minimum_message_tokens_to_init: int = field(default=10_000, validator=_between(0, 1 << 30))
    minimum_tokens_between_update: int = field(default=5_000, validator=_between(0, 1 << 30))
    tool_calls_between_updates: int = field(default=3, validator=_between(0, 10_000))
    extraction_wait_timeout_ms: int = field(default=15_000, validator=_between(0, 15_000))
    extraction_stale_threshold_ms: int = field(default=60_000, validator=_between(1_000, 600_000))
    max_section_tokens: int = field(default=2_000, validator=_between(100, 100_000))
    max_total_tokens: int = field(default=12_000, validator=_between(1_000, 1_000_000))


@frozen
class ModelChoice:
    """Which model a connection's sessions use; endpoints and keys are daemon settings."""

    provider: Literal["none", "http", "client"] = "none"


@frozen
class MemorySettings:
    """Where memories lie and how long removed ones are kept."""

    trusted_roots: tuple[str, ...] = ()
    worktrees: Literal["perWorktree", "shared"] = "perWorktree"
    recall_past_notes: bool = False
    notes_retention_days: int = field(default=90, validator=_between(1, 36_500))
    trash_days: int = field(default=30, validator=_between(0, 36_500))


@frozen
class ModelEndpoint:
    """An HTTP model endpoint; from the user's own configuration or environment only."""

    kind: Literal["openai", "anthropic"] = "openai"
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; the key itself is no setting."""
    select_model: str | None = None
    headers: Mapping[str, str] = field(factory=dict)
    allow_workspaces: tuple[str, ...] = ()


@frozen
class SemanticSettings:
    """The optional semantic stage."""

    provider: Literal["none", "onnx", "http"] = "none"
    path: str | None = None
    base_url: str | None = None
    model: str | None = None


@frozen
class ProcessSettings:
    """The daemon process itself."""

    idle_exit_ms: int = field(default=600_000, validator=_between(1_000, 1 << 40))
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    max_message_bytes: int = field(default=64 << 20, validator=_between(4_096, 1 << 30))
    """A transcript of 200,000 tokens is about 1 MB; 64 MiB leaves room for pasted images."""


@frozen
class StoreSettings:
    """Where the index lies."""

    url: str = "sqlite"


@frozen
class ConnectionSettings:
    """What a client may set for its own connection."""

    recall: RecallSettings = RecallSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    model: ModelChoice = ModelChoice()


@frozen
class DaemonSettings:
    """What only the user may set, once for the process; and the defaults of connections."""

    memory: MemorySettings = MemorySettings()
    endpoint: ModelEndpoint = ModelEndpoint()
    semantic: SemanticSettings = SemanticSettings()
    daemon: ProcessSettings = ProcessSettings()
    store: StoreSettings = StoreSettings()
    connection: ConnectionSettings = ConnectionSettings()
