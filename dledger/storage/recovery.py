"""What opening a log does, whatever the last process left behind.

    0  intent and mark are written again: a killed process may have left them un-synced
    1  a truncation that was begun is carried out (R11)
    2  the record that the flush mark names is verified; it or the mark missing or wrong is damage:
       the node refuses to start and nothing is changed (D8, R1)
    3  slots that may not be on disk are rewritten from the records; all of them when the index
       files do not agree at the boundary
    4  from the mark on, records are verified and *written again*; the first that is not valid is
       the torn tail: it and whatever follows is zeroed, a blank before it included (R3, R10)
    5  every touched file is synced, then the mark is moved to the end

Only then may the log be used: nothing counts as flushed that a sync of this process did not cover.
The time is that of step 4, ≤ 100 ms of writes, plus a look for stray bytes behind the end of the
last file; it does not grow with the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from commitlog.errors import StoreLayoutError
from commitlog.files import File, FileSystem
from commitlog.record import HEADER_SIZE, MAGIC_ENTRY, unpack_header
from dledger.core.types import NO_INDEX, EntryId, Index, TermRun
from dledger.errors import LogDamaged
from dledger.storage.check import SLOT, Tail, check_records
from dledger.storage.cold import ColdReader, Piece, scan
from dledger.storage.file_row import FileRow
from dledger.storage.flush_mark import NO_MARK, Mark, MarkFile
from dledger.storage.options import LogOptions
from dledger.storage.slots import SLOT_SIZE, SlotFiles
from dledger.storage.truncate_intent import IntentFile

_KEEP = "keep every file as it is and rebuild this replica from its peers or a backup"


@dataclass(slots=True)
class Recovered:
    """Open files and the end of the log. `rewritten`: entries above the mark that were kept."""

    data: FileRow
    slots: SlotFiles
    cold: ColdReader
    mark_file: MarkFile
    intent_file: IntentFile
    tail: Tail
    last_position: int
    runs: list[TermRun]
    rewritten: int = 0
    cut: str = ""


def recover(files: FileSystem, folder: Path, options: LogOptions) -> Recovered:
    """Open the log. Raises LogDamaged, StoreLayoutError, OSError; then no file stays open."""
    staging = folder / "staging"
    for path in (folder / "index", staging):  # nothing in them is missed
        files.make_dirs(path)
    data = FileRow(
        files,
        folder / "data",
        options.data_file_size,
        staging=staging,
        zeros=options.prewrite_zeros,
    )
    slots = SlotFiles(FileRow(files, folder / "index", options.index_file_size, staging=staging))
    with contextlib.ExitStack() as opened:
        opened.callback(data.close)
        opened.callback(slots.row.close)
        try:
            mark_file = MarkFile.open(files, folder)
            opened.callback(mark_file.close)
            intent_file = IntentFile.open(files, folder)
            opened.callback(intent_file.close)
        except FileNotFoundError as error:
            raise LogDamaged(f"{error.filename} is missing; {_KEEP}") from error
        if mark_file.mark is None:
            raise LogDamaged(f"neither slot of the flush mark is valid (R2); {_KEEP}")
        if not intent_file.readable:
            raise LogDamaged(f"neither slot of the truncate intent is valid; {_KEEP}")
        intent_file.settle()
        mark_file.settle()
        _finish_truncation(files, data, mark_file, intent_file)
        state = _open_row(data, slots, mark_file, intent_file, options)
        _recover_tail(state, options)
        state.runs = state.cold.term_runs(state.tail.id.index)
        opened.pop_all()
    return state


def _open_row(
    data: FileRow,
    slots: SlotFiles,
    mark_file: MarkFile,
    intent_file: IntentFile,
    options: LogOptions,
) -> Recovered:
    """Steps 2 and 3."""
    mark = mark_file.mark
    assert mark is not None
    data.load()
    if not len(data):
        if mark.index != NO_INDEX:
            raise LogDamaged(f"the log's files are gone; {_KEEP}")
        data.first_file(options.first_position)
    _check_first(data, mark, options.first_index)
    cold = ColdReader(data, slots, options.first_index, options.zero_below)
    end = _marked_tail(cold, data, mark, options.zero_below)
    _load_slots(cold, slots, mark, data, options.zero_below)
    return Recovered(data, slots, cold, mark_file, intent_file, end, mark.position, [])


def _finish_truncation(
    files: FileSystem, data: FileRow, mark_file: MarkFile, intent_file: IntentFile
) -> None:
    """Step 1. The row is not loaded yet: it may have gaps where files were unlinked."""
    intent, mark = intent_file.intent, mark_file.mark
    assert mark is not None
    if intent is None:
        return
    if mark.index > intent.index:
        lowered = replace(
            mark,
            index=intent.index,
            term=intent.term,
            position=intent.position,
            chain_crc=intent.chain_crc,
            slots=min(mark.slots, intent.index),
            committed=min(mark.committed, intent.index),
        )
        mark_file.write(lowered)
    unlinked = [start for start in reversed(data.starts()) if start > intent.end]
    for start in unlinked:
        files.remove(data.path(start))
    files.sync_dir(data.path(0).parent)  # whoever unlinked them: the last process or this one
    data.load()
    if len(data):
        # All of it again, and a sync in any case: zeros that are seen need not be on disk.
        data.zero(intent.end, min(intent.old_end, data.end))
        data.file_at(intent.end)[0].datasync()
    data.close()
    intent_file.clear()


def _check_first(data: FileRow, mark: Mark, first: Index) -> None:
    """The log begins with the record `first`, or is empty."""
    if mark.index == NO_INDEX:
        return
    header = unpack_header(data.read(data.start, HEADER_SIZE))
    if (header.magic, header.sequence, header.position) != (MAGIC_ENTRY, first, data.start):
        raise LogDamaged(f"record {first} does not begin the log at {data.start}; {_KEEP}")


def _marked_tail(cold: ColdReader, data: FileRow, mark: Mark, zero_below: int) -> Tail:
    """Step 2: the end of the marked record, verified. Raises LogDamaged."""
    if mark.index == NO_INDEX:
        return cold.anchor
    reason = "its place is outside the files"
    if data.start <= mark.position <= data.end - HEADER_SIZE:
        header = unpack_header(data.read(mark.position, HEADER_SIZE))
        reason = "its header is not what the mark names"
        if (header.sequence, header.epoch, header.chain_crc) == (
            mark.index,
            mark.term,
            mark.chain_crc,
        ) and HEADER_SIZE <= header.size <= data.file_size:
            # The chain checksum covers all of the record and equals the mark's copy.
            before = Tail(EntryId(mark.term, Index(mark.index - 1)), None, mark.position)
            view = memoryview(data.read(mark.position, header.size))
            checked = check_records(view, before, data.file_size, zero_below)
            if checked.slots:
                return checked.tail
            reason = checked.reason
    raise LogDamaged(
        f"entry {mark.index} at position {mark.position} was on disk and is not valid now: "
        f"{reason}; {_KEEP}"
    )


def _load_slots(
    cold: ColdReader, slots: SlotFiles, mark: Mark, data: FileRow, zero_below: int
) -> None:
    """Step 3: the index files, complete up to the mark."""
    row = slots.row
    known = min(mark.slots, mark.index)
    try:
        row.load()
        whole = known < cold.first or (
            row.start <= cold.first * SLOT_SIZE and cold.slot_agrees(known)
        )
    except StoreLayoutError:
        whole = False
    if not whole:
        row.remove_all()
        known = NO_INDEX
    slots.begin_at(cold.first)
    if known >= mark.index:
        return
    start = cold.tail(known) if known >= cold.first else cold.anchor
    for piece in scan(data, start, zero_below, data.end):
        _write_slots(slots, piece, mark.index)
        checked = piece.checked
        if checked.tail.id.index >= mark.index:
            return
        if checked.reason and not checked.cut_short:
            raise LogDamaged(f"at position {checked.tail.end} {checked.reason}; {_KEEP}")
    raise LogDamaged(f"the log ends before entry {mark.index}, which was on disk; {_KEEP}")


def _write_slots(slots: SlotFiles, piece: Piece, last: int) -> None:
    first = piece.start.id.index + 1
    packed = piece.checked.slots[: max(0, last + 1 - first)]
    if packed:
        slots.write(first, b"".join(packed))


def _recover_tail(state: Recovered, options: LogOptions) -> None:
    """Steps 4 and 5."""
    data, slots, marked = state.data, state.slots, state.mark_file.mark
    assert marked is not None
    touched: dict[str, File] = {}

    def touch(written: list[File]) -> None:
        touched.update((file.path.name, file) for file in written)

    for piece in _valid_pieces(state, options):
        touch(data.write(piece.data, piece.start.end))
        slots.write(piece.start.id.index + 1, b"".join(piece.checked.slots))
        state.tail = piece.checked.tail
        state.last_position = SLOT.unpack(piece.checked.slots[-1])[1]
        state.rewritten += len(piece.checked.slots)
    dropped = data.drop_after(state.tail.end)
    data.close_unlinked()
    touch(data.zero_rest(state.tail.end))
    touch([data.file_at(state.tail.end)[0]])  # zeros that are seen need not be on disk
    for file in dropped:
        touched.pop(file.path.name, None)
    for name in sorted(touched):
        touched[name].datasync()
    slots.cut_rest(state.tail.id.index)
    for file in slots.take_dirty():
        file.datasync()
    moved = Mark(
        state.tail.id.index,
        state.tail.id.term,
        state.last_position,
        state.tail.chain_crc or 0,
        state.tail.id.index,
        marked.committed,
    )
    if state.last_position < 0:
        moved = NO_MARK
    if moved != marked:
        state.mark_file.write(moved)


def _valid_pieces(state: Recovered, options: LogOptions) -> Iterator[Piece]:
    for piece in scan(state.data, state.tail, options.zero_below, state.data.end):
        if piece.checked.slots:
            yield piece
        state.cut = piece.checked.reason
