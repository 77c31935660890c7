"""Both copies of a small file of one machine are lost, by rot or by a deletion."""

from __future__ import annotations

from chaos.sim.node import SimNode
from chaos.sim.storage import INTENT_FILE

#: Bytes that are no slot.
_SPOILT = b"\xa5"


def forgets(name: str) -> bool:
    """Was a promise in the file, so that the machine goes on as another incarnation?"""
    return name != INTENT_FILE


def lose(node: SimNode, name: str, *, deleted: bool) -> None:
    """Ends the process, loses both copies on the disk as well, and starts the machine again."""
    assert node.incarnations is not None
    assert node.network is not None
    node.crash(power=node.random.random() < 0.5)
    if forgets(name):
        node.network.forget(node.index)
        node.incarnations[node.index] += 1000
        node.flushed_at_vote = -1
    if deleted:
        node.disk.names.lose(name)
    else:
        inode = node.disk.names.seen[name]
        inode.data = bytearray(_SPOILT * len(inode.data))
        inode.durable = bytearray(inode.data)
        inode.pending.clear()
        node.disk.flips.pop(name, None)
    node.start()
