"""The state machine across processes: kept by the machine, or in snapshots at beginnings of files.

With snapshots a node saves its state where a log file begins; then the log below may be deleted
(trimming.py), and a node that needs deleted entries is sent the state.
"""

from __future__ import annotations

import json
from random import Random

from chaos.sim.machine import Machine
from chaos.sim.storage import FOLDER, Storage
from commitlog.files.system import FileSystem, is_out_of_space
from dledger.core.configuration import Configuration
from dledger.core.types import Index
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.log.port import LogStore
from dledger.membership.members import decode_configuration
from dledger.producers.table import ProducerTable
from dledger.snapshots.prefix import Prefix
from dledger.snapshots.snapshot_files import SnapshotFolder


class SavingMachine(Machine):
    """Saves itself where log files begin, and can be given another one's state."""

    def __init__(self, log: FileLog, folder: SnapshotFolder) -> None:
        super().__init__(log)
        self._log, self._folder = log, folder
        self.restored = 0  # how often another one's state was taken over
        if log.start is not None:
            self.restore(log.start, folder.load(log.start))

    def restart(self, store: LogStore) -> None:
        """Goes on with the applied state on a new process's log, which must be a FileLog."""
        assert isinstance(store, FileLog)
        self._log = store
        super().restart(store)

    def apply(self, first: Index, last: Index) -> None:
        """Applies file by file; saves the state before each entry that begins a log file."""
        while first <= last:
            self.whole = False  # a power cut while it is saved: nobody has seen what is applied
            stop = min(last, self._end_of_file(first))
            super().apply(first, stop)
            first = Index(stop + 1)

    def _end_of_file(self, first: Index) -> Index:
        """The last entry of the file that holds `first`; saves the state if that begins it."""
        log, position = self._log, self._log.position_of(first)
        start = position - position % log.file_size
        if position == start and first > log.first_index:
            self._save(position)
        behind = start + log.file_size
        return log.last.index if log.end_position <= behind else Index(log.index_at(behind) - 1)

    def _save(self, position: int) -> None:
        """On a full disk there is no state where this file begins, so no log goes up to there."""
        try:
            self._folder.save(self._log.start_at(position), self._to_bytes())
        except OSError as error:
            if not is_out_of_space(error):
                raise

    def _to_bytes(self) -> bytes:
        rows = [
            [producer, time_ms, stream, *run]
            for producer, time_ms, stream, run in self.producers.export()
        ]
        return json.dumps([self.values, rows]).encode()

    def restore(self, start: LogStart, state: bytes) -> None:
        """Take over the state before the log that begins at `start`."""
        values, rows = json.loads(state)
        self.values = [(index, value) for index, value in values]
        self.producers = ProducerTable()
        for producer, time_ms, stream, first, last, index, last_index in rows:
            number = last - first + 1
            self.producers.committed(producer, stream, first, index, time_ms, number, last_index)
        self.applied, self.whole = start.index, True
        self.restored += 1


def recover(
    saved: Machine | None, storage: Storage, random: Random, folder: SnapshotFolder | None
) -> Machine:
    """The state that was saved, when it can be used; else one that everything is applied to.

    `folder`: of snapshots, None for a log that keeps its beginning.
    """
    log = storage.log
    anchor, last = log.anchor.index, log.last.index
    usable = saved is not None and saved.whole and anchor <= saved.applied <= last
    if saved is not None and usable and random.random() >= 0.2:
        saved.restart(log)
        return saved
    return Machine(log) if folder is None else SavingMachine(log, folder)


def folder_of(files: FileSystem) -> SnapshotFolder:
    """The snapshots in the storage's folder on a virtual disk; reads no file yet."""
    return SnapshotFolder(files, FOLDER)


def initial_of(storage: Storage) -> Configuration | None:
    """The group as deleted entries have left it; None: as the node was set up."""
    start = storage.log.start
    return None if start is None else decode_configuration(start.configuration.encode())


def no_threads() -> None:
    """Before a storage is closed, a stop waits for threads beside the disk work: here for none."""


def prefix_of(machine: Machine, storage: Storage, folder: SnapshotFolder | None) -> Prefix | None:
    """Returns the part that deletes the beginning of a log, or replaces it by a snapshot; None
    without snapshots."""
    if folder is None or not isinstance(machine, SavingMachine):
        return None
    return Prefix(storage.log, folder, machine.restore)
