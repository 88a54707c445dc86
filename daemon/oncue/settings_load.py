"""Reading settings: from `config.toml`, the environment and what a client sends.

Whatever is wrong becomes a `Problem` that names the key; the old value stays and the rest is used.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from oncue.settings import ConnectionSettings, DaemonSettings, ModelEndpoint


@frozen
class Problem:
    """One thing wrong with given settings; the old value stays."""

    key: str
    """Dotted path as the user wrote it, for instance `recall.maxDocuments`."""
    what: str
    """What is wrong and what would be right."""

    def __str__(self) -> str:
        return f"setting '{self.key}': {self.what}"

    @property
    def logged(self) -> str:
        """The key as the log may say it: an unknown key is anything somebody wrote (T10)."""
        name = self.key.rpartition("/")[2]  # of the configuration file
        plain = name.replace(".", "").replace("_", "")
        return name if plain.isascii() and plain.isalpha() and len(name) <= 60 else "other"


S = TypeVar("S")

MAX_CONFIG_BYTES = 1 << 20
"""A configuration file of more is something else by mistake."""

_CLIENT_SECTIONS = ("recall", "extraction", "model")
_USER_SECTIONS = ("memory", "semantic", "daemon", "store")
_ENDPOINT_KEYS = frozenset(a.name for a in attrs.fields(ModelEndpoint))
_NOT_SETTINGS = frozenset(
    {"protocolVersions", "acknowledgeDeliveries", "modelProvider", "notifications"}
)
"""Members of `initializationOptions.oncue` that are no settings."""


def camel(name: str) -> str:
    """`max_documents` -> `maxDocuments`, the spelling in files and on the wire."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def snake(name: str) -> str:
    """`maxDocuments` -> `max_documents`; snake_case stays as it is."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def update_connection(
    old: ConnectionSettings, given: Mapping[str, Any]
) -> tuple[ConnectionSettings, list[Problem]]:
    """The settings after a client's `given` object; what is wrong is named and left as it was."""
    problems: list[Problem] = []
    new = old
    for section, members in given.items():
        if section in _NOT_SETTINGS:
            continue
        if section in _USER_SECTIONS:
            problems.append(
                Problem(section, "only the user's config.toml or environment may set it")
            )
            continue
        if section not in _CLIENT_SECTIONS:
            problems.append(Problem(section, f"unknown; known are {', '.join(_CLIENT_SECTIONS)}"))
            continue
        if members is None:
            continue
        if not isinstance(members, Mapping):
            problems.append(Problem(section, f"must be an object, not {_kind(members)}"))
            continue
        if section == "model":
            endpoint = {k: v for k, v in members.items() if snake(k) in _ENDPOINT_KEYS}
            problems += [
                Problem(f"model.{k}", "only the user's config.toml or environment may set it")
                for k in endpoint
            ]
            members = {k: v for k, v in members.items() if k not in endpoint}
        value = _update(section, getattr(new, section), members, problems)
        new = attrs.evolve(new, **{section: value})
    return new, problems


def load(
    config: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[DaemonSettings, list[Problem]]:
    """Daemon settings from a parsed `config.toml` and the environment, and what is wrong there."""
    problems: list[Problem] = []
    settings = _apply(DaemonSettings(), config, problems)
    settings = _apply(settings, _from_environment(environment, problems), problems)
    problems += _without_effect(settings)
    return settings, problems


def _without_effect(settings: DaemonSettings) -> list[Problem]:
    """Settings of the protocol that this version reads and does not act on: whoever sets one must
    not believe that it works."""
    plain = DaemonSettings()
    return [
        Problem(f"{section}.{camel(name)}", "has no effect in this version yet")
        for section, names in _LATER.items()
        for name in names
        if getattr(getattr(settings, section), name) != getattr(getattr(plain, section), name)
    ]


_LATER = {
    "memory": ("trusted_roots", "worktrees", "recall_past_notes"),
    "semantic": ("provider", "path", "base_url", "model"),
    "store": ("url",),
    "daemon": ("idle_exit_ms",),
}


def read_config(folder: Path) -> tuple[dict[str, Any], list[Problem]]:
    """`config.toml` of the configuration folder; absent: empty. Reads the disk."""
    path = folder / "config.toml"
    try:
        return tomllib.loads(_read_file(path).decode("utf-8")), []
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, RecursionError) as error:
        return {}, [Problem(str(path), f"cannot be read ({error}); defaults are used")]


def _read_file(path: Path) -> bytes:
    """Bytes of a regular file of sane size: a pipe or a device in its place must not keep the
    daemon from starting (D09)."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it is not a regular file")
        data = file.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise OSError(f"it is larger than {MAX_CONFIG_BYTES} bytes")
    return data


def _apply(
    settings: DaemonSettings, given: Mapping[str, Any], problems: list[Problem]
) -> DaemonSettings:
    for section, members in given.items():
        if not isinstance(members, Mapping):
            problems.append(Problem(section, f"must be a table, not {_kind(members)}"))
        elif section in ("recall", "extraction"):
            value = _update(section, getattr(settings.connection, section), members, problems)
            connection = attrs.evolve(settings.connection, **{section: value})
            settings = attrs.evolve(settings, connection=connection)
        elif section == "model":
            ours = {k: v for k, v in members.items() if snake(k) in _ENDPOINT_KEYS}
            rest = {k: v for k, v in members.items() if k not in ours}
            choice = _update(section, settings.connection.model, rest, problems)
            settings = attrs.evolve(
                settings,
                endpoint=_update(section, settings.endpoint, ours, problems),
                connection=attrs.evolve(settings.connection, model=choice),
            )
        elif section in _USER_SECTIONS:
            value = _update(section, getattr(settings, section), members, problems)
            settings = attrs.evolve(settings, **{section: value})
        else:
            known = ", ".join(sorted((*_CLIENT_SECTIONS, *_USER_SECTIONS)))
            problems.append(Problem(section, f"unknown; known are {known}"))
    return settings


def _update(section: str, old: S, given: Mapping[str, Any], problems: list[Problem]) -> S:
    """`old` with the members of `given` that are right; one problem for each that is not."""
    cls: Any = type(old)
    hints = get_type_hints(cls)
    new = old
    for key, value in given.items():
        name = snake(str(key))
        dotted = f"{section}.{key}"
        if name not in hints:
            known = ", ".join(sorted(camel(n) for n in hints))
            problems.append(Problem(dotted, f"unknown; known are {known}"))
            continue
        if value is None:
            continue
        try:
            checked = _check(hints[name], value)
            new = attrs.evolve(new, **{name: checked})  # type: ignore[misc]
        except ValueError as error:
            problems.append(Problem(dotted, f"{error}; {getattr(old, name)!r} stays"))
    return new


def _check(hint: Any, value: Any) -> Any:
    """`value` as the field wants it; ValueError says what was wanted."""
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError(f"must be one of {', '.join(get_args(hint))}, not {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise ValueError("must be a list of strings")
        return tuple(value)
    if origin is Mapping:
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise ValueError("must be a table of strings")
        return dict(value)
    wanted = next((t for t in (get_args(hint) or (hint,)) if t is not type(None)), hint)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not wanted:
        raise ValueError(f"must be {_NAMES[wanted]}, not {_kind(value)}")
    return value


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return _NAMES.get(type(value), "null")


_FOLDERS = frozenset({"CONFIG_DIR", "DATA_DIR", "STATE_DIR", "RUNTIME_DIR", "COMMAND"})


def _from_environment(
    environment: Mapping[str, str], problems: list[Problem]
) -> dict[str, dict[str, Any]]:
    """`ONCUE_RECALL_MAX_DOCUMENTS=3` as `{"recall": {"maxDocuments": 3}}`."""
    given: dict[str, dict[str, Any]] = {}
    for variable in sorted(environment):
        if not variable.startswith("ONCUE_") or variable[6:] in _FOLDERS:
            continue
        section, _, key = variable[6:].lower().partition("_")
        if section not in (*_CLIENT_SECTIONS, *_USER_SECTIONS) or not key:
            problems.append(Problem(variable, "unknown environment variable; it is ignored"))
            continue
        given.setdefault(section, {})[camel(key)] = _parse(environment[variable])
    return given


def _parse(text: str) -> Any:
    """A value as TOML would read it; what TOML cannot read is a string."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        return text
