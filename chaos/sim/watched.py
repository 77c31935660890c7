"""A machine with a shell that also checks its disk, as `dledger.runtime.disk_check` does (L5).

    start_sync ─► SyncTimes.begin      DiskWatch.look every LOOK_SECONDS ─► replica.disk_checked
    its end    ─► SyncTimes.end

Hung, slow and full disks (`kinds/disks.py`) then cost the lead, and come back on probation; the
limits are shorter than a real machine's, so that a run of a minute sees every state.

    no room for the next file  ─► FULL, and the file is tried again every ROOM_SECONDS
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from chaos.sim.node import SimNode
from commitlog.files.system import is_out_of_space
from dledger.core.events import DiskChecked
from dledger.core.types import DiskHealth
from dledger.replica.disk_watch import LOOK_SECONDS, DiskWatch, SyncTimes
from dledger.replica.ports import SyncWork

STALL_SECONDS = 1.0
TRUST_SECONDS = 5.0
#: Between two tries to make a file for which there was no room.
ROOM_SECONDS = 0.5
#: Of `CoreConfig`: a fault makes syncs 10 or 50 times as slow for three seconds at most.
_SLOW: dict[str, Any] = {
    "slow_sync_min": 0.01,
    "slow_sync_factor": 4.0,
    "slow_sync_wait": 0.5,
    "slow_sync_trust": 3.0,
}
#: A file is made ahead beside the sync threads that may not hang.
_WATCHED = ("log", "mark", "hard")


class WatchedNode(SimNode):
    """`seen`: how often the rules had its disk in each state, over all its lives."""

    seen: dict[DiskHealth, int]
    _times: dict[str, SyncTimes]
    _disk_watch: DiskWatch

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.config = dataclasses.replace(self.config, **_SLOW)
        self.seen = defaultdict(int)

    def start(self) -> None:
        if self.up:
            return
        self._times = {kind: SyncTimes() for kind in _WATCHED}
        log, *others = self._times.values()
        self._disk_watch = DiskWatch(log, others, STALL_SECONDS, TRUST_SECONDS)
        super().start()
        if self.up:
            self.scheduler.after(LOOK_SECONDS, self._look, self.boot)

    def start_sync(self, work: SyncWork) -> None:
        if work.kind in self._times:
            self._times[work.kind].begin(work.kind, self.now)
        super().start_sync(work)

    def _sync_ended(self, work: SyncWork, error: OSError | None) -> None:
        if work.kind in self._times:
            self._times[work.kind].end(self.now)
        elif work.kind == "prepare":
            self._made(work, error)
        super()._sync_ended(work, error)

    def _made(self, work: SyncWork, error: OSError | None) -> None:
        """A file of the log was made ahead, or there is no room for it."""
        if error is None:
            self._disk_watch.full = ""
        elif is_out_of_space(error):
            self._disk_watch.full = f"no room for more of the log: {error}"
            self.scheduler.after(ROOM_SECONDS, self._make_again, (self.boot, work))

    def _make_again(self, unmade: tuple[int, SyncWork]) -> None:
        boot, work = unmade
        if boot == self.boot and self.replica is not None:
            super().start_sync(work)

    def _look(self, boot: int) -> None:
        if boot != self.boot or self.replica is None:
            return
        found = self._disk_watch.look(self.now)
        self.step(self._checked, found)
        self.scheduler.after(LOOK_SECONDS, self._look, boot)

    def _checked(self, found: DiskChecked) -> None:
        if self.replica is not None:
            self.replica.disk_checked(found, self.now)
            self.seen[self.replica.node.disk.health] += 1
