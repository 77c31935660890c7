"""Which bytes of a node's files may be damaged: those that it must not take for good when wrong.

    log      whole records up to the one that the flush mark names (R1)
    index    slots of those records, as far as the mark says that they are on disk: a start writes
             the others anew
    slot     one slot of a double-slot file: hard state, flush mark, truncate intent
    state    the saved state and the dispatch mark
    sent     states that the log may begin with, for a replica that is far behind
    queue    entries of consume queues

Both slots of a file are two faults, so one slot at a time: with neither the node has to refuse.
What is above the mark was not told to anybody to be on disk, and a start takes it for a torn tail.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY, unpack_header
from dledger.durable import flush_mark, hard_state, truncate_intent
from dledger.durable.double_slot import SLOT_SIZE as BLOCK
from dledger.durable.double_slot import decode_slot
from dledger.durable.flush_mark import NO_MARK, Mark
from dledger.log.slots import SLOT_SIZE

LOG, INDEX, SLOT, STATE, SENT, QUEUE = "log", "index", "slot", "state", "sent", "queue"
DOUBLE_SLOTS = (hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME)
_SLOT_HEAD = 20  # of a slot, before its payload
STATES = ("state.ckpt", "dispatched")


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes [begin, end) of a file."""

    kind: str
    path: Path
    begin: int
    end: int

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.path.parent.name}/{self.path.name}"


def log_folder(data: Path) -> Path:
    """The folder of the replicated log in a node's data folder. Raises ValueError without one."""
    (found,) = data.glob("dledger-*")
    return found


def regions(data: Path) -> list[Region]:
    """All of a stopped node, in a fixed order; `data` is its data folder."""
    folder, mark = log_folder(data), mark_of(data)
    found = [*_log(folder, mark), *_slots(folder), *_whole(data)]
    found += _index(folder, mark, first_index(folder, mark))
    return sorted(found, key=lambda region: (region.kind, str(region.path), region.begin))


def mark_of(data: Path) -> Mark:
    """The flush mark that a start would find; also of a node that runs. NO_MARK without one."""
    raw = (log_folder(data) / flush_mark.FILE_NAME).read_bytes()
    slots = [decode_slot(raw[at : at + BLOCK]) for at in (0, BLOCK)]
    valid = [slot for slot in slots if slot is not None]
    try:
        return flush_mark.decode(max(valid)[1]) if valid else NO_MARK
    except struct.error:
        return NO_MARK


def _log(folder: Path, mark: Mark) -> Iterator[Region]:
    for path in sorted((folder / "data").iterdir()):
        end = _end_of_records(path, mark.position)
        if end:
            yield Region(LOG, path, 0, end)


def _end_of_records(path: Path, marked: int) -> int:
    """Behind the marked record, or the last one of a file before it; 0 without any."""
    raw, start, at = path.read_bytes(), int(path.name), 0
    while at + HEADER_SIZE <= len(raw) and start + at <= marked:
        header = unpack_header(raw[at : at + HEADER_SIZE])
        if header.magic != MAGIC_ENTRY or header.position != start + at:
            break
        at += header.size
    return at


def first_index(folder: Path, mark: Mark) -> int:
    """Index of the first record that is there; the mark's without one."""
    for region in _log(folder, mark):
        return unpack_header(region.path.read_bytes()[:HEADER_SIZE]).sequence
    return mark.index


def _index(folder: Path, mark: Mark, first: int) -> Iterator[Region]:
    for path in sorted((folder / "index").iterdir()):
        base, size = int(path.name), path.stat().st_size
        begin = max(first * SLOT_SIZE - base, 0)
        end = min(min(mark.slots, mark.index) * SLOT_SIZE - base, size)
        if begin < end:
            yield Region(INDEX, path, begin, end)


def _slots(folder: Path) -> Iterator[Region]:
    for name in DOUBLE_SLOTS:
        raw = (folder / name).read_bytes()
        for at in (0, BLOCK):
            slot = decode_slot(raw[at : at + BLOCK])
            if slot is not None:
                yield Region(SLOT, folder / name, at, at + _SLOT_HEAD + len(slot[1]))


def _whole(data: Path) -> Iterator[Region]:
    states = [(STATE, data / name) for name in STATES]
    states += [(SENT, path) for path in log_folder(data).glob("snapshots/*")]
    for kind, path in states:
        if path.exists() and path.stat().st_size:
            yield Region(kind, path, 0, path.stat().st_size)
    for path in sorted(data.glob("consumequeue/*/*/*")):
        used = len(path.read_bytes().rstrip(b"\0"))
        if used:
            yield Region(QUEUE, path, 0, used)
