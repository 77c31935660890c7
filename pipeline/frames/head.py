"""Fixed fields of many records at once (store.md 1.1), by views that begin at every byte.

A view with stride 1 overlaps itself: element `n` of it is the field that begins at byte `n`. Taking
elements at the records' addresses reads one field of all records in one call.

An IPv6 host takes 12 bytes more; what stands behind it moves by so much, per record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from commitlog.message_layout import HEAD_SIZE, MAGIC_V2
from commitlog.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from pipeline.frames.locate import Int64

_V6_EXTRA = 12
_MAGIC_AT, _CRC_AT, _QUEUE_ID_AT, _QUEUE_OFFSET_AT = 4, 8, 12, 20
_PHYSICAL_AT, _SYS_FLAG_AT, _BORN_AT, _STORE_AT = 28, 36, 40, 56
_RECONSUME_AT = 72
_BODY_SIZE_AT = HEAD_SIZE - 4


class Geometry(NamedTuple):
    """Where the variable parts of each record are: offsets in the buffer."""

    body: Int64
    body_end: Int64
    topic: Int64
    topic_end: Int64
    properties: Int64
    end: Int64


class Heads:
    """Fixed fields of the records at `at` in `data`; each is read when it is asked for."""

    def __init__(self, data: memoryview, at: Int64, size: Int64) -> None:
        self._data, self._at, self._size = data, at, size
        self._extra_born: Int64 | int = 0
        self._extra: Int64 | int = 0
        self._geometry: Geometry | None = None
        flags = self._int32(_SYS_FLAG_AT)
        self.sys_flag = flags
        if (flags & (BORN_HOST_V6 | STORE_HOST_V6)).any():
            self._extra_born = np.where(flags & BORN_HOST_V6, _V6_EXTRA, 0)
            self._extra = self._extra_born + np.where(flags & STORE_HOST_V6, _V6_EXTRA, 0)

    def _int32(self, offset: int, extra: Int64 | int = 0) -> Int64:
        view = np.ndarray(len(self._data) - 3, dtype=">i4", buffer=self._data, strides=(1,))
        found: Int64 = view[self._at + extra + offset].astype(np.int64)
        return found

    def _int64(self, offset: int, extra: Int64 | int = 0) -> Int64:
        view = np.ndarray(len(self._data) - 7, dtype=">i8", buffer=self._data, strides=(1,))
        found: Int64 = view[self._at + extra + offset].astype(np.int64)
        return found

    @property
    def body_crc(self) -> Int64:
        return self._int32(_CRC_AT)

    @property
    def queue_id(self) -> Int64:
        return self._int32(_QUEUE_ID_AT)

    @property
    def queue_offset(self) -> Int64:
        return self._int64(_QUEUE_OFFSET_AT)

    @property
    def physical_offset(self) -> Int64:
        return self._int64(_PHYSICAL_AT)

    @property
    def born_ms(self) -> Int64:
        return self._int64(_BORN_AT)

    @property
    def store_ms(self) -> Int64:
        return self._int64(_STORE_AT, self._extra_born)

    @property
    def reconsume_times(self) -> Int64:
        return self._int32(_RECONSUME_AT, self._extra)

    def geometry(self) -> Geometry:
        """Raises ValueError when the sizes of a record do not add up to the record's."""
        if self._geometry is None:
            self._geometry = self._measured()
        return self._geometry

    def _measured(self) -> Geometry:
        raw = np.frombuffer(self._data, dtype=np.uint8)
        body = self._at + (HEAD_SIZE + self._extra)
        body_size = self._int32(_BODY_SIZE_AT, self._extra)
        body_end = body + body_size
        record_end = self._at + self._size
        self._check(body_size >= 0, "its body's size is negative")
        self._check(body_end + 3 <= record_end, "its body does not fit into it")
        long = self._int32(_MAGIC_AT) == MAGIC_V2
        first = raw[body_end].astype(np.int64)
        topic_size = np.where(long, first << 8 | raw[body_end + 1], first)
        topic = body_end + np.where(long, 2, 1)
        topic_end = topic + topic_size
        self._check(topic_end + 2 <= record_end, "its topic does not fit into it")
        size = raw[topic_end].astype(np.int64) << 8 | raw[topic_end + 1]
        self._check(topic_end + 2 + size == record_end, "its sizes do not add up")
        return Geometry(body, body_end, topic, topic_end, topic_end + 2, record_end)

    def _check(self, good: np.ndarray[tuple[int], np.dtype[np.bool_]], what: str) -> None:
        if not good.all():
            bad = int(self._at[np.flatnonzero(~good)[0]])
            raise ValueError(f"the record at byte {bad} is damaged: {what}")
