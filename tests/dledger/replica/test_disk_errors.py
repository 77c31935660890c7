"""D5, L5: the disk of one of three replicas refuses, at every call in turn; nothing is lost.

EIO, ENOSPC and EROFS (a read-only remount), once or from then on; a failed sync leaves pages that
look clean. The replica stops and names the reason, or goes on where the call was for others only
(mirrors, a file made ahead); the other two go on; after a power cut and a repair it has all that
was acknowledged again.
"""

from __future__ import annotations

import errno
import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dledger.core.types import NO_INDEX, Index, NodeId, Role
from dledger.durable.identity import Identity
from dledger.errors import DledgerError
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.replica.ports import Proposal
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.replica.test_replica import NAMES, Host, Net

FOLDER = Path("/n0")
DATA_FILE_SIZE = 4096  # as of the logs in memory
SICK = NAMES[0]


@dataclass
class DiskHost(Host):
    """A host on a disk that may refuse."""

    disk: CrashDisk = field(default_factory=CrashDisk)

    def __post_init__(self) -> None:
        identity = Identity("c", "g", self.name, DATA_FILE_SIZE, 32 * 8, voters=NAMES)
        format_node(FOLDER, identity, incarnation=7, files=self.disk)
        self.open()

    def open(self) -> None:
        self.storage: NodeStorage = open_node(
            FOLDER,
            cluster_id="c",
            group="g",
            node_id=self.name,
            clock=lambda: self.net.now,
            files=self.disk,
        )
        self.log, self.hard = self.storage.log, self.storage.hard_state  # type: ignore[assignment]
        self.boot()

    def sync(self, kind: str = "", error: OSError | None = None) -> None:
        for work in [work for work in self.work if work.kind == kind or not kind]:
            self.work.remove(work)
            refused = error
            try:
                work.task.run()
            except OSError as raised:
                refused = raised
            self.replica.sync_done(work, refused, self.net.now)


class Story(Net):
    """What every run does; `acknowledged` is what producers were told to be safe."""

    def __init__(self) -> None:
        super().__init__()
        self.sick = DiskHost(SICK, self)
        self.hosts[SICK] = self.sick
        self.cut: set[NodeId] = set()
        self.acknowledged: list[bytes] = []
        self.sent = 0

    def deliver(self, *, sync: bool = True) -> None:
        for _ in range(10_000):
            for host in self.hosts.values():
                host.sync()
            if not self.wires:
                return
            source, target, message = self.wires.pop(0)
            if not self.cut & {source, target}:
                self.hosts[target].replica.receive(message, self.now)

    def pass_time(self, seconds: float, *names: str) -> None:
        """Timers of these nodes, of all when none is named."""
        self.now += seconds
        for name in names or NAMES:
            self[name].replica.timer(self.now)
            self.deliver()

    def leader(self) -> Host | None:
        leading = [h for h in self.hosts.values() if h.replica.node.role is Role.LEADER]
        return max(leading, key=lambda host: host.replica.node.term, default=None)

    def put(self, count: int) -> None:
        for _ in range(count):
            leader = self.leader()
            body = b"%04d" % self.sent * 60
            self.sent += 1

            def done(_: Proposal, error: DledgerError | None, body: bytes = body) -> None:
                if error is None:
                    self.acknowledged.append(body)

            if leader is not None:
                try:
                    leader.replica.propose(Proposal([body], done), self.now)
                except DledgerError:
                    continue
                self.deliver()

    def play(self) -> None:
        """Leads over a change of files; is cut off with a suffix; drops it; leads once more."""
        self.pass_time(2.0, SICK)
        self.put(20)
        self.pass_time(0.2)
        self.cut = {SICK}
        self.put(3)
        self.pass_time(2.0, "n1", "n2")
        self.put(4)
        self.cut = set()
        for _ in range(4):
            self.pass_time(0.2)
        leader = self.leader()
        if leader is not None:
            leader.replica.transfer(SICK, lambda _: None, self.now)
            self.deliver()
        self.put(10)
        for _ in range(18):  # until the mirrors are written
            self.pass_time(0.2)

    def goes_on(self) -> None:
        """Whatever happened to one of them, the others take more."""
        wanted = len(self.acknowledged) + 3
        for _ in range(40):
            self.pass_time(0.2)
            self.put(1)
            if len(self.acknowledged) >= wanted:
                return
        raise AssertionError("nothing is acknowledged any more")

    def repair(self) -> None:
        """The machine of the sick one loses its power, and gets a disk that works."""
        self.sick.disk.crash(keep=0.0)
        self.wires = [w for w in self.wires if SICK not in w[:2]]
        self.sick.disk.changes.set(1 << 60, 0, once=True)
        self.sick.disk.reads.set(1 << 60, 0, once=True)
        self.sick.open()
        for _ in range(12):
            self.pass_time(0.2)

    def check(self) -> None:
        """Every acknowledged body is committed on every replica, once, in one order."""
        logs = []
        for host in self.hosts.values():
            commit = host.replica.node.commit
            assert commit > NO_INDEX
            logs.append([bytes(e.body) for e in host.log.entries(Index(0), commit)])
        assert logs[0] == logs[1] == logs[2]
        assert [body for body in logs[0] if body in set(self.acknowledged)] == self.acknowledged


def test_the_story_does_what_it_should() -> None:
    story = Story()
    story.play()
    assert len(story.acknowledged) == 20 + 4 + 10
    assert story.leader() is story.sick
    assert story.sick.storage.log.end_position > 2 * DATA_FILE_SIZE
    story.goes_on()
    story.repair()
    story.check()


def changes() -> int:
    story = Story()
    before = story.sick.disk.changes.calls
    story.play()
    return story.sick.disk.changes.calls - before


def refuse(number: int, *, once: bool, step: int) -> None:
    """Play the story with every `step`-th change of the sick one's disk refused."""
    total, stopped = changes(), 0
    for after in range(0, total, step):
        story = Story()
        story.sick.disk.changes.set(after, number, once=once)
        story.play()
        failure = story.sick.replica.failure
        if failure is not None:
            stopped += 1
            assert os.strerror(number) in str(failure)
            assert story.sick.replica.node.role is Role.FAILED
        story.goes_on()
        story.repair()
        story.check()
    assert stopped > total // step // 2


@pytest.mark.parametrize("once", [True, False], ids=["once", "from-then-on"])
def test_d5_a_third_of_all_changes_refused(once: bool) -> None:
    refuse(errno.EIO if once else errno.ENOSPC, once=once, step=3)


@pytest.mark.long
@pytest.mark.parametrize("once", [True, False], ids=["once", "from-then-on"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_d5_every_change_refused(number: int, once: bool) -> None:
    refuse(number, once=once, step=1)


def reopened(host: DiskHost) -> str:
    """Why it was refused, "" when it was not."""
    try:
        host.open()
    except OSError as error:
        return str(error)
    return ""


def test_d5_every_read_refused_at_a_start() -> None:
    """The folder is not opened, with the reason; nothing in it is changed by that."""
    story = Story()
    story.play()
    disk, refused = story.sick.disk, 0
    for after in itertools.count():
        disk.restart()
        disk.reads.set(after, errno.EIO, once=True)
        before = disk.reads.calls
        words = reopened(story.sick)
        if not words:
            assert disk.reads.calls - before <= after, "a read was refused and nobody cared"
            break
        assert os.strerror(errno.EIO) in words
        refused += 1
    assert refused > 10
    story.goes_on()
    story.repair()
    story.check()
