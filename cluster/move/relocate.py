"""One message record at another address: only its addresses change.

    physical offset   where the record now is                              (docs/spec/store.md 1.1)
    prepared offset   where the half message now is, of commit and rollback  (the same);
                      with us of delayed ones, too; 0 when that is not in the store any more
    __CRC32#          taken anew when the record is sealed with it         (docs/spec/store.md 1.4)

The body's CRC covers the body only and stays. Sizes never change.
"""

from __future__ import annotations

import struct

from commitlog.records.message import Message
from commitlog.records.message_layout import HEAD_SIZE, PHYSICAL_OFFSET_AT
from commitlog.records.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from commitlog.records.property_names import RECORD_CRC
from commitlog.records.record_crc import seal_record
from commitlog.records.sys_flag import BORN_HOST_V6, STORE_HOST_V6

_I64 = struct.Struct(">q")
_V6_EXTRA = 12  # bytes that an IPv6 host takes more
#: Whose records are named by others: what waited in them, and what became of it (R17).
_NAMED = frozenset({HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, CHECK_MAX_TIME_TOPIC})


class Relocation:
    """Moves records in log order and remembers where those went that others name."""

    def __init__(self) -> None:
        self._named: dict[int, int] = {}  # old physical offset → new one

    def move(self, record: bytes, message: Message, position: int) -> bytearray:
        """`record` as it is at physical offset `position`."""
        moved = bytearray(record)
        _I64.pack_into(moved, PHYSICAL_OFFSET_AT, position)
        if message.topic in _NAMED:
            self._named[message.physical_offset] = position
        if message.prepared_transaction_offset:
            origin = self._named.get(message.prepared_transaction_offset, 0)
            _I64.pack_into(moved, _prepared_at(message.sys_flag), origin)
        if RECORD_CRC in message.properties:
            seal_record(moved)
        return moved


def _prepared_at(sys_flag: int) -> int:
    """Offset of the prepared transaction offset: the 8 bytes before the body's size (4)."""
    hosts_v6 = bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6)
    return HEAD_SIZE - 4 - _I64.size + hosts_v6 * _V6_EXTRA
