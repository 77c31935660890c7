"""The head of a machine's state: how far it is, and the sessions. Pure.

    magic "DLRS" 4 | version 4 | index 8 | log's time 8 | size 8 | number 8 | sessions

`size` is that of the sessions; integers are big-endian. Version 1 has no number. It is written
where the last command's number is of no account (batch.py): releases before 0.4 read that one.
"""

from __future__ import annotations

import io
import struct
from typing import NamedTuple

from dledger.versions import refuse_later

_HEAD = struct.Struct(">4sIqqQ")
_NUMBER = struct.Struct(">q")
_MAGIC, _PLAIN, _NUMBERED = b"DLRS", 1, 2


def look(beginning: bytes) -> None:
    """Raises LaterVersion if the first 8 bytes of a state are those of a later release's."""
    if beginning[: len(_MAGIC)] == _MAGIC:
        refuse_later("the machine's state", int.from_bytes(beginning[4:8], "big"), _NUMBERED)


class StateHead(NamedTuple):
    """`index`: the last entry that the state holds; `number`: of its last command."""

    index: int  # type: ignore[assignment]  # hides tuple.index
    time_ms: int
    number: int
    sessions: bytes

    def pack(self) -> bytes:
        """As bytes; the machine's state follows them."""
        index, time_ms, number, sessions = self
        if number <= index:
            return _HEAD.pack(_MAGIC, _PLAIN, index, time_ms, len(sessions)) + sessions
        head = _HEAD.pack(_MAGIC, _NUMBERED, index, time_ms, len(sessions))
        return head + _NUMBER.pack(number) + sessions


def read_head(file: io.BytesIO | io.RawIOBase, index: int) -> StateHead:
    """Read the head of a state as of entry `index`.

    Raises LaterVersion, ValueError, struct.error, OSError.
    """
    magic, version, applied, time_ms, size = _HEAD.unpack(file.read(_HEAD.size) or b"")
    if magic == _MAGIC:
        refuse_later("the machine's state", version, _NUMBERED)
    if magic != _MAGIC or version not in (_PLAIN, _NUMBERED):
        raise ValueError("it is no machine's state")
    if applied != index:
        raise ValueError(f"a state of entry {applied} stands where {index} is wanted")
    number = applied
    if version == _NUMBERED:
        (number,) = _NUMBER.unpack(file.read(_NUMBER.size) or b"")
    return StateHead(applied, time_ms, number, file.read(size) or b"")
