"""A fresh replica gets a log and is killed at every boundary of a chunk: it goes on each time.

By append frames from a leader that has everything, and by a state and then frames from one whose
beginning is gone. A chunk's boundary has two edges, met by turns: its bytes are there and not yet
on disk, and they are on disk and nobody has been told. What is received in all may be the log, the
state, and one chunk for each kill. Small on a disk that forgets what was not synced (power cuts),
64 MiB on real files (killed processes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from commitlog.files.system import OS_FILES, FileSystem
from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration
from dledger.core.messages import AppendEntries, Message, SnapshotChunk
from dledger.core.types import Index, NodeId, Role, Term
from dledger.durable.identity import Identity
from dledger.log.file_log import FileLog
from dledger.log.log_start import LogStart
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.replica.ports import SyncWork
from dledger.replica.replica import Replica
from dledger.replica.request_ids import draw_first_id
from dledger.snapshots.prefix import Prefix, ReceiveTask
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.wire.frames import FRAME_BYTES_MAX, FrameDecoder
from dledger.wire.messages import decode, encode
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import mark, sync

LEADER, FRESH = NodeId("n0"), NodeId("n1")
COMPARED_BYTES = 1 << 20


@dataclass(frozen=True)
class Sizes:
    """In bytes. `gone`: of the log's beginning, in the leader that has deleted some of it."""

    log: int
    file: int
    body: int
    frame: int
    gone: int
    state: int
    state_chunk: int


SMALL = Sizes(64 << 10, 8 << 10, 300, 2 << 10, 24 << 10, 5_000, 512)
LARGE = Sizes(64 << 20, 8 << 20, 16_000, 1 << 20, 16 << 20, 4 << 20, 256 << 10)


@dataclass
class Node:
    """One machine: its files stay, its process comes and goes."""

    name: NodeId
    pair: Pair
    files: FileSystem
    folder: Path
    state: bytes = b""
    work: list[SyncWork] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizes = self.pair.sizes
        identity = Identity("cluster", "group", self.name, sizes.file, 32 * 4096)
        format_node(self.folder, identity, incarnation=int(self.name[1:]) + 1, files=self.files)
        self.open()

    @property
    def log(self) -> FileLog:
        return self.storage.log

    def open(self) -> None:
        self.storage: NodeStorage = open_node(
            self.folder,
            cluster_id="cluster",
            group="group",
            node_id=self.name,
            clock=lambda: self.pair.now,
            files=self.files,
        )
        self.states = SnapshotFolder(self.files, self.folder)

    def boot(self) -> None:
        log, sizes = self.log, self.pair.sizes
        if log.start is not None:
            self.state = self.states.load(log.start)
        config = CoreConfig(
            node_id=self.name,
            voters=(LEADER, FRESH),
            frame_bytes_max=sizes.frame,
            snapshot_chunk_bytes_max=sizes.state_chunk,
        )
        self.replica = Replica(
            config,
            log,
            self.storage.hard_state,
            self,
            self,
            noop_body=lambda _term: b"noop".ljust(64),
            jitter=lambda: 0.5,
            now=self.pair.now,
            first_id=draw_first_id(),
            prefix=Prefix(log, self.states, self.restore),
        )
        self.replica.start(self.pair.now)

    def die(self) -> None:
        """Nothing is written any more: the process is gone, or the machine with its cache."""
        self.work = []
        self.storage.close(failed=True)
        if isinstance(self.files, CrashDisk):
            self.files.crash(keep=0.0)
            self.files.locks.clear()
        self.open()
        self.boot()

    # state machine and ports

    def restore(self, start: LogStart, state: bytes) -> None:
        self.state = state

    def apply(self, first: Index, last: Index) -> None: ...

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        assert role is not Role.FAILED

    def send(self, to: NodeId, message: Message) -> None:
        frame = b"".join(bytes(part) for part in encode(message))
        self.pair.wires.append((self.name, to, frame))

    def configuration_changed(self, configuration: Configuration, index: Index) -> None: ...

    def start_sync(self, work: SyncWork) -> None:
        self.work.append(work)


@dataclass
class Counted:
    """Of the log or of the state: bytes that reached the fresh replica, kills at its chunks."""

    received: int = 0
    kills: int = 0


@dataclass
class Pair:
    """A leader with a log, and a fresh replica that is killed at every chunk."""

    sizes: Sizes
    now: float = 0.0
    of_log: Counted = field(default_factory=Counted)
    of_state: Counted = field(default_factory=Counted)
    #: Where the fresh replica's log ended after each kill.
    ends: list[int] = field(default_factory=list)
    wires: list[tuple[NodeId, NodeId, bytes]] = field(default_factory=list)

    def begin(self, files: tuple[FileSystem, FileSystem], folder: Path, *, trimmed: bool) -> None:
        self.leader = Node(LEADER, self, files[0], folder / LEADER)
        self._fill(trimmed=trimmed)
        self.fresh = Node(FRESH, self, files[1], folder / FRESH)
        for node in (self.leader, self.fresh):
            node.boot()
        self.now += 2.0
        self.leader.replica.timer(self.now)
        self.deliver()
        assert self.leader.replica.node.role is Role.LEADER

    def _fill(self, *, trimmed: bool) -> None:
        random, log, sizes = Random(7), self.leader.log, self.sizes
        while log.end_position + sizes.body < sizes.log:
            log.append([random.randbytes(sizes.body)], Term(1))
        sync(log)
        mark(log)
        if not trimmed:
            return
        self.leader.state = random.randbytes(sizes.state)
        start = log.start_at(sizes.gone)
        self.leader.states.save(start, self.leader.state)
        assert log.begin_trim(start) is None, "the mark is in one slot"
        mark(log)
        task = log.begin_trim(start)
        assert task is not None
        task.run()
        log.finish_trim(task)

    def deliver(self) -> None:
        while self.wires or self.leader.work or self.fresh.work:
            self._work(self.leader)
            self._work(self.fresh)
            if self.wires:
                sender, to, frame = self.wires.pop(0)
                self._receive(self.leader if to == LEADER else self.fresh, sender, frame)

    def _receive(self, node: Node, sender: NodeId, frame: bytes) -> None:
        for message in _messages(frame, sender):
            if isinstance(message, AppendEntries):
                self.of_log.received += message.size
            elif isinstance(message, SnapshotChunk):
                self.of_state.received += len(message.data or b"")
            node.replica.receive(message, self.now)

    def _work(self, node: Node) -> None:
        for work in list(node.work):
            if node is self.fresh and _is_chunk(work):
                self._kill_at(work)
                return
            node.work.remove(work)
            work.task.run()
            node.replica.sync_done(work, None, self.now)

    def _kill_at(self, work: SyncWork) -> None:
        counted = self.of_log if work.kind == "log" else self.of_state
        if counted.kills % 2:  # on disk, and nobody hears of it
            work.task.run()
        counted.kills += 1
        self.wires.clear()
        self.fresh.die()
        self.ends.append(self.fresh.log.end_position)
        self.leader.replica.disconnected(FRESH, self.now)

    def join(self) -> None:
        """Time passes until the fresh replica has everything on disk.

        Two lives for each chunk are enough, because one kill of two is behind the sync of its
        chunk; a leader sends again after half a second at most.
        """
        chunks = self.sizes.log // self.sizes.frame + self.sizes.state // self.sizes.state_chunk
        for _ in range(2 * 6 * (chunks + 8)):
            self.now += 0.1
            self.leader.replica.timer(self.now)
            self.deliver()
            assert self.leader.replica.node.role is Role.LEADER
            if self.leader.replica.node.progress[FRESH].flushed == self.leader.log.last.index:
                return
        raise AssertionError(f"no end: log {self.of_log}, state {self.of_state}")


def _is_chunk(work: SyncWork) -> bool:
    """Its end is the boundary of a chunk; an offer of a state has no bytes."""
    task = work.task
    return work.kind == "log" or (isinstance(task, ReceiveTask) and bool(task.message.data))


def _messages(frame: bytes, sender: NodeId) -> Iterator[Message]:
    decoder = FrameDecoder(FRAME_BYTES_MAX)
    while frame:
        room = decoder.get_buffer()
        size = min(len(room), len(frame))
        room[:size] = frame[:size]
        frame = frame[size:]
        for found in decoder.frames(size):
            yield decode(found, sender)


def check(pair: Pair, *, trimmed: bool) -> None:
    """Received once but for one chunk a kill; never begun anew; the same bytes in the end."""
    sizes, leader, fresh = pair.sizes, pair.leader.log, pair.fresh.log
    of_log, of_state = pair.of_log, pair.of_state
    behind = leader.end_position - leader.first_position
    assert of_log.kills >= behind // sizes.frame
    assert behind <= of_log.received <= behind + of_log.kills * sizes.frame
    assert pair.ends == sorted(pair.ends), "what was received stays"
    assert of_state.kills >= 2 * (sizes.state // sizes.state_chunk) * trimmed
    state = sizes.state * trimmed
    assert state <= of_state.received <= state + of_state.kills * sizes.state_chunk
    assert pair.fresh.state == pair.leader.state
    assert len(pair.fresh.state) == state
    assert (fresh.first_index, fresh.last) == (leader.first_index, leader.last)
    assert leader.first_position == sizes.gone * trimmed
    for position in range(leader.first_position, leader.end_position, COMPARED_BYTES):
        part = fresh.read_bytes(position, COMPARED_BYTES)
        assert part == leader.read_bytes(position, COMPARED_BYTES), position


@pytest.mark.parametrize("trimmed", [False, True], ids=["frames", "state-and-frames"])
def test_power_cuts_at_every_chunk_of_a_small_log(trimmed: bool) -> None:
    pair = Pair(SMALL)
    pair.begin((CrashDisk(), CrashDisk()), Path("/"), trimmed=trimmed)
    pair.join()
    check(pair, trimmed=trimmed)


@pytest.mark.long
@pytest.mark.parametrize("trimmed", [False, True], ids=["frames", "state-and-frames"])
def test_kills_at_every_chunk_of_64_mib_in_files(tmp_path: Path, trimmed: bool) -> None:
    pair = Pair(LARGE)
    pair.begin((OS_FILES, OS_FILES), tmp_path, trimmed=trimmed)
    try:
        pair.join()
        check(pair, trimmed=trimmed)
    finally:
        for node in (pair.leader, pair.fresh):
            node.storage.close(failed=True)
