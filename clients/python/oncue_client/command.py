"""Where the daemon's command comes from."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence


def daemon_command(
    given: str | Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The argument vector that starts the daemon on stdio; no shell is ever involved.

    Looked up in this order: `given` (a string is split as a shell would, a sequence is taken as
    it is), `ONCUE_COMMAND` (split likewise), `<this interpreter> -m oncue serve --stdio` where
    the package is installed beside us, `oncue serve --stdio` where PATH has it. If nothing is
    found, the second last is returned: its error message is the clearest.
    """
    if given is not None:
        words = shlex.split(given) if isinstance(given, str) else list(given)
        if not words:
            raise ValueError("the daemon's command is empty: give at least the program's name")
        return tuple(words)
    configured = (os.environ if environment is None else environment).get("ONCUE_COMMAND", "")
    if configured.strip():
        return tuple(shlex.split(configured))
    beside = (sys.executable, "-m", "oncue", "serve", "--stdio")
    if importlib.util.find_spec("oncue") is not None:
        return beside
    found = shutil.which("oncue")
    return (found, "serve", "--stdio") if found is not None else beside
