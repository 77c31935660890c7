"""Reads the messages in each replica's own files from disk, after its process ended.

Without broker, queues and index: it opens the log itself, recovers it as a start would, verifies
it record by record, and lists every message of some topics.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from chaos.workloads import value_of
from cluster.local.launcher import LocalCluster
from commitlog.records.message import Message, decode_message
from dledger.core.types import Index
from dledger.log.file_log import FileLog
from dledger.log.node_storage import open_node

# The group that RaftConfig names by default.
GROUP = "default"

Log = list[tuple[int, str]]


def log_begins(folder: Path, *, cluster_id: str, node_id: str, group: str = GROUP) -> int:
    """Address of the first byte that the log still has. Raises as `read_queues`."""
    with opened(folder, cluster_id=cluster_id, node_id=node_id, group=group) as log:
        return log.position_of(log.first_index) if log.first_index else 0


def read_queues(
    folder: Path,
    *,
    cluster_id: str,
    node_id: str,
    topics: Mapping[str, str],
    group: str = GROUP,
    begins: int = 0,
) -> dict[str, Log]:
    """Queue ("q0", …) → (queue offset, value) of every message of `topics`, as `chaos.workloads`
    writes them. `topics`: name → the letter of its queues. `begins`: messages at lower addresses
    are left out.

    Raises an error of `dledger` or `commitlog` when the folder is in use or damaged.
    """
    found: dict[str, Log] = {}
    with opened(folder, cluster_id=cluster_id, node_id=node_id, group=group) as log:
        for message in _of_topics(log, topics):
            if message.physical_offset < begins:
                continue
            row = (message.queue_offset, value_of(message.body))
            found.setdefault(f"{topics[message.topic]}{message.queue_id}", []).append(row)
    return found


def read_replica(
    folder: Path, *, cluster_id: str, node_id: str, topic: str, group: str = GROUP
) -> Log:
    """(position, key) of every message of `topic`, in the order of the log.

    Raises an error of `dledger` or `commitlog` when the folder is in use or damaged.
    """
    with opened(folder, cluster_id=cluster_id, node_id=node_id, group=group) as log:
        return [
            (message.physical_offset, key)
            for message in _of_topics(log, (topic,))
            for key in message.keys
        ]


@contextlib.contextmanager
def opened(folder: Path, *, cluster_id: str, node_id: str, group: str = GROUP) -> Iterator[FileLog]:
    """A replica's log, recovered as a start would recover it. Raises as `read_replica`."""
    storage = open_node(
        folder, cluster_id=cluster_id, group=group, node_id=node_id, clock=time.monotonic
    )
    try:
        yield storage.log
    finally:
        storage.close()


def _of_topics(log: FileLog, topics: Collection[str]) -> Iterator[Message]:
    wanted = [topic.encode() for topic in topics]
    for entry in log.entries(log.first_index, Index(log.last.index)):
        # Cheap look first: most of a large log is of other topics, or of none (no-ops).
        body = bytes(entry.body)
        if not any(name in body for name in wanted):
            continue
        message = decode_message(body)
        if message.topic in topics:
            yield message


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
