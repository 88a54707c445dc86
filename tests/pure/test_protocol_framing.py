"""The frame reader against a reference of twenty lines, at all split points (wire.md §2, D26)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncue_protocol.framing import (
    LARGE_BODY_BYTES,
    FrameReader,
    FramingError,
    encode,
    header,
)

MAX_HEADER = 64
MAX_BODY = 40


def reference(data: bytes) -> tuple[list[bytes], str | None]:
    """What the rules say of a whole stream: its bodies, and the reason of its error."""
    bodies: list[bytes] = []
    pos = 0
    while True:
        line_start, lines, length = pos, [], -1
        while True:
            end = data.find(b"\n", line_start, pos + MAX_HEADER)
            if end < 0:
                return bodies, "headerTooLong" if len(data) - pos >= MAX_HEADER else None
            line, line_start = data[line_start:end].removesuffix(b"\r"), end + 1
            if not line and lines:
                break
            if line:
                name, colon, value = line.partition(b":")
                name, value = name.strip(b" \t").lower(), value.strip(b" \t")
                token = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                if not colon or not name or any(c not in token for c in name):
                    return bodies, "malformedHeader"
                lines.append(name)
                if name == b"content-length":
                    if not value or any(c not in b"0123456789" for c in value):
                        return bodies, "badLength"
                    if int(value) > MAX_BODY:
                        return bodies, "bodyTooLong"
                    if lines.count(name) > 1 and int(value) != length:
                        return bodies, "conflictingLength"
                    length = int(value)
        if b"content-length" not in lines:
            return bodies, "noLength"
        if len(data) < line_start + length:
            return bodies, None
        bodies.append(data[line_start : line_start + length])
        pos = line_start + length


def read(reader: FrameReader, chunks: list[bytes]) -> tuple[list[bytes], str | None]:
    bodies: list[bytes] = []
    reason = None
    for chunk in chunks:
        for item in reader.feed(chunk):
            assert reason is None, "something came after an error"
            if isinstance(item, FramingError):
                reason = item.reason
            else:
                bodies.append(bytes(item))
    assert (reader.error is None) == (reason is None)
    return bodies, reason


def small() -> FrameReader:
    return FrameReader(max_header=MAX_HEADER, max_body=MAX_BODY)


EOL = st.sampled_from([b"\r\n", b"\n"])
BLANK = st.sampled_from([b"", b" ", b"\t", b"  "])
CASE = st.sampled_from([b"Content-Length", b"content-length", b"CONTENT-LENGTH", b"Content-length"])
OTHER = st.sampled_from(
    [b"", b"Content-Type: application/vscode-jsonrpc; charset=utf-8", b"X:1", b"Accept : */*"]
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=MAX_BODY))
    length = draw(
        st.sampled_from([b"%d", b"0%d"]).map(lambda form: form % len(body))
        | st.sampled_from([b"", b"-1", b"+1", b"1_0", b"0x1", b"1.0", b"9" * 11, b"\xb2", b"1 1"])
        if draw(st.integers(0, 9)) == 0
        else st.just(b"%d" % len(body))
    )
    lines = [draw(CASE) + draw(BLANK) + b":" + draw(BLANK) + length + draw(BLANK)]
    for other in draw(st.lists(OTHER, max_size=2)):
        lines.insert(draw(st.integers(0, len(lines))), other or lines[0])
    text = b"".join(line + draw(EOL) for line in lines)
    lead = b"".join(draw(st.lists(EOL, max_size=2))) if draw(st.booleans()) else b""
    return lead + text + draw(EOL) + body


NOISE = st.binary(max_size=30) | st.text("Content-Length: 0123\r\n{}", max_size=40).map(str.encode)
STREAMS = st.lists(
    st.one_of(frames(), st.binary(max_size=MAX_BODY).map(encode), NOISE), max_size=4
).map(b"".join)


@settings(max_examples=400)
@given(STREAMS, st.lists(st.integers(0, 300), max_size=8))
@example(b"\r\n" * 40, [])
@example(b"\n\nContent-Length: 2\n\n{}", [3])
@example(b"Content-Length: 2\r\n\r\n{}" * 3, [1, 20, 21, 22, 23])
def test_agrees_with_the_reference_for_random_splits(data: bytes, cuts: list[int]) -> None:
    expected = reference(data)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read(small(), [data[a:b] for a, b in itertools.pairwise(edges)]) == expected


@settings(max_examples=150)
@given(STREAMS)
def test_agrees_with_the_reference_at_every_split_point(data: bytes) -> None:
    expected = reference(data)
    for cut in range(len(data) + 1):
        assert read(small(), [data[:cut], data[cut:]]) == expected
    assert read(small(), [data[i : i + 1] for i in range(len(data))]) == expected


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2\r\n\r\n",
        b"content-length: 2\r\n\r\n",
        b"CONTENT-LENGTH:2\r\n\r\n",
        b"Content-Length \t:  2 \r\n\r\n",
        b"  Content-Length: 2\r\n\r\n",
        b"Content-Length: 0002\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"Content-Length: 2\r\n\n",
        b"\r\n\r\n\nContent-Length: 2\r\n\r\n",
    ],
)
def test_what_clients_send_is_accepted(head: bytes) -> None:
    reader = FrameReader()
    assert reader.feed(head + b"{}" + encode(b"[]")) == [b"{}", b"[]"]
    assert reader.is_idle


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"Content-Type: x\r\n\r\n{}", "noLength"),
        (b"Content-Length: -1\r\n\r\n", "badLength"),
        (b"Content-Length: +2\r\n\r\n{}", "badLength"),
        (b"Content-Length: two\r\n\r\n{}", "badLength"),
        (b"Content-Length: 2.0\r\n\r\n{}", "badLength"),
        (b"Content-Length: 1_0\r\n\r\n", "badLength"),
        (b"Content-Length:\r\n\r\n{}", "badLength"),
        (b"Content-Length: \xd9\xa2\r\n\r\n{}", "badLength"),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "conflictingLength"),
        (b"Content-Length: 99999999999\r\n\r\n", "bodyTooLong"),
        (b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n", "bodyTooLong"),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}\n', "malformedHeader"),
        (b"hello\r\n", "malformedHeader"),
        (b": 2\r\n\r\n", "malformedHeader"),
        (b"X" * 4096, "headerTooLong"),
        (b"X: " + b"y" * 4096 + b"\r\n\r\n", "headerTooLong"),
        (b"\r\n" * 2048, "headerTooLong"),
    ],
)
def test_what_cannot_be_resynchronised_is_final(data: bytes, reason: str) -> None:
    reader = FrameReader()
    first, error = reader.feed(encode(b"{}") + data)
    assert first == b"{}"
    assert isinstance(error, FramingError)
    assert error.reason == reason
    assert str(error)
    assert reader.error is error
    assert reader.feed(encode(b"{}")) == []


def test_a_header_of_exactly_the_longest_size_is_accepted() -> None:
    tail = b"\r\nContent-Length: 2\r\n\r\n"
    for size, works in ((4096, True), (4097, False)):
        block = b"X: " + b"y" * (size - 3 - len(tail)) + tail
        assert len(block) == size
        items = FrameReader().feed(block + b"{}")
        assert (items == [b"{}"]) is works


def test_a_cap_below_a_usual_header_holds_too() -> None:
    (error,) = FrameReader(max_header=20).feed(encode(b"{}"))
    assert isinstance(error, FramingError)
    assert error.reason == "headerTooLong"


def test_the_cap_is_inclusive_and_its_own_reason_is_given() -> None:
    reader = FrameReader(max_body=10)
    assert reader.feed(encode(b"x" * 10)) == [b"x" * 10]
    (error,) = reader.feed(header(11))
    assert isinstance(error, FramingError)
    assert "10 bytes" in str(error)


def test_an_empty_body_is_a_frame() -> None:
    assert FrameReader().feed(encode(b"") + encode(b"1")) == [b"", b"1"]


def test_the_envelope_out_is_exact() -> None:
    assert encode('{"ä":1}'.encode()) == b'Content-Length: 8\r\n\r\n{"\xc3\xa4":1}'
    assert header(8) == b"Content-Length: 8\r\n\r\n"


@pytest.mark.parametrize("step", [1_000, 65_536, 1_000_000])
@pytest.mark.parametrize("size", [LARGE_BODY_BYTES, LARGE_BODY_BYTES + 1, 1_000_003])
def test_large_bodies_by_feeding(size: int, step: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    data = encode(b"before") + encode(body) + encode(b"after")
    reader = FrameReader()
    items = [i for a in range(0, len(data), step) for i in reader.feed(data[a : a + step])]
    assert items == [b"before", body, b"after"]
    assert reader.is_idle
    assert reader.missing == 0


def test_large_bodies_by_reading_into_the_buffer() -> None:
    body = b"0123456789" * 100_000
    data = encode(body)
    reader = FrameReader()
    assert reader.feed(data[:100]) == []
    position, items = 100, []
    while not items:
        view = reader.get_buffer()
        assert view is not None
        assert len(view) == reader.missing == len(data) - position
        count = min(99_991, len(view))
        view[:count] = data[position : position + count]
        view.release()
        items = reader.received(count)
        position += count
    assert items == [body]
    assert reader.get_buffer() is None
    assert reader.feed(encode(b"{}")) == [b"{}"]


def test_only_large_bodies_have_a_buffer_and_reports_must_fit() -> None:
    reader = FrameReader()
    assert reader.get_buffer() is None
    with pytest.raises(ValueError, match="does not fit"):
        reader.received(1)
    reader.feed(header(100) + b"x")
    assert reader.get_buffer() is None
    assert reader.missing == 99
    reader = FrameReader()
    reader.feed(header(LARGE_BODY_BYTES * 2))
    for count in (-1, LARGE_BODY_BYTES * 2 + 1):
        with pytest.raises(ValueError, match="does not fit"):
            reader.received(count)
    assert reader.received(0) == []


@pytest.mark.parametrize(
    ("data", "idle"),
    [(b"", True), (b"\r\n", True), (b"C", False), (header(5) + b"1", False), (encode(b"1"), True)],
)
def test_whether_the_stream_may_end_here(data: bytes, idle: bool) -> None:
    reader = FrameReader()
    reader.feed(data)
    assert reader.is_idle is idle


def test_work_is_linear_in_what_is_fed() -> None:
    """Counted, not timed: bytes that `find` and slices may look at."""

    class Counting(bytearray):
        looked = 0

        def find(self, sub: bytes, start: int = 0, end: int = 0) -> int:  # type: ignore[override]
            found = super().find(sub, start, end)
            Counting.looked += (min(end, len(self)) if found < 0 else found + 1) - start
            return found

    for size in (1_000, 4_000):
        Counting.looked = 0
        reader = FrameReader()
        reader._buffer = Counting()  # the buffer is the only thing that it searches
        for byte in b"X: " + b"y" * size:
            reader.feed(bytes([byte]))
        assert Counting.looked <= size + 3


def test_memory_stays_within_one_feed_and_one_header() -> None:
    reader = FrameReader()
    for _ in range(1_000):
        reader.feed(encode(b"x" * 100))
        assert len(reader._buffer) == 0
    reader.feed(b"X" * 10_000)
    assert len(reader._buffer) == 0
