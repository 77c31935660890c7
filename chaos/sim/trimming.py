"""Beginnings of logs that go: now here, now there, each node for itself.

That is harsher than a service, whose nodes delete the same files by an entry of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.sim.node import SimNode
from chaos.sim.scheduler import Scheduler
from chaos.sim.states import folder_of
from commitlog.errors import StoreError

#: Between two deletions somewhere in the cluster, seconds at most.
TRIM_GAP_MAX = 1.5


class Trimmer:
    """Deletes a beginning here and there, until it is told to stop."""

    def __init__(self, seed: int, scheduler: Scheduler, nodes: Sequence[SimNode]) -> None:
        self._random = Random(f"dledger-trims-{seed}")
        self._scheduler, self._nodes = scheduler, nodes
        self._stopped = False
        self.begun = 0
        self._again()

    def stop(self) -> None:
        """Deletes no more prefixes in this run."""
        self._stopped = True

    def _again(self) -> None:
        self._scheduler.after(self._random.random() * TRIM_GAP_MAX, self._trim)

    def _trim(self, _: object) -> None:
        if self._stopped:
            return
        node = self._random.choice(self._nodes)
        if node.replica is not None and node.storage is not None and not node.disk.read_error:
            places = [
                p for p in folder_of(node.disk).positions() if p > node.storage.log.first_position
            ]
            if places:
                node.step(self._delete, node, self._random.choice(places))
        self._again()

    def _delete(self, node: SimNode, position: int) -> None:
        if node.replica is None:
            return
        try:
            self.begun += node.replica.trim(position)
        except (OSError, StoreError) as error:
            node.replica.fail(str(error))
