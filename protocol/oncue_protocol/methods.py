"""The one table of methods: name, who sends it, parameters, result (pure).

Everything else is made from it: dispatch, checks, schema files, clients.
"""

from __future__ import annotations

from typing import Any

from . import extraction, lifecycle, memory, models, recall, sessions, transcript
from .base import Method


def _request(name: str, summary: str, params: Any, result: Any, **more: Any) -> Method:
    return Method(
        name=name,
        kind="request",
        direction="client",
        summary=summary,
        params=params,
        result=result,
        **more,
    )


def _tell(name: str, summary: str, params: Any, **more: Any) -> Method:
    return Method(
        name=name,
        kind="notification",
        direction="client",
        summary=summary,
        params=params,
        **more,
    )


def _event(name: str, summary: str, params: Any, **more: Any) -> Method:
    return Method(
        name=name,
        kind="notification",
        direction="daemon",
        summary=summary,
        params=params,
        **more,
    )


_LIFECYCLE = (
    _request(
        "initialize",
        "Begins the connection and agrees on what both sides can do.",
        lifecycle.InitializeParams,
        lifecycle.InitializeResult,
        base=True,
    ),
    _tell(
        "initialized",
        "The client has read the answer to `initialize`.",
        lifecycle.InitializedParams,
        base=True,
    ),
    _request("shutdown", "Ends all work; `exit` follows.", None, None, base=True),
    _tell("exit", "Ends the connection.", None, base=True),
    _tell(
        "$/cancelRequest",
        "Cancels a request in flight, which is still answered once.",
        lifecycle.CancelRequestParams,
        base=True,
    ),
    _tell("$/setTrace", "Chooses how much is traced.", lifecycle.SetTraceParams, base=True),
    _tell(
        "workspace/didChangeConfiguration",
        "The editor's settings have changed.",
        lifecycle.WorkspaceDidChangeConfigurationParams,
        base=True,
    ),
    _tell(
        "workspace/didChangeWatchedFiles",
        "Files that the editor watches have changed.",
        lifecycle.WorkspaceDidChangeWatchedFilesParams,
        base=True,
    ),
    _event("$/progress", "Progress of a request.", lifecycle.ProgressParams, base=True),
    _event("$/logTrace", "What the daemon is doing.", lifecycle.LogTraceParams, base=True),
    _event(
        "window/logMessage",
        "A line for the editor's output channel.",
        lifecycle.WindowLogMessageParams,
        base=True,
    ),
    _event(
        "telemetry/event",
        "An event for the editor's own telemetry.",
        lifecycle.TelemetryEventParams,
        base=True,
    ),
    _request("daemon/status", "Tells how the daemon is.", None, lifecycle.DaemonStatusResult),
)

_SESSIONS = (
    _request(
        "session/open",
        "Opens a session, or resumes a known one.",
        sessions.SessionOpenParams,
        sessions.SessionOpenResult,
    ),
    _request(
        "session/close", "Closes a session and ends its recalls.", sessions.SessionCloseParams, None
    ),
    _request(
        "session/list",
        "Lists open and resumable sessions.",
        sessions.SessionListParams,
        sessions.SessionListResult,
    ),
    _request(
        "session/timeline",
        "Tells what happened in a session, and when.",
        sessions.SessionTimelineParams,
        sessions.SessionTimelineResult,
    ),
    _event(
        "session/lost",
        "The daemon was replaced and the session did not survive.",
        sessions.SessionLostParams,
    ),
    _event(
        "session/roleChanged",
        "Another connection drives the session now.",
        sessions.SessionRoleChangedParams,
    ),
    _request(
        "session/purge",
        "Removes what is on disk of a session.",
        sessions.SessionPurgeParams,
        sessions.SessionPurgeResult,
    ),
    _request(
        "session/status",
        "Tells how a session is.",
        sessions.SessionStatusParams,
        sessions.SessionStatusResult,
    ),
    _tell(
        "transcript/didAppend",
        "New messages of the conversation.",
        transcript.TranscriptDidAppendParams,
    ),
    _event(
        "transcript/resyncRequired",
        "Messages are missing: send again from there.",
        transcript.TranscriptResyncRequiredParams,
    ),
    _request(
        "transcript/follow",
        "Reads an agent's own transcript file as it grows.",
        transcript.TranscriptFollowParams,
        transcript.TranscriptFollowResult,
    ),
    _tell(
        "transcript/didReset",
        "The conversation was cleared or rewound.",
        transcript.TranscriptDidResetParams,
    ),
    _tell("transcript/willCompact", "A compaction begins.", transcript.TranscriptWillCompactParams),
    _tell(
        "transcript/didCompact",
        "The history was compacted.",
        transcript.TranscriptDidCompactParams,
    ),
    _tell("turn/didEnd", "A turn is over, and with it its recall.", transcript.TurnDidEndParams),
)

_RECALL = (
    _request(
        "recall/start",
        "Starts the recall of a turn, without waiting for it.",
        recall.RecallStartParams,
        recall.RecallStartResult,
    ),
    _request(
        "recall/poll",
        "Takes what the recall has found, once.",
        recall.RecallPollParams,
        recall.RecallPollResult,
    ),
    _request(
        "recall/peek",
        "Looks what the recall has found, and takes nothing.",
        recall.RecallPeekParams,
        recall.RecallPollResult,
    ),
    _request(
        "recall/cancel",
        "Ends a recall.",
        recall.RecallCancelParams,
        recall.RecallCancelResult,
        also_notification=True,
    ),
    _event("recall/ended", "The one terminal event of a recall.", recall.RecallEndedParams),
    _tell(
        "recall/acknowledge",
        "Says whether the model took a delivery.",
        recall.RecallAcknowledgeParams,
    ),
    _event("recall/settled", "A stage of the recall is ready.", recall.RecallSettledParams),
)

_MEMORY = (
    _request(
        "memory/extract",
        "Asks for an extraction of session notes.",
        extraction.MemoryExtractParams,
        extraction.MemoryExtractResult,
    ),
    _request(
        "memory/wait",
        "Waits for a running extraction, within bounds.",
        extraction.MemoryWaitParams,
        extraction.MemoryWaitResult,
    ),
    _request(
        "memory/cancelExtraction",
        "Cancels a running extraction.",
        extraction.MemoryCancelExtractionParams,
        extraction.MemoryCancelExtractionResult,
        also_notification=True,
    ),
    _request(
        "memory/purge",
        "Removes every copy of memory files for good.",
        memory.MemoryPurgeParams,
        memory.MemoryPurgeResult,
    ),
    _event(
        "memory/extractionEnded",
        "The one terminal event of an extraction run.",
        extraction.MemoryExtractionEndedParams,
    ),
    _request(
        "notes/read",
        "Reads the notes of a session.",
        extraction.NotesReadParams,
        extraction.NotesReadResult,
    ),
    _request(
        "notes/compactionView",
        "Tells how to compact the history without a model.",
        extraction.NotesCompactionViewParams,
        extraction.NotesCompactionViewResult,
    ),
    _request(
        "memory/list", "Lists memory files.", memory.MemoryListParams, memory.MemoryListResult
    ),
    _request(
        "memory/search",
        "Searches memory files.",
        memory.MemorySearchParams,
        memory.MemorySearchResult,
    ),
    _request(
        "memory/read",
        "Reads one memory file.",
        memory.MemoryReadParams,
        memory.MemoryReadResult,
    ),
    _event("memory/didChange", "Memory files have changed.", memory.MemoryDidChangeParams),
    _request(
        "memory/write",
        "Writes a memory file, new or changed.",
        memory.MemoryWriteParams,
        memory.MemoryWriteResult,
    ),
    _request(
        "memory/forget",
        "Moves memory files to the trash.",
        memory.MemoryForgetParams,
        memory.MemoryForgetResult,
    ),
)

_MODELS = (
    Method(
        name="model/generate",
        kind="request",
        direction="daemon",
        summary="Asks the editor's model.",
        params=models.ModelGenerateParams,
        result=models.ModelGenerateResult,
    ),
)

METHODS: dict[str, Method] = {
    method.name: method for method in (*_LIFECYCLE, *_SESSIONS, *_RECALL, *_MEMORY, *_MODELS)
}
"""Every method by its name, in protocol.md's order."""
