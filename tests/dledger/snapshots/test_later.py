"""A state that a thread gives the machine: the log goes on, nothing is applied before the end."""

from __future__ import annotations

from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import DledgerError
from dledger.log.log_start import LogStart
from dledger.snapshots.state_file import StateFile

from .test_snapshots import NAMES, Host, Net, trimmed


class LaterHost(Host):
    """Its states are restored when the test says so, by `end`."""

    by_file = True

    def __post_init__(self) -> None:
        self.is_half = self.may_fail = False
        super().__post_init__()

    def restore(self, start: LogStart, state: bytes | StateFile) -> None:  # type: ignore[override]
        self.is_half = False
        if isinstance(state, bytes):  # at the start of a process
            super().restore(start, state)
            return
        self.restored.append(start.index)
        self.is_half, self._found = True, state

    def end(self) -> None:
        """The thread has restored the state."""
        with self._found.open() as file:
            self.state = file.readall().decode().split("|")
        self.is_half = False
        self.replica.restored(self.net.now)
        self.net.deliver()

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        assert self.may_fail or role is not Role.FAILED

    def apply(self, first: Index, last: Index) -> None:
        assert not self.is_half, "the thread has the machine"
        super().apply(first, last)


def restoring() -> tuple[Net, LaterHost]:
    """n2 has the state of the first 16 entries on disk, and its machine has half of it."""
    net = trimmed()
    follower = LaterHost(NAMES[2], net)
    net.hosts[NAMES[2]] = follower
    net.tick(10)
    assert (follower.restored, follower.is_half) == ([15], True)
    return net, follower


def read(follower: Host) -> list[DledgerError | None]:
    """Answers of a linearizable read, as they come."""
    answers: list[DledgerError | None] = []
    follower.replica.read_index(answers.append, follower.net.now)
    follower.net.deliver()
    return answers


def test_the_log_goes_on_while_a_state_is_restored() -> None:
    net, follower = restoring()
    net.write(5)
    net.tick(5)
    log = follower.log
    assert (log.first_index, log.last, log.flushed) == (16, net["n0"].log.last, log.last.index)
    assert follower.replica.node.commit == net["n0"].replica.node.commit
    assert (follower.replica.applied, follower.state) == (-1, [])
    assert follower.replica.deadline() > net.now, "it waits, and does not spin"
    answers = read(follower)
    assert answers == []
    follower.end()
    assert answers == [None]
    assert follower.replica.applied == net["n0"].replica.applied
    assert follower.state == net["n0"].state


def test_a_process_that_dies_meanwhile_begins_with_the_state() -> None:
    net, follower = restoring()
    net.write(5)
    follower.kill()
    assert len(follower.state) == 16
    net.tick(10)
    assert follower.state == net["n0"].state
    assert follower.restored == [15, 15]


def test_another_state_waits_until_this_one_is_restored() -> None:
    """It is away while the log of its leader is cut again."""
    net, follower = restoring()
    net.down = {NAMES[2]}
    net.write(60)
    assert net["n0"].trim(13)
    net.deliver()
    net.down = set()
    net.tick(20)
    assert follower.restored == [15]
    assert follower.log.first_index == 16
    assert net.wires == [], "what has no place here is not asked for again at once"
    follower.end()
    net.tick(20)
    assert follower.restored == [15, net["n0"].log.first_index - 1]
    follower.end()
    assert follower.state == net["n0"].state


def test_a_failure_meanwhile_leaves_it_stopped() -> None:
    _, follower = restoring()
    answers = read(follower)
    follower.may_fail = True
    follower.replica.fail("a disk that ended")
    assert answers == [follower.replica.failure]
    follower.end()
    assert follower.replica.applied == -1
