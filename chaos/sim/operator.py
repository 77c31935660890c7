"""The simulated operator, which looks after the machines: failed disks, rotten bytes, stopped
processes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.sim.network import Network
from chaos.sim.node import SimNode
from chaos.sim.rot import Rot


class Operator:
    """Comes by now and then, and in the end makes everything whole."""

    def __init__(self, nodes: Sequence[SimNode], random: Random, rot: Rot) -> None:
        self._nodes, self._random, self._rot = nodes, random, rot

    def come_by(self) -> None:
        """Look at about half of the machines."""
        for node in self._nodes:
            if self._random.random() < 0.5:
                self._repair_disk(node)

    def _repair_disk(self, node: SimNode) -> None:
        failed = _failed(node)
        if not (failed or node.refused):
            return
        if node.repair_settings is None or node.refused:
            self._rot.undo(node)
        node.disk.repair()
        if failed:
            node.crash(power=self._random.random() < 0.5)
        node.excused = False
        node.start()

    def heal_all(self, network: Network) -> None:
        """End every fault: the liveness phase begins."""
        network.open_all()
        for node in self._nodes:
            node.slow = 1.0
            node.resume()
            node.free_disk()
            failed = _failed(node)
            if node.repair_settings is None or node.refused:
                self._rot.undo(node)
            node.disk.repair()
            if failed or (node.excused and node.up):
                node.crash(power=False)
            node.excused = False
            node.start()


def _failed(node: SimNode) -> bool:
    """True if the node's process runs and its replica has failed."""
    return node.replica is not None and node.replica.failure is not None
