"""Bytes of the replicated log → stretches with columns (columns.py); with numpy, if it was loaded.

entry headers ─► starts, sizes          a stride as long as sizes repeat, else hop by hop
fixed fields  ─► one copy of each head, then arrays of queue ids, offsets, times, …
tails         ─► topics, tags codes, numbers, key hashes          accel_tails.py
usual?        ─► rows of arrays ─► Columns          else a stretch that is read entry by entry
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from typing import Any, Final

from commitlog.dispatch.accel_tails import Tails
from commitlog.dispatch.columns import Columns, NumberRun, QueueRows, Stretch
from commitlog.files.system import Buffer
from commitlog.queues.queue_entry import ENTRY_SIZE
from commitlog.records import accel
from commitlog.records import sys_flag as flags
from commitlog.records.accel_starts import ENTRY_SIZE_MIN, entry_starts
from commitlog.records.message_layout import HEAD_SIZE, MAGIC_V1, RECORD_SIZE_MIN
from commitlog.records.places import QUEUE_ID_MAX, QUEUE_OFFSET_MAX
from commitlog.records.record import HEADER_SIZE, MAGIC_BLANK

#: Fewer usual messages in a row are read faster one by one; numpy's calls cost some 200 µs.
STRETCH_MIN: Final = 64
UNUSUAL_FLAGS: Final = (
    flags.TRANSACTION_MASK | flags.HOSTS_V6 | flags.INNER_BATCH | flags.NEEDS_UNWRAP
)

_HEADS_SIZE: Final = HEADER_SIZE + HEAD_SIZE  # of entry and message
_TWO_INTS = struct.Struct(">ii")
_HEADS: Final = {
    "names": [
        "step",
        "size",
        "kind",
        "queue",
        "offset",
        "address",
        "flags",
        "ms",
        "origin",
        "body",
    ],
    "formats": [">i4", ">i4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8", ">i8", ">i4"],
    "offsets": [4, *(HEADER_SIZE + at for at in (0, 4, 12, 20, 28, 36, 56, 76, 84))],
    "itemsize": _HEADS_SIZE,
}
_ENTRIES: Final = [("position", ">i8"), ("size", ">i4"), ("code", ">i8")]  # queue_entry.py


def read_stretches(data: Buffer, position: int, special: Set[bytes]) -> list[Stretch]:
    """The stretches of `data`, which begins at address `position` with an entry or a blank.

    Messages of the topics `special` are never usual. Never raises: damaged bytes are left to the
    caller, which reads them entry by entry.
    """
    numpy, end = accel.numpy(), len(data)
    if numpy is None or end < STRETCH_MIN * ENTRY_SIZE_MIN:
        return [Stretch(0, end, None)]
    stretches: list[Stretch] = []
    at = 0
    while at < end:
        starts, stop = entry_starts(numpy, data, at)
        if len(starts) >= STRETCH_MIN:
            stretches += _Rows(numpy, data, position, starts, special).stretches(stop)
        elif stop > at:
            stretches.append(Stretch(at, stop, None))
        at = _behind_blank(data, stop)
        if at > stop:
            stretches.append(Stretch(stop, at, None))
    return _joined(stretches)


def _behind_blank(data: Buffer, at: int) -> int:
    """No entry begins at `at`: the end of the blank there, or of all."""
    if len(data) - at >= _TWO_INTS.size:
        magic, size = _TWO_INTS.unpack_from(data, at)
        if magic == MAGIC_BLANK and _TWO_INTS.size <= size <= len(data) - at:
            return at + int(size)
    return len(data)


def _joined(stretches: list[Stretch]) -> list[Stretch]:
    """Neighbours without columns as one."""
    result: list[Stretch] = []
    for stretch in stretches:
        if result and stretch.columns is None and result[-1].columns is None:
            result[-1] = Stretch(result[-1].begin, stretch.end, None)
        else:
            result.append(stretch)
    return result


class _Rows:
    """Entries of the data as arrays, one row for each; those that are `usual` have all of them."""

    def __init__(
        self, numpy: Any, data: Buffer, position: int, starts: Any, special: Set[bytes]
    ) -> None:
        self._numpy, self._starts = numpy, starts
        windows = numpy.ndarray((len(data) - _HEADS_SIZE + 1,), f"V{_HEADS_SIZE}", data, 0, (1,))
        heads = windows[starts].view(numpy.dtype(_HEADS))
        integer = numpy.int64
        self._sizes = heads["size"].astype(integer)
        self._queues = heads["queue"].astype(integer)
        self._offsets = heads["offset"].astype(integer)
        self._addresses = heads["address"].astype(integer)
        self._times_ms = heads["ms"].astype(integer)
        bodies = heads["body"].astype(integer)
        tails = self._sizes - bodies - HEAD_SIZE
        usual = heads["kind"] == MAGIC_V1
        usual &= heads["flags"] & UNUSUAL_FLAGS == 0
        usual &= heads["origin"] == 0
        usual &= heads["step"] == self._sizes + HEADER_SIZE
        usual &= self._addresses == starts + (position + HEADER_SIZE)
        usual &= (bodies >= 0) & (tails >= RECORD_SIZE_MIN - HEAD_SIZE)
        usual &= (self._queues >= 0) & (self._queues <= QUEUE_ID_MAX)
        usual &= (self._offsets >= 0) & (self._offsets <= QUEUE_OFFSET_MAX)
        self._tails = Tails(numpy, len(starts))
        if not usual.all():
            # Whatever else stands there, no byte beyond the data is looked at.
            bodies, tails = bodies * usual, numpy.where(usual, tails, RECORD_SIZE_MIN - HEAD_SIZE)
        self._tails.read(data, starts + bodies + _HEADS_SIZE, tails, special)
        self._usual = usual & self._tails.usual
        self._topics, self._producers = list(self._tails.topics), list(self._tails.producers)

    def stretches(self, end: int) -> Iterator[Stretch]:
        """All rows, in order; the last entry ends at `end`."""
        numpy, usual, starts = self._numpy, self._usual, self._starts
        if usual.all():
            yield Stretch(int(starts[0]), end, self._columns(slice(0, len(usual))))
            return
        changes = (numpy.flatnonzero(usual[1:] != usual[:-1]) + 1).tolist()
        ends = [*changes, len(usual)]
        for first, last in zip([0, *changes], ends, strict=True):
            stop = end if last == len(usual) else int(starts[last])
            columns = None
            if usual[first] and last - first >= STRETCH_MIN:
                columns = self._columns(slice(first, last))
            yield Stretch(int(starts[first]), stop, columns)

    def _columns(self, rows: slice) -> Columns:
        numpy, tails = self._numpy, self._tails
        times_ms, addresses = self._times_ms[rows], self._addresses[rows]
        entries = numpy.empty(len(addresses), dtype=_ENTRIES)
        entries["position"], entries["size"] = addresses, self._sizes[rows]
        entries["code"] = tails.code[rows]
        queue = tails.topic[rows] << 32 | self._queues[rows]
        order = None
        if (queue != queue[0]).any():
            order = numpy.argsort(queue, kind="stable")
            entries = entries[order]
        hashes = tails.hashes[rows]
        keys = hashes.ravel()
        has_key = keys >= 0
        positions, key_times = addresses, times_ms
        if hashes.shape[1] > 1:
            positions = numpy.repeat(addresses, hashes.shape[1])
            key_times = numpy.repeat(times_ms, hashes.shape[1])
        if not has_key.all():
            keys, positions, key_times = keys[has_key], positions[has_key], key_times[has_key]
        return Columns(
            len(addresses),
            int(self._starts[rows.stop - 1]),
            int(times_ms[-1]),
            tuple(self._queue_rows(rows, queue, order)),
            entries.tobytes(),
            tuple(self._number_runs(rows, queue, order)),
            keys,
            positions,
            key_times,
        )

    def _queue_rows(self, rows: slice, queue: Any, order: Any) -> Iterator[QueueRows]:
        """`queue`: topic and queue id in one number; `order`: rows sorted by it, None: they are.

        In the order in which the queues appear in the log.
        """
        numpy, offsets, addresses = self._numpy, self._offsets[rows], self._addresses[rows]
        spans = [(0, len(queue))]
        if order is not None:
            queue, offsets, addresses = queue[order], offsets[order], addresses[order]
            ends = [*(numpy.flatnonzero(queue[1:] != queue[:-1]) + 1).tolist(), len(queue)]
            spans = sorted(zip([0, *ends[:-1]], ends, strict=True), key=lambda span: order[span[0]])
        steps = offsets[1:] - offsets[:-1] == 1
        ends_at = addresses + (self._sizes[rows] if order is None else self._sizes[rows][order])
        firsts, lasts = [first for first, _ in spans], [end - 1 for _, end in spans]
        columns = (
            queue[firsts],
            offsets[firsts],
            offsets[lasts],
            addresses[firsts],
            ends_at[lasts],
        )
        for name, first_offset, last_offset, first_position, end_position, (first, end) in zip(
            *(column.tolist() for column in columns), spans, strict=True
        ):
            yield QueueRows(
                self._topics[name >> 32],
                name & 0xFFFFFFFF,
                first * ENTRY_SIZE,
                end - first,
                first_offset,
                last_offset,
                bool(steps[first : end - 1].all()),
                first_position,
                end_position,
            )

    def _number_runs(self, rows: slice, queue: Any, order: Any) -> Iterator[NumberRun]:
        numpy, tails = self._numpy, self._tails
        producer, number = tails.producer[rows], tails.number[rows]
        if not self._producers:
            return
        row = numpy.arange(len(number)) if order is None else order
        if (producer != producer[0]).any():
            row = numpy.lexsort((producer, queue))
            row = row[producer[row] >= 0]
        if not len(row):
            return
        queue, producer, number = queue[row], producer[row], number[row]
        breaks = number[1:] - number[:-1] != 1
        breaks |= (queue[1:] != queue[:-1]) | (producer[1:] != producer[:-1])
        lasts = [*numpy.flatnonzero(breaks).tolist(), len(row) - 1]
        firsts = [0, *(last + 1 for last in lasts[:-1])]
        columns = (
            producer[firsts],
            queue[firsts],
            number[firsts],
            number[lasts],
            row[firsts],
            row[lasts],
            self._times_ms[rows][row[lasts]],
        )
        for who, name, first, last, first_row, last_row, store_ms in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if who >= 0:
                topic, queue_id = self._topics[name >> 32], name & 0xFFFFFFFF
                yield NumberRun(
                    self._producers[who],
                    topic,
                    queue_id,
                    first,
                    last,
                    first_row,
                    last_row,
                    store_ms,
                )
