"""Small logs that are backed up, and the nodes that are made of backups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commitlog.files.system import OS_FILES
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.message_layout import PHYSICAL_OFFSET_AT
from dledger.config import RaftConfig
from dledger.core.types import Index, Term
from dledger.log.file_log import FileLog
from dledger.log.node_storage import NodeStorage, open_node
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.dledger.log.stores import Clock, make, mark, reopen, sync

HOST = bytes(4) + (0).to_bytes(4, "big")
FIRST_MS = 1_700_000_000_000


def message(number: int, size: int = 150) -> bytearray:
    """Stored one second after the one before."""
    now_ms = FIRST_MS + number * 1000
    body = f"message {number} ".encode().ljust(size, b".")
    field = topic_field("letters")
    return encode_record(
        field,
        b"",
        body,
        0,
        0,
        0,
        now_ms,
        HOST,
        HOST,
        queue_offset=number,
        store_timestamp_ms=now_ms,
    )


class Source:
    """A node's log of messages in `folder`, open as a running node has it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()
        make(OS_FILES, folder).close()
        self.storage: NodeStorage = reopen(OS_FILES, folder, clock=self.clock)

    @property
    def log(self) -> FileLog:
        return self.storage.log

    def add(self, count: int, term: int = 1, size: int = 150) -> None:
        """Append messages, on disk and committed."""
        for _ in range(count):
            body = message(self.log.last.index + 1, size)
            self.log.append([body], Term(term), stamp_at=PHYSICAL_OFFSET_AT)
        sync(self.log)
        self.log.save_commit(self.log.last.index)

    def trim(self, position: int, state: bytes) -> None:
        """Delete the files below `position`, whose state is kept."""
        for _ in range(2):  # both slots of the flush mark pass it
            self.clock.now += 10
            self.add(1)
            mark(self.log)
        start = self.log.start_at(position, "")
        SnapshotFolder(OS_FILES, self.folder).save(start, state)
        task = self.log.begin_trim(start)
        assert task is not None
        task.run()
        self.log.finish_trim(task)


def nodes(root: Path, count: int = 3) -> list[RaftConfig]:
    """Settings of a new group's nodes; their folders are below `root`."""
    peers = {f"m{number}": ("127.0.0.1", 1 + number) for number in range(count)}
    return [
        RaftConfig(name, peers, root / name, group="group", cluster_id="restored") for name in peers
    ]


def opened(raft: RaftConfig) -> NodeStorage:
    """The folder of a restored node."""
    return open_node(
        Path(raft.data_dir),
        cluster_id=raft.cluster_id,
        group=raft.group,
        node_id=raft.node_id,
        clock=Clock(),
    )


def entries(log: FileLog, last: int | None = None) -> list[tuple[int, int, int, int, bytes]]:
    """(index, term, position, chain checksum, body) of each entry up to `last`."""
    end = log.last.index if last is None else Index(last)
    if end < log.first_index:
        return []
    return [
        (
            entry.header.sequence,
            entry.header.epoch,
            entry.header.position,
            entry.header.chain_crc,
            bytes(entry.body),
        )
        for entry in log.entries(log.first_index, end)
    ]


def same(logs: Sequence[FileLog]) -> bool:
    """Do all hold the same entries?"""
    return all(entries(log) == entries(logs[0]) for log in logs)
