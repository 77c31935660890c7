"""The small files of a stopped node, for tools: are they whole, and do they know the log's end?

    identity       a line of JSON and its checksum
    hardstate      double slots: term and vote           both slots say the same (R7)
    flushmark      double slots: what the log must hold  (R1)
    truncate       double slots: a truncation under way  (R11)

One slot of a pair may be torn by a crash; none may be when the other is torn, too. Nothing is
written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from commitlog.files.system import FileSystem
from dledger.durable import flush_mark, hard_state, identity, truncate_intent
from dledger.durable.double_slot import FILE_SIZE, SLOT_SIZE, decode_slot, is_later, read_payload
from dledger.errors import LaterVersion, LogDamaged


class Flaw(NamedTuple):
    """A fault in a small file; `damage` False: no data is lost."""

    path: Path
    reason: str
    damage: bool = True


def flaws(files: FileSystem, folder: Path, last_index: int) -> Iterator[Flaw]:
    """Faults of a node's small files, given the log's `last_index`; none for a folder of Java's.

    A file that a later release wrote has none (`dledger.runtime.later_files` tells it).
    """
    path = folder / identity.FILE_NAME
    if not files.exists(path):
        return
    try:
        identity.read(files, folder)
    except LogDamaged as error:
        yield Flaw(path, str(error))
    except LaterVersion:
        pass
    for name in (hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME):
        path = folder / name
        if not files.exists(path) or files.file_size(path) != FILE_SIZE:
            yield Flaw(path, f"it is missing, or has not its {FILE_SIZE} bytes")
            continue
        data = files.read(path)
        slots = [decode_slot(data[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE)]
        whole = [slot for slot in slots if slot is not None]
        if not whole and is_later(data):
            continue
        if not whole:
            yield Flaw(path, "neither of its slots is valid; replace the node")
        elif len(whole) < len(slots):
            yield Flaw(path, f"slot {slots.index(None)} is not valid, the other is", damage=False)
        if whole and name == flush_mark.FILE_NAME:
            yield from _lost_end(path, max(whole)[1], last_index)


def lost(files: FileSystem, folder: Path) -> tuple[str, ...]:
    """Names of those files with two slots that are gone, or neither slot of which is valid."""
    return tuple(
        name
        for name in (hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME)
        if not _whole_slots(files, folder / name) and not is_later(_data(files, folder / name))
    )


def mark(files: FileSystem, folder: Path) -> flush_mark.Mark | None:
    """How far the log of a node is known to be on disk, without a write; None when it is lost.

    Raises LaterVersion, OSError.
    """
    payload = read_payload(files, folder / flush_mark.FILE_NAME)
    return None if payload is None else flush_mark.decode(payload)


def _whole_slots(files: FileSystem, path: Path) -> list[tuple[int, bytes]]:
    data = _data(files, path)
    slots = (decode_slot(data[at : at + SLOT_SIZE]) for at in (0, SLOT_SIZE))
    return [slot for slot in slots if slot is not None]


def _data(files: FileSystem, path: Path) -> bytes:
    return files.read(path) if files.exists(path) else b""


def _lost_end(path: Path, payload: bytes, last_index: int) -> Iterator[Flaw]:
    try:
        mark = flush_mark.decode(payload)
    except LaterVersion:
        return
    except struct.error:
        yield Flaw(path, "it holds no mark; replace the node")
        return
    if mark.index > last_index:
        yield Flaw(
            path,
            f"entry {mark.index} was on disk, and the log ends after entry {last_index}: its end "
            "is lost; the node needs it from its peers",
        )
