"""Fetched bytes → record batches with the columns that a read wants.

`Chunk` is what every way of fetching gives: bytes, where the records are in them, and the offset of
each as its queue counts it. The queue is the truth also where a record says another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commitlog.errors import StoreDamaged
from pipeline.frames.batch import cut, record_batch, schema_of
from pipeline.frames.checksums import crc32_each
from pipeline.frames.fields import Int64, uint32_at
from pipeline.frames.head import Heads
from pipeline.frames.locate import Found
from pipeline.kafka.carriage import given_back, may_be_marked, own_headers
from pipeline.source.columns import HEADERS_NAME, KAFKA_NAMES, LOG_APPEND_TIME, TIMESTAMP_TYPE

_BODY_CRC_MASK = 0x7FFFFFFF  # of a message's own checksum (docs/spec/store.md 1.1, field 3)
_ENTRY_CRC_AT = -8  # of the entry header's bodyCrc, from the record (docs/spec/raft_log.md 1.2)


class Chunk(NamedTuple):
    """Records in order of their places in `data`. Of one or more queues."""

    data: memoryview
    found: Found
    offsets: Int64

    def kept(self, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> Chunk:
        """Only the records that `mask` is true for."""
        if mask.all():
            return self
        at, size, log_index, term, end = self.found
        found = Found(
            at[mask],
            size[mask],
            None if log_index is None else log_index[mask],
            None if term is None else term[mask],
            end,
        )
        return Chunk(self.data, found, self.offsets[mask])


def batches(chunk: Chunk, schema: pa.Schema, *, kafka: bool = False) -> Iterator[pa.RecordBatch]:
    """Rows of a chunk, at most ROWS_MAX and BYTES_MAX at once. Raises StoreDamaged.

    `kafka`: messages with marks are given back as the job for Kafka wrote them, and headers are
    those of users alone (pipeline/kafka/carriage.py).
    """
    names = [KAFKA_NAMES.get(name, name) for name in schema.names if name != TIMESTAMP_TYPE]
    marked = kafka and may_be_marked(chunk.data)
    if marked:
        names.append("properties")
    wanted = schema_of(names)
    first = 0
    for part in cut(chunk.found):
        count = len(part)
        try:
            made = record_batch(chunk.data, part, wanted)
        except ValueError as error:
            raise StoreDamaged(f"a fetched record cannot be read: {error}") from None
        columns = dict(zip(names, made.columns, strict=True))
        if marked:
            columns = given_back(columns, columns["properties"])
        elif kafka and HEADERS_NAME in columns:
            columns[HEADERS_NAME] = own_headers(columns[HEADERS_NAME])
        if "offset" in columns:
            columns["offset"] = pa.array(chunk.offsets[first : first + count])
        if TIMESTAMP_TYPE in schema.names:
            columns[TIMESTAMP_TYPE] = pa.array(np.full(count, LOG_APPEND_TIME, np.int32))
        arrays = [columns[KAFKA_NAMES.get(name, name)] for name in schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        first += count


def in_log_order(chunks: Sequence[Chunk]) -> Chunk:
    """Returns all records of the chunks in the order of their addresses in the log; the index
    columns (tags hash, store time) are dropped."""
    pieces: list[memoryview] = []
    addresses = [np.empty(0, np.int64)]
    offsets = [np.empty(0, np.int64)]
    for data, found, numbers in chunks:
        places = zip(found.at.tolist(), (found.at + found.size).tolist(), strict=True)
        pieces += [data[begin:end] for begin, end in places]
        addresses.append(Heads(data, found.at, found.size).physical_offset)
        offsets.append(numbers)
    order = np.argsort(np.concatenate(addresses), kind="stable")
    joined = b"".join([pieces[place] for place in order.tolist()])
    size = np.array([len(pieces[place]) for place in order.tolist()], dtype=np.int64)
    at: Int64 = np.cumsum(size) - size
    found = Found(at, size, None, None, len(joined))
    return Chunk(memoryview(joined), found, np.concatenate(offsets)[order])


def with_tags(chunk: Chunk, tags: frozenset[str]) -> Chunk:
    """Returns the records with tags that equal one of `tags`; the broker compared hashes only."""
    if not len(chunk.found):
        return chunk
    column = record_batch(chunk.data, chunk.found, schema_of(["tags"])).column(0)
    same = pc.is_in(column, value_set=pa.array(sorted(tags), pa.string()))
    return chunk.kept(same.to_numpy(zero_copy_only=False))


def check_messages(chunk: Chunk) -> None:
    """Compare every message's own checksum with its body. Raises StoreDamaged."""
    data, found = chunk.data, chunk.found
    if not len(found):
        return
    try:
        heads = Heads(data, found.at, found.size)
        where = heads.geometry()
    except ValueError as error:
        raise StoreDamaged(f"a fetched record cannot be read: {error}") from None
    actual = crc32_each(data, where.body, where.body_end) & _BODY_CRC_MASK
    _compare(heads, actual == heads.body_crc)


def check_entries(chunk: Chunk) -> None:
    """Compare every entry's checksum with its whole record; files that Java wrote have none there,
    and their messages' own are compared. Raises StoreDamaged.
    """
    data, found = chunk.data, chunk.found
    if not len(found):
        return
    stored = uint32_at(data, found.at + _ENTRY_CRC_AT)
    same = crc32_each(data, found.at, found.at + found.size) == stored
    if not same.all():
        unknown = chunk.kept(~same & (stored == 0))
        _compare(Heads(data, found.at, found.size), same | (stored == 0))
        check_messages(unknown)


def _compare(heads: Heads, same: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    if not same.all():
        bad = int(heads.physical_offset[np.flatnonzero(~same)[0]])
        raise StoreDamaged("a fetched record does not fit its checksum", position=bad)
