"""Checks of a simulated machine's disk, as `dledger.runtime.disk_check` does them (L5).

    start_sync ─► SyncTimes.begin      DiskWatch.look every LOOK_SECONDS ─► replica.looked
    its end    ─► SyncTimes.end

With it, a node with a hung, slow or full disk (`kinds/disks.py`) gives up the lead, and is on
probation afterwards; the limits are shorter than a real machine's, so that a run of a minute sees
every state.

    no space for the next file  ─► FULL, and the file is tried again every ROOM_SECONDS
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from chaos.sim.duty import NodeDuty
from chaos.sim.node import SimNode
from commitlog.files.system import is_out_of_space
from dledger.core.events import DiskChecked
from dledger.core.types import DiskHealth
from dledger.replica.disk_watch import LOOK_SECONDS, DiskWatch, SyncTimes
from dledger.replica.ports import SyncWork

STALL_SECONDS = 1.0
TRUST_SECONDS = 5.0
#: Between two tries to make a file for which there was no space.
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


class DiskDuty(NodeDuty):
    """`seen`: how often the rules had the node's disk in each state, over all its processes."""

    _times: dict[str, SyncTimes]
    _disk_watch: DiskWatch

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._looks_since = -1  # the boot that has its looks scheduled
        self.seen: dict[DiskHealth, int] = defaultdict(int)
        node.config = dataclasses.replace(node.config, **_SLOW)

    def starting(self) -> None:
        """New times: no disk work of an earlier process counts."""
        self._times = {kind: SyncTimes() for kind in _WATCHED}
        log, *others = self._times.values()
        self._disk_watch = DiskWatch(log, others, STALL_SECONDS, TRUST_SECONDS)

    def started(self) -> None:
        """Look at the disk every LOOK_SECONDS, once per process."""
        node = self._node
        if node.up and node.boot != self._looks_since:
            self._looks_since = node.boot
            node.scheduler.after(LOOK_SECONDS, self._look, node.boot)

    def sync_begins(self, work: SyncWork) -> None:
        """Note its begin."""
        if work.kind in self._times:
            self._times[work.kind].begin(work.kind, self._node.now)

    def sync_ended(self, work: SyncWork, error: OSError | None) -> None:
        """Note its end; a file that found no space is tried again later."""
        if work.kind in self._times:
            self._times[work.kind].end(self._node.now)
        elif work.kind == "prepare":
            self._made(work, error)

    def _made(self, work: SyncWork, error: OSError | None) -> None:
        """A file of the log was made ahead, or there is no space for it."""
        if error is None:
            self._disk_watch.full = ""
        elif is_out_of_space(error):
            self._disk_watch.full = f"no space for more of the log: {error}"
            again = (self._node.boot, work)
            self._node.scheduler.after(ROOM_SECONDS, self._make_again, again)

    def _make_again(self, unmade: tuple[int, SyncWork]) -> None:
        boot, work = unmade
        if boot == self._node.boot and self._node.replica is not None:
            self._node.start_sync(work)

    def _look(self, boot: int) -> None:
        node = self._node
        if boot != node.boot or node.replica is None:
            return
        node.step(self._checked, self._disk_watch.look(node.now))
        node.scheduler.after(LOOK_SECONDS, self._look, boot)

    def _checked(self, found: DiskChecked) -> None:
        replica = self._node.replica
        if replica is not None:
            replica.looked(found, self._node.now)
            self.seen[replica.node.disk.health] += 1
