"""Where configuration, data, state and sockets belong (protocol.md, Settings).

`ONCUE_CONFIG_DIR`, `ONCUE_DATA_DIR`, `ONCUE_STATE_DIR` and `ONCUE_RUNTIME_DIR`, else platformdirs.
Nothing is created here.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path

import platformdirs
from attrs import frozen

APPLICATION = "oncue"


@frozen
class Folders:
    """Absolute paths; none of them need exist."""

    config: Path
    """`config.toml`."""
    data: Path
    """Memory files and notes."""
    state: Path
    """Database and logs."""
    runtime: Path
    """Sockets: never in a folder that others may write to."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Folders:
        """Folders of this user. A relative path in the environment is taken from the working
        folder at start."""
        state = _chosen(environment, "ONCUE_STATE_DIR") or Path(
            platformdirs.user_state_dir(APPLICATION, appauthor=False)
        )
        return cls(
            config=_chosen(environment, "ONCUE_CONFIG_DIR")
            or Path(platformdirs.user_config_dir(APPLICATION, appauthor=False)),
            data=_chosen(environment, "ONCUE_DATA_DIR")
            or Path(platformdirs.user_data_dir(APPLICATION, appauthor=False)),
            state=state,
            runtime=_chosen(environment, "ONCUE_RUNTIME_DIR") or _runtime(state),
        )


def _chosen(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name, "").strip()
    return Path(value).expanduser().absolute() if value else None


def _runtime(state: Path) -> Path:
    """platformdirs' runtime folder, unless its parent is missing or open to others (wire.md)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is none is what we look for
        runtime = Path(platformdirs.user_runtime_dir(APPLICATION, appauthor=False))
    parent = runtime.parent
    try:
        found = parent.stat()
    except OSError:
        return state
    private = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return runtime if private else state
