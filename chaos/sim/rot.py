"""Flips bits in synced bytes (bit rot), and restores them as an operator would.

In the log only what a node must notice as damage is hit: records at or below the durable flush mark
(R1). It is undone before the final judgement ("restored from a backup"), or repaired by the nodes
themselves (`--repair`), and at most a minority of the voters holds such rot, or has lost its disk
and does not vote yet, at any time: more could be every copy of an entry. A node that repairs itself
may also find its index files gone when it starts, and the rotten entry is often a configuration.

The small files have two slots; one of them rots while the process is down, and the next process
must live on the other one as if nothing had happened (D2, R7). Nothing is undone there.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from chaos.sim.disk import SECTOR_SIZE
from chaos.sim.members import Churn
from chaos.sim.node import SimNode
from chaos.sim.storage import DOUBLE_SLOT_FILES, FOLDER, marked_byte, marked_bytes, slots_of
from dledger.durable.double_slot import SLOT_SIZE

#: Bytes of a slot that matter: its head and the start of its payload.
SLOT_BYTES_USED = 24


class Rot:
    """The flipped bits of each node, so that they can be undone."""

    def __init__(self, nodes: Sequence[SimNode], churn: Churn | None = None) -> None:
        self._nodes, self._churn = nodes, churn
        self._flipped: dict[int, list[tuple[str, int, int]]] = {node.index: [] for node in nodes}

    def forget(self, node: SimNode) -> None:
        """Forget the flipped bits of a node, because its disk was replaced."""
        self._flipped[node.index] = []

    def begin(self, node: SimNode, random: Random) -> None:
        """Flip a bit somewhere on the disk of `node`."""
        if random.random() < 0.4:
            _in_a_slot(node, random)
        else:
            self._in_the_log(node, random)

    def _in_the_log(self, node: SimNode, random: Random) -> None:
        """If the atlas allows it; the node is restarted most of the time."""
        if not self._may_rot(node):
            return
        assert node.storage is not None
        wanted = None
        if node.repair_settings is not None and node.group is not None and random.random() < 0.3:
            wanted = node.replica.node.configuration_index if node.replica is not None else None
        place = marked_byte(node.disk, node.storage, node.view, random, wanted)
        if place is None:
            return
        name, position = place
        mask = 1 << random.randrange(8)
        node.excused |= node.repair_settings is None
        if position in node.disk.flips.get(name, {}):
            return
        self._flip(node, name, position, mask)
        if random.random() < 0.7:
            node.crash(power=random.random() < 0.5)
            if node.repair_settings is not None and random.random() < 0.5:
                _lose_index(node)
            node.start()

    def roll_back(self, node: SimNode, random: Random) -> None:
        """A part of a record is as it was before its write: zeros. The node starts over that."""
        if not self._may_rot(node):
            return
        assert node.storage is not None
        found = marked_bytes(node.disk, node.storage, node.view, random)
        if found is None:
            return
        name, begin, left = found
        node.excused |= node.repair_settings is None
        data = node.disk.names.seen[name].data
        for position in range(begin, begin + min(left, SECTOR_SIZE)):
            if data[position] and position not in node.disk.flips.get(name, {}):
                self._flip(node, name, position, data[position])
        node.crash(power=False)
        node.start()

    def holds(self, node: SimNode) -> bool:
        """Is there rot in its log that it has not repaired by itself?"""
        return bool(self._left(node))

    def _may_rot(self, node: SimNode) -> bool:
        is_readable = node.storage is not None and not node.disk.read_error
        return is_readable and self.may_lose(node)

    def may_lose(self, node: SimNode) -> bool:
        """May something be lost on its disk? Never on more disks than a minority."""
        voters = len(self._nodes) if self._churn is None else self._churn.voters
        lost = {other.index for other in self._nodes if self._left(other)} | {node.index}
        if self._churn is not None and self._churn.lost is not None:
            lost.add(self._churn.lost.index)
        return len(lost) <= (voters - 1) // 2

    def _flip(self, node: SimNode, name: str, position: int, mask: int) -> None:
        node.disk.flip(name, position, mask)
        self._flipped[node.index].append((name, position, mask))

    def undo(self, node: SimNode) -> None:
        """Restore the log's bytes from "a backup"."""
        for name, position, mask in self._left(node):
            if name in node.disk.names.seen:
                node.disk.flip(name, position, mask)
        self._flipped[node.index].clear()

    def _left(self, node: SimNode) -> list[tuple[str, int, int]]:
        """Returns the node's flipped bits that it has not repaired by itself."""
        flips = node.disk.flips
        return [flip for flip in self._flipped[node.index] if flip[1] in flips.get(flip[0], {})]


def _lose_index(node: SimNode) -> None:
    """Deletes the node's index slots. They are a cache, so the node must find the extent of a
    damaged record without them."""
    for name in node.disk.list(FOLDER / "index"):
        node.disk.names.lose(f"{FOLDER}/index/{name}")


def _in_a_slot(node: SimNode, random: Random) -> None:
    """Restart on one slot of a small file."""
    if not node.up:
        return
    node.crash(power=False)
    name = random.choice(DOUBLE_SLOT_FILES)
    if all(slot is not None for slot in slots_of(node.disk, name)):
        number = random.randrange(2)
        position = number * SLOT_SIZE + random.randrange(SLOT_BYTES_USED)
        node.disk.flip(name, position, 1 << random.randrange(8))
    node.start()
