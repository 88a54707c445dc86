"""Names in a conversation that one has to know: working folder, programs, hosts, tickets, links
(pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

_ELSEWHERE = ("/tmp", "/etc", "/usr", "/var", "/proc", "/dev", "/opt")  # noqa: S108 - never opened
_INSIDE = frozenset(
    ["src", "lib", "app", "apps", "test", "tests", "packages", "docs", "cmd", "internal", "pkg"]
)
"""Folders that projects have: the working folder is above them."""

_LINK = re.compile(r"https?://[^\s<>\"'`|)\]}，。、）]{4,200}")
_HOST = re.compile(
    r"(?<![\w.@/-])(?:\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?|localhost:\d{2,5})(?![\w.])"
)
_SSH = re.compile(r"\bssh (?:-\S+ ){0,4}((?:[\w.-]+@)?[A-Za-z][\w.-]{1,60})\b")
_TICKET = re.compile(r"(?<![\w/-])[A-Z][A-Z0-9]{1,9}-[1-9]\d{0,5}(?![\w-])|(?<=[\s(])#\d{2,6}\b")
_NOT_TICKETS = re.compile(r"(?:UTF|ISO|SHA|RFC|CVE|HTTP|AES|RSA|MD|BASE|X|UTC|GMT|CP|US|EN)-\d")
_BRANCH = re.compile(r"\bgit (?:switch -[cC]|checkout -[bB]) ([\w./-]{2,80})")
_SPLIT = re.compile(r"&&|\|\||[;|\n]|\$\(")
_PROGRAM = re.compile(
    r"\s*(?:\w+=\S* |sudo |env |time |nohup |exec |do |then ){0,4}([A-Za-z][\w.+-]{0,30})(?=\s|$)"
)
_SHELL_WORDS = frozenset(
    re.findall(
        r"\w+",
        "cd echo for do done if then fi else while case esac export set true false test exit cat "
        "ls head tail grep sed awk sort uniq wc cut tr xargs sleep pwd mkdir rm cp mv touch printf "
        "read break continue in",
    )
)
"""Of every session: they say nothing about the system."""


def facts(text: str, *, is_command: bool) -> Iterator[tuple[str, str]]:
    """Kind and name of what a (safe) text mentions."""
    for match in _LINK.finditer(text):
        yield "Links", match[0].rstrip(".,;:!?")
    for match in _HOST.finditer(text):
        yield "Hosts", match[0]
    for match in _TICKET.finditer(text):
        if not _NOT_TICKETS.match(match[0]):
            yield "Tickets", match[0]
    if is_command:
        for match in _SSH.finditer(text):
            yield "Hosts", match[1]
        for match in _BRANCH.finditer(text):
            yield "Branches", match[1]
        for part in _SPLIT.split(text[:2_000]):
            program = _PROGRAM.match(part)
            if program is not None and program[1] not in _SHELL_WORDS:
                yield "Programs", program[1]


def working_folder(paths: Iterable[str]) -> str | None:
    """The folder that all absolute paths have in common; None where they do not tell."""
    found = {path for path in paths if path.startswith("/") and not path.startswith(_ELSEWHERE)}
    if len(found) < 2:
        return None
    common: list[str] | None = None
    for path in found:
        parts = list(PurePosixPath(path).parent.parts)
        if common is None:
            common = parts
        else:
            same = 0
            while same < min(len(common), len(parts)) and common[same] == parts[same]:
                same += 1
            common = common[:same]
    if common is None:
        return None
    inside = next((n for n, part in enumerate(common) if n > 2 and part in _INSIDE), len(common))
    common = common[:inside]
    if all(list(PurePosixPath(path).parent.parts) == common for path in found):
        common = common[:-1]  # all in one folder: the project is around it
    return str(PurePosixPath(*common)) if len(common) >= 3 else None


def relative(path: str, folder: str | None) -> str:
    """A path as it is shown: below the working folder without it."""
    if folder is not None and path.startswith(folder + "/"):
        return path[len(folder) + 1 :]
    return path
