"""Entries of the log that carry commands: bytes ⇄ values. Pure.

    off size field
      0   4  magic      "DLRM"
      4   1  version    1; a node that reads another one stops
      5   1  kind       1 command, 2 open a session, 3 compare results
      6   2  reserved   0
      8   8  time_ms    the leader's wall clock as it took the entry, ms since 1970
     16   8  session    the index of the entry that opened it; to open one: 0
     24   8  sequence   counts up within the session; to open one: a number of its opener's own
     32   8  lowest     smaller sequences of the session are not waited for any more
     40   n  command    compare: window 8 | count 4 | count × (offset 2 | CRC-32 of the result 4)
                        | UTF-8 name of the node

All integers are big-endian. Bytes 4-8 are no envelope's (replica/envelope.py), so the log's own
entries and these cannot be taken for each other.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from commitlog.files.system import Buffer

_HEAD = struct.Struct(">4sBBHqqqq")
HEAD_SIZE = _HEAD.size
_MAGIC, _VERSION = b"DLRM", 1
assert HEAD_SIZE == 40


class Kind(enum.IntEnum):
    """The purpose of an entry."""

    COMMAND = 1
    OPEN = 2
    COMPARE = 3


class Item(NamedTuple):
    """A command on its way to the log, or to the leader; bytes as the log has them."""

    kind: int
    sequence: int
    data: Buffer


class Command(NamedTuple):
    """An entry taken apart."""

    kind: int
    time_ms: int
    session: int
    sequence: int
    lowest: int
    data: bytes


def pack_entry(item: Item, time_ms: int, session: int, lowest: int) -> bytes:
    """The body of the entry that carries `item`."""
    head = _HEAD.pack(_MAGIC, _VERSION, item.kind, 0, time_ms, session, item.sequence, lowest)
    return head + bytes(item.data)


def open_entry(body: Buffer) -> Command | None:
    """Take it apart; None for another one's. Raises ValueError for a later version's."""
    if body[:4] != _MAGIC or len(body) < HEAD_SIZE:
        return None
    _, version, kind, _, time_ms, session, sequence, lowest = _HEAD.unpack_from(body)
    if version != _VERSION or kind not in _KINDS:
        raise ValueError(
            f"an entry of version {version} and kind {kind} was written by a later release; "
            "run that release on this node, too"
        )
    return Command(kind, time_ms, session, sequence, lowest, bytes(body[HEAD_SIZE:]))


_KINDS = frozenset(map(int, Kind))
