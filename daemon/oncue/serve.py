"""`oncue serve --stdio`: from the first instruction of the process to its last.

The order matters: files that we create are private, the client's stream is out of everybody's
reach, logging cannot block; then come the imports that take time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oncue.wire import descriptors

Handlers = Mapping[str, Callable[..., Any]]
USAGE = "usage: oncue serve --stdio [--clientProcessId PID]"


def main(
    argv: Sequence[str],
    extra_handlers: Callable[[], Handlers] | None = None,
) -> int:
    """Serve one client on stdin and stdout. Does not return but for a wrong command line: what
    still runs then (a stuck thread) must not keep the process alive."""
    os.umask(0o077)
    client_pid, problem = _arguments(argv)
    if problem is not None:
        os.write(2, f"oncue serve: {problem}\n{USAGE}\n".encode())
        return 64
    standard = descriptors.take()
    # Importing makes many objects and little garbage: seldom collecting saves a fifth of the time,
    # never collecting would cost 7 MB.
    gc.set_threshold(20_000)
    from oncue import logs
    from oncue.wire import lean

    logs.configure()
    code = 1
    try:
        _harden()
        lean.prepare()
        code = _run(standard, client_pid, extra_handlers)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        descriptors.give_back()
        os._exit(code)


def _run(
    standard: descriptors.Standard,
    client_pid: int | None,
    extra_handlers: Callable[[], Handlers] | None,
) -> int:
    import trio
    from structlog import get_logger

    from oncue import logs
    from oncue.daemon import Daemon
    from oncue.folders import Folders
    from oncue.settings_load import load, read_config

    folders = Folders.from_environment(os.environ)
    config, unread = read_config(folders.config)
    settings, problems = load(config, os.environ)
    logs.set_level(settings.daemon.log_level)
    daemon = Daemon(settings, folders)
    if extra_handlers is not None:  # tests add some that misbehave
        daemon.handlers.update(extra_handlers())
    daemon.setting_problems = (*unread, *problems)
    for problem in daemon.setting_problems:
        get_logger("oncue").warning("setting refused", setting=problem.logged)
    gc.collect()
    gc.freeze()
    gc.set_threshold(700)
    # The loop waits at most this long for a computing thread to hand over (wire.md §5).
    sys.setswitchinterval(0.0005)
    return trio.run(daemon.serve_stdio, standard.stdin, standard.stdout, client_pid)


def _arguments(argv: Sequence[str]) -> tuple[int | None, str | None]:
    """(client's pid, what is wrong)."""
    words = list(argv)
    client_pid: int | None = None
    stdio = False
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name == "--stdio" and not equals:
            stdio = True
        elif name == "--clientProcessId":
            if not equals:
                value = words.pop(0) if words else ""
            if not value.isascii() or not value.isdigit() or len(value) > 10:
                return None, "--clientProcessId must be followed by a process id"
            client_pid = int(value)
        else:
            return None, f"unknown argument '{word}'"
    return (client_pid, None) if stdio else (None, "--stdio is missing")


def _harden() -> None:
    """No core file and no debugger of another user may take secrets out of our memory (T10)."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        pr_set_dumpable = 4
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0)
