"""The folder of a node that is made here, whole, before the node runs: open, sync, first term."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.config import RaftConfig
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.log.port import LogStore
from dledger.runtime.clock import SystemClock
from dledger.runtime.opening import draw_incarnation

SYNC_BYTES = 64 << 20
"""Written between syncs; bounds dirty memory."""


def open_new(raft: RaftConfig, identity: Identity, files: FileSystem) -> NodeStorage:
    """Format `raft.data_dir` and open it. Raises StoreLayoutError when it is in use, OSError."""
    folder = Path(raft.data_dir)
    format_node(folder, identity, incarnation=draw_incarnation(), files=files)
    return open_node(
        folder,
        cluster_id=raft.cluster_id,
        group=raft.group,
        node_id=raft.node_id,
        clock=SystemClock().now,
        files=files,
    )


def sync(log: LogStore) -> None:
    """All that was appended is on disk when this returns. Raises OSError."""
    task = log.begin_sync()
    if task is not None:
        task.run()
        log.finish_sync(task)


def raise_term(storage: NodeStorage) -> None:
    """No vote is remembered; the first election uses a term above every entry's."""
    state = storage.hard_state.state
    if storage.log.last.term > state.term:
        task = storage.hard_state.begin_save(
            replace(state, term=storage.log.last.term, voted_for=None)
        )
        task.run()
        storage.hard_state.finish_save(task)
