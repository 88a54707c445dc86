"""Logging: one JSON object a line on stderr, never blocking, never holding what users wrote.

What may be in a record (reliability.md T10): an event name of ours, numbers, words of a closed
vocabulary, ids (as a hash unless they are plainly made by a machine), and of an exception its
class and where it was raised. Message texts of exceptions and of other libraries' records are left
out: they quote what they choked on. The rule is enforced here, in one processor, whoever logs.

A record that stderr does not take at once is dropped and counted; the count goes out with the
next record that is taken.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import io
import logging
import os
import re
import select
import sys
import threading
import time
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson
from attrs import frozen

from oncue.wire import descriptors

# structlog's console renderer imports rich where it is installed: 25 ms and 3 MB for nothing here.
_rich = sys.modules.get("rich")
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
try:
    import structlog
finally:
    if _rich is None:
        del sys.modules["rich"]

MAX_RECORD: Final = 4_096
"""PIPE_BUF on Linux: a longer record could be torn by another writer to the same pipe."""

_WORDS = (
    "at cls code_name decision error format kind lifetime logger method name outcome point "
    "provider purpose reason role scope section setting signal source stage state step store "
    "strategy stream table trigger version where"
)
WORDS: Final = frozenset(_WORDS.split())
"""Fields whose strings come from our own closed vocabularies."""
_IDS = (
    "boot call delivery hash id lane message path peer_id recall request revision run session "
    "sha256 token turn workspace"
)
IDS: Final = frozenset(_IDS.split())
"""Fields that identify something; chosen by clients, so they may hold anything."""

_WORD = re.compile(r"[A-Za-z0-9_.:/$<>-]{1,80}")
_MACHINE_ID = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[a-z]{1,2}[0-9]{1,12}|[0-9]{1,12}"
)
_CACHED_CHARACTERS: Final = 120
"""Longer texts are neither words nor ids of ours, and a cache must not keep them."""
_INT64: Final = 1 << 63
"""Our JSON holds no larger number; a client may send one."""
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_OUR_ROOT: Final = str(Path(__file__).parent)


@frozen
class LogStatistics:
    """For `daemon/status`."""

    written: int
    dropped: int
    """Records that stderr did not take, since the start."""
    alive: bool
    """False once stderr's reader is gone; nothing is tried after that."""


class Sink:
    """Where records go: a descriptor that is never waited for."""

    def __init__(self, fd: int, *, nonblocking: bool) -> None:
        self._fd = fd
        self._poll: select.poll | None = None
        if not nonblocking:
            self._poll = select.poll()
            self._poll.register(fd, select.POLLOUT)
        self._lock = threading.Lock()
        self._unreported = 0
        self.written = 0
        self.dropped = 0
        self.alive = True

    def msg(self, record: bytes) -> None:
        """Write one record, at most `MAX_RECORD` bytes, or count it as dropped."""
        if not self.alive:
            self.dropped += 1
            return
        # Threads of ours log too. A try-lock, so that the loop never waits for one of them.
        if not self._lock.acquire(blocking=False):
            self._drop()
            return
        try:
            if not self._unreported and self._poll is None:
                os.write(self._fd, record)
                self.written += 1
                return
            if self._unreported:
                lost = self._unreported
                line = orjson.dumps(
                    {"event": "records dropped", "level": "warning", "count": lost, "t": _now()}
                )
                if not self._write(line + b"\n"):
                    self._drop()
                    return
                self._unreported -= lost
            if self._write(record):
                self.written += 1
            else:
                self._drop()
        except OSError as error:
            self._failed(error)
            self._drop()
        finally:
            self._lock.release()

    debug = info = warning = error = critical = exception = log = msg

    def _drop(self) -> None:
        self._unreported += 1
        self.dropped += 1

    def _write(self, record: bytes) -> bool:
        try:
            if self._poll is not None and not self._poll.poll(0):
                return False
            os.write(self._fd, record)
        except OSError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: OSError) -> None:
        # A dead stderr is given up for good: nobody may loop on reporting it (D02).
        if error.errno not in (errno.EAGAIN, errno.EINTR, errno.ENOSPC):
            self.alive = False


_sink: Sink | None = None


def statistics() -> LogStatistics:
    """How logging fares."""
    if _sink is None:
        return LogStatistics(0, 0, alive=False)
    return LogStatistics(_sink.written, _sink.dropped, _sink.alive)


def _now() -> str:
    now = time.time()
    whole = int(now)
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        + f".{int((now - whole) * 1000):03d}Z"
    )


def digest(text: str) -> str:
    """A short name for a text that must not be logged: equal texts, equal names."""
    raw = hashlib.blake2s(text.encode("utf-8", "surrogatepass"), digest_size=6)
    return "#" + raw.hexdigest()


def location(traceback: TracebackType | None) -> str:
    """`file.py:123 function` of the innermost frame that is ours, else of the innermost."""
    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        here = f"{Path(code.co_filename).name}:{traceback.tb_lineno}:{code.co_name}"
        if not found or code.co_filename.startswith(_OUR_ROOT):
            found = here
        traceback = traceback.tb_next
    return found


def describe(error: BaseException) -> dict[str, str]:
    """What may be said of an exception: `error` (class) and `at` (place). Never its text."""
    inner = error
    while isinstance(inner, BaseExceptionGroup) and inner.exceptions:
        inner = inner.exceptions[0]
    return {"error": type(inner).__name__, "at": location(inner.__traceback__)}


@functools.lru_cache(1024)
def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else digest(text)


@functools.lru_cache(1024)
def _id(text: str) -> str:
    return text if _MACHINE_ID.fullmatch(text) else digest(text)


def _safe(key: str, value: Any) -> Any:
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else "<a number beyond 64 bits>"
    if isinstance(value, str):
        if len(value) <= _CACHED_CHARACTERS:
            if key in WORDS:
                return _word(value)
            if key in IDS:
                return _id(value)
        elif key in WORDS or key in IDS:
            return digest(value)
        return f"<{len(value)} characters>"
    if isinstance(value, BaseException):
        return type(value).__name__
    return f"<{type(value).__name__}>"


def redact(event: MutableMapping[str, Any]) -> dict[str, Any]:
    """The record that may leave: see the module's first lines."""
    out: dict[str, Any] = {}
    error = event.pop("exc_info", None)
    for key, value in event.items():
        kind = value.__class__
        if key == "event":
            out[key] = value if kind is str and len(value) <= 120 else str(value)[:120]
        elif kind is float or key == "level" or (kind is int and -_INT64 <= value < _INT64):
            out[key] = value
        elif kind is str and key in WORDS and len(value) <= _CACHED_CHARACTERS:
            out[key] = _word(value)
        else:
            out[key] = _safe(key, value)
    if error:
        if isinstance(error, tuple):
            error = error[1]
        elif not isinstance(error, BaseException):
            error = sys.exc_info()[1]
        if error is not None:
            out.update(describe(error))
    return out


_second = 0
_second_text = ""


def _render(_: Any, level: str, event: MutableMapping[str, Any]) -> tuple[tuple[bytes], Any]:
    """The one processor: redact, stamp, cut, encode."""
    global _second, _second_text
    out = redact(event)
    out["level"] = level
    now = time.time()
    whole = int(now)
    if whole != _second:
        _second_text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(whole))
        _second = whole
    out["t"] = f"{_second_text}{int((now - whole) * 1000):03d}Z"
    record = orjson.dumps(out, option=orjson.OPT_APPEND_NEWLINE)
    if len(record) > MAX_RECORD:
        cut = {"event": out.get("event"), "level": level, "t": out["t"], "cut": len(record)}
        record = orjson.dumps(cut, option=orjson.OPT_APPEND_NEWLINE)
    return (record,), {}


class _Foreign(logging.Handler):
    """Records of other libraries: logger, level, place and exception class, no text."""

    def emit(self, record: logging.LogRecord) -> None:
        if _sink is None:
            return
        event: dict[str, Any] = {
            "event": "library",
            "logger": record.name,
            "at": f"{record.filename}:{record.lineno}:{record.funcName}",
        }
        if record.exc_info and record.exc_info[1] is not None:
            event.update(describe(record.exc_info[1]))
        (rendered,), _ = _render(None, record.levelname.lower(), event)
        _sink.msg(rendered)


class Stray(io.TextIOBase):
    """What `print` writes to once the streams are ours: counted, and the printing line named.

    The text itself goes nowhere: it is whatever somebody's debugging wanted to see.
    """

    def __init__(self, name: str, fd: int) -> None:
        self._name = name
        self._fd = fd

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, text: str) -> int:
        if text.strip():
            frame = sys._getframe(1)
            at = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}:{frame.f_code.co_name}"
            structlog.get_logger().warning(
                "stray output", stream=self._name, characters=len(text), at=at
            )
        return len(text)


def _crash(
    cls: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    structlog.get_logger().error("crash", error=cls.__name__, at=location(traceback))


def _thread_crash(args: threading.ExceptHookArgs) -> None:
    _crash(args.exc_type, args.exc_value, args.exc_traceback)


def _unraisable(args: Any) -> None:
    _crash(args.exc_type, args.exc_value, args.exc_traceback)


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    at = f"{Path(filename).name}:{lineno}:-"
    structlog.get_logger().warning("python warning", cls=category.__name__, at=at)


def configure(level: str = "info", *, sink: Sink | None = None, streams: bool = True) -> Sink:
    """Set up logging for the process, before anything else that could log. `streams` also takes
    `sys.stdout`, `sys.stderr`, the exception hooks and `warnings` in hand."""
    global _sink
    if sink is None:
        fd, nonblocking = descriptors.open_stderr()
        sink = Sink(fd, nonblocking=nonblocking)
    _sink = sink
    set_level(level)
    root = logging.getLogger()
    root.handlers[:] = [_Foreign()]
    root.setLevel(logging.WARNING)
    # pygls logs whole messages at INFO; a WARNING of its has no payload after `_Foreign`.
    logging.getLogger("pygls").setLevel(logging.WARNING)
    if streams:
        sys.stdout = Stray("stdout", 1)
        sys.stderr = Stray("stderr", 2)
        sys.excepthook = _crash
        sys.unraisablehook = _unraisable
        threading.excepthook = _thread_crash
        warnings.showwarning = _warning
    return sink


def set_level(level: str) -> None:
    """Records below `level` (`debug`, `info`, `warning`, `error`) cost next to nothing."""
    structlog.configure(
        processors=[_render],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=_factory,
        cache_logger_on_first_use=True,
    )


def _factory(*_: Any) -> Sink:
    if _sink is None:  # used as a library, in a test: records have nowhere to go
        return Sink(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), nonblocking=True)
    return _sink


def fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` as `redact` would let them out: for status replies that repeat what was logged."""
    return {key: _safe(key, value) for key, value in values.items()}
