"""Three replicas on logs in files of a disk in memory: the shipping storage, repair and codec.

Time and messages move when a test says so. Data files hold four or five entries, the tail cache
next to nothing, so that reads come from the disk.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration
from dledger.core.messages import Message
from dledger.core.types import Index, NodeId, Role, Term
from dledger.durable.identity import Identity
from dledger.errors import DledgerError
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.repair.repair import RepairSettings
from dledger.replica.ports import Proposal, SyncWork
from dledger.replica.replica import Replica
from dledger.replica.request_ids import draw_first_id
from dledger.snapshots.prefix import Prefix
from dledger.wire.frames import FrameDecoder
from dledger.wire.messages import decode, encode
from tests.dledger.log.crash_files import CrashDisk

DATA_FILE_SIZE = 1024
INDEX_FILE_SIZE = 512
FOLDER = Path("/node")
NOOP = b"n" * 64
#: Passes follow each other at once, so that a test waits for nothing.
EAGER = RepairSettings(bytes_per_second=1 << 30, piece_bytes=700, first_after=0.0, pause=0.1)
#: Only what a read meets is mended.
LAZY = RepairSettings(bytes_per_second=0)
#: A node is whole again within it.
SECONDS_MAX = 4.0


class FileHost:
    """One node: its disk, and the process on it while there is one."""

    def __init__(self, name: str, group: FileGroup) -> None:
        self.name, self.group = NodeId(name), group
        self.disk, self.random = CrashDisk(), Random(name)
        identity = Identity("cluster", "group", self.name, DATA_FILE_SIZE, INDEX_FILE_SIZE)
        format_node(FOLDER, identity, incarnation=int(name[1:]) + 1, files=self.disk)
        self.work: list[SyncWork] = []
        self.applied: dict[int, bytes] = {}
        self.storage: NodeStorage | None = None
        self._replica: Replica | None = None

    @property
    def replica(self) -> Replica:
        assert self._replica is not None, f"{self.name} is not up"
        return self._replica

    @property
    def up(self) -> bool:
        return self._replica is not None

    def boot(self) -> None:
        """Start on whatever is on the disk. Raises StoreError, DledgerError."""
        group = self.group
        self.work, self.applied = [], {}
        self.disk.locks.clear()
        self.storage = open_node(
            FOLDER,
            cluster_id="cluster",
            group="group",
            node_id=self.name,
            clock=lambda: group.now,
            files=self.disk,
            repairable=group.mend is not None,
            refilled=len(group.hosts) > 1,
            cache_size_max=group.cache_size_max,
        )
        voters, prefix = tuple(group.hosts), self.prefix()
        self._replica = Replica(
            CoreConfig(node_id=self.name, voters=voters, frame_bytes_max=600),
            self.storage.log,
            self.storage.hard_state,
            self,
            self,
            noop_body=lambda _term: NOOP,
            jitter=self.random.random,
            now=group.now,
            first_id=draw_first_id(),
            applied=Index(max(self.applied, default=-1)),
            prefix=prefix,
            repair_settings=group.mend,
        )
        self._replica.start(group.now)
        for other in group.hosts.values():
            if other is not self and other.up:
                other.replica.disconnected(self.name, group.now)

    def prefix(self) -> Prefix | None:
        """What deletes the log's beginning, and takes another one's; None: it stays for ever."""
        return None

    def stop(self) -> None:
        """End cleanly: everything is marked, the index files too."""
        assert self.storage is not None
        self.replica.stop(self.group.now)
        while self.work:
            work = self.work.pop(0)
            work.task.run()
            self.replica.sync_done(work, None, self.group.now)
        self.storage.close()
        self._replica = self.storage = None

    def kill(self) -> None:
        self._replica, self.storage, self.work = None, None, []
        self.disk.restart()

    # ports and state machine

    def send(self, to: NodeId, message: Message) -> None:
        if not self.group.cut & {self.name, to}:
            frame = b"".join(bytes(part) for part in encode(message))
            self.group.wires.append((self.name, to, frame))

    def configuration_changed(self, configuration: Configuration, index: Index) -> None:
        raise AssertionError("this group does not change")

    def start_sync(self, work: SyncWork) -> None:
        self.work.append(work)

    def apply(self, first: Index, last: Index) -> None:
        for entry in self.replica.log.entries(first, last):
            self.applied[entry.header.sequence] = bytes(entry.body)

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Nobody here asks."""

    def step(self) -> None:
        """All disk work that is under way ends, and what is due is done."""
        for work in [*self.work]:
            if work in self.work:
                self.work.remove(work)
                error: OSError | None = None
                try:
                    work.task.run()
                except OSError as failed:
                    error = failed
                self.replica.sync_done(work, error, self.group.now)
        if self.replica.failure is None:
            if self.replica.pace.is_behind:
                self.replica.go_on(self.group.now)
            if self.replica.deadline() <= self.group.now:
                self.replica.timer(self.group.now)
            self.replica.tend(self.group.now)


class FileGroup:
    """The nodes and the wires between them."""

    host_class: type[FileHost] = FileHost

    def __init__(
        self, count: int = 3, *, mend: RepairSettings | None = EAGER, cache_size_max: int = 0
    ) -> None:
        self.now, self.mend, self.cache_size_max = 0.0, mend, cache_size_max
        self.wires: list[tuple[NodeId, NodeId, bytes]] = []
        self.cut: set[NodeId] = set()  # whom no message reaches or leaves
        self.hosts = {NodeId(f"n{i}"): self.host_class(f"n{i}", self) for i in range(count)}
        for host in self.hosts.values():
            host.boot()

    def __getitem__(self, name: str) -> FileHost:
        return self.hosts[NodeId(name)]

    def run(self, seconds: float) -> None:
        """Let time pass in steps of 50 ms."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.05
            for _ in range(40):
                for host in self.hosts.values():
                    if host.up:
                        host.step()
                if not self.wires:
                    break
                self._deliver()

    def _deliver(self) -> None:
        wires, self.wires = self.wires, []
        for source, target, frame in wires:
            host = self.hosts[target]
            decoder = FrameDecoder()
            done = 0
            while done < len(frame):
                room = decoder.get_buffer()
                part = frame[done : done + len(room)]
                room[: len(part)] = part
                done += len(part)
                for found in decoder.frames(len(part)):
                    if host.up:
                        host.replica.receive(decode(found, source), self.now)

    @property
    def leader(self) -> FileHost:
        leaders = [h for h in self.hosts.values() if h.up and h.replica.node.role is Role.LEADER]
        assert len(leaders) == 1, [h.name for h in leaders]
        return leaders[0]

    def elect(self) -> FileHost:
        self.run(2.0)
        return self.leader

    def fill(self, count: int, size: int = 150) -> None:
        """Append entries and have them committed, applied and marked everywhere."""
        for number in range(count):
            outcome: list[DledgerError | None] = []
            body = f"message {number} ".encode().ljust(size, b".")
            proposal = Proposal([body], lambda _, error, out=outcome: out.append(error))
            self.leader.replica.propose(proposal, self.now)
            self.run(0.05)
            assert outcome == [None]
        self.run(0.5)

    def place(self, name: str, index: int) -> tuple[Path, int]:
        """File and offset of a record."""
        storage = self[name].storage
        assert storage is not None
        number, offset = divmod(storage.log.position_of(Index(index)), DATA_FILE_SIZE)
        return FOLDER / "data" / f"{number * DATA_FILE_SIZE:020}", offset

    def rot(self, name: str, index: int, at: int = 60, mask: int = 1) -> None:
        """Flip a bit of a record on one node's disk."""
        path, offset = self.place(name, index)
        self[name].disk.flip(path, offset + at, mask)

    def files(self, name: str) -> dict[str, bytes]:
        """What the log's files hold, data and index; files made ahead hold nothing."""
        disk = self[name].disk
        return {
            f"{folder}/{file}": content
            for folder in ("data", "index")
            for file in disk.list(FOLDER / folder)
            if any(content := disk.read(FOLDER / folder / file))
        }


def filled() -> tuple[FileGroup, FileHost]:
    """A group of nine entries in two files, and a follower of it."""
    group = FileGroup()
    leader = group.elect()
    group.fill(8)
    return group, next(host for host in group.hosts.values() if host is not leader)


def until_whole(group: FileGroup, victim: FileHost, files: dict[str, bytes]) -> None:
    """Wait until the victim's files are as they were; what it applies meanwhile is right."""
    wanted = group.leader.applied
    end = group.now + SECONDS_MAX
    while group.now < end:
        group.run(0.1)
        assert victim.applied.items() <= wanted.items()
        assert victim.replica.failure is None
        if victim.applied == wanted and group.files(victim.name) == files:
            return
    raise AssertionError("it is not mended")
