"""What each replica's own files hold, read from disk after its process ended.

Nothing of a broker, queue or index is asked: the log itself is opened, recovered as a start would
recover it, verified record by record, and every message of one topic is listed.
"""

from __future__ import annotations

import time
from pathlib import Path

from cluster.local.launcher import LocalCluster
from commitlog.message import decode_message
from dledger.core.types import Index
from dledger.storage.node_storage import open_node

# The group that RaftConfig names by default.
GROUP = "default"

Log = list[tuple[int, str]]


def read_replica(
    folder: Path, *, cluster_id: str, node_id: str, topic: str, group: str = GROUP
) -> Log:
    """(position, key) of every message of `topic`, in the order of the log.

    Raises an error of `dledger` or `commitlog` when the folder is in use or damaged.
    """
    storage = open_node(
        folder, cluster_id=cluster_id, group=group, node_id=node_id, clock=time.monotonic
    )
    try:
        log = storage.log
        wanted = topic.encode()
        found: Log = []
        for entry in log.entries(log.first_index, Index(log.last.index)):
            # Cheap look first: most of a large log is of other topics, or of none (no-ops).
            if wanted not in bytes(entry.body):
                continue
            message = decode_message(entry.body)
            if message.topic == topic:
                found += [(message.physical_offset, key) for key in message.keys]
        return found
    finally:
        storage.close()


def read_all(cluster: LocalCluster, topic: str) -> dict[str, Log]:
    """Every replica's messages of `topic`; the cluster must be stopped."""
    return {
        name: read_replica(
            cluster.folder(name) / "data" / f"dledger-{name}",
            cluster_id=cluster.profile.cluster_id,
            node_id=name,
            topic=topic,
        )
        for name in cluster.brokers
    }
