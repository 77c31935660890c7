"""Fixed fields of many records at once (docs/spec/store.md 1.1): each record's head is copied once.

Fields are columns of the copy (`fields.py` says how it is made).

An IPv6 host takes 12 bytes more; what stands behind it moves by so much, per record, and is read
where it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from commitlog.records.message_layout import HEAD_SIZE, MAGIC_V2
from commitlog.records.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from pipeline.frames.fields import Int64, copied_at, fields_at, int32_at, int64_at, uint16_at

_V6_EXTRA = 12
_STORE_AT, _RECONSUME_AT = 56, 72
_BODY_SIZE_AT = HEAD_SIZE - 4
#: Name → offset and type, in a record with IPv4 hosts.
_FIELDS = {
    "magic": (4, ">i4"),
    "crc": (8, ">i4"),
    "queue_id": (12, ">i4"),
    "queue_offset": (20, ">i8"),
    "physical_offset": (28, ">i8"),
    "sys_flag": (36, ">i4"),
    "born_ms": (40, ">i8"),
    "store_ms": (_STORE_AT, ">i8"),
    "reconsume_times": (_RECONSUME_AT, ">i4"),
    "body_size": (_BODY_SIZE_AT, ">i4"),
}
_HEAD = fields_at(_FIELDS, HEAD_SIZE)


class Geometry(NamedTuple):
    """Where the variable parts of each record are: offsets in the buffer."""

    body: Int64
    body_end: Int64
    topic: Int64
    topic_end: Int64
    properties: Int64
    end: Int64


class Heads:
    """Fixed fields of the records at `at` in `data`; `size`: of each.

    Raises ValueError when a record's head does not fit into `data`.
    """

    def __init__(self, data: memoryview, at: Int64, size: Int64) -> None:
        self._data, self._at, self._size = data, at, size
        if len(at) and int(at.max()) > len(data) - HEAD_SIZE:
            raise ValueError(f"the record at byte {int(at.max())} is damaged: it has no whole head")
        self._rows = copied_at(data, at, _HEAD)
        self._extra_born: Int64 | int = 0
        self._extra: Int64 | int = 0
        self._geometry: Geometry | None = None
        flags = self.sys_flag
        if (flags & (BORN_HOST_V6 | STORE_HOST_V6)).any():
            self._extra_born = np.where(flags & BORN_HOST_V6, _V6_EXTRA, 0)
            self._extra = self._extra_born + np.where(flags & STORE_HOST_V6, _V6_EXTRA, 0)

    def _field(self, name: str) -> Int64:
        found: Int64 = self._rows[name].astype(np.int64)
        return found

    @property
    def body_crc(self) -> Int64:
        """CRC-32 of each body without its top bit, as the record says."""
        return self._field("crc")

    @property
    def queue_id(self) -> Int64:
        """Queue of each record."""
        return self._field("queue_id")

    @property
    def queue_offset(self) -> Int64:
        """Place of each record in its queue."""
        return self._field("queue_offset")

    @property
    def physical_offset(self) -> Int64:
        """Address of each record in the log, in bytes."""
        return self._field("physical_offset")

    @property
    def sys_flag(self) -> Int64:
        """Flags of each record: compression, transactions, kinds of hosts."""
        return self._field("sys_flag")

    @property
    def born_ms(self) -> Int64:
        """When each message was made, by its client's clock; ms since 1970."""
        return self._field("born_ms")

    @property
    def store_ms(self) -> Int64:
        """When each message was stored, by its leader's clock; ms since 1970."""
        extra = self._extra_born
        if isinstance(extra, int):
            return self._field("store_ms")
        return int64_at(self._data, self._at + extra + _STORE_AT)

    @property
    def reconsume_times(self) -> Int64:
        """How often each message came back from a consumer."""
        return self._behind_hosts("reconsume_times", _RECONSUME_AT)

    def _behind_hosts(self, name: str, offset: int) -> Int64:
        extra = self._extra
        if isinstance(extra, int):
            return self._field(name)
        return int32_at(self._data, self._at + extra + offset)

    def geometry(self) -> Geometry:
        """Raises ValueError when the sizes of a record do not add up to the record's."""
        if self._geometry is None:
            self._geometry = self._measured()
        return self._geometry

    def _measured(self) -> Geometry:
        raw = np.frombuffer(self._data, dtype=np.uint8)
        body = self._at + (HEAD_SIZE + self._extra)
        body_size = self._behind_hosts("body_size", _BODY_SIZE_AT)
        body_end = body + body_size
        record_end = self._at + self._size
        self._check(body_size >= 0, "its body's size is negative")
        self._check(body_end + 3 <= record_end, "its body does not fit into it")
        long = self._rows["magic"] == MAGIC_V2
        topic_size = raw[body_end].astype(np.int64)
        topic = body_end + 1
        if long.any():
            topic_size = np.where(long, topic_size << 8 | raw[body_end + 1], topic_size)
            topic += long
        topic_end = topic + topic_size
        self._check(topic_end + 2 <= record_end, "its topic does not fit into it")
        size = uint16_at(self._data, topic_end)
        self._check(topic_end + 2 + size == record_end, "its sizes do not add up")
        return Geometry(body, body_end, topic, topic_end, topic_end + 2, record_end)

    def _check(self, good: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str) -> None:
        if not good.all():
            bad = int(self._at[np.flatnonzero(~good)[0]])
            raise ValueError(f"the record at byte {bad} is damaged: {what}")
