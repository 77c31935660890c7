"""Sends of our own producers and their answers: bytes compared, not fields parsed (the hot path).

Our producers write the binary header with the changing fields first, at fixed places:

    21 bytes  fixed part: code, language, version, opaque, flag, remark size 0, ext size
     7 bytes  key "i", size n
    n bytes   properties, raw
    20 bytes  key "g", 13 digits: born time in ms
    p bytes   fields a b c d e f h j k m n in that order: the template, compared as bytes

and are answered with every field at a fixed place (`OwnResponse`), so that one unpack reads it:

    21 bytes  fixed part; version 31001 tells the layout
    fields    queueOffset 19 digits, index 19, msgId 32 hex digits, term 19, queueId 10

Both are also ordinary ROCKETMQ binary frames.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from cluster.errors import InvalidRequest, RemoteProtocolError
from cluster.protocol import binary_header
from cluster.protocol.codes import VERSION_OWN, RequestCode
from cluster.protocol.frames import (
    FLAG_RESPONSE,
    FRAME_SIZE_MAX,
    KIND_BINARY,
    PREFIX,
    Frame,
    StreamDecoder,
    parse,
)
from cluster.protocol.send import (
    SEND_CODES,
    TEMPLATES_COUNT_MAX,
    SendReader,
    SendRequest,
    SendTemplate,
)

_HEAD = struct.Struct(">iIhbhiiii3si")
"""total, kind and header size | code, language, version, opaque, flag, remark size | ext size |
key of i, size of i."""

_FIXED_SIZE: Final = 21
_PROPERTIES_KEY = b"\x00\x01i"
_PROPERTIES_AT: Final = _FIXED_SIZE + 7
_BORN = b"\x00\x01g\x00\x00\x00\x0d"
_BORN_SIZE: Final = len(_BORN) + 13

_new = tuple.__new__
"""Makes a named tuple in a third of the time of its class."""

_PYTHON: Final = binary_header.LANGUAGE_NUMBERS["PYTHON"]


class SendEncoder:
    """Writes the sends of one producer to one queue; everything constant is prepared once."""

    def __init__(
        self,
        *,
        producer_group: str,
        topic: str,
        queue_id: int,
        broker_name: str,
        is_batch: bool = False,
        sys_flag: int = 0,
        durability: str | None = None,
        default_topic: str = "TBW102",
        default_topic_queue_count: int = 4,
    ) -> None:
        ext = {
            "a": producer_group,
            "b": topic,
            "c": default_topic,
            "d": str(default_topic_queue_count),
            "e": str(queue_id),
            "f": str(sys_flag),
            "h": "0",
            "j": "0",
            "k": "false",
            "m": "true" if is_batch else "false",
            "n": broker_name,
        }
        if durability is not None:
            ext["durability"] = durability
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        self._code = int(code)
        self._template = binary_header.encode_ext(ext)
        self._ext_size = 7 + _BORN_SIZE + len(self._template)
        self._tail_ms = -1
        self._tail = b""

    def frame(self, opaque: int, properties: bytes, body: bytes, born_timestamp_ms: int) -> bytes:
        """One whole frame; the caller has checked the sizes of `properties` and `body`."""
        if born_timestamp_ms != self._tail_ms:
            self._tail_ms = born_timestamp_ms
            self._tail = b"%b%013d%b" % (_BORN, born_timestamp_ms, self._template)
        size = len(properties)
        ext_size = self._ext_size + size
        header_size = _FIXED_SIZE + ext_size
        return b"".join(
            (
                _HEAD.pack(
                    4 + header_size + len(body),
                    0x1000000 | header_size,
                    self._code,
                    _PYTHON,
                    VERSION_OWN,
                    opaque,
                    0,
                    0,
                    ext_size,
                    _PROPERTIES_KEY,
                    size,
                ),
                properties,
                self._tail,
                body,
            )
        )


class RequestDecoder(StreamDecoder[Frame | SendRequest]):
    """A broker's decoder: sends come out as `SendRequest`, all else as `Frame`.

    A send that cannot be read comes out as its `Frame`, to be answered with an error (`SendReader`
    says which).
    """

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        super().__init__(frame_size_max)
        self._reader = SendReader()
        self._templates: dict[bytes, SendTemplate] = {}
        # The end of the header that was read last, born time and template: those of one turn of a
        # producer are alike to the byte.
        self._last_end, self._last_born = b"", 0  # empty: none was read
        self._last_template: SendTemplate

    def one(
        self, data: bytes, header_at: int, body_at: int, stop: int, kind: int
    ) -> Frame | SendRequest:
        """One frame, by template when it has our own producers' shape."""
        if kind == KIND_BINARY and body_at - header_at > _PROPERTIES_AT + _BORN_SIZE:
            (_, _, code, _, version, opaque, flag, remark_size, ext_size, key, size) = (
                _HEAD.unpack_from(data, header_at - PREFIX.size)
            )
            if (
                key == _PROPERTIES_KEY
                and version >= VERSION_OWN
                and size >= 0
                and ext_size == body_at - header_at - _FIXED_SIZE
            ):
                born_at = header_at + _PROPERTIES_AT + size
                last_end = self._last_end
                if (
                    (
                        last_end
                        and born_at + len(last_end) == body_at
                        and data.startswith(last_end, born_at)
                    )
                    or self._is_end(data, born_at, body_at)
                ) and not (self._last_template.code != code or remark_size or flag & FLAG_RESPONSE):
                    return _new(
                        SendRequest,
                        (
                            opaque,
                            self._last_template,
                            self._last_born,
                            data[header_at + _PROPERTIES_AT : born_at],
                            data[body_at:stop],
                            flag,
                            "",
                            None,
                        ),
                    )
        return self._slow(data, header_at, body_at, stop, kind)

    def _is_end(self, data: bytes, born_at: int, body_at: int) -> bool:
        """Are these a born time and a known template? Then they are the last ones read."""
        template = self._templates.get(data[born_at + _BORN_SIZE : body_at])
        if template is None or not data.startswith(_BORN, born_at):
            return False
        try:
            self._last_born = int(data[born_at + len(_BORN) : born_at + _BORN_SIZE])
        except ValueError:
            self._last_end = b""
            return False
        self._last_end, self._last_template = data[born_at:body_at], template
        return True

    def _slow(
        self, data: bytes, header_at: int, body_at: int, stop: int, kind: int
    ) -> Frame | SendRequest:
        header = data[header_at:body_at]
        frame = parse(header, data[body_at:stop], kind)
        if frame.code not in SEND_CODES or frame.flag & FLAG_RESPONSE:
            return frame
        try:
            request = self._reader.read(frame)
        except InvalidRequest:
            return frame
        if kind == KIND_BINARY and frame.version >= VERSION_OWN:
            self._learn(header, request)
        return request

    def _learn(self, header: bytes, request: SendRequest) -> None:
        """Remember the constant bytes of a header that has our own producers' shape."""
        born_at = _PROPERTIES_AT + len(request.properties)
        constant_at = born_at + _BORN_SIZE
        if header[_FIXED_SIZE : _FIXED_SIZE + 3] != _PROPERTIES_KEY:
            return
        if header[born_at : born_at + len(_BORN)] != _BORN or constant_at >= len(header):
            return
        if len(self._templates) >= TEMPLATES_COUNT_MAX:
            self._templates.clear()
        self._templates[header[constant_at:]] = request.template


# --- answers --------------------------------------------------------------------------------------


class SendResult(NamedTuple):
    """The answer to our own producer: the message's place in the queue and in the log."""

    opaque: int
    queue_id: int
    queue_offset: int
    index: int  # type: ignore[assignment]  # hides a tuple method, like EntryId
    term: int
    position: int


def _field(key: str, size: int) -> bytes:
    return binary_header.KEY_SIZE.pack(len(key)) + key.encode() + binary_header.SIZE.pack(size)


_OWN_EXT_SIZE: Final = (17 + 19) + (11 + 19) + (11 + 32) + (10 + 19) + (13 + 10)
_OWN_HEADER_SIZE: Final = _FIXED_SIZE + _OWN_EXT_SIZE
_OWN_RESPONSE: Final = struct.Struct(">h x h i 12x 17x 19s 11x 19s 11x 16x 16s 10x 19s 13x 10s")
"""code, version, opaque, queue offset, index, position, term, queue id."""

_OPAQUE: Final = struct.Struct(">i")
_TAILS_COUNT_MAX: Final = 4096


class OwnResponseEncoder:
    """Writes answers to sends of our own producers. `store_host`: 16 hex digits (IPv4, port)."""

    def __init__(self, store_host: bytes) -> None:
        assert len(store_host) == 16, "the layout has space for an IPv4 host"
        prefix = PREFIX.pack(4 + _OWN_HEADER_SIZE, 0x1000000 | _OWN_HEADER_SIZE)
        self._format = b"%019d".join(
            [
                (prefix + struct.pack(">hbh", 0, _PYTHON, VERSION_OWN)).replace(b"%", b"%%")
                + b"%b"
                + struct.pack(">iii", FLAG_RESPONSE, 0, _OWN_EXT_SIZE).replace(b"%", b"%%")
                + _field("queueOffset", 19),
                _field("index", 19),
                _field("msgId", 32) + store_host + b"%016X%b",
            ]
        )
        self._tails: dict[tuple[int, int], bytes] = {}

    def encode(
        self, opaque: int, queue_id: int, queue_offset: int, index: int, term: int, position: int
    ) -> bytes:
        """One whole frame."""
        tail = self._tails.get((term, queue_id)) or self._new_tail(term, queue_id)
        return self._format % (_OPAQUE.pack(opaque), queue_offset, index, position, tail)

    def _new_tail(self, term: int, queue_id: int) -> bytes:
        if len(self._tails) >= _TAILS_COUNT_MAX:
            self._tails.clear()
        tail = b"%b%019d%b%010d" % (_field("term", 19), term, _field("queueId", 10), queue_id)
        return self._tails.setdefault((term, queue_id), tail)


class ResponseDecoder(StreamDecoder[Frame | SendResult]):
    """Our client's decoder: answers to its sends come out as `SendResult`, all else as `Frame`."""

    def one(
        self, data: bytes, header_at: int, body_at: int, stop: int, kind: int
    ) -> Frame | SendResult:
        """One frame, by its fixed places when it is the answer to a send of ours."""
        if kind == KIND_BINARY and body_at - header_at == _OWN_HEADER_SIZE and body_at == stop:
            code, version, opaque, offset, index, position, term, queue_id = (
                _OWN_RESPONSE.unpack_from(data, header_at)
            )
            if code == 0 and version == VERSION_OWN:
                try:
                    return _new(
                        SendResult,
                        (
                            opaque,
                            int(queue_id),
                            int(offset),
                            int(index),
                            int(term),
                            int(position, 16),
                        ),
                    )
                except ValueError as error:
                    raise RemoteProtocolError(
                        f"the answer to a send has a bad number ({error}), so the connection is "
                        "closed"
                    ) from error
        return parse(data[header_at:body_at], data[body_at:stop], kind)
