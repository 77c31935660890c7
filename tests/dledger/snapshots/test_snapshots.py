"""A replica whose beginning is gone, and those who need it: bytes, files and the state machine.

Three replicas on disks that forget; the state machine is the list of all bodies as one text.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from commitlog.errors import StoreDamaged
from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration
from dledger.core.messages import AppendReply, Message, SnapshotChunk, SnapshotReply
from dledger.core.types import EntryId, Index, NodeId, Role, Term
from dledger.errors import DledgerError, MalformedFrame, OutcomeUnknown, RangeRejected
from dledger.log.check import Tail
from dledger.log.log_start import LogStart
from dledger.repair.scrubber import Scrubber
from dledger.replica.ports import Proposal, SyncWork
from dledger.replica.replica import Replica
from dledger.replica.request_ids import draw_first_id
from dledger.snapshots.prefix import Prefix
from dledger.snapshots.snapshot_files import SnapshotFolder
from dledger.wire.frames import FrameDecoder
from dledger.wire.messages import decode, encode
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import DATA_FILE_SIZE, FOLDER, Clock, dump, make, reopen

NAMES = tuple(NodeId(f"n{i}") for i in range(3))
NOOP = b"noop".ljust(64)
CHUNK = 30


class _NetClock(Clock):
    """The time of the rules is the storage's, too."""

    def __init__(self, net: Net) -> None:
        self._net = net

    def __call__(self) -> float:
        return self._net.now


@dataclass
class Host:
    """One machine: its disk stays, its process comes and goes."""

    name: NodeId
    net: Net
    disk: CrashDisk = field(default_factory=CrashDisk)
    restored: list[int] = field(default_factory=list)
    errors: list[OSError] = field(default_factory=list)
    by_file = False

    def __post_init__(self) -> None:
        make(self.disk).close()
        self.boot()

    def boot(self) -> None:
        self.work: list[SyncWork] = []
        node = reopen(self.disk, clock=_NetClock(self.net))
        self.log = node.log
        self.folder = SnapshotFolder(self.disk, FOLDER)
        self.state: list[str] = []
        if self.log.start is not None:
            self.restore(self.log.start, self.folder.load(self.log.start))
        self.replica = Replica(
            CoreConfig(node_id=self.name, voters=NAMES, snapshot_chunk_bytes_max=CHUNK),
            self.log,
            node.hard_state,
            self,
            self,
            noop_body=lambda _term: NOOP,
            jitter=lambda: 0.5,
            now=self.net.now,
            first_id=draw_first_id(),
            prefix=Prefix(self.log, self.folder, self.restore, by_file=self.by_file),
        )
        self.replica.start(self.net.now)

    def kill(self) -> None:
        self.net.wires = [w for w in self.net.wires if w[0] != self.name]
        self.disk.crash(keep=0.0)
        self.boot()
        for other in self.net.hosts.values():
            if other is not self:
                other.replica.disconnected(self.name, self.net.now)

    def restore(self, start: LogStart, state: bytes) -> None:
        self.restored.append(start.index)
        self.state = state.decode().split("|")
        assert len(self.state) == start.index + 1

    def apply(self, first: Index, last: Index) -> None:
        assert first == len(self.state)
        for entry in self.log.entries(first, last):
            if entry.header.position % DATA_FILE_SIZE == 0 and entry.header.sequence:
                start = self.log.start_at(entry.header.position)
                self.folder.save(start, "|".join(self.state).encode())
            self.state.append(bytes(entry.body).decode(errors="replace").strip())

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        assert role is not Role.FAILED

    def send(self, to: NodeId, message: Message) -> None:
        data = b"".join(bytes(part) for part in encode(message))
        decoder = FrameDecoder()
        while data:
            room = decoder.get_buffer()
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            for frame in decoder.frames(size):
                self.net.wires.append((to, _kept(decode(frame, self.name))))

    def configuration_changed(self, configuration: Configuration, index: Index) -> None: ...

    def start_sync(self, work: SyncWork) -> None:
        self.work.append(work)

    def sync(self) -> None:
        for work in list(self.work):
            self.work.remove(work)
            error: OSError | None = None
            try:
                work.task.run()
            except OSError as refused:
                error = refused
            self.errors += [error] if error is not None else []
            self.replica.sync_done(work, error, self.net.now)

    def trim(self, files: int) -> bool:
        for _ in range(2):  # the flush mark gets into one slot, then into the other
            self.net.tick(2, self.name)
            if self.replica.trim(files * DATA_FILE_SIZE):
                return True
        return False


def _kept(message: Message) -> Message:
    data = getattr(message, "data", None)
    if isinstance(message, SnapshotChunk):
        return replace(message, data=bytes(data or b""))
    return replace(message, data=tuple(map(bytes, data))) if data else message  # type: ignore[call-arg]


class Net:
    def __init__(self) -> None:
        self.now = 0.0
        self.wires: list[tuple[NodeId, Message]] = []
        self.down: set[NodeId] = set()
        self.seen: Callable[[NodeId, Message], None] = lambda to, message: None
        self.hosts = {name: Host(name, self) for name in NAMES}
        self.now = 2.0
        self["n0"].replica.timer(self.now)
        self.deliver()
        assert self["n0"].replica.node.role is Role.LEADER

    def __getitem__(self, name: str) -> Host:
        return self.hosts[NodeId(name)]

    def deliver(self) -> None:
        for _ in range(500):
            for host in self.hosts.values():
                host.sync()
            if not self.wires:
                return
            to, message = self.wires.pop(0)
            if not self.down & {to, message.sender}:
                self.seen(to, message)
                self.hosts[to].replica.receive(message, self.now)

    def tick(self, times: int, leader: str = "n0") -> None:
        """Heartbeats of the leader, and what they bring about."""
        for _ in range(times):
            self.now += 0.1
            self[leader].replica.timer(self.now)
            self.deliver()

    def write(self, count: int) -> None:
        for number in range(count):
            done = Proposal((f"entry {number}".encode().ljust(200),), lambda *_: None)
            self["n0"].replica.propose(done, self.now)
        self.deliver()


def trimmed() -> Net:
    """n2 was away while 40 entries were written, of which the leader has deleted the first 16."""
    net = Net()
    net.down = {NAMES[2]}
    net.write(40)
    assert net["n0"].trim(4)
    net.deliver()
    assert net["n0"].log.first_index == 16 == net["n0"].replica.node.log.first
    net.down = set()
    return net


def test_nothing_is_deleted_without_the_state_that_it_led_to() -> None:
    net = Net()
    net.write(40)
    leader = net["n0"]
    path = FOLDER / "snapshots" / f"{4 * DATA_FILE_SIZE:020}"
    saved = leader.disk.names.pop(path)
    assert not leader.trim(4)
    leader.disk.names[path] = saved
    leader.disk.flip(path, 60)
    with pytest.raises(StoreDamaged, match="missing or damaged"):
        leader.trim(4)
    leader.disk.flip(path, 60)
    assert leader.trim(4)
    net.deliver()
    assert leader.folder.positions()[0] == 4 * DATA_FILE_SIZE


def test_states_whose_files_are_gone_go_at_the_next_start() -> None:
    """The process died between the two; a disk that is nearly full has no room for another trim."""
    net = Net()
    net.write(40)
    leader = net["n0"]
    assert leader.trim(4)
    (trim,) = [work.task for work in leader.work if hasattr(work.task, "log")]
    trim.log.run()
    leader.disk.crash(keep=1.0)
    leader.boot()
    assert leader.log.first_index == 16
    assert leader.folder.positions()[0] == leader.log.first_position == 4 * DATA_FILE_SIZE
    assert leader.disk.exists(FOLDER / "snapshots" / f"{5 * DATA_FILE_SIZE:020}")


def test_nothing_is_deleted_that_is_not_known_to_be_decided() -> None:
    """After a start a replica hears of it again; until then its files stay."""
    net = Net()
    net.write(40)
    net["n0"].trim(0)  # the flush mark is on disk
    net["n1"].kill()
    assert net["n1"].replica.node.commit == -1
    assert not net["n1"].replica.trim(4 * DATA_FILE_SIZE)
    net.tick(5)
    assert net["n1"].replica.trim(4 * DATA_FILE_SIZE)


def test_a_follower_that_is_far_behind_joins_by_snapshot_and_byte_ranges() -> None:
    net = trimmed()
    net["n2"].disk.write_atomic(FOLDER / "snapshots" / "notes.txt", b"nobody's")
    before = net["n0"].state
    net.tick(10)
    follower = net["n2"]
    assert follower.restored == [15]
    assert dump(follower.log) == dump(net["n0"].log)
    assert follower.state == net["n0"].state == before
    assert follower.replica.applied == net["n0"].replica.applied
    net.write(5)
    assert follower.log.last == net["n0"].log.last
    follower.kill()
    assert follower.log.first_index == 16
    net.tick(10)
    assert follower.state == net["n0"].state


def test_what_waits_is_unknown_when_a_state_takes_the_place_of_the_log() -> None:
    """S8: what was proposed here stood at indexes that hold something else in what is taken."""
    net = Net()
    outcomes: list[DledgerError | None] = []
    net.write(2)
    leader = net["n0"]
    net.down = {leader.name}
    waits = Proposal((b"nobody has it".ljust(200),), lambda _, error: outcomes.append(error))
    leader.replica.propose(waits, net.now)
    net.deliver()
    net.now += 2.0
    for name in ("n0", "n1"):  # it gives up, and another one is elected
        net[name].replica.timer(net.now)
        net.deliver()
    other = net["n1"]
    assert other.replica.node.role is Role.LEADER
    other.replica.propose(
        Proposal(tuple(b"entry".ljust(200) for _ in range(40)), lambda *_: None), net.now
    )
    net.deliver()
    assert other.replica.node.commit > waits.last
    assert other.trim(4)
    net.deliver()
    assert outcomes == []
    net.down = set()
    net.tick(10, "n1")
    assert leader.restored == [other.log.first_index - 1]
    assert leader.state == other.state
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown]


def test_a_follower_killed_at_every_chunk_goes_on_behind_the_last_one() -> None:
    net = trimmed()
    follower, offsets = net["n2"], []

    def kill(to: NodeId, message: Message) -> None:
        if isinstance(message, SnapshotReply):
            offsets.append(message.offset)
            if len(offsets) == len(set(offsets)) and message.offset:
                follower.kill()

    net.seen = kill
    for _ in range(20):
        net.tick(2)
    assert sorted(set(offsets)) == list(range(0, max(offsets) + 1, CHUNK))
    assert len(set(offsets)) > 2
    assert follower.state == net["n0"].state


def make_room_behind_it(follower: Host) -> Callable[[NodeId, Message], None]:
    """What comes behind the state needs files of its own."""

    def seen(to: NodeId, message: Message) -> None:
        if follower.restored:
            follower.disk.new_files_max = None

    return seen


def test_a_follower_without_room_for_a_state_rests_and_goes_on_by_itself() -> None:
    """Wherever room ends: at a chunk, or at the whole. Installing it needs none."""
    for room in range(16):
        net = trimmed()
        follower, before = net["n2"], net["n2"].log.last
        follower.disk.new_files_max = room
        net.seen = make_room_behind_it(follower)
        net.tick(30)
        assert follower.replica.failure is None
        assert follower.errors or follower.restored
        if follower.errors:
            assert follower.restored == []
            assert follower.log.last == before, "what it has stays"
        follower.disk.new_files_max = None
        net.tick(30)
        assert follower.restored == [15]
        assert follower.state == net["n0"].state
        if not follower.errors:
            assert room > 5
            return
    raise AssertionError("some room is enough")


def test_a_disk_that_refuses_a_state_otherwise_ends_the_follower() -> None:
    net = trimmed()
    net["n2"].disk.changes.set(0, errno.EIO, once=False)
    with pytest.raises(AssertionError):  # its role is FAILED
        net.tick(30)
    assert net["n2"].replica.failure is not None


def test_a_follower_that_has_what_the_leader_kept_keeps_it() -> None:
    """L4, W25: good data is never thrown away for a snapshot."""
    net = Net()
    net.write(20)
    net.down = {NAMES[2]}
    net.write(20)
    assert net["n0"].trim(4)
    net.deliver()
    kept = dump(net["n2"].log)
    net.down = set()
    net.tick(10)
    follower = net["n2"]
    assert follower.restored == []
    assert follower.log.first_index == 0
    assert dump(follower.log)[: len(kept)] == kept
    assert follower.log.last == net["n0"].log.last


def test_a_scrub_that_had_begun_in_another_log_begins_anew() -> None:
    """A state was installed in the middle of a pass: where it was is before the first file now."""
    net = trimmed()
    net.tick(10)
    log = net["n2"].log
    assert net["n2"].restored == [15]
    stale = Tail(EntryId(Term(1), Index(17)), 0, log.first_position - 5)
    scrubber = Scrubber(log)
    scrub = scrubber.begin_scrub(stale, 1000)
    assert scrub is not None
    scrub.run()
    behind = scrubber.finish_scrub(scrub)
    assert scrub.start.id.index == 15
    assert behind is None or behind.id.index > 16
    assert log.damaged == ()


def test_a_state_that_is_just_being_deleted_is_not_sent() -> None:
    """The task has deleted it, and nobody heard of its end yet: nothing is wrong with the disk."""
    net = trimmed()
    net.down = {NAMES[2]}
    leader = net["n0"]
    assert leader.trim(6)
    (work,) = (work for work in leader.work if work.kind == "trim")
    leader.work.remove(work)
    work.task.run()
    net.down = set()
    net.tick(3)
    assert leader.replica.failure is None
    assert net["n2"].restored == []
    leader.replica.sync_done(work, None, net.now)
    net.tick(10)
    assert net["n2"].restored == [leader.log.first_index - 1] != [15]
    assert net["n2"].state == leader.state


def test_an_offer_to_one_that_has_it_is_answered_as_matched() -> None:
    net = trimmed()
    chunks: list[SnapshotChunk] = []
    net.seen = lambda to, m: chunks.append(m) if isinstance(m, SnapshotChunk) else None
    net.tick(10)
    offer = replace(chunks[0], sender=NAMES[0])
    net["n1"].replica.receive(offer, net.now)
    ((to, answer),) = [w for w in net.wires if isinstance(w[1], AppendReply)]
    assert isinstance(answer, AppendReply)
    assert to == "n0"
    assert answer.success
    assert answer.matched == net["n1"].log.last.index
    assert net["n1"].log.first_index == 0


def test_rot_on_the_way_is_found_and_the_snapshot_begun_again() -> None:
    net = trimmed()
    rotten: list[int] = []

    def rot(to: NodeId, message: Message) -> None:
        if isinstance(message, SnapshotChunk) and message.offset == CHUNK and not rotten:
            rotten.append(1)
            message.data = b"X" * len(message.data)  # type: ignore[misc]

    net.seen = rot
    net.tick(20)
    assert rotten
    assert net["n2"].state == net["n0"].state


def test_a_chunk_that_cannot_be_is_refused() -> None:
    chunk = SnapshotChunk(
        NAMES[0],
        Term(1),
        EntryId(Term(1), Index(15)),
        Configuration(),
        5,
        1,
        90,
        100,
        8,
        7,
        b"four",
    )
    frame = b"".join(bytes(part) for part in encode(chunk))
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(frame)] = frame
    with pytest.raises(MalformedFrame, match="cannot be"):
        decode(next(iter(decoder.frames(len(frame)))), NAMES[0])
    with pytest.raises(RangeRejected, match="no snapshot has"):
        Net()["n1"].replica.receive(chunk, 3.0)


def test_a_leader_that_lost_its_beginning_is_understood_after_its_own_restart() -> None:
    net = trimmed()
    net["n0"].kill()
    net.now += 2
    net["n1"].replica.timer(net.now)
    net.deliver()
    assert net["n1"].replica.node.role is Role.LEADER
    for _ in range(10):
        net.now += 0.1
        net["n1"].replica.timer(net.now)
        net.deliver()
    states = {tuple(host.state) for host in net.hosts.values()}
    assert len(states) == 1
    assert net["n0"].log.first_index == 16
    assert net["n2"].log.first_index == 0  # its leader had everything
