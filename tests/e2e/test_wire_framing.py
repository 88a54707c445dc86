"""wire.md §2, rows about frames and envelopes: each on the real binary, through real pipes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e_driver import TEST_DAEMON, Daemon, frame, request


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


@pytest.fixture
def fresh() -> Iterator[Daemon]:
    with Daemon(TEST_DAEMON) as running:
        running.initialize()
        yield running


_ids = itertools.count(1)


def ping(text: str = "") -> tuple[int, bytes]:
    msg_id = next(_ids)
    body = json.dumps(request(msg_id, "test/ping", {"text": text}), ensure_ascii=False)
    return msg_id, body.encode()


TYPE = "Content-Type: application/vscode-jsonrpc; charset=utf-8"
HEADERS = {
    "plain": "Content-Length: {n}\r\n\r\n",
    "lowerCase": "content-length: {n}\r\n\r\n",
    "upperCase": "CONTENT-LENGTH: {n}\r\n\r\n",
    "noSpace": "Content-Length:{n}\r\n\r\n",
    "spaces": "Content-Length :  {n}  \r\n\r\n",
    "tabs": "Content-Length:\t{n}\t\r\n\r\n",
    "zeros": "Content-Length: 000{n}\r\n\r\n",
    "typeBefore": TYPE + "\r\nContent-Length: {n}\r\n\r\n",
    "typeAfter": "Content-Length: {n}\r\n" + TYPE.replace("utf-8", "utf8") + "\r\n\r\n",
    "unknownHeader": "X-Editor: vim\r\nContent-Length: {n}\r\nX-More: 1\r\n\r\n",
    "lfOnly": "Content-Length: {n}\n\n",
    "lfType": "Content-Type: application/vscode-jsonrpc\nContent-Length: {n}\n\n",
    "mixed": "Content-Type: application/vscode-jsonrpc\nContent-Length: {n}\r\n\r\n",
    "mixedEnd": "Content-Length: {n}\r\n\n",
    "blankBefore": "\r\nContent-Length: {n}\r\n\r\n",
    "blankLfBefore": "\n\nContent-Length: {n}\r\n\r\n",
    "sameTwice": "Content-Length: {n}\r\nContent-Length: {n}\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADERS)
def test_D21_D22_headers_of_every_client_are_read(daemon: Daemon, name: str) -> None:
    msg_id, body = ping(name)
    daemon.write(HEADERS[name].format(n=len(body)).encode() + body)
    assert daemon.response(msg_id)["result"] == {"pong": name}


@pytest.mark.parametrize("name", HEADERS)
def test_D21_two_frames_in_one_write_stay_in_step(daemon: Daemon, name: str) -> None:
    (first, one), (second, two) = ping("one"), ping("two")
    raw = [HEADERS[name].format(n=len(body)).encode() + body for body in (one, two)]
    daemon.write(b"".join(raw))
    assert daemon.response(first)["result"] == {"pong": "one"}
    assert daemon.response(second)["result"] == {"pong": "two"}


def test_D21_split_at_every_byte(daemon: Daemon) -> None:
    msg_id, body = ping("splitté 日本")
    raw = frame(body)
    for cut in range(1, len(raw)):
        daemon.write(raw[:cut])
        daemon.write(raw[cut:])
        assert daemon.response(msg_id)["result"] == {"pong": "splitté 日本"}


def test_D21_byte_by_byte(daemon: Daemon) -> None:
    msg_id, body = ping("drip")
    for value in frame(body):
        daemon.write(bytes([value]))
    assert daemon.response(msg_id)["result"] == {"pong": "drip"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ascii",
        "日本語のテキスト",
        "emoji 👩‍👩‍👧‍👦",
        "e\u0301 combining",
        "line\u2028sep\u2029",
        "nul \u0000",
        "\ufeffbom",
    ],
)
def test_D20_lengths_are_bytes(daemon: Daemon, text: str) -> None:
    """The driver checks the header of every reply against its bytes."""
    msg_id, body = ping(text)
    daemon.write(frame(body))
    assert daemon.response(msg_id)["result"] == {"pong": text}
    assert json.loads(daemon.raw[-1].decode("utf-8")) == {
        "jsonrpc": "2.0",
        "id": msg_id,
        "result": {"pong": text},
    }


BROKEN_HEADERS = {
    "none": b"\r\nX-Other: 1\r\n\r\n{}",
    "negative": b"Content-Length: -1\r\n\r\n{}",
    "word": b"Content-Length: many\r\n\r\n{}",
    "empty": b"Content-Length: \r\n\r\n{}",
    "float": b"Content-Length: 2.0\r\n\r\n{}",
    "hex": b"Content-Length: 0x2\r\n\r\n{}",
    "signed": b"Content-Length: +2\r\n\r\n{}",
    "twoValues": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "overTheCap": b"Content-Length: 99999999999\r\n\r\n",
    "justOverTheCap": b"Content-Length: %d\r\n\r\n" % ((64 << 20) + 1),
    "astronomical": b"Content-Length: %s\r\n\r\n" % (b"9" * 1000),
    "noColon": b"Content-Length 2\r\n\r\n{}",
    "bareJson": b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}\r\n\r\n',
    "endless": b"X: " + b"a" * 8192,
    "endlessLines": b"X: a\r\n" * 2000,
}


@pytest.mark.parametrize("name", BROKEN_HEADERS)
def test_wire2_broken_header_is_answered_once_and_ends_with_exit_2(
    fresh: Daemon, name: str
) -> None:
    fresh.write(BROKEN_HEADERS[name])
    *others, last = fresh.rest()
    assert others == []
    assert last["id"] is None
    assert last["error"]["code"] == -32700
    assert last["error"]["data"]["name"] == "parseError"
    assert last["error"]["data"]["retryable"] is False
    assert fresh.wait() == 2
    assert fresh.stray == b""


def test_wire2_what_came_before_a_broken_header_is_answered(fresh: Daemon) -> None:
    msg_id, body = ping("before")
    fresh.write(frame(body) + b"Content-Length: x\r\n\r\n")
    assert fresh.response(msg_id)["result"] == {"pong": "before"}
    assert [message["error"]["code"] for message in fresh.rest()] == [-32700]
    assert fresh.wait() == 2


NOT_JSON = {
    "garbage": b"hello",
    "empty": b"",
    "halfObject": b'{"jsonrpc": "2.0"',
    "invalidUtf8": b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}',
    "utf16": '{"jsonrpc": "2.0", "id": 1, "method": "x"}'.encode("utf-16"),
    "byteOrderMark": b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 1, "method": "x"}',
    "nan": b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": NaN}}',
    "infinity": b'{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": -Infinity}}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deepObject": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "longInteger": b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "method": "x"}',
    "twoValues": b"{}{}",
    "trailingComma": b'{"jsonrpc": "2.0",}',
    "singleQuotes": b"{'jsonrpc': '2.0'}",
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_wire2_not_json_is_32700_and_the_next_message_is_served(daemon: Daemon, name: str) -> None:
    msg_id, body = ping("next")
    daemon.write(frame(NOT_JSON[name]) + frame(body))
    answer = daemon.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert daemon.response(msg_id)["result"] == {"pong": "next"}


INVALID: dict[str, Any] = {
    "batch": [request(1, "test/ping")],
    "emptyBatch": [],
    "number": 42,
    "string": "hello",
    "null": None,
    "true": True,
    "emptyObject": {},
    "noVersion": {"id": 1, "method": "test/ping"},
    "oldVersion": {"jsonrpc": "1.0", "id": 1, "method": "test/ping"},
    "numberVersion": {"jsonrpc": 2.0, "id": 1, "method": "test/ping"},
    "nullVersion": {"jsonrpc": None, "id": 1, "method": "test/ping"},
    "nullId": request(None, "test/ping"),
    "floatId": request(1.5, "test/ping"),
    "wholeFloatId": request(1.0, "test/ping"),
    "trueId": request(True, "test/ping"),
    "objectId": request({"a": 1}, "test/ping"),
    "arrayId": request([1], "test/ping"),
    "hugeId": request(1 << 70, "test/ping"),
    "neither": {"jsonrpc": "2.0", "id": 7},
    "neitherNoId": {"jsonrpc": "2.0", "params": {}},
    "numberMethod": {"jsonrpc": "2.0", "method": 1},
    "nullMethod": {"jsonrpc": "2.0", "method": None},
}


@pytest.mark.parametrize("name", INVALID)
def test_wire2_no_request_is_32600_with_id_null(daemon: Daemon, name: str) -> None:
    msg_id, body = ping("next")
    daemon.write(frame(INVALID[name]) + frame(body))
    answer = daemon.receive()
    assert answer["id"] is None
    assert answer["error"]["code"] == -32600
    assert answer["error"]["data"]["name"] == "invalidRequest"
    assert daemon.response(msg_id)["result"] == {"pong": "next"}


def test_wire2_method_of_another_type_is_answered_under_its_id(daemon: Daemon) -> None:
    daemon.send({"jsonrpc": "2.0", "id": "m", "method": 1})
    assert daemon.response("m")["error"]["code"] == -32600


@pytest.mark.parametrize(
    "msg_id",
    [
        0,
        1,
        -1,
        2**31,
        2**53,
        2**63 - 1,
        "",
        "0",
        "1",
        "d3b07384-d113-4ec6-8f0b-9e2a2f4a1c11",
        "日本",
        "x" * 10_000,
        "\u0000",
    ],
)
def test_wire2_ids_are_echoed_with_type_and_value(daemon: Daemon, msg_id: Any) -> None:
    daemon.send(request(msg_id, "test/ping", {"text": "id"}))
    answer = daemon.receive()
    assert type(answer["id"]) is type(msg_id)
    assert answer["id"] == msg_id
    assert answer["result"] == {"pong": "id"}


def test_wire2_null_result_is_explicit(fresh: Daemon) -> None:
    fresh.send(request(1, "shutdown"))
    fresh.receive()
    assert fresh.raw[-1] == b'{"jsonrpc":"2.0","id":1,"result":null}'


def test_wire2_jsonrpc_inside_params_is_ordinary_data(daemon: Daemon) -> None:
    inner = {"jsonrpc": "2.0", "id": 1, "method": "exit", "params": [{"jsonrpc": "1.0"}]}
    daemon.send(request("lsp", "test/ping", {"text": inner}))
    assert daemon.response("lsp")["result"] == {"pong": inner}


@pytest.mark.parametrize(
    "escape", [r"\ud83d", r"\ude00", r"\ud83d\ud83d\ude00", r"\\ud83d", r"a\ud800b"]
)
def test_D32_half_surrogates_are_read_as_replacement(daemon: Daemon, escape: str) -> None:
    body = json.dumps(request("HALF", "test/ping", {"text": "HALF"})).replace("HALF", escape)
    daemon.write(frame(body.encode()))
    answer = daemon.receive()
    expected = (
        json.loads(f'"{escape}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    assert answer["result"] == {"pong": expected}
    assert answer["id"] == expected


def test_D32_D33_every_reply_is_valid_utf8(daemon: Daemon) -> None:
    assert daemon.result("test/odd") == {"text": "half \ufffd, bad \ufffd file name"}


@pytest.mark.parametrize(
    "variables", [{"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}]
)
def test_D32_locale_does_not_matter(variables: dict[str, str | None]) -> None:
    with Daemon(TEST_DAEMON, env=variables) as daemon:
        daemon.initialize()
        assert daemon.result("test/ping", {"text": "日本 é 😀"}) == {"pong": "日本 é 😀"}
        assert daemon.shutdown() == 0


@pytest.mark.parametrize("size", [65_000, 131_072, 131_500, 200_000, 1 << 20, 5_000_000])
def test_wire5_large_bodies_both_ways(daemon: Daemon, size: int) -> None:
    text = "é" * (size // 2)
    (after, body) = ping("after")
    daemon.write(frame(request("big", "test/ping", {"text": text})) + frame(body))
    assert daemon.response("big")["result"] == {"pong": text}
    assert daemon.response(after)["result"] == {"pong": "after"}


def test_wire2_body_at_the_cap_is_read(fresh: Daemon) -> None:
    head, tail = b'{"jsonrpc":"2.0","id":1,"method":"test/none","params":"', b'"}'
    body = head + b"x" * ((64 << 20) - len(head) - len(tail)) + tail
    fresh.write(frame(body))
    assert fresh.response(1)["error"]["code"] == -32601
