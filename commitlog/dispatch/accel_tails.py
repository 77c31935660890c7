"""Reads topics and properties of many messages at once, by the shapes that they repeat; numpy.

A *tail* is the end of a message record:

    topic length (1) | topic | properties length (2) | name 01 value 02 name 01 value 02 …

Tails of one producer differ in a few values only: the unique key, the number, a key. Python reads
the first tail of each size. Another tail of that size has the same *shape*, each property at the
same place, if it differs only inside such values and has no separator there. numpy then computes
the meaning of the values for all tails of a shape, column by column.

    first tail   topic  __PID p  __SEQ 4711  UNIQ_KEY AC11…0007   ─► TailShape
    the others   equal  equal    digits      anything but 01, 02  ─► rows of that shape
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Final

from commitlog.files.system import Buffer
from commitlog.records import accel
from commitlog.records.message_fast import tags_code_of
from commitlog.records.places import is_possible_topic
from commitlog.records.producer_numbers import NAME_SIZE, PRODUCER, find_numbers

GROUP_MIN: Final = 8  # fewer tails of one size are not worth a shape
SHAPES_MAX: Final = 32  # per size and chunk; tails of further shapes are read entry by entry
MISSES_MAX: Final = 3  # after so many shapes with few tails the rest is read entry by entry

_find_wanted = re.compile(rb"\x02(TAGS|KEYS|UNIQ_KEY)\x01([^\x02]+)").finditer
_find_values = re.compile(rb"\x02([^\x01\x02]+)\x01([^\x02]+)").finditer
_find_keys = re.compile(rb"[^ ]+").finditer
_SEPARATORS_END: Final = 3  # bytes below it are not text: 1 and 2 separate, 0 ends a numpy string
_TENS: Final = tuple(10**exponent for exponent in range(18))

Span = tuple[int, int]  # begin and end in the tail


@dataclass(frozen=True, slots=True)
class TailShape:
    """The shape of tails, read from the first one. Spans are (begin, end) within a tail.

    Attributes:
        is_usual: False when tails like this one must be read entry by entry.
        free: values that may differ between tails of this shape.
        tags: the TAGS value.
        keys: index keys, in the order in which they are indexed; ASCII.
        spaced: the KEYS value; its spaces must stand at the same places.
        producer, number: the producer's id and the digits of the message's number, or neither.
    """

    is_usual: bool
    topic: bytes = b""
    free: tuple[Span, ...] = ()
    keys: tuple[Span, ...] = ()
    spaced: Span | None = None
    tags: Span | None = None
    producer: Span | None = None
    number: Span | None = None


def read_shape(tail: bytes, special: Set[bytes]) -> TailShape:
    """Read the shape of a tail; a damaged tail, or one of a `special` topic, is not usual."""
    block_at = tail[0] + 3
    topic = tail[1 : block_at - 2]
    if (
        topic in special
        or not is_possible_topic(topic)
        or block_at > len(tail)
        or block_at + (tail[block_at - 2] << 8 | tail[block_at - 1]) != len(tail)
    ):
        return TailShape(is_usual=False)
    block = b"\x02" + tail[block_at:]
    shift = block_at - 1
    tags = unique = more = (0, 0)
    for found in _find_wanted(block):
        if found[1] == b"TAGS":
            tags = found.span(2)
        elif found[1] == b"KEYS":
            more = found.span(2)
        else:
            unique = found.span(2)
    keys = [unique] if unique[1] else []
    keys += [
        (more[0] + key.start(), more[0] + key.end()) for key in _find_keys(block[slice(*more)])
    ]
    if not all(block[begin:end].isascii() for begin, end in keys):
        return TailShape(is_usual=False)
    producer, number, fixed = _numbers_in(block)
    free = [
        found.span(2)
        for found in _find_values(block)
        if min(found[2]) >= _SEPARATORS_END
        and not (found.start(2) < fixed[1] and fixed[0] < found.end(2))
    ]
    return TailShape(
        True,
        topic,
        tuple(_moved(span, shift) for span in free),
        tuple(_moved(span, shift) for span in keys),
        _moved(more, shift) if more[1] else None,
        _moved(tags, shift) if tags[1] else None,
        _moved(producer, shift) if number else None,
        _moved(number, shift) if number else None,
    )


def _moved(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by


def _numbers_in(block: bytes) -> tuple[Span, Span | None, Span]:
    """Spans of the producer id, of the number's digits, and of bytes that may not differ."""
    nowhere = (0, 0)
    at = block.find(PRODUCER, 1)
    if at < 0:
        return nowhere, None, nowhere
    found = find_numbers(block, at, len(block))
    if found is None:
        return nowhere, None, (at, len(block))  # else another tail could have a number here
    stop, begin, end = found
    if not block[at:stop].isascii():
        return nowhere, None, (at, stop)
    return (at + NAME_SIZE, stop), (begin, end), nowhere


class Tails:
    """One row per message, in parallel arrays; valid where `usual` is set.

    `topic` and `producer` hold values of `topics` and `producers` (-1: the message names no
    producer). Column k of `hashes` is for the k-th key of a message, -1 where it has fewer keys.
    """

    __slots__ = (
        "_numpy", "code", "hashes", "number", "producer", "producers", "topic", "topics", "usual",
    )  # fmt: skip

    def __init__(self, numpy: Any, count: int) -> None:
        self._numpy = numpy
        self.usual = numpy.zeros(count, bool)
        self.topic = numpy.zeros(count, numpy.int64)
        self.code = numpy.zeros(count, numpy.int64)
        self.producer = numpy.full(count, -1, numpy.int64)
        self.number = numpy.zeros(count, numpy.int64)
        self.hashes = numpy.full((count, 1), -1, numpy.int64)
        self.topics: dict[bytes, int] = {}
        self.producers: dict[bytes, int] = {}

    def read(self, data: Buffer, starts: Any, sizes: Any, special: Set[bytes]) -> None:
        """Read the tails that begin at `starts`, of `sizes` bytes, within `data`."""
        numpy = self._numpy
        size = int(sizes[0])
        if (sizes == size).all():
            self._read_size(data, None, starts, size, special)
            return
        counts = numpy.bincount(sizes)
        for size in numpy.flatnonzero(counts >= GROUP_MIN).tolist():
            rows = numpy.flatnonzero(sizes == size)
            self._read_size(data, rows, starts[rows], size, special)

    def _read_size(
        self, data: Buffer, rows: Any, starts: Any, size: int, special: Set[bytes]
    ) -> None:
        """Read tails of one size into `rows`; None: into all rows."""
        numpy = self._numpy
        windows = numpy.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
        matrix = windows[starts].view(numpy.uint8).reshape(-1, size)
        misses = 0
        for _ in range(SHAPES_MAX):
            shape = read_shape(matrix[0].tobytes(), special)
            differing = _differing(matrix, shape)
            if not differing.any():
                self._take(slice(None) if rows is None else rows, matrix, shape)
                return
            differs = differing.any(axis=1)
            if rows is None:
                rows = numpy.arange(len(matrix))
            self._take(rows[~differs], matrix[~differs], shape)
            misses += len(rows) - int(differs.sum()) < GROUP_MIN
            rows, matrix = rows[differs], matrix[differs]
            if len(rows) < GROUP_MIN or misses == MISSES_MAX:
                return

    def _take(self, rows: Any, matrix: Any, shape: TailShape) -> None:
        """Fill in `rows`; their tails are the rows of `matrix` and have this shape."""
        if not shape.is_usual:
            return
        numpy = self._numpy
        self.usual[rows] = True
        self.topic[rows] = self.topics.setdefault(shape.topic, len(self.topics))
        if shape.tags is not None:
            self.code[rows] = self._by_value(matrix, shape.tags, tags_code_of)
        if shape.number is not None and shape.producer is not None:
            begin, end = shape.number
            digits = matrix[:, begin:end] - numpy.uint8(48)
            tens = numpy.array(_TENS[end - begin - 1 :: -1], numpy.int64)
            names = self.producers
            self.producer[rows] = self._by_value(
                matrix, shape.producer, lambda name: names.setdefault(name, len(names))
            )
            self.number[rows] = digits.astype(numpy.int64) @ tens
        missing = len(shape.keys) - self.hashes.shape[1]
        if missing > 0:
            more = numpy.full((len(self.usual), missing), -1, numpy.int64)
            self.hashes = numpy.concatenate((self.hashes, more), axis=1)
        for column, (begin, end) in enumerate(shape.keys):
            self.hashes[rows, column] = accel.hashes_of_rows(shape.topic, matrix[:, begin:end])

    def _by_value(self, matrix: Any, span: Span, number_of: Callable[[bytes], int]) -> Any:
        """`number_of` of each row's bytes in `span`; called once for each distinct value."""
        numpy, values = self._numpy, matrix[:, slice(*span)]
        if (values == values[0]).all():
            return number_of(values[0].tobytes())
        # Values that differ have no byte 0, so nothing is lost at their end.
        texts = numpy.ascontiguousarray(values).view(f"S{span[1] - span[0]}").ravel()
        distinct, which = numpy.unique(texts, return_inverse=True)
        return numpy.array([number_of(value) for value in distinct.tolist()], numpy.int64)[which]


def _differing(matrix: Any, shape: TailShape) -> Any:
    """Marks the bytes by which a row of `matrix` does not fit `shape`, that of the first row."""
    first = matrix[0]
    differs = matrix != first
    for begin, end in shape.free:
        values = matrix[:, begin:end]
        differs[:, begin:end] = values < _SEPARATORS_END
        if shape.number == (begin, end):
            differs[:, begin:end] = (values < 48) | (values > 57)
        elif shape.spaced == (begin, end):
            differs[:, begin:end] |= (values > 127) | ((values == 32) != (first[begin:end] == 32))
        elif (begin, end) in shape.keys or (begin, end) == shape.producer:
            differs[:, begin:end] |= values > 127
    return differs
