"""Bits that flip in synced bytes, and the operator who puts them back.

In the log only what a node must notice as damage is hit: records at or below the durable flush mark
(R1). It is undone before the final judgement ("restored from a backup"), and at most a minority of
nodes holds such rot at any time.

The small files have two slots; one of them rots while the process is down, and the next process
must live on the other one as if nothing had happened (D2, R7). Nothing is undone there.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.sim.node import SimNode
from chaos.sim.storage import DOUBLE_SLOT_FILES, marked_byte, slots_of
from dledger.storage.double_slot import SLOT_SIZE

#: Bytes of a slot that matter: its head and the start of its payload.
SLOT_BYTES_USED = 24


class Rot:
    """What was flipped, per node, so that it can be undone."""

    def __init__(self, nodes: Sequence[SimNode], random: Random) -> None:
        self._nodes, self._random = nodes, random
        self._flipped: dict[int, list[tuple[str, int, int]]] = {node.index: [] for node in nodes}

    def begin(self, node: SimNode) -> None:
        """Flip a bit somewhere on the disk of `node`."""
        if self._random.random() < 0.4:
            self._in_a_slot(node)
        else:
            self._in_the_log(node)

    def _in_a_slot(self, node: SimNode) -> None:
        """Restart on one slot of a small file."""
        if not node.up:
            return
        node.crash(power=False)
        name = self._random.choice(DOUBLE_SLOT_FILES)
        if all(slot is not None for slot in slots_of(node.disk, name)):
            number = self._random.randrange(2)
            position = number * SLOT_SIZE + self._random.randrange(SLOT_BYTES_USED)
            node.disk.flip(name, position, 1 << self._random.randrange(8))
        node.start()

    def _in_the_log(self, node: SimNode) -> None:
        """If the atlas allows it; the node is restarted most of the time."""
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
        """Restore the log's bytes from "a backup"."""
        for name, position, mask in self._flipped[node.index]:
            if name in node.disk.names.seen:
                node.disk.flip(name, position, mask)
        self._flipped[node.index].clear()
