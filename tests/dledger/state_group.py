"""A `FileGroup` whose nodes save states where log files begin, delete what is before, take others'.

The state machine is what was applied, by index; it begins anew with every process.
"""

from __future__ import annotations

import contextlib
import json

from commitlog.errors import StoreDamaged
from dledger.core.types import Index
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.snapshots.prefix import Prefix
from dledger.snapshots.snapshot_files import SnapshotFolder

from .file_group import DATA_FILE_SIZE, FOLDER, FileGroup, FileHost


class StateHost(FileHost):
    """`taken`: the anchors of the states that this process was given by others."""

    def prefix(self) -> Prefix:
        log, self.taken = self.log, list[int]()
        self.folder = SnapshotFolder(self.disk, FOLDER)
        if log.start is not None:
            with contextlib.suppress(StoreDamaged):  # then it starts without
                self._restore(self.folder.load(log.start))
        return Prefix(log, self.folder, self.restore)

    @property
    def log(self) -> FileLog:
        assert self.storage is not None
        return self.storage.log

    def restore(self, start: LogStart, state: bytes) -> None:
        self.taken.append(start.index)
        self._restore(state)

    def _restore(self, state: bytes) -> None:
        self.applied = {
            int(index): body.encode("latin-1") for index, body in json.loads(state).items()
        }

    def apply(self, first: Index, last: Index) -> None:
        assert first == max(self.applied, default=-1) + 1
        for entry in self.log.entries(first, last):
            header = entry.header
            if header.position % DATA_FILE_SIZE == 0 and header.sequence > self.log.first_index:
                state = {index: body.decode("latin-1") for index, body in self.applied.items()}
                self.folder.save(self.log.start_at(header.position), json.dumps(state).encode())
            self.applied[header.sequence] = bytes(entry.body)


class StateGroup(FileGroup):
    """All its nodes do."""

    host_class = StateHost

    def trim(self, name: str, position: int) -> None:
        """Delete a node's log below `position`."""
        host = self.state_host(name)
        for _ in range(20):  # the flush mark has to pass it in both slots
            try:
                begun = host.replica.trim(position)
            except StoreDamaged as error:
                raise AssertionError(f"{name} has no state there") from error
            self.run(0.2)
            if begun:
                assert host.log.first_position == position
                return
        raise AssertionError(f"{name} does not delete its beginning")

    def state_host(self, name: str) -> StateHost:
        host = self[name]
        assert isinstance(host, StateHost)
        return host
