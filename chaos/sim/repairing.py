"""A simulated machine that repairs and scrubs its log, as a real node does."""

from __future__ import annotations

from typing import Any

from chaos.sim.node import NEVER, SimNode
from chaos.sim.watched import WatchedNode
from dledger.repair.repair import RepairSettings
from dledger.replica.ports import SyncWork

#: The whole of these small logs is read within a second, and again a second later.
SETTINGS = RepairSettings(bytes_per_second=1 << 20, piece_bytes=4096, first_after=0.2, pause=1.0)
#: The same beside all else that a seed has to do: a third of the passes, in larger pieces.
SELDOM = RepairSettings(bytes_per_second=1 << 20, piece_bytes=16384, first_after=0.2, pause=3.0)
#: Between two looks at what is due.
PAUSE_MIN = 0.001


class RepairingNode(SimNode):
    """Rotten bytes on a minority are its own business: no operator restores them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mend = SETTINGS
        self._tend_at = NEVER

    def start(self) -> None:
        self.disk.heals = True
        super().start()
        if self.machine is not None:
            self.machine.repaired = True
            self.step(self._tend)

    def _sync_ended(self, work: SyncWork, error: OSError | None) -> None:
        super()._sync_ended(work, error)
        if work.kind == "mend":
            self._tend()

    def _tend(self) -> None:
        if self.replica is None:
            return
        due = self.replica.tend(self.now)
        if due < NEVER:
            self._tend_at = self.scheduler.now + max(PAUSE_MIN, due - self.now)
            self.scheduler.at(self._tend_at, self._tend_due, (self.boot, self._tend_at))

    def _tend_due(self, set_for: tuple[int, float]) -> None:
        if set_for == (self.boot, self._tend_at):
            self.step(self._tend)


class RepairingWatchedNode(RepairingNode, WatchedNode):
    """Both."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.mend = SELDOM
