"""How far a log is on disk: syncs, the flush mark that says so after a crash, mirrors for Java.

    begin_sync ─► LogSync.run: fdatasync ─► finish_sync: flushed        (durable)
    begin_mark ─► MarkSync.run: slots, flush mark, mirrors              (known to be durable)

The mark lags behind the syncs by `MARK_DELAY_S`, the mirrors by `MIRROR_DELAY_S`; slots are synced
when `SLOTS_BEHIND_MAX` of them are not, or when wrong ones were replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from commitlog.files.system import Buffer, File
from dledger.core.types import Index
from dledger.durable.flush_mark import MARK_DELAY_S, Mark, MarkFile
from dledger.durable.mirrors import MIRROR_DELAY_S, Mirrors
from dledger.log.log_files import LogFiles
from dledger.log.log_tasks import LogSync, MarkSync
from dledger.log.pointers import LogPointers
from dledger.log.port import SyncTask

SLOTS_BEHIND_MAX = 1 << 16  # entries; recovery after a crash rescans no more than these for slots


class LogFlush:
    """Syncs one log and notes how far; moves its `flushed` and `committed` on.

    `clock` gives seconds and never goes back; it is used for `mark_deadline` only.
    """

    def __init__(
        self,
        pointers: LogPointers,
        files: LogFiles,
        mark_file: MarkFile,
        clock: Callable[[], float],
        mirrors: Mirrors | None,
    ) -> None:
        self._at, self._files, self.mark_file = pointers, files, mark_file
        self._clock, self._mirrors = clock, mirrors
        self._mark_due: float | None = None
        self._hint_due: float | None = None
        #: Slots were replaced and are not synced: the next mark does it.
        self._slots_repaired = False

    @property
    def mark(self) -> Mark:
        """The mark on disk."""
        assert self.mark_file.mark is not None
        return self.mark_file.mark

    # -- syncs ----------------------------------------------------------------------------------

    def begin_sync(self) -> LogSync | None:
        """See `LogStore`, as for the other methods that `FileLog` hands out."""
        at, files = self._at, self._files
        if at.failed:
            at.check_usable()
        assert files.sync is None, "one sync at a time"
        if at.tail.id.index == at.flushed.index:  # asked after every event
            return None
        files.sync = LogSync(files.data.in_order(files.dirty), at.end_mark())
        files.dirty = []
        return files.sync

    def finish_sync(self, task: SyncTask) -> Index:
        """As `LogStore.finish_sync`; a sync that a truncation cancelled does not move `flushed`."""
        at, sync = self._at, self._files.sync
        assert sync is not None
        assert task is sync, "not the sync that is under way"
        assert sync.done, "the sync did not run to its end"
        self._files.sync = None
        if not sync.cancelled:  # else a truncation came between, and the next sync tells the end
            at.flushed = sync.mark
            if self._mark_due is None:
                self._mark_due = self._clock() + MARK_DELAY_S
        self._files.close_unlinked()
        return at.flushed.index

    # -- the mark -------------------------------------------------------------------------------

    def mark_deadline(self) -> float | None:
        """As `LogStore.mark_deadline`, for mirrors as well; None while a mark is under way."""
        if self._files.marking is not None:
            return None
        if self._mirrors is not None and self._hint_due is None and self._mirrors.stale:
            self._hint_due = self._clock() + MIRROR_DELAY_S
        if self._slots_repaired and self._mark_due is None:
            self._mark_due = self._clock() + MARK_DELAY_S
        due, hint = self._mark_due, self._hint_due  # asked for after every event: no list is built
        if due is None or hint is None:
            return hint if due is None else due
        return min(due, hint)

    def mark_now(self) -> None:
        """The next mark is due at once, whether anything was flushed since the last one or not."""
        self._mark_due = self._clock()

    def begin_mark(self) -> MarkSync | None:
        """The task for the mark, with mirrors that are due; None: no flush to mark, no mirror."""
        at, files = self._at, self._files
        at.check_usable()
        assert files.marking is None, "one mark at a time"
        hint = self._hint_due is not None and self._hint_due <= self._clock()
        if self._mark_due is None and not hint:
            return None
        try:
            files.slots.settle()
        except OSError:
            at.failed = True
            raise
        flushed, slots, slot_files = at.flushed, self.mark.slots, list[File]()
        if self._slots_repaired or flushed.index - slots > SLOTS_BEHIND_MAX:
            self._slots_repaired = False
            slots, slot_files = flushed.index, files.slots.take_dirty()
        committed = min(at.committed, flushed.index)
        mark = Mark(
            flushed.index, flushed.term, flushed.position, flushed.chain_crc, slots, committed
        )
        self._mark_due = None
        if hint:
            self._hint_due = None
            self._tell_mirrors()
        files.marking = MarkSync(self.mark_file, mark, slot_files, self._mirrors if hint else None)
        return files.marking

    def finish_mark(self, task: SyncTask) -> None:
        """Ends the task of `begin_mark`, which must have run; a cancelled mark is due at once."""
        marking = self._files.marking
        assert marking is not None
        assert task is marking, "not the mark that is under way"
        assert marking.done, "the mark was not written"
        self._files.marking = None
        if marking.cancelled:
            self._mark_due = self._clock()
            self._files.slots.give_back(marking.slot_files)
            self._slots_repaired = self._slots_repaired or bool(marking.slot_files)
        self._files.close_unlinked()

    def save_commit(self, committed: Index) -> None:
        """Keeps a higher commit index for the next mark and the `checkpoint` mirror; no write."""
        at = self._at
        assert committed <= at.tail.id.index, "commit never exceeds the log's end (W5)"
        if committed <= at.committed:
            return
        at.committed = committed
        if self._hint_due is None:
            self._hint_due = self._clock() + MIRROR_DELAY_S

    def _tell_mirrors(self) -> None:
        if self._mirrors is not None:
            self._mirrors.set_commit(self._at.committed, self._at.tail.id.index)

    def replace_slots(self, first: int, slots: Buffer) -> None:
        """Write slots over wrong ones; the next mark syncs them, in its thread."""
        self._files.slots.write(first, slots)
        self._slots_repaired = True

    # -- what is cut ----------------------------------------------------------------------------

    def cancel_mark(self) -> None:
        """A mark under way would name an entry that goes now; waits while it is being written."""
        if self._files.marking is not None:
            self._files.marking.cancel()

    def lower_mark(self, kept: Mark) -> None:
        """Durably: the mark names no entry above that of `kept`."""
        mark, index = self.mark, kept.index
        if mark.index > index:
            self.mark_file.write_both(  # an older slot would name what is gone, should one rot
                replace(kept, slots=min(mark.slots, index), committed=min(mark.committed, index))
            )

    def cut(self, kept: Mark) -> None:
        """The log ends with the entry of `kept`: a sync under way does not count."""
        if self._files.sync is not None:
            self._files.sync.cancelled = True
        if self._at.flushed.index > kept.index:
            self._at.flushed = kept

    # -- the end --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Sync everything, then write mark and mirrors. Raises OSError."""
        at, files = self._at, self._files
        task = self.begin_sync()
        if task is not None:
            task.run()
            self.finish_sync(task)
        for file in files.slots.take_dirty():
            file.datasync()
        committed = min(at.committed, at.flushed.index)
        self.mark_file.write_both(replace(at.flushed, slots=at.flushed.index, committed=committed))
        if self._mirrors is not None:
            self._tell_mirrors()
            self._mirrors.write(self._mirrors.capture())
