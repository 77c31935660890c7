"""Sends that are only passed on: recognised by the ends of their headers, not read.

A stock Java client writes its JSON header with the keys in this order, and no other client's header
is taken for one by mistake: the last brace of a header belongs to the outermost object.

    {"code":310,"extFields":{…},"flag":0,"language":"JAVA","opaque":7,
     "serializeTypeCurrentRPC":"JSON","version":433}

Our own answers to them (`SendResponder`) have that form, too.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cluster.errors import RemoteProtocolError
from cluster.protocol.frames import (
    FLAG_ONEWAY,
    FRAME_SIZE_MAX,
    KIND_JSON,
    PREFIX_SIZE,
    Frame,
    StreamDecoder,
    decode_frame,
)
from cluster.protocol.send import SendRequest
from cluster.protocol.send_own import RequestDecoder

_STARTS: Final = {b'{"code":310,"ext': 310, b'{"code":320,"ext': 320}
_START_SIZE: Final = 16
_END = re.compile(
    rb'},"flag":(\d{1,9}),"language":"[A-Z]{1,9}","opaque":(\d{1,10}),'
    rb'"serializeTypeCurrentRPC":"JSON","version":(\d{1,9})}$'
)
_END_SIZE_MAX: Final = 140
_STORED: Final = b'{"code":0,"extFields":{"msgId":"'


def stored_opaque(data: bytes, header_at: int, body_at: int) -> int | None:
    """The number that a header answers, if it says that a send is stored; else None."""
    if not data.startswith(_STORED, header_at):
        return None
    found = _end_of(data, header_at, body_at)
    return int(found[2]) if found is not None and found[1] == b"1" else None


def _end_of(data: bytes, header_at: int, body_at: int) -> re.Match[bytes] | None:
    """The fields at the end of a header, None when it does not end so."""
    return _END.search(data, max(header_at, body_at - _END_SIZE_MAX), body_at)


class RawSend(NamedTuple):
    """One send as it came; `data` is the whole frame."""

    opaque: int
    code: int
    flag: int
    version: int
    data: bytes

    @property
    def is_oneway(self) -> bool:
        """Must it stay unanswered?"""
        return bool(self.flag & FLAG_ONEWAY)

    def read(self) -> Frame:
        """The frame; a send without any field, which is refused, when it cannot be read."""
        try:
            return decode_frame(self.data)
        except RemoteProtocolError:
            return Frame(self.code, self.opaque, flag=self.flag, version=self.version)


class RelayDecoder(StreamDecoder[Frame | SendRequest | RawSend]):
    """A relay port's decoder: sends of stock Java clients come out unread."""

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        super().__init__(frame_size_max)
        self._others = RequestDecoder(frame_size_max)

    def one(
        self, data: bytes, header_at: int, body_at: int, stop: int, kind: int
    ) -> Frame | SendRequest | RawSend:
        """One frame."""
        if kind == KIND_JSON:
            code = _STARTS.get(data[header_at : header_at + _START_SIZE])
            if code is not None:
                found = _end_of(data, header_at, body_at)
                if found is not None:
                    flag, opaque, version = map(int, found.groups())
                    return RawSend(
                        opaque, code, flag, version, data[header_at - PREFIX_SIZE : stop]
                    )
        return self._others.one(data, header_at, body_at, stop, kind)
