"""Recovery: opens a log after a clean or unclean end of the last process.

    0  intent and mark are written again: a killed process may have left them un-synced
    1  a truncation that was begun is carried out (R11), and a deletion of the log's first files
    2  the record that the flush mark names is verified; when it is wrong that is damage (D8, R1):
       the log opens only where a node repairs it, and nothing is cut; missing files are made again,
       full of zeros, which is damage as well (gone.py). Without a mark it opens only for who
       promises nothing any more (lost_files.py)
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
from dataclasses import dataclass, field, replace
from pathlib import Path

from commitlog.errors import StoreLayoutError
from commitlog.files.system import File, FileSystem
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY, unpack_header
from commitlog.segments.next_file import segment_name
from dledger.core.types import NO_ENTRY, NO_INDEX, EntryId, Index, TermRun
from dledger.durable.flush_mark import Mark, MarkFile, mark_of
from dledger.durable.truncate_intent import IntentFile
from dledger.errors import LogDamaged
from dledger.log import gone as gone_files
from dledger.log import log_start, lost_files
from dledger.log.check import SLOT, Tail, check_records
from dledger.log.cold import ColdReader, Piece, scan
from dledger.log.damage import Damage, around, marked_end, scan_over_damage
from dledger.log.file_row import FileRow
from dledger.log.log_start import LogStart
from dledger.log.options import LogOptions
from dledger.log.slots import SLOT_SIZE, SlotFiles

_KEEP = "keep every file as it is and rebuild this replica from its peers or a backup"


@dataclass(slots=True)
class Recovered:
    """Open files and the end of the log. `rewritten`: entries above the mark that were kept.

    `start`: None while the log begins where the folder's identity says.
    """

    files: FileSystem
    folder: Path
    data: FileRow
    slots: SlotFiles
    cold: ColdReader
    mark_file: MarkFile
    intent_file: IntentFile
    tail: Tail
    last_position: int
    runs: list[TermRun]
    start: LogStart | None
    damaged: list[Damage] = field(default_factory=list)
    rewritten: int = 0
    cut: str = ""

    @property
    def before(self) -> Tail:
        """The tail before the first record; a blank may stand between the two."""
        return self.cold.anchor if self.start is None else self.start.tail


def recover(files: FileSystem, folder: Path, options: LogOptions) -> Recovered:
    """Open the log. Raises StoreDamaged, StoreLayoutError, OSError; then no file stays open."""
    found: Recovered | Mark | None = None
    while not isinstance(found, Recovered):  # each turn begins at a lower mark
        found = _recover(files, folder, options, found)
    return found


def _recover(
    files: FileSystem, folder: Path, options: LogOptions, lower: Mark | None
) -> Recovered | Mark:
    """Open the log, or say at which lower mark it may open (`lost_files.mark_below`)."""
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
            start = log_start.read(files, folder)
            log_start.refuse_lost(files, folder, start, options)
            intent_file = lost_files.open_intent(files, folder)
            opened.callback(intent_file.close)
            mark_file = lost_files.open_mark(
                files, folder, data, start, intent_file.intent, options, lower
            )
            opened.callback(mark_file.close)
            intent_file.settle()
            mark_file.settle()
            files.sync_dir(folder)  # a killed process may have left the newest beginning un-synced
            if start is not None and start.emptied:
                start = empty(files, folder, start, mark_file, intent_file)
            elif start is not None:
                log_start.settle(files, folder, start, staging=staging)
            _finish_truncation(files, data, mark_file, intent_file)
            if start is not None:
                drop_files(files, folder, start, options)
        except FileNotFoundError as error:
            raise LogDamaged(f"{error.filename} is missing; {_KEEP}") from error
        assert mark_file.mark is not None
        mark = mark_file.mark
        note = gone_files.Note(files, folder)
        cold, end, damaged = _open_row(data, slots, mark, options, start, note)
        hole = None if mark_file.is_made else lost_files.hole_in(damaged, slots)
        if hole is not None:
            begin = cold.anchor if start is None else start.tail
            return lost_files.mark_below(hole.first, cold, slots, begin)
        state = Recovered(
            files, folder, data, slots, cold, mark_file, intent_file, end, mark.position, [], start
        )
        state.damaged = damaged
        _recover_tail(state, options)
        state.runs = cold.term_runs(state.tail.id.index, state.tail.id.term)
        if state.tail.id == state.before.id:
            state.tail = state.before
        opened.pop_all()
    return state


def _open_row(
    data: FileRow,
    slots: SlotFiles,
    mark: Mark,
    options: LogOptions,
    start: LogStart | None,
    note: gone_files.Note,
) -> tuple[ColdReader, Tail, list[Damage]]:
    """Steps 2 and 3: a reader of the files, the end of the marked record, damage below it."""
    begin, first = options.first_position, options.first_index
    if start is not None:
        begin, first = start.position, Index(start.index + 1)
    loaded = _load_row(slots, first)
    gone: list[int] = []
    if options.refilled:
        gone = gone_files.make_again(data, slots, mark, begin, first, note)
    data.load()
    if not len(data):
        if mark.position >= 0:
            raise LogDamaged(f"the log's files are gone; {_KEEP}")
        data.first_file(begin)
    anchor = _anchor(data, options) if start is None else start.in_files
    cold = ColdReader(data, slots, anchor, options.zero_below)
    damaged: list[Damage] = []
    try:
        _check_first(data, mark, cold.first)
    except LogDamaged as error:
        if not options.repairable or data.start != begin:
            raise
        if loaded:  # else all slots are made again, and it is met on the way
            slot, last = slots.read(cold.first), cold.first
            if slot is None or slot.position != begin:
                last, _ = around(cold, data, slots, mark, anchor, options)
            damaged.append(Damage(cold.first, last, str(error)))
    try:
        end = _marked_tail(cold, data, mark, options.zero_below)
    except LogDamaged as error:
        known = marked_end(data, slots, mark) if options.repairable else None
        if known is None or known.end > data.end:  # the file that it was in is gone
            raise
        end = known
        damaged.append(Damage(mark.index, mark.index, str(error)))
    met = _load_slots(cold, slots, mark, data, options, whole=loaded)
    damaged = [d for d in damaged if d.first not in {m.first for m in met}] + met
    if gone:
        damaged = _look_through(gone, cold, data, slots, mark, options, damaged)
        if not damaged:
            for lost in gone:  # a killed process may have filled them and synced nothing (R3)
                data.write_again(lost, lost + data.file_size)
            data.sync_all()
            note.clear()
    return cold, end, damaged


def _look_through(
    gone: list[int],
    cold: ColdReader,
    data: FileRow,
    slots: SlotFiles,
    mark: Mark,
    options: LogOptions,
    known: list[Damage],
) -> list[Damage]:
    """All damage from the first remade file on, and the `known` damage before it."""
    behind = gone_files.first_behind(slots, cold.first, mark.index, gone[0])
    before = cold.known_before(behind)
    names = ", ".join(data.path(position).name for position in gone)
    return [d for d in known if d.last <= before.id.index] + [
        Damage(d.first, d.last, f"of the log, {names} was gone")
        for d in scan_over_damage(cold, data, slots, mark, before, options)
    ]


def _anchor(data: FileRow, options: LogOptions) -> Tail:
    """The tail before the first record of a log that was never trimmed, imported or not."""
    if options.first_index == 0:
        return Tail(NO_ENTRY, 0, data.start)
    return Tail(EntryId(NO_ENTRY.term, Index(options.first_index - 1)), None, data.start)


def empty(
    files: FileSystem,
    folder: Path,
    start: LogStart,
    mark_file: MarkFile,
    intent_file: IntentFile,
) -> LogStart:
    """Remove every record: the log begins anew, empty, at `start`, which is durable already."""
    intent_file.clear()
    mark_file.write_both(mark_of(start.anchor, start.chain_crc))
    for name in ("data", "index"):
        there = log_start.positions(files, folder / name)
        log_start.unlink(files, folder / name, map(segment_name, there))
    settled = replace(start, emptied=False)
    log_start.write(files, folder, settled, staging=folder / "staging")
    return settled


def drop_files(files: FileSystem, folder: Path, start: LogStart, options: LogOptions) -> None:
    """Remove the files, oldest first, that end before the first record or its slot."""
    for name, size, end in (
        ("data", options.data_file_size, start.position),
        ("index", options.index_file_size, (start.index + 1) * SLOT_SIZE),
    ):
        there = log_start.positions(files, folder / name)
        gone = [segment_name(at) for at in there if at + size <= end]
        log_start.unlink(files, folder / name, gone)


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
        mark_file.write_both(lowered)  # as `FileLog._truncate` does, and why
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
    if mark.position < 0:
        return
    header = unpack_header(data.read(data.start, HEADER_SIZE))
    if (header.magic, header.sequence, header.position) != (MAGIC_ENTRY, first, data.start):
        raise LogDamaged(f"record {first} does not begin the log at {data.start}; {_KEEP}")


def _marked_tail(cold: ColdReader, data: FileRow, mark: Mark, zero_below: int) -> Tail:
    """Step 2: the end of the marked record, verified. Raises LogDamaged."""
    if mark.position < 0:
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


def _load_row(slots: SlotFiles, first: Index) -> bool:
    """Open the index files; False when they are no row, or begin behind the entry `first`."""
    try:
        slots.row.load()
    except StoreLayoutError:
        return False
    return slots.row.start <= first * SLOT_SIZE


def _load_slots(
    cold: ColdReader,
    slots: SlotFiles,
    mark: Mark,
    data: FileRow,
    options: LogOptions,
    *,
    whole: bool,
) -> list[Damage]:
    """Step 3: the index files, complete up to the mark but for damage, which is returned."""
    known = min(mark.slots, mark.index)
    agrees = known < cold.first or cold.slot_agrees(known)
    if not whole or not (agrees or options.repairable):
        slots.row.remove_all()
        known = NO_INDEX
    slots.begin_at(cold.first)
    if known >= mark.index and agrees:
        return []
    found = scan_over_damage(cold, data, slots, mark, cold.known_before(known + 1), options)
    if found and not options.repairable:
        raise LogDamaged(f"below the flush mark {found[0].reason}; {_KEEP}")
    return found


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
        moved = mark_of(state.tail.id, state.tail.chain_crc or 0)
    if moved != marked or not state.mark_file.is_made:
        state.mark_file.write(moved)


def _valid_pieces(state: Recovered, options: LogOptions) -> Iterator[Piece]:
    for piece in scan(state.data, state.tail, options.zero_below, state.data.end):
        if piece.checked.slots:
            yield piece
        state.cut = piece.checked.reason
