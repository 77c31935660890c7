"""Bits that flip in synced bytes, and the operator who puts them back.

Only what a node must notice as damage is hit in the log: records at or below the durable flush mark
(R1). The hard state and the mark have two slots; one of them may rot unnoticed, and the process
must live with it. At most a minority of nodes holds rotten log bytes at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.sim.node import SimNode
from chaos.sim.storage import marked_byte


class Rot:
    """What was flipped, per node, so that it can be undone."""

    def __init__(self, nodes: Sequence[SimNode], random: Random) -> None:
        self._nodes, self._random = nodes, random
        self._flipped: dict[int, list[tuple[str, int, int]]] = {node.index: [] for node in nodes}

    def begin(self, node: SimNode) -> None:
        """Flip a bit of the log of `node`, if the atlas allows it, and restart it half the time."""
        minority = (len(self._nodes) - 1) // 2
        rotten = [number for number, flips in self._flipped.items() if flips]
        if len({*rotten, node.index}) > minority or node.storage is None or node.disk.read_error:
            return
        place = marked_byte(node.disk, node.storage, node.view, self._random)
        if place is None:
            return
        name, position = place
        mask = 1 << self._random.randrange(8)
        node.excused = True
        if position in node.disk.flips.get(name, {}):
            return
        node.disk.flip(name, position, mask)
        self._flipped[node.index].append((name, position, mask))
        if self._random.random() < 0.7:
            node.crash(power=self._random.random() < 0.5)
            node.start()

    def undo(self, node: SimNode) -> None:
        """Restore the bytes from "a backup"."""
        for name, position, mask in self._flipped[node.index]:
            if name in node.disk.names.seen:
                node.disk.flip(name, position, mask)
        self._flipped[node.index].clear()
