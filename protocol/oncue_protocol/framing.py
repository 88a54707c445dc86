"""Frames of the Language Server Protocol from a stream of bytes, with no input or output (pure).

A frame is a block of header lines, an empty line, and as many bytes of body as its
`Content-Length` says. Accepted: names in any case, blanks around names and values, any order,
other headers, CRLF or LF, empty lines before a frame. Anything else is a `FramingError`, and that
is final: where the next frame begins cannot be known any more.

Time is linear in what is fed, for every way of splitting it; memory is bounded by `max_header`,
`max_body` and the size of one feed. Bodies of which more than `LARGE_BODY_BYTES` are missing are
collected in one buffer, into which the owner of the file descriptor can read directly:

    view = reader.get_buffer()
    if view is None:
        items = reader.feed(os.read(fd, 65536))
    else:
        items = reader.received(os.readv(fd, [view]))
"""

from __future__ import annotations

import re

from .base import MAX_BODY_BYTES

MAX_HEADER_BYTES = 4096
"""Real headers have 20 to 80 bytes; what goes on for longer is no header."""

LARGE_BODY_BYTES = 128 * 1024
"""Missing bytes from which one buffer of the right size beats appending (wire.md)."""

NO_LENGTH = -1
"""No Content-Length was read yet."""

Body = bytes | bytearray

_USUAL = re.compile(rb"Content-Length: ([0-9]{1,15})\r\n\r\n")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DIGITS = re.compile(rb"[0-9]+")
_MORE_THAN_ANY_CAP = 10**18


class FramingError(Exception):
    """The stream is broken for good: answer -32700 with id null, then close."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """Short word for logs and tests: `headerTooLong`, `malformedHeader`, `noLength`,
        `badLength`, `conflictingLength`, `bodyTooLong`."""


class FrameReader:
    """Cuts a stream into bodies. After a `FramingError` it answers nothing any more."""

    def __init__(self, max_header: int = MAX_HEADER_BYTES, max_body: int = MAX_BODY_BYTES) -> None:
        self._max_header = max_header
        self._max_body = max_body
        self._buffer = bytearray()
        self._line_start = 0  # in the header at the head of the buffer: the line not yet read
        self._scanned = 0  # no LF between there and here
        self._begun = False  # a header line that is not empty was read
        self._length = NO_LENGTH  # of the header or body being read
        self._in_body = False
        self._large: bytearray | None = None
        self._filled = 0
        self.error: FramingError | None = None
        """Why nothing comes any more; None while the stream is whole."""

    @property
    def missing(self) -> int:
        """Bytes that the body being read still lacks; 0 between bodies and inside a header."""
        if self._large is not None:
            return len(self._large) - self._filled
        if self._in_body:
            return self._length - len(self._buffer)
        return 0

    @property
    def is_idle(self) -> bool:
        """Whether the stream may end here: no frame has begun (empty lines begin none)."""
        return not self._in_body and self._large is None and not self._buffer.strip(b"\r\n")

    def get_buffer(self) -> memoryview | None:
        """Where the rest of a large body belongs; None: use `feed`. Release it before the next
        call, and report what was written with `received`."""
        if self._large is None:
            return None
        return memoryview(self._large)[self._filled :]

    def received(self, count: int) -> list[Body | FramingError]:
        """`count` bytes were written to the head of `get_buffer()`."""
        if self._large is None or not 0 <= count <= self.missing:
            raise ValueError(f"received({count}) does not fit: {self.missing} bytes are missing")
        self._filled += count
        if self.missing:
            return []
        body, self._large = self._large, None
        return [body]

    def feed(self, data: bytes | bytearray | memoryview) -> list[Body | FramingError]:
        """Bodies that are complete now, in order; a `FramingError` may come last."""
        items: list[Body | FramingError] = []
        if self.error is not None:
            return items
        if not self._buffer and not self._in_body and self._large is None:
            body = self._only_frame(data)
            if body is not None:
                return [body]
        if self._large is not None:
            taken = min(len(data), self.missing)
            self._large[self._filled : self._filled + taken] = data[:taken]
            items += self.received(taken)
            data = data[taken:]
        self._buffer += data
        start = 0  # of the frame being read
        while True:
            if not self._in_body:
                try:
                    header = self._read_header(start)
                except FramingError as error:
                    self.error = error
                    self._buffer.clear()
                    items.append(error)
                    return items
                if header is None:
                    break
                start = header
            end = start + self._length
            if end > len(self._buffer):
                break
            items.append(bytes(memoryview(self._buffer)[start:end]))
            start = end
            self._begun, self._in_body, self._length = False, False, NO_LENGTH
            self._line_start = self._scanned = start
        self._keep(start)
        return items

    def _only_frame(self, data: bytes | bytearray | memoryview) -> bytes | None:
        """The usual case, for speed: one read holds one frame and nothing else."""
        usual = _USUAL.match(data)
        if usual is None:
            return None
        start, length = usual.end(), int(usual[1])
        if start + length != len(data) or start > self._max_header or length > self._max_body:
            return None
        return bytes(data[start:])

    def _keep(self, start: int) -> None:
        """Drop what has been read; give a large body a buffer of its own."""
        if start:
            del self._buffer[:start]
            self._line_start -= start
            self._scanned -= start
        if self._in_body and self.missing > LARGE_BODY_BYTES:
            self._large, self._filled = bytearray(self._length), len(self._buffer)
            self._large[: self._filled] = self._buffer
            self._buffer.clear()
            self._begun, self._in_body, self._length = False, False, NO_LENGTH
            self._line_start = self._scanned = 0

    def _read_header(self, start: int) -> int | None:
        """Where the body begins; None: the header is not complete."""
        if self._line_start == start and (usual := _USUAL.match(self._buffer, start)):
            if usual.end() - start > self._max_header:
                raise self._too_long()
            self._length = self._check(int(usual[1]))
            self._in_body = True
            return usual.end()
        limit = start + self._max_header
        while True:
            line_end = self._buffer.find(b"\n", self._scanned, limit)
            if line_end < 0:
                self._scanned = min(len(self._buffer), limit)
                if len(self._buffer) >= limit:
                    raise self._too_long()
                return None
            line = bytes(self._buffer[self._line_start : line_end])
            self._scanned = line_end + 1
            blank = not line.removesuffix(b"\r")
            if blank and self._begun:
                if self._length == NO_LENGTH:
                    raise FramingError(
                        "the header has no Content-Length: each message needs one",
                        reason="noLength",
                    )
                self._in_body = True
                return line_end + 1
            self._line_start = line_end + 1
            if not blank:
                self._begun = True
                self._read_line(line)

    def _read_line(self, line: bytes) -> None:
        name, colon, value = line.removesuffix(b"\r").partition(b":")
        name = name.strip(b" \t")
        if not colon or not _TOKEN.fullmatch(name):
            raise FramingError(
                "a header line is not `Name: value`: messages begin with `Content-Length: N`, "
                "an empty line, and N bytes of JSON",
                reason="malformedHeader",
            )
        if name.lower() != b"content-length":
            return
        value = value.strip(b" \t")
        if not _DIGITS.fullmatch(value):
            raise FramingError(
                "Content-Length is not a number of bytes in decimal digits", reason="badLength"
            )
        digits = value.lstrip(b"0")
        length = self._check(int(digits or b"0") if len(digits) < 19 else _MORE_THAN_ANY_CAP)
        if self._length not in (NO_LENGTH, length):
            raise FramingError(
                f"two values for Content-Length: {self._length} and {length}",
                reason="conflictingLength",
            )
        self._length = length

    def _check(self, length: int) -> int:
        if length > self._max_body:
            raise FramingError(
                f"Content-Length is more than {self._max_body} bytes (daemon.maxMessageBytes): "
                "send the content in several messages",
                reason="bodyTooLong",
            )
        return length

    def _too_long(self) -> FramingError:
        return FramingError(
            f"no end of the header in {self._max_header} bytes", reason="headerTooLong"
        )


def header(length: int) -> bytes:
    """Header of a frame with a body of `length` bytes (to be written before it)."""
    return b"Content-Length: %d\r\n\r\n" % length


def encode(body: bytes) -> bytes:
    """The frame of a body."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
