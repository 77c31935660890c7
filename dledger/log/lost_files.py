"""Small files of a log that lost both slots: the intent is made anew, the mark is found again (R2).

    data files   0 ........ | 1 ........ | 2 ....x....        the mark said: up to x
    found        the first record of the last file that begins with a whole one

The mark that is found is near the one that was lost, as a rule below it by less than a file. It may
be above it, so before it counts all files are synced, since a killed process may have left any of
them un-synced, and what may have been so is written again, since pages of a sync that failed look
clean. Records behind it are verified and written again by the start, and the first that does
not fit is taken for the end of the log. It may be one that was acknowledged and has rotted: only
the lost mark could tell. So only a node that promises nothing by its log opens it in this way: it
neither votes nor counts until its group has taken it in again and its leader has sent what it lacks
(R6).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commitlog.files.system import FileSystem
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY, unpack_header
from dledger.core.types import NO_ENTRY, NO_INDEX, EntryId, Index, Term
from dledger.durable import flush_mark, truncate_intent
from dledger.durable.flush_mark import Mark, MarkFile, mark_of
from dledger.durable.truncate_intent import Intent, IntentFile
from dledger.errors import LogDamaged
from dledger.log.check import Tail, check_records
from dledger.log.cold import ColdReader
from dledger.log.damage import Damage
from dledger.log.file_row import FileRow
from dledger.log.log_start import LogStart
from dledger.log.options import LogOptions
from dledger.log.slots import SlotFiles

#: Slots of so many entries below the mark may not be on disk: twice of what a running log allows
#: (`log_flush.SLOTS_BEHIND_MAX`); they are made again from the records.
SLOTS_BEHIND = 1 << 17

#: Bytes below a found mark that are written again: more than a log has un-synced, also on a disk
#: that hangs for seconds.
UNSYNCED_MAX = 1 << 30


def open_intent(files: FileSystem, folder: Path) -> IntentFile:
    """The intent; when it was lost no truncation is under way (`IntentFile.remake` says why)."""
    if files.exists(folder / truncate_intent.FILE_NAME):
        found = IntentFile.open(files, folder)
        if not found.is_lost:
            return found
        found.close()
    return IntentFile.remake(files, folder, staging=folder / "staging")


def open_mark(
    files: FileSystem,
    folder: Path,
    data: FileRow,
    start: LogStart | None,
    intent: Intent | None,
    options: LogOptions,
    lower: Mark | None,
) -> MarkFile:
    """The mark; a lost one is found again for a node without promises (R2, R6).

    A found mark is on disk when the start has come to its end. Until then it is found again,
    and may be lowered: no promise was made by it. `lower`: take this one instead.

    Raises FileNotFoundError, LogDamaged, StoreLayoutError, OSError.
    """
    if not options.forgets or files.exists(folder / flush_mark.FILE_NAME):
        found = MarkFile.open(files, folder)
        if found.mark is not None:
            return found
        found.close()
        if not options.forgets:
            raise LogDamaged(f"neither slot of the flush mark is valid (R2); {LogDamaged.advice}")
    mark, end = find_mark(data, start, intent, options)
    # What is seen was perhaps above the lost mark, and need not be on disk (R3).
    data.write_again(end - UNSYNCED_MAX, end)
    data.sync_all()
    return MarkFile.found(
        files, folder, mark if lower is None else lower, staging=folder / "staging"
    )


def find_mark(
    data: FileRow, start: LogStart | None, intent: Intent | None, options: LogOptions
) -> tuple[Mark, int]:
    """A mark below which all is written, and the end of its record. `data` is not loaded.

    Raises StoreLayoutError, OSError.

    A truncation that was begun is finished later, so its `intent` says what is sure to stay.
    """
    if start is not None:
        anchor, chain_crc, begin = start.anchor, start.chain_crc, start.position
    else:
        first = options.first_index
        anchor = EntryId(NO_ENTRY.term, Index(first - 1)) if first else NO_ENTRY
        chain_crc, begin = 0, options.first_position
    if start is not None and start.emptied:
        return mark_of(anchor, chain_crc), begin
    if intent is not None:
        stays = (intent.index, intent.term, intent.position, intent.chain_crc)
        return Mark(*stays, slots=_slots_below(intent.index)), intent.end
    data.load()
    try:
        for first_of_file in reversed([at for at in data.starts() if at > begin]):
            found = _first_record(data, first_of_file, options.zero_below)
            if found is not None:
                return found
    finally:
        data.close()
    return mark_of(anchor, chain_crc), begin


def _first_record(data: FileRow, position: int, zero_below: int) -> tuple[Mark, int] | None:
    """The record that the file at `position` begins with, when its own checksum agrees; its end."""
    header = unpack_header(data.read(position, HEADER_SIZE))
    if (header.magic, header.position) != (MAGIC_ENTRY, position):
        return None
    if not HEADER_SIZE <= header.size <= data.file_size:
        return None
    before = Tail(EntryId(Term(header.epoch), Index(header.sequence - 1)), None, position)
    view = memoryview(data.read(position, header.size))
    if not check_records(view, before, data.file_size, zero_below).slots:
        return None
    index = Index(header.sequence)
    term = Term(header.epoch)
    mark = Mark(index, term, position, header.chain_crc, slots=_slots_below(index))
    return mark, position + header.size


def hole_in(damaged: Sequence[Damage], slots: SlotFiles) -> Damage | None:
    """The last range below a found mark with an entry of which neither record nor slot is left.

    Files reach the disk in any order, so the file that a found mark begins may stand above entries
    that were never synced. No peer need have them, so a repair may wait for ever. A node
    that promises nothing may cut them, like all that lies behind a found mark. A record that has
    rotted is repaired, since its slot tells its place.
    """
    for one in reversed(damaged):
        if any(slots.read(Index(at)) is None for at in range(one.first, one.last + 1)):
            return one
    return None


def mark_below(index: Index, cold: ColdReader, slots: SlotFiles, begin: Tail) -> Mark:
    """A mark below the damaged entry `index`; `begin`: the tail before the log's first entry."""
    tail = cold.known_before(index)
    slot = slots.read(tail.id.index) if tail.id.index > begin.id.index else None
    if slot is None:
        return mark_of(begin.id, begin.chain_crc or 0)
    known = _slots_below(tail.id.index)
    return Mark(tail.id.index, tail.id.term, slot.position, tail.chain_crc or 0, slots=known)


def _slots_below(index: Index) -> Index:
    return Index(max(int(NO_INDEX), index - SLOTS_BEHIND))
