"""The stdio test client, `python -m oncue_client`, run as a program against a scripted daemon."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import Any

import pytest

from clients.client_support import Script, scripted
from oncue_client import daemon_command
from oncue_client._generate import main as generate
from oncue_client._generate import snake_case, typed_methods
from oncue_client._methods import Methods
from oncue_client._script import (
    ScriptError,
    Step,
    contains,
    fill_in,
    raw_bytes,
    step_of_line,
    steps_of_words,
)
from oncue_protocol import METHODS


def run(
    *words: str, script: Script | None = None, stdin: str = "", command: str | None = None
) -> subprocess.CompletedProcess[str]:
    command = shlex.join(scripted(script)) if command is None else command
    return subprocess.run(
        [sys.executable, "-m", "oncue_client", "--command", command, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


ECHO: Script = {
    "echo": [[{"result": "$params"}]],
    "id": [[{"result": {"a": {"b": ["x", "$pid"]}}}]],
}
ECHO["echo"] = [[{"result": {"got": "$params.x"}}]]
ERROR = {"code": 1001, "message": "gone", "data": {"name": "sessionNotFound"}}


def test_it_prints_every_frame_with_arrows_and_times() -> None:
    done = run("request", "echo", '{"x": "ü"}', script=ECHO)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    arrows = [line[0] for line in lines]
    assert arrows == ["→", "←", "→", "→", "←", "→", "←", "→"]
    assert "ms  request 1 initialize" in lines[0]
    assert lines[3].endswith('request 2 echo  {"x": "ü"}')
    assert lines[4].endswith('result 2 echo  {"got": "ü"}')
    assert "notify exit" in lines[-1]


def test_json_lines_for_machines() -> None:
    done = run("--json", "request", "echo", '{"x": 1}', script=ECHO)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["direction"] for record in records][:2] == ["send", "receive"]
    assert records[4]["frame"] == {"jsonrpc": "2.0", "id": 2, "result": {"got": 1}}
    assert records[-1]["ms"] >= records[0]["ms"] >= 0


def test_raw_shows_headers_and_no_lifecycle_sends_nothing_by_itself() -> None:
    done = run("--raw", "--no-lifecycle", "request", "echo", '{"x": 1}', script=ECHO)
    assert "Content-Length: 57\\r\\n\n\\r\\n" in done.stdout
    assert "initialize" not in done.stdout
    assert "shutdown" not in done.stdout


def test_results_of_earlier_requests_are_filled_in() -> None:
    done = run(
        *("--json", "request", "id", "request", "echo", '{"x": "$1.a.b.0"}'),
        *("expect", "result", '{"got": "x"}', "request", "echo", '{"x": ["$last.got"]}'),
        *("expect", "result", '{"got": ["x"]}'),
        script=ECHO,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "code", "words_on_stderr"),
    [
        (["request", "bad"], 1, ""),
        (["request", "bad", "expect", "error", "1001"], 0, ""),
        (["request", "bad", "expect", "error", "sessionNotFound"], 0, ""),
        (["request", "bad", "expect", "error"], 0, ""),
        (["request", "bad", "expect", "error", "1002"], 1, "it is 1001 sessionNotFound"),
        (["request", "echo", '{"x": 1}', "expect", "error"], 1, "is a result"),
        (["request", "echo", '{"x": 1}', "expect", "result", '{"got": 2}'], 1, "does not contain"),
        (["--timeout", "0.2", "request", "held"], 1, "nothing came within 0.2 s"),
        (["--timeout", "0.2", "expect", "recall/settled"], 1, "nothing came"),
        (["request", "echo", '{"x": "$7"}'], 1, "request 7 has no result"),
        (["wait", "3"], 1, "no request 3"),
        (["request", "die"], 3, "exit code 4"),
        ([], 2, "nothing to do"),
        (["reqest", "x"], 2, "no step"),
        (["request", "echo", "{x"], 2, "no JSON"),
        (["sleep", "soon"], 2, "whole number"),
        (["request"], 2, "needs something"),
    ],
)
def test_the_exit_code_says_what_went_wrong(
    words: list[str], code: int, words_on_stderr: str
) -> None:
    script: Script = {**ECHO, "bad": [[{"error": ERROR}]], "die": [[{"exit": 4}]]}
    done = run(*words, script=script)
    assert done.returncode == code, done.stderr
    assert words_on_stderr in done.stderr


def test_a_command_that_is_not_there() -> None:
    done = run("request", "x", command="no-such-program")
    assert done.returncode == 3
    assert "no-such-program" in done.stderr
    assert "Traceback" not in done.stderr


def test_send_cancel_wait_notify_expect_and_serve() -> None:
    script: Script = {
        "$/cancelRequest": [[{"release": "slow", "result": "in time"}]],
        "hello": [[{"notify": ["world", {"a": 1, "b": 2}]}]],
        "ask": [[{"request": [2**30, "model/generate", {"p": 1}]}, {"result": None}]],
        "$response": [[{"notify": ["answered", {}]}]],
    }
    done = run(
        *("send", "slow", "cancel", "1", "wait", "1", "expect", "result", "null"),
        *("notify", "hello", "{}", "expect", "world", '{"a": 1}', "sleep", "1", "wait"),
        *("serve", "model/generate", '{"text": "x"}', "request", "ask"),
        *("expect", "model/generate", '{"p": 1}', "expect", "answered"),
        script={**script, "$/cancelRequest": [[{"release": "slow", "result": None}]]},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 'result 1073741824 model/generate  {"text": "x"}' in done.stdout


def test_steps_come_from_stdin_too() -> None:
    lines = '# a comment\n\nrequest echo {"x": "a b"}\nexpect result {"got": "a b"}\nnonsense\n'
    done = run("request", "id", "-", script=ECHO, stdin=lines)
    assert done.returncode == 1
    assert "'nonsense' is not understood" in done.stderr
    assert '{"got": "a b"}' in done.stdout


def test_broken_frames_can_be_sent_and_stderr_shown() -> None:
    script: Script = {"x": [[{"stderr": "I saw x\n"}]]}
    done = run(
        *("--no-lifecycle", "--trace", "raw", "content-length:2\\n\\n{}", "sleep", "50"),
        script=script,
    )
    assert "daemon: exit code" in done.stderr
    done = run("--stderr", "notify", "x", script=script)
    assert "! I saw x" in done.stderr


def test_help_has_examples() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "oncue_client", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "examples:" in done.stdout
    assert "exit code" in done.stdout


# The little language


def test_words_become_steps() -> None:
    assert steps_of_words(
        ["request", "a/b", '{"x": 1}', "send", "c", "wait", "wait", "2", "expect", "error", "-3"]
    ) == [
        Step("request", "a/b", {"x": 1}, given=True),
        Step("send", "c"),
        Step("wait"),
        Step("wait", number=2),
        Step("expect", "error", "-3", given=True),
    ]
    assert step_of_line("  expect error 1001 ") == Step("expect", "error", "1001", given=True)
    assert step_of_line("raw a  b") == Step("raw", "a  b")
    for bad in ("serve x", "expect result", "cancel x", "wait x"):
        with pytest.raises(ScriptError):
            step_of_line(bad)


def test_references_and_containment() -> None:
    results = {1: {"a": [{"b": "x"}]}, 2: None}
    assert fill_in({"q": ["$1.a.0.b", "$2", "$x", 5]}, results, 2) == {"q": ["x", None, "$x", 5]}
    for bad in ("$1.a.7", "$1.z", "$9", "$2.a"):
        with pytest.raises(ScriptError):
            fill_in(bad, results, 2)
    actual: Any = {"a": {"b": 1, "c": [1, {"d": 2, "e": 3}]}, "f": None}
    assert contains(actual, {"a": {"c": [1, {"d": 2}]}, "f": None})
    for expected in ({"a": {"c": [1]}}, {"z": None}, {"a": {"b": True}}, {"f": False}, []):
        assert not contains(actual, expected)


def test_raw_text_has_escapes() -> None:
    assert raw_bytes("a\\r\\n\\x00\\\\ü\\q\\") == b"a\r\n\x00\\\xc3\xbc\\q\\"


# Generated and looked up


def test_the_generated_methods_are_fresh() -> None:
    assert generate(["--check"]) == 0


def test_every_method_from_client_to_daemon_is_there() -> None:
    ours = {method.name for method in METHODS.values() if method.direction == "client"}
    left_out = ours - {method.name for method in typed_methods()}
    assert left_out == {"initialize", "initialized", "shutdown", "exit", "$/cancelRequest"}
    for method in typed_methods():
        assert callable(getattr(Methods, snake_case(method.name)))


def test_the_command_is_looked_up_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCUE_COMMAND", raising=False)
    assert daemon_command("a 'b c'") == ("a", "b c")
    assert daemon_command(["a", "b c"]) == ("a", "b c")
    assert daemon_command(environment={"ONCUE_COMMAND": "x serve"}) == ("x", "serve")
    assert daemon_command()[-2:] == ("serve", "--stdio")
    monkeypatch.setenv("ONCUE_COMMAND", "y --stdio")
    assert daemon_command() == ("y", "--stdio")
    with pytest.raises(ValueError, match="empty"):
        daemon_command("")


def test_the_client_never_imports_the_daemon_nor_an_lsp_library() -> None:
    code = (
        "import sys, oncue_client, oncue_client.blocking, oncue_client.__main__\n"
        "print({'oncue', 'pygls', 'lsprotocol', 'asyncio', 'apsw'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"
