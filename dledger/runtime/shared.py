"""Parts that a node has by itself, or shares with the other groups of its host (host_parts.py)."""

from __future__ import annotations

from collections.abc import Callable

from dledger.runtime.host_parts import HostParts
from dledger.runtime.owned import Owned
from dledger.runtime.sync_thread import QUEUE_OF, DiskQueue, Done, SyncThread
from dledger.runtime.turns import Share, Turns


def disk_queues(
    host: HostParts | None, node_id: str, owned: Owned, done: Done, now: Callable[[], float]
) -> dict[str, DiskQueue]:
    """The queues for disk work by name: of the host's threads, or a thread for each."""
    names = set(QUEUE_OF.values())
    if host is not None:
        return {name: host.disk_queue(name, owned, done, now) for name in names}
    return {name: SyncThread(f"dledger-{node_id}-{name}", owned, done, now) for name in names}


def share_of(host: HostParts | None, owned: Owned, go_on: Callable[[], object]) -> Share:
    """This node's share of the turns in which entries are applied: all of them, or the host's."""
    turns = Turns(owned) if host is None else host.turns
    return turns.share(owned, go_on)
