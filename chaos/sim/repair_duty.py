"""Repair and scrubbing of a simulated machine's log, as a real node does both."""

from __future__ import annotations

from chaos.sim.duty import NodeDuty
from chaos.sim.node import NEVER, SimNode
from dledger.repair.repair import RepairSettings
from dledger.replica.ports import SyncWork

#: The whole of these small logs is read within a second, and again a second later.
SETTINGS = RepairSettings(bytes_per_second=1 << 20, piece_bytes=4096, first_after=0.2, pause=1.0)
#: The same beside all else that a seed has to do: a third of the passes, in larger pieces.
SELDOM = RepairSettings(bytes_per_second=1 << 20, piece_bytes=16384, first_after=0.2, pause=3.0)
#: Between two looks at what is due.
PAUSE_MIN = 0.001


class RepairDuty(NodeDuty):
    """The node repairs rotten bytes on a minority of disks by itself; no operator restores them."""

    def __init__(self, node: SimNode, settings: RepairSettings) -> None:
        self._node = node
        self._tend_at = NEVER
        node.repair_settings = settings

    def starting(self) -> None:
        """Tell the disk that rotten bytes may be repaired."""
        self._node.disk.heals = True

    def started(self) -> None:
        """Look for repair work that is due."""
        if self._node.machine is not None:
            self._node.machine.repaired = True
            self._node.step(self._tend)

    def sync_handled(self, work: SyncWork) -> None:
        """After a repair, look for the next."""
        if work.kind == "mend":
            self._tend()

    def _tend(self) -> None:
        node = self._node
        if node.replica is None:
            return
        due = node.replica.tend(node.now)
        if due < NEVER:
            self._tend_at = node.scheduler.now + max(PAUSE_MIN, due - node.now)
            node.scheduler.at(self._tend_at, self._tend_due, (node.boot, self._tend_at))

    def _tend_due(self, set_for: tuple[int, float]) -> None:
        if set_for == (self._node.boot, self._tend_at):
            self._node.step(self._tend)
