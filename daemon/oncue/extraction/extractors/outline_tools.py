"""What tool calls did and whether it worked, for the tools of any agent (pure).

Agents name their tools and arguments differently: what a call is shows in its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import frozen

from oncue.extraction.extractors.outline_text import clip, cut, one_line
from oncue_protocol import ToolCall, ToolResult

Kind = Literal["read", "edited", "written", "deleted"]
Outcome = Literal["worked", "failed", "refused"]

_PATHS = ("file_path", "path", "absolute_path", "filePath", "notebook_path", "target_file", "file")
_NEW = ("new_string", "new_str", "newString", "new_source", "replacement")
_OLD = ("old_string", "old_str", "oldString")
_WHOLE = ("content", "contents", "file_text", "code_edit")
_COMMANDS = ("command", "cmd", "script", "commandLine")
_SEARCH = re.compile(r"grep|glob|search|find|list|^ls$", re.IGNORECASE)
_DEFINED = re.compile(
    r"^[ \t]{0,8}(?:(?:export|default|public|private|protected|static|final|abstract|async|pub|"
    r"unsafe|inline|virtual|override)[ \t]+){0,4}"
    r"(?:def|class|function|func|fn|struct|enum|trait|interface|impl|type|module|namespace|object|"
    r"protocol|record)[ \t]+(?:\([^)\n]{0,60}\)[ \t]*)?([A-Za-z_$][\w$]{0,60})",
    re.MULTILINE,
)
_NUMBERED = re.compile(r"^[ \t]{0,8}\d{1,6}(?:→|\t|: ?|\| ?)", re.MULTILINE)
_PATCH = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.{1,300})$", re.MULTILINE)
_PATCH_KIND: dict[str, Kind] = {"Update": "edited", "Add": "written", "Delete": "deleted"}


@frozen
class Touch:
    """A file that a call reads or changes."""

    path: str
    kind: Kind
    names: tuple[str, ...] = ()
    """Functions and classes in what was written."""
    change: str = ""
    """What the last edit replaced by what."""


@frozen
class Deed:
    """A tool call, understood."""

    subject: str
    """What is shown in a code span: the command, else tool and path."""
    command: str | None
    """One line; None: no command was run."""
    about: str
    """What the agent said it is for."""
    touches: tuple[Touch, ...]


@frozen
class Ending:
    """How a call ended."""

    outcome: Outcome
    text: str
    """What it said, in a line: the error, or the end of its output."""


def deed(call: ToolCall) -> Deed:
    """What a call does."""
    given: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) else {}
    command = _command(call, given)
    about = given.get("description") or given.get("explanation") or ""
    about = clip(about, 16) if isinstance(about, str) else ""
    patch = _patch(call, given)
    touches = tuple(_patched(patch)) if patch is not None else tuple(_touches(call, given))
    if command is not None and patch is None:
        line = one_line(command)
        return Deed(cut(line, 60), line, about, touches)
    return Deed(_subject(call, given, touches), None, about, touches)


def paths_of(call: ToolCall) -> list[str]:
    """Absolute paths that a call names as files."""
    if not isinstance(call.input, Mapping):
        return []
    path = _path(call.input)
    is_file = path is not None and path.startswith("/") and not _SEARCH.search(call.name)
    return [path] if is_file and path is not None else []


def _command(call: ToolCall, given: Mapping[str, Any]) -> str | None:
    value = next((given[key] for key in _COMMANDS if key in given), None)
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        if len(value) >= 3 and value[0].endswith("sh") and value[1] in ("-c", "-lc"):
            return str(value[2])
        return " ".join(value)
    if isinstance(value, str) and value.strip() and not (_path(given) and "old_str" in given):
        return value if "insert_line" not in given and "file_text" not in given else None
    if isinstance(call.input, str) and "shell" in call.name.casefold():
        return call.input
    return None


def _path(given: Mapping[str, Any]) -> str | None:
    for key in _PATHS:
        value = given.get(key)
        if isinstance(value, str) and 0 < len(value) <= 400 and "\n" not in value:
            return value
    return None


def _patch(call: ToolCall, given: Mapping[str, Any]) -> str | None:
    for value in (call.input, given.get("input"), given.get("patch"), _command(call, given)):
        if isinstance(value, str) and "*** Begin Patch" in value:
            return value
    return None


def _patched(patch: str) -> Iterable[Touch]:
    found = list(_PATCH.finditer(patch))
    for number, match in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(patch)
        lines = patch[match.end() : end].split("\n")
        new = [line[1:] for line in lines if line.startswith("+")]
        old = [line[1:] for line in lines if line.startswith("-")]
        yield Touch(
            match[2].strip(),
            _PATCH_KIND[match[1]],
            defined("\n".join(new)),
            _change("\n".join(old), "\n".join(new)) if match[1] == "Update" else "",
        )


def _touches(call: ToolCall, given: Mapping[str, Any]) -> Iterable[Touch]:
    path = _path(given)
    if path is None:
        paths = given.get("paths")
        if isinstance(paths, list):
            yield from (Touch(p, "read") for p in paths[:20] if isinstance(p, str))
        return
    edits = given.get("edits")
    parts = (
        [given, *(e for e in edits if isinstance(e, Mapping))]
        if isinstance(edits, list)
        else [given]
    )
    new = [text for part in parts if (text := _text(part, _NEW)) is not None]
    if new:
        old = [text for part in parts if (text := _text(part, _OLD)) is not None]
        yield Touch(path, "edited", defined("\n".join((*old, *new))), _change(_first(old), new[0]))
    elif (whole := _text(given, _WHOLE)) is not None:
        yield Touch(path, "written", defined(whole))
    elif not _SEARCH.search(call.name):
        yield Touch(path, "read")


def _text(given: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), None)


def _first(texts: list[str]) -> str:
    return texts[0] if texts else ""


def _change(old: str, new: str) -> str:
    """The first line that differs, old and new."""
    before, after = old.split("\n"), new.split("\n")
    at = 0
    while at < min(len(before), len(after)) and before[at] == after[at]:
        at += 1
    was = clip(before[at], 40) if at < len(before) else ""
    now = clip(after[at], 40) if at < len(after) else ""
    if was and now:
        return f"{was} => {now}"
    return f"+ {now}" if now else (f"- {was}" if was else "")


def _subject(call: ToolCall, given: Mapping[str, Any], touches: tuple[Touch, ...]) -> str:
    name = clip(call.name, 12)
    if touches:
        return f"{name} {clip(touches[0].path, 40)}"
    for key in ("pattern", "query", "url", "prompt", "description", *_PATHS):
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            return f"{name} {clip(value, 40)}"
    return name


def defined(text: str, most: int = 8) -> tuple[str, ...]:
    """Names of functions and classes that a text defines, in order."""
    text = _NUMBERED.sub("", text[:20_000])
    return tuple(dict.fromkeys(match[1] for match in _DEFINED.finditer(text)))[:most]


# --- results ---------------------------------------------------------------------------------

_EXIT = re.compile(
    r"(?:exit(?:ed)?[ _](?:with )?(?:code|status)|exit_code|status code)"
    r"\"?[:= ]{1,3}([0-9]{1,5})\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"doesn['’]t want to (?:proceed|take this action)|tool use was rejected|"
    r"(?:rejected|declined|denied|cancell?ed) by (?:the )?user|user (?:rejected|declined|denied|"
    r"cancell?ed)|interrupted by (?:the )?user|operation cancelled",
    re.IGNORECASE,
)
_FINE = re.compile(r"\b(?:PASSED|passed|OK|ok|DONE|INFO|DEBUG|succeeded)\b|status=[23]\d\d")
"""Lines of this kind tell of no error, whatever is tested or logged there."""
_STRONG = re.compile(
    r"^\s{0,8}(?:FAILED |E\s{1,4}\S|E: |error|fatal|panic|fehler|\S{0,60}(?:Error|Exception)\b|"
    r"✗|✘|× |npm ERR|错误|エラー)",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"error|fail|exception|cannot|can't|could not|unable|not found|no such|denied|timed out|"
    r"timeout|refused|invalid|unexpected|missing|conflict|Fehler|fehlgeschlagen|nicht gefunden|"
    r"错误|失败|找不到|无法|超时|エラー|失敗|見つかりません|できません|오류|실패",
    re.IGNORECASE,
)
_RULE = re.compile(r"^[\W_]*(?:FAILURES|short test summary info|test session starts)?[\W_]*$")
_FRAME = re.compile(
    r"(?:Exit code:? ?\d+|Command: .*|Directory: .*|Error: \(none\)|Signal: \(none\)|"
    r"Std(?:out|err): \(empty\)|Background PIDs: .*|Process Group PGID: .*)\s*\Z",
    re.IGNORECASE,
)
"""What agents put around an output."""
_SUMMARY = re.compile(r"\b\d+ (?:passed|failed|skipped|tests?|errors?|warnings?)\b", re.IGNORECASE)


def ending(call: Deed | None, result: ToolResult) -> Ending:
    """How a call ended, by its result."""
    text = _unwrapped(result.text)
    if _REFUSED.search(text[:400]) and (result.is_error or len(text) < 400):
        return Ending("refused", "")
    failed = result.is_error
    if not failed and (call is None or call.command is not None):
        codes = _EXIT.findall(result.text[:300]) or _EXIT.findall(result.text[-300:])
        failed = bool(codes) and int(codes[0]) != 0
    if failed:
        return Ending("failed", _error(text))
    return Ending("worked", _said(text))


def _unwrapped(text: str) -> str:
    """The output in what some agents wrap as JSON."""
    if text.startswith('{"output":'):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(whole, dict) and isinstance(whole.get("output"), str):
            return str(whole["output"])
    return text


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in (text[:6_000] + "\n" + text[6_000:][-6_000:]).split("\n")]
    lines = [line.removeprefix("Output: ") for line in lines if not _FRAME.match(line)]
    return [line for line in lines if line and not _RULE.match(line)]


def _error(text: str) -> str:
    """The one or two lines that tell most."""
    lines = _lines(text)
    scored = []
    for number, line in enumerate(lines):
        score = 3 * bool(_STRONG.match(line)) + 2 * bool(_WEAK.search(line))
        if line.startswith("FAILED"):
            score = 6
        elif _SUMMARY.search(line):
            score = 1
        elif _FINE.search(line):
            score = 0
        if score:
            scored.append((-score, number, line))
    best = sorted(scored)[:2] or [(0, 0, line) for line in lines[-1:]]
    told = " / ".join(line[:300] for _, _, line in sorted(best, key=lambda s: s[1]))
    code = _EXIT.search(text)
    return clip(told or (f"exit code {code[1]}" if code else ""), 70)


def _said(text: str) -> str:
    """The end of an output: its summary, or all of it where it is short."""
    lines = _lines(text)
    if not lines:
        return ""
    if len(lines) <= 4 and len(text) <= 300:
        return clip(" / ".join(lines), 60)
    summary = next((line for line in reversed(lines[-12:]) if _SUMMARY.search(line)), None)
    return clip((summary or lines[-1]).strip("= "), 30)


_TELLING = re.compile(r"[/.\d]")
_WORD = re.compile(r"[^\s;|&'\"()<>`]+")


def words(command: str) -> dict[str, float]:
    """The words of a command and what each says of what it does: paths and numbers most."""
    return {
        word: 0.5 if word[0] == "-" or word.isdigit() else 3.0 if _TELLING.search(word) else 1.0
        for word in _WORD.findall(command[:600])
    }


def repeats(failed: str, command: str) -> bool:
    """Whether a command does again what the failed one did: most of its words are there."""
    first, again = words(failed.removesuffix("…")), words(command)
    total = sum(first.values())
    return total > 0 and sum(w for word, w in first.items() if word in again) >= 0.6 * total
