"""One piece → record batches; stateless, so that any worker can do it, and again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from commitlog.errors import StoreDamaged
from commitlog.records.record import BLANK_SIZE, HEADER_SIZE, MAGIC_BLANK, MAGIC_ENTRY
from pipeline.frames.batch import ROWS_MAX, cut, record_batch, schema_of
from pipeline.frames.fields import ENTRY, copied_at
from pipeline.frames.head import Heads
from pipeline.frames.locate import Found, from_index, search
from pipeline.options import LogOptions
from pipeline.places import mapped
from pipeline.rawlog.shares import Piece, slots_of

Mask = NDArray[np.bool_]

_log = logging.getLogger(__name__)
# our own topics begin with it (docs/decisions.md, "Names")
_INTERNAL = int.from_bytes(b"rmq_sys_", "big")
_INTERNAL_REST = int.from_bytes(b"dledger_", "big")
_PHYSICAL_AT = 28
#: Located at once, without an index and with one: each record's line of memory is read once and
#: used while the processor's own cache has it (5,000 records of some 250 bytes fit).
SEARCH_BYTES = 1 << 20
SLOTS_COUNT = 5_000
_SEARCHED_AT_ONCE = 64 << 10  # for a magic, in a copy
#: A searched piece's last record may end so far behind the piece: RocketMQ's largest body is 4 MiB.
RECORD_BYTES_MAX = 8 << 20
MAGIC_BLANK_PLAIN = 0xCBD43194  # behind the last record of a plain log's file
REPLICA = pa.field("replica", pa.string())


def batches(options: LogOptions, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Rows of the piece in log order. Raises StoreDamaged for a broken record unless `skip`."""
    schema = schema_of(options.columns)
    if piece.size == 0:
        return
    with bytes_of(piece) as data:
        for found in located(options, piece, data):
            for part in cut(found):
                wanted, heads = _wanted(options, piece, data, part)
                batch = _batch(options, piece, data, wanted, schema, heads)
                if batch is not None and batch.num_rows:
                    yield batch if not options.replica else _labelled(batch, options.replica)


def bytes_of(piece: Piece) -> AbstractContextManager[memoryview]:
    """The piece's file up to `size`; behind a URL, only the piece is there."""
    end = piece.end if piece.index else min(piece.end + RECORD_BYTES_MAX, piece.size)
    return mapped(piece.url, piece.path, piece.size, piece.begin, end)


def _batch(
    options: LogOptions,
    piece: Piece,
    data: memoryview,
    part: Found,
    schema: pa.Schema,
    heads: Heads | None,
) -> pa.RecordBatch | None:
    try:
        return record_batch(data, part, schema, heads)
    except ValueError as error:
        damage = _damage(piece, int(part.at[0]), str(error))
        if options.repair == "strict":
            raise damage from None
        _log.warning("%s; its batch is read record by record", damage)
    rows = []
    for place in range(len(part)):
        try:
            rows.append(record_batch(data, part.slice(place, place + 1), schema))
        except ValueError as error:
            _log.warning("left out: %s", _damage(piece, int(part.at[place]), str(error)))
    if not rows:
        return None
    return pa.Table.from_batches(rows).combine_chunks().to_batches(max_chunksize=ROWS_MAX)[0]


def _labelled(batch: pa.RecordBatch, replica: str) -> pa.RecordBatch:
    return batch.append_column(REPLICA, pa.array([replica] * batch.num_rows, pa.string()))


def _wanted(
    options: LogOptions, piece: Piece, data: memoryview, found: Found
) -> tuple[Found, Heads | None]:
    """Without the store's own messages, and within the index bounds; their heads, if it is all."""
    if not len(found):
        return found, None
    keep = np.ones(len(found), dtype=bool)
    try:
        heads = Heads(data, found.at, found.size)
    except ValueError as error:  # not what a search finds; a slot may name anything
        raise _damage(piece, int(found.at.max()), str(error)) from None
    if not options.internal:
        keep &= ~_is_internal(data, heads, len(found))
    if found.log_index is not None:
        if options.start_index >= 0:
            keep &= found.log_index >= options.start_index
        if options.end_index >= 0:
            keep &= found.log_index < options.end_index
    if keep.all():
        return found, heads
    log_index = None if found.log_index is None else found.log_index[keep]
    term = None if found.term is None else found.term[keep]
    return Found(found.at[keep], found.size[keep], log_index, term, found.end), None


def _is_internal(data: memoryview, heads: Heads, count: int) -> Mask:
    """Does the topic begin with `rmq_sys_dledger_`? A record too short for one has another."""
    try:
        topic = heads.geometry().topic
    except ValueError:
        return np.zeros(count, dtype=bool)  # told where the batch is made
    topic = np.minimum(topic, len(data) - 16)
    view = np.ndarray(len(data) - 7, dtype=">i8", buffer=data, strides=(1,))
    found_it: Mask = view[topic] == _INTERNAL
    if found_it.any():
        found_it &= view[topic + 8] == _INTERNAL_REST
    return found_it


# ---- finding ------------------------------------------------------------------------------------


def located(options: LogOptions, piece: Piece, data: memoryview) -> Iterator[Found]:
    """Records of a piece with their places: from its index if it has one, else searched."""
    if piece.index:
        yield from _by_slots(piece, data)
    else:
        yield from _by_search(options, piece, data)


def _by_slots(piece: Piece, data: memoryview) -> Iterator[Found]:
    """Slots and headers must agree: an index is a cache, the log is the truth."""
    rows = slots_of(piece)
    for first in range(0, len(rows), SLOTS_COUNT):
        yield _checked(piece, data, rows[first : first + SLOTS_COUNT])


def _checked(piece: Piece, data: memoryview, rows: Any) -> Found:
    found = from_index(rows, piece.position)
    heads = found.at - HEADER_SIZE
    entries = copied_at(data, heads, ENTRY)
    same = entries["magic"] == MAGIC_ENTRY
    same &= entries["size"] == rows["size"]
    same &= entries["index"] == rows["index"]
    if not same.all():
        bad = int(np.flatnonzero(~same)[0])
        raise _damage(piece, int(heads[bad]), "the entry is not what the index says of it")
    return found


def _by_search(options: LogOptions, piece: Piece, data: memoryview) -> Iterator[Found]:
    """Chains of records from the first that begins in the piece to the last."""
    lead = HEADER_SIZE if piece.entries else 0
    at = piece.begin if piece.begin == piece.start else _first(piece, data, piece.begin)
    while at is not None and at < piece.end:
        stop = min(at + SEARCH_BYTES, len(data))
        found = search(data[:stop], entries=piece.entries, start=at)
        inside = int(np.searchsorted(found.at - lead, piece.end))
        mine = found.slice(0, inside)
        if inside:
            yield mine
        if inside < len(found):
            return
        if inside:
            at = found.end
        elif _ends(piece, data, at):
            return
        elif len(one := _one(piece, data, at)):  # longer than the window
            yield one
            at = one.end
        else:
            at = _broken(options, piece, data, at)
            continue
        if at >= piece.end:  # the next piece searches its first record, so that is judged here
            if not _ends(piece, data, at) and not len(_one(piece, data, at)):
                at = _broken(options, piece, data, at)
        elif (
            at < stop - lead - 4
            and not _ends(piece, data, at)
            and (stop == len(data) or _longest(data, at, piece) <= stop - at)
        ):
            at = _broken(options, piece, data, at)


def _one(piece: Piece, data: memoryview, at: int) -> Found:
    """The record at `at`, however long; none where none begins, also if a size is stated there."""
    lead = HEADER_SIZE if piece.entries else 0
    stop = min(at + lead + _longest(data, at, piece), len(data))
    return search(data[:stop], entries=piece.entries, start=at).slice(0, 1)


def _longest(data: memoryview, at: int, piece: Piece) -> int:
    """Size that the record at `at` states."""
    offset = at + 4 if piece.entries else at
    return int.from_bytes(data[offset : offset + 4], "big")


def _ends(piece: Piece, data: memoryview, at: int) -> bool:
    """True at a blank, at the file's end, or at zeros before which all its records are: the file
    has no further ones. Zeros with records behind them were records.
    """
    if at >= len(data) - BLANK_SIZE:
        return True
    first = int.from_bytes(data[at : at + 4], "big", signed=True)
    second = int.from_bytes(data[at + 4 : at + 8], "big")
    if (first == MAGIC_BLANK) if piece.entries else (second == MAGIC_BLANK_PLAIN):
        return True
    is_unwritten = first == 0 and (piece.entries or second == 0)
    return (
        is_unwritten and not piece.full and _first(replace(piece, end=len(data)), data, at) is None
    )


def _broken(options: LogOptions, piece: Piece, data: memoryview, at: int) -> int | None:
    """Where it goes on behind a broken record. Raises StoreDamaged with `strict`."""
    damage = _damage(piece, at, "no record is here though the log goes on")
    if options.repair == "strict":
        raise damage
    again = _first(replace(piece, end=len(data)), data, at + 1)
    left_out = (len(data) if again is None else again) - at
    _log.warning("%s; %d bytes are left out", damage, left_out)
    return again


def _first(piece: Piece, data: memoryview, begin: int) -> int | None:
    """Offset of the piece's first record (entry header included) from `begin` on, None for none.

    A record is one that knows its own position.
    """
    lead = HEADER_SIZE if piece.entries else 0
    at, end = begin, piece.end + lead + 4  # of the magic
    while True:  # each turn begins behind the magic of the one before
        at = _find_magic(data, at + lead + 4, end)
        if at < 0:
            return None
        start = at - 4
        stated = data[start + _PHYSICAL_AT : start + _PHYSICAL_AT + 8]
        if int.from_bytes(stated, "big") == piece.position + start and start - lead >= begin:
            return start - lead
        at = at + 1 - lead - 4


def _find_magic(data: memoryview, begin: int, end: int) -> int:
    """Next message magic that begins in `begin`..`end` - 1, -1 for none.

    In copies: `mmap.find` of CPython 3.11.2 (Debian 12) has ended the process here.
    """
    while begin < end:  # `begin` grows
        stop = min(begin + _SEARCHED_AT_ONCE, end)
        at = begin + bytes(data[begin : stop + 2]).find(b"\xda\xa3\x20")
        if at < begin:
            begin = stop
            continue
        if at + 4 > len(data):
            return -1
        if data[at + 3] in (0xA7, 0xAB):
            return at
        begin = at + 1
    return -1


def _damage(piece: Piece, at: int, reason: str) -> StoreDamaged:
    return StoreDamaged(reason, path=str(piece.path), position=piece.position + at)
