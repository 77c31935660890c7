"""Large inputs for the benchmarks of the jobs, made by arrays: a replicated log, a chaos history.

The log is one block of real records, laid down again and again with its numbers moved on: entry
headers, message records, index slots and a checkpoint, as a stopped node has them. Checksums of
entries are left at zero, as Java leaves them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import (
    BLANK,
    BLANK_SIZE,
    HEADER,
    HEADER_SIZE,
    MAGIC_BLANK,
    MAGIC_ENTRY,
)
from pipeline.frames.locate import SLOT
from pipeline.jobs.history.columns import SCHEMA

FILE_SIZE = 256 << 20
BLOCK_ENTRIES = 4096
QUEUES = 4
STORE_MS = 1_767_225_600_000
_AT = struct.Struct(">q")


def make_log(root: Path, entries: int, body_size: int = 150, seed: int = 1) -> int:
    """A node's log of `entries` messages (whole blocks) under `root`; its bytes."""
    folder = root / "dledger-n0"
    for name in ("data", "index"):
        (folder / name).mkdir(parents=True)
    block, starts, sizes = _block(body_size, seed)
    raw = np.frombuffer(block, dtype=np.uint8)
    position = file_at = 0
    slots: list[NDArray[np.void]] = []
    out = (folder / "data" / f"{0:020d}").open("wb")
    for number in range(-(-entries // BLOCK_ENTRIES)):
        left = file_at + FILE_SIZE - position
        if left < len(raw) + BLANK_SIZE:
            out.write(BLANK.pack(MAGIC_BLANK, left))
            out.truncate(FILE_SIZE)
            out.close()
            position = file_at = file_at + FILE_SIZE
            out = (folder / "data" / f"{file_at:020d}").open("wb")
        first = number * BLOCK_ENTRIES
        out.write(_moved(raw, starts, first, position).tobytes())
        slots.append(_slots(starts, sizes, first, position))
        position += len(raw)
    out.truncate(FILE_SIZE)
    out.close()
    (folder / "index" / f"{0:020d}").write_bytes(b"".join(row.tobytes() for row in slots))
    last = len(slots) * BLOCK_ENTRIES - 1
    (folder / "checkpoint").write_text(f"committedIndex={last}\nendIndex={last}\n")
    return position


def _block(body_size: int, seed: int) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Entries next to each other, their offsets and sizes."""
    random, host = Random(seed), pack_host(Host("127.0.0.1", 10911))
    topic, pieces = topic_field("made"), []
    for number in range(BLOCK_ENTRIES):
        properties = f"UNIQ_KEY\x01{number:032X}\x02TAGS\x01t{number % 7}\x02KEYS\x01k{number}\x02"
        record = encode_record(
            topic, properties.encode(), random.randbytes(body_size), number % QUEUES, 0, 0,
            STORE_MS, host, host, store_timestamp_ms=STORE_MS,
        )  # fmt: skip
        head = HEADER.pack(MAGIC_ENTRY, HEADER_SIZE + len(record), 0, 1, 0, 0, 0, 0, len(record))
        pieces.append(head + bytes(record))
    sizes = np.array([len(piece) for piece in pieces], dtype=np.int64)
    return b"".join(pieces), np.cumsum(sizes) - sizes, sizes


def _moved(
    raw: NDArray[np.uint8], starts: NDArray[np.int64], first: int, position: int
) -> NDArray[np.uint8]:
    """The block with entry `first` at `position`."""
    made = raw.copy()
    numbers = np.arange(first, first + BLOCK_ENTRIES, dtype=np.int64)
    for at, value in (
        (8, numbers),
        (24, starts + position),
        (HEADER_SIZE + 20, numbers // QUEUES),
        (HEADER_SIZE + 28, starts + position + HEADER_SIZE),
    ):
        places = (starts + at)[:, None] + np.arange(_AT.size)
        made[places] = value.astype(">i8")[:, None].view(np.uint8)
    return made


def _slots(
    starts: NDArray[np.int64], sizes: NDArray[np.int64], first: int, position: int
) -> NDArray[np.void]:
    slots = np.zeros(len(starts), dtype=SLOT)
    slots["magic"], slots["term"] = MAGIC_ENTRY, 1
    slots["position"], slots["size"] = starts + position, sizes
    slots["index"] = np.arange(first, first + len(starts))
    return slots


def make_history(operations: int, queue: int, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """One queue's valid history of appends, one read in four, and its log, by 16 processes."""
    chance = np.random.default_rng(seed + queue)
    is_read = chance.random(operations) < 0.25
    is_read[0] = False
    offset = np.cumsum(~is_read) - 1
    begin = np.arange(operations) * 1e-4
    end = begin + 5e-5
    value = pa.array(offset).cast(pa.string())
    table = pa.Table.from_pydict(
        {
            "process": pa.array((np.arange(operations) % 16).astype(np.int64)).cast(pa.string()),
            "kind": pa.array(["append", "read"]).take(pa.array(is_read.astype(np.int64))),
            "value": value,
            "invoked": begin,
            "completed": end,
            "outcome": pa.array(["ok"]).take(pa.array(np.zeros(operations, dtype=np.int64))),
            "offset": offset + is_read,
            "values": pa.nulls(operations, SCHEMA.field("values").type),
            "level": pa.nulls(operations, SCHEMA.field("level").type),
            "position": pa.nulls(operations, SCHEMA.field("position").type),
        },
        SCHEMA,
    )
    appended = pa.array(np.flatnonzero(~is_read))
    log = pa.table({"offset": offset[~is_read], "value": value.take(appended)})
    return table, log
