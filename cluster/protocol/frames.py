"""One frame of the remoting protocol and the decoder that cuts a byte stream into frames.

    offset  size  field
    0       4     total       int32, bytes that follow = 4 + header size + body size
    4       1     kind        0 = JSON header, 1 = ROCKETMQ binary header
    5       3     header size uint24
    8       n     header      see json_header.py, binary_header.py
    8+n     m     body        m = total - 4 - n, may be 0

All big-endian (docs/spec/remoting.md 1). `flag` bit 0 = response, bit 1 = oneway (no answer
wanted). The kind may change from frame to frame; a response uses the kind of its request.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from cluster.errors import (
    ClusterError,
    LocalProtocolError,
    NotLeader,
    NumberUsed,
    RemoteProtocolError,
    RequestNotSupported,
    SealStale,
)
from cluster.protocol import binary_header, json_header
from cluster.protocol.codes import SEAL_TIME, VERSION, code_for

Item = TypeVar("Item")

FRAME_SIZE_MAX: Final = 16 * 1024 * 1024
"""Largest `total`; the stock decoder's limit too. A body is at most 4 MiB, so it fits."""

HEADER_SIZE_MAX: Final = 1024 * 1024
"""Largest header. Properties are at most 32,767 bytes and six times that when JSON escapes each."""

KIND_JSON: Final = 0
KIND_BINARY: Final = 1
KIND_MARK_MAX: Final = KIND_BINARY << 24 | 0xFFFFFF
FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2
PREFIX: Final = struct.Struct(">iI")
PREFIX_SIZE: Final = 8

#: Of an unfinished frame; smaller pieces that follow each other are put together.
REST_PIECE_MIN: Final = 4096

EMPTY: Final[Mapping[str, str]] = {}


class Frame(NamedTuple):
    """A request or a response. `ext` is the map of header fields, every value a text."""

    code: int
    opaque: int
    ext: Mapping[str, str] = EMPTY
    body: bytes = b""
    flag: int = 0
    remark: str | None = None
    language: str = "PYTHON"
    version: int = VERSION
    kind: int = KIND_JSON

    @property
    def is_response(self) -> bool:
        """Is this the answer to a request of ours?"""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Must this request stay unanswered?"""
        return bool(self.flag & FLAG_ONEWAY)


def response(
    request: Frame,
    code: int = 0,
    ext: Mapping[str, str] = EMPTY,
    body: bytes = b"",
    remark: str | None = None,
) -> Frame:
    """The answer to `request`, in the request's kind of header."""
    return Frame(
        code, request.opaque, ext, body, FLAG_RESPONSE, remark, "JAVA", VERSION, request.kind
    )


def refusal(request: Frame, error: ClusterError) -> Frame:
    """The answer that tells the client of `request` about `error` in codes it knows."""
    return response(
        request, code_for(error, request.version), refusal_ext(error), remark=str(error)
    )


def refusal_ext(error: ClusterError) -> Mapping[str, str]:
    """The fields of a refusal beside its code.

    `NotLeader` names the leader, "" without one; `SealStale` a time stamp that the broker accepts;
    `RequestNotSupported` of a broker its name servers; `NumberUsed` the place of the message that
    has the number.
    """
    if isinstance(error, SealStale) and error.stamp_ms is not None:
        return {SEAL_TIME: f"{error.stamp_ms:013d}"}
    if isinstance(error, RequestNotSupported) and error.name_servers:
        return {"namesrvAddr": ";".join(error.name_servers)}
    if isinstance(error, NumberUsed):
        return {"queueOffset": str(error.queue_offset)}
    return {"leader": error.leader or ""} if isinstance(error, NotLeader) else EMPTY


def encode_frame(frame: Frame) -> bytes:
    """The frame's bytes.

    Raises:
        LocalProtocolError: a header value is no text, or the frame is over its limit.
    """
    binary = frame.kind == KIND_BINARY
    header = (binary_header if binary else json_header).encode(
        frame.code,
        frame.language,
        frame.version,
        frame.opaque,
        frame.flag,
        frame.remark,
        frame.ext,
    )
    return join(header, frame.body, frame.kind)


def join(header: bytes, body: bytes, kind: int) -> bytes:
    """Prefix, header and body as one frame; checks both limits."""
    header_size = len(header)
    total = 4 + header_size + len(body)
    if header_size > HEADER_SIZE_MAX:
        raise LocalProtocolError(
            f"the header has {header_size} bytes and the limit is {HEADER_SIZE_MAX}; "
            "shorten the properties"
        )
    if total > FRAME_SIZE_MAX:
        raise LocalProtocolError(
            f"the frame has {total} bytes and the limit is {FRAME_SIZE_MAX}; send less at once"
        )
    return PREFIX.pack(total, kind << 24 | header_size) + header + body


def decode_frame(data: bytes) -> Frame:
    """The one frame that `data` holds.

    Raises:
        RemoteProtocolError: not exactly one whole frame.
    """
    if len(data) < PREFIX_SIZE:
        raise RemoteProtocolError(f"{len(data)} bytes are shorter than a frame's prefix")
    total, mark = PREFIX.unpack_from(data)
    body_at = check_prefix(total, mark, FRAME_SIZE_MAX) + PREFIX_SIZE
    if total + 4 != len(data):
        raise RemoteProtocolError(f"the frame says {total + 4} bytes and {len(data)} are there")
    return parse(data[PREFIX_SIZE:body_at], data[body_at:], mark >> 24)


def check_prefix(total: int, mark: int, frame_size_max: int) -> int:
    """Check the first eight bytes against every limit; the header's size in bytes."""
    header_size = mark & 0xFFFFFF
    if total > frame_size_max:
        raise RemoteProtocolError(
            f"a frame of {total} bytes came and the limit is {frame_size_max}, so the connection "
            "is closed"
        )
    if header_size > total - 4 or header_size > HEADER_SIZE_MAX:
        raise RemoteProtocolError(
            f"a header of {header_size} bytes came in a frame of {total} bytes "
            f"(limit {HEADER_SIZE_MAX}), so the connection is closed"
        )
    if mark >> 24 > KIND_BINARY:
        raise RemoteProtocolError(
            f"header kind {mark >> 24} is unknown, so the connection is closed"
        )
    return header_size


def parse(header: bytes, body: bytes, kind: int) -> Frame:
    """Header and body as a frame."""
    if kind == KIND_JSON:
        return Frame(*json_header.decode(header, body), kind)
    return Frame(*binary_header.decode(header, body), kind)


class StreamDecoder(Generic[Item]):
    """Cuts a stream into items; the pieces that are fed may have any size.

    Subclasses say what one frame becomes (`one`). Memory: at most one frame (`frame_size_max` + 4
    bytes) beside the piece that is fed, twice that for the moment in which it comes whole.
    """

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._frame_size_max = frame_size_max
        self._rest: list[bytes | bytearray] = []  # what came of an unfinished frame, in order
        self._rest_size_needed = PREFIX_SIZE
        #: Bytes of an unfinished frame that are kept.
        self.rest_size = 0

    def drop_rest(self) -> None:
        """Free the memory of a connection that is gone; other objects may still refer to it."""
        self._rest = []
        self.rest_size = 0

    def feed(self, data: bytes) -> list[Item]:
        """The items that `data` completes, in order.

        Raises:
            RemoteProtocolError: bytes that are no frame; its `frames` are those before them. The
                decoder must not be fed again.
        """
        if self.rest_size:
            self._keep(data)
            if self.rest_size < self._rest_size_needed:
                return []
            data = b"".join(self._rest)
            self.drop_rest()
        items: list[Item] = []
        try:
            at = self._cut(data, items)
        except RemoteProtocolError as error:
            error.frames.extend(items)
            raise
        if at < len(data):
            self._keep(data[at:])
        return items

    def _keep(self, piece: bytes) -> None:
        """Pieces are joined once, when the frame is whole: to copy them into one growing buffer
        costs more than reading them, and leaves holes of many megabytes in the process's memory.
        Small ones go together, so that a client that sends single bytes takes no more.
        """
        self.rest_size += len(piece)
        rest = self._rest
        if not rest or len(piece) >= REST_PIECE_MIN or len(rest[-1]) >= REST_PIECE_MIN:
            rest.append(piece)
            return
        last = rest[-1]
        if not isinstance(last, bytearray):
            last = rest[-1] = bytearray(last)
        last += piece

    def _cut(self, data: bytes, items: list[Item]) -> int:
        """Append the whole frames of `data`; where the unfinished one begins."""
        at, end = 0, len(data)
        frame_size_max = self._frame_size_max
        while end - at >= PREFIX_SIZE:
            total, mark = PREFIX.unpack_from(data, at)
            header_size = mark & 0xFFFFFF
            if (
                total > frame_size_max
                or header_size > HEADER_SIZE_MAX
                or header_size > total - 4
                or mark > KIND_MARK_MAX
            ):
                check_prefix(total, mark, frame_size_max)
            stop = at + 4 + total
            if stop > end:
                self._rest_size_needed = stop - at
                return at
            body_at = at + PREFIX_SIZE + header_size
            items.append(self.one(data, at + PREFIX_SIZE, body_at, stop, mark >> 24))
            at = stop
        self._rest_size_needed = PREFIX_SIZE
        return at

    def one(self, data: bytes, header_at: int, body_at: int, stop: int, kind: int) -> Item:
        """The item of one frame: header at `header_at`, body from `body_at` up to `stop`."""
        raise NotImplementedError


class FrameDecoder(StreamDecoder[Frame]):
    """The plain decoder: every frame as a `Frame`."""

    def one(self, data: bytes, header_at: int, body_at: int, stop: int, kind: int) -> Frame:
        """One frame with its parts at known places."""
        return parse(data[header_at:body_at], data[body_at:stop], kind)
