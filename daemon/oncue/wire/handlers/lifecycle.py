"""`initialize` to `exit`, and `daemon/status` (protocol.md, Lifecycle; wire.md §3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from structlog import get_logger

from oncue.settings_load import Problem, update_connection
from oncue.wire.peer import Peer, Stage
from oncue_protocol import (
    DaemonStatusResult,
    InitializedParams,
    InitializeParams,
    InitializeResult,
    InvalidParams,
    OncueOptions,
    SetTraceParams,
    WorkspaceDidChangeConfigurationParams,
    WorkspaceDidChangeWatchedFilesParams,
)
from oncue_protocol.base import PROTOCOL_VERSION
from oncue_protocol.lifecycle import (
    ExperimentalCapabilities,
    OncueCapabilities,
    ServerCapabilities,
    ServerInfo,
)

log = get_logger("oncue.lifecycle")

MAX_PROBLEMS_TOLD: Final = 20
"""A file that is something else by mistake has more; these say enough."""


def initialize(peer: Peer, params: InitializeParams) -> InitializeResult:
    """Agree on a version, take the client's settings, watch its process."""
    given = params.initialization_options
    options = (given.oncue if given is not None else None) or OncueOptions()
    versions = options.protocol_versions
    if versions and PROTOCOL_VERSION not in versions:
        raise InvalidParams(
            f"params.initializationOptions.oncue.protocolVersions: this daemon speaks version "
            f"{PROTOCOL_VERSION}, none of {list(versions)[:8]}",
            path="params.initializationOptions.oncue.protocolVersions",
        )
    _apply(peer, options.settings)
    peer.options = options
    peer.trace = params.trace or "off"
    peer.workspaces = tuple(folder.uri for folder in params.workspace_folders)
    if not peer.workspaces and params.root_uri is not None:
        peer.workspaces = (params.root_uri,)
    peer.client_name = params.client_info.name if params.client_info is not None else ""
    if params.process_id is not None:
        peer.daemon.watch_client(peer, params.process_id)
    peer.stage = Stage.SERVING
    daemon = peer.daemon
    capabilities = OncueCapabilities(
        protocol_version=PROTOCOL_VERSION,
        methods=peer.link.methods(),
        models=("none", "http", "client"),
        semantic=False,
    )
    return InitializeResult(
        capabilities=ServerCapabilities(experimental=ExperimentalCapabilities(oncue=capabilities)),
        server_info=ServerInfo(name="oncue", version=daemon.version),
    )


def initialized(peer: Peer, params: InitializedParams) -> None:
    """The connection serves since `initialize` was answered; from now on a client may be told
    what is wrong with the user's own settings."""
    for problem in peer.daemon.setting_problems[:MAX_PROBLEMS_TOLD]:
        _tell(peer, problem)


def shutdown(peer: Peer, params: object) -> None:
    """Cancel what runs, recalls included, which over stdio are all there are; the answer is on its
    way before anything closes (D07)."""
    peer.shut_down()
    peer.daemon.sessions.shut_down()


def exit_(peer: Peer, params: object) -> None:
    """End: code 0 after `shutdown`, else 1."""
    peer.end("exit")


def set_trace(peer: Peer, params: SetTraceParams) -> None:
    """How much of `$/logTrace` the client wants."""
    peer.trace = params.value


def did_change_configuration(peer: Peer, params: WorkspaceDidChangeConfigurationParams) -> None:
    """Settings of this connection. Stock clients send theirs whole, null or empty: what is not
    ours is left alone."""
    settings = params.settings
    ours = settings.get("oncue") if isinstance(settings, dict) else None
    if isinstance(ours, dict):
        _apply(peer, ours)


def did_change_watched_files(peer: Peer, params: WorkspaceDidChangeWatchedFilesParams) -> None:
    """Accepted from stock clients; the daemon looks at files itself."""


def daemon_status(peer: Peer, params: object) -> DaemonStatusResult:
    """How the daemon is."""
    return peer.daemon.status()


def _apply(peer: Peer, given: dict[str, Any]) -> None:
    problems: list[Problem]
    peer.settings, problems = update_connection(
        peer.settings, {key: value for key, value in given.items() if value is not None}
    )
    for problem in problems:
        log.warning("setting refused", peer=peer.id, setting=problem.logged)
        _tell(peer, problem)


def _tell(peer: Peer, problem: Problem) -> None:
    peer.notify("window/logMessage", {"type": 2, "message": f"oncue: {problem}"})


HANDLERS: Final[dict[str, Callable[..., Any]]] = {
    "initialize": initialize,
    "initialized": initialized,
    "shutdown": shutdown,
    "exit": exit_,
    "$/setTrace": set_trace,
    "workspace/didChangeConfiguration": did_change_configuration,
    "workspace/didChangeWatchedFiles": did_change_watched_files,
    "daemon/status": daemon_status,
}
