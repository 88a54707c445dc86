"""Start, end and health of a connection (protocol.md, Lifecycle; pure).

These are lean forms of the Language Server Protocol's own types: only what oncue reads is
checked, whatever else an editor sends is ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import field, frozen

from .base import Count, JsonObject, JsonValue, Milliseconds, OtherMembers, Time, Wire

NotificationName = Literal[
    "recall/ended",
    "recall/settled",
    "memory/didChange",
    "memory/extractionEnded",
    "$/progress",
    "window/logMessage",
    "telemetry/event",
]
ModelProviderKind = Literal["none", "http", "client"]
OPTION_SETTINGS = (
    ("recall", "RecallOptions"),
    ("extraction", "ExtractionOptions"),
    ("model", "ModelOptions"),
)
HealthState = Literal["ok", "degraded", "off"]
ExtractorKind = Literal["outline", "model"]


@frozen(kw_only=True, eq=False, repr=False)
class RecallOptions(Wire):
    """The `recall` settings of a connection. Absent members keep what the user configured."""

    enabled: bool | None = None
    """Whether `recall/start` searches at all."""
    fast_documents: Count | None = None
    """At most so many documents in the fast stage, 2 by default; 0 switches the stage off."""
    max_documents: Count | None = None
    """At most so many documents in the refined stage, 5 by default."""
    max_document_chars: Count | None = None
    """Characters of one document before it is cut with a pointer to its file, 1200 by default."""
    max_delivery_chars: Count | None = None
    """Characters of a whole delivery, 6000 by default."""
    lifetime_ms: Milliseconds | None = None
    """A recall that nobody polls for so long is forgotten (R13), 600000 by default."""
    safety_ceiling_ms: Milliseconds | None = None
    """A search that takes longer is taken for hung (R5), 30000 by default."""
    min_confidence: float | None = None
    """Documents below this confidence (0 to 1) are not delivered."""
    fast_min_confidence: float | None = None
    """The same for the fast stage, which delivers only what is rather certain."""
    session_byte_budget: Count | None = None
    """Bytes delivered in one session, 0 by default: no limit (R14)."""
    minimum_query_characters: Count | None = None
    """Shorter queries start no search, 0 by default: none is too short (R14)."""


@frozen(kw_only=True, eq=False, repr=False)
class ExtractionOptions(Wire):
    """The `extraction` settings of a connection. Absent members keep what the user configured."""

    enabled: bool | None = None
    """Whether session notes are written at all."""
    extractor: ExtractorKind | None = None
    """`outline` needs no model, `model` uses the configured one."""
    minimum_message_tokens_to_init: Count | None = None
    """Context size in tokens at which notes begin (X1), 10000 by default."""
    minimum_tokens_between_update: Count | None = None
    """Growth in tokens between two runs (X2), 5000 by default."""
    tool_calls_between_updates: Count | None = None
    """Tool calls between two runs (X3), 3 by default."""
    extraction_wait_timeout_ms: Milliseconds | None = None
    """Longest wait for a running extraction (X15), 15000 by default."""
    extraction_stale_threshold_ms: Milliseconds | None = None
    """A run older than this is not waited for (X13), 60000 by default."""
    max_section_tokens: Count | None = None
    """Budget of one section of the notes in tokens (X21), 2000 by default."""
    max_total_tokens: Count | None = None
    """Budget of the notes in tokens (X21), 12000 by default."""


@frozen(kw_only=True, eq=False, repr=False)
class ModelOptions(Wire):
    """The `model` settings that a connection may choose; endpoints and keys it may not."""

    provider: ModelProviderKind | None = None
    """Which model recalls and extractions of this connection use."""


@frozen(kw_only=True, eq=False, repr=False)
class OncueOptions(Wire):
    """`initializationOptions.oncue`: what a client asks for. All of it is optional."""

    protocol_versions: tuple[int, ...] = ()
    """Versions of this protocol that the client speaks; empty: any."""
    acknowledge_deliveries: bool = False
    """The client says with `recall/acknowledge` whether the model took a delivery."""
    model_provider: bool = False
    """The client answers `model/generate`."""
    notifications: tuple[str, ...] = ()
    """Optional notifications that the client wants, by method name; unknown names are ignored."""
    settings: Annotated[dict[str, Any], OtherMembers(OPTION_SETTINGS)] = field(factory=dict)
    """Settings of this connection: every other member, as it came (`recall`, `extraction`,
    `model`). Unknown ones warn and a bad value keeps the old one, so they are not checked here."""


@frozen(kw_only=True, eq=False, repr=False)
class InitializationOptions(Wire):
    """`initializationOptions`: other programs' members are ignored."""

    oncue: OncueOptions | None = None
    """What this client asks of oncue."""


@frozen(kw_only=True, eq=False, repr=False)
class WorkspaceFolder(Wire):
    """A folder that the editor has open."""

    uri: str
    """`file:` URI of the folder, or its absolute path."""
    name: str = ""
    """What the editor calls it."""


@frozen(kw_only=True, eq=False, repr=False)
class ClientInfo(Wire):
    """Who the client is."""

    name: str
    """Name of the editor or agent."""
    version: str | None = None
    """Its version."""


@frozen(kw_only=True, eq=False, repr=False)
class InitializeParams(Wire):
    """First request of a connection: the Language Server Protocol's, of which oncue reads this."""

    process_id: int | None = None
    """Process that started the daemon; when it dies, so does the daemon."""
    client_info: ClientInfo | None = None
    """Who the client is, for logs and `daemon/status`."""
    locale: str | None = None
    """Language of the editor's user interface."""
    root_path: str | None = None
    """Folder that is open; deprecated in favour of `rootUri`."""
    root_uri: str | None = None
    """Folder that is open; deprecated in favour of `workspaceFolders`."""
    workspace_folders: tuple[WorkspaceFolder, ...] = ()
    """Folders that are open."""
    initialization_options: InitializationOptions | None = None
    """Ours are under `oncue`."""
    capabilities: JsonValue = None
    """What the editor can do; kept as it came."""
    trace: str | None = None
    """How much of `$/logTrace` the client wants: `off`, `messages` or `verbose`."""
    work_done_token: int | str | None = None
    """Token for progress of the initialization; none is reported, since it is quick."""


@frozen(kw_only=True, eq=False, repr=False)
class OncueCapabilities(Wire):
    """What this daemon can do."""

    protocol_version: int
    """Version of this protocol that the connection speaks."""
    methods: tuple[str, ...]
    """Methods that the daemon serves; others are answered with -32601."""
    models: tuple[ModelProviderKind, ...]
    """Model providers that can be chosen."""
    semantic: bool
    """Whether the semantic stage of the search is there."""


@frozen(kw_only=True, eq=False, repr=False)
class ExperimentalCapabilities(Wire):
    """Where the Language Server Protocol puts extensions."""

    oncue: OncueCapabilities
    """What this daemon can do."""


@frozen(kw_only=True, eq=False, repr=False)
class ServerCapabilities(Wire):
    """oncue offers none of the Language Server Protocol's language features."""

    experimental: ExperimentalCapabilities
    """Extensions."""


@frozen(kw_only=True, eq=False, repr=False)
class ServerInfo(Wire):
    """Who the daemon is."""

    name: str
    """`oncue`."""
    version: str | None = None
    """Version of the package."""


@frozen(kw_only=True, eq=False, repr=False)
class InitializeResult(Wire):
    """Answer to `initialize`."""

    capabilities: ServerCapabilities
    """What the daemon can do."""
    server_info: ServerInfo
    """Who the daemon is."""


@frozen(kw_only=True, eq=False, repr=False)
class InitializedParams(Wire):
    """The client has read the answer to `initialize`."""


@frozen(kw_only=True, eq=False, repr=False)
class CancelRequestParams(Wire):
    """Cancels a request that is in flight; it is still answered, once."""

    id: int | str
    """Id of the request."""


@frozen(kw_only=True, eq=False, repr=False)
class SetTraceParams(Wire):
    """Chooses how much of `$/logTrace` the client wants."""

    value: str
    """`off`, `messages` or `verbose`."""


@frozen(kw_only=True, eq=False, repr=False)
class LogTraceParams(Wire):
    """A line about what the daemon is doing; only while tracing is on."""

    message: str
    """What happened: ids, sizes and durations, never content."""
    verbose: str | None = None
    """More of it, where `verbose` was chosen."""


@frozen(kw_only=True, eq=False, repr=False)
class ProgressParams(Wire):
    """Progress of a request that carried a `workDoneToken`."""

    token: int | str
    """The token of the request."""
    value: JsonObject
    """A begin, report or end of the Language Server Protocol's work done progress."""


@frozen(kw_only=True, eq=False, repr=False)
class WindowLogMessageParams(Wire):
    """A line for the editor's output channel."""

    type: int
    """1 error, 2 warning, 3 info, 4 log."""
    message: str
    """The line."""


@frozen(kw_only=True, eq=False, repr=False)
class TelemetryEventParams(Wire):
    """An event for the editor's own telemetry. The daemon sends nothing anywhere itself."""

    name: str
    """Name of the event."""
    data: JsonValue = None
    """Figures: counts and durations, never content."""


@frozen(kw_only=True, eq=False, repr=False)
class WorkspaceDidChangeConfigurationParams(Wire):
    """The editor's settings have changed."""

    settings: JsonValue = None
    """The new settings: ours under `oncue`; null: nothing is known."""


@frozen(kw_only=True, eq=False, repr=False)
class FileEvent(Wire):
    """A file that changed."""

    uri: str
    """`file:` URI of the file."""
    type: int
    """1 created, 2 changed, 3 deleted."""


@frozen(kw_only=True, eq=False, repr=False)
class WorkspaceDidChangeWatchedFilesParams(Wire):
    """Files that the editor watches have changed."""

    changes: tuple[FileEvent, ...] = ()
    """What happened, in order."""


@frozen(kw_only=True, eq=False, repr=False)
class Health(Wire):
    """State of one part of the daemon."""

    state: HealthState
    """`ok`, `degraded` (works, but worse) or `off`."""
    reason: str | None = None
    """Why it is not `ok`, and what can be done."""
    since: Time | None = None
    """Since when it is so."""


@frozen(kw_only=True, eq=False, repr=False)
class DaemonStatusResult(Wire):
    """How the daemon is."""

    version: str
    """Version of the package."""
    protocol_version: int
    """Version of the protocol."""
    pid: int
    """Process id of the daemon."""
    uptime_ms: Milliseconds
    """Time since it was started."""
    clients: Count
    """Connections that are open."""
    sessions: Count
    """Sessions that are open."""
    store: Health
    """The database: index, session table."""
    model: Health
    """The language model; `off` where none is configured."""
    counters: dict[str, int]
    """What was counted since the start, by name: recalls, deliveries, late reports, drops."""
    memory: Health | None = None
    """The memory folders and the watch on them."""
    semantic: Health | None = None
    """The semantic stage, where it is installed."""
