"""Replica: effects carried out in the right order on storage and ports; what errors do to it."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, replace

import pytest

from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration
from dledger.core.events import DiskChecked
from dledger.core.messages import AppendEntries, AppendReply, Message, VoteReply, VoteRequest
from dledger.core.types import NO_INDEX, DiskHealth, EntryId, HardState, Index, NodeId, Role, Term
from dledger.errors import (
    DledgerError,
    EntryTooLarge,
    LogUsageError,
    MalformedFrame,
    NodeFailed,
    NotLeader,
    OutcomeUnknown,
)
from dledger.replica.ports import Proposal, SyncWork
from dledger.replica.replica import Replica
from dledger.replica.request_ids import draw_first_id
from dledger.testing.memory import MemoryHardState, MemoryLog

NAMES = tuple(NodeId(f"n{i}") for i in range(3))
NOOP = b"x" * 64


@dataclass
class Host:
    """Ports and state machine of one replica; syncs wait until the test runs them."""

    name: NodeId
    net: Net
    log: MemoryLog = field(default_factory=lambda: MemoryLog(file_size=4096))
    work: list[SyncWork] = field(default_factory=list)
    applied: list[tuple[int, int]] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    configurations: list[Index] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hard = MemoryHardState(HardState(Term(0), None, 7))
        self.boot()

    def boot(self) -> None:
        self.work = []
        self.replica = Replica(
            CoreConfig(node_id=self.name, voters=NAMES),
            self.log,
            self.hard,
            self,
            self,
            noop_body=lambda _term: NOOP,
            jitter=lambda: 0.5,
            now=self.net.now,
            first_id=draw_first_id(),
        )
        self.replica.start(self.net.now)

    def send(self, to: NodeId, message: Message) -> None:
        self.net.wires.append((self.name, to, message))

    def configuration_changed(self, configuration: Configuration, index: Index) -> None:
        self.configurations.append(index)

    def start_sync(self, work: SyncWork) -> None:
        self.work.append(work)

    def apply(self, first: Index, last: Index) -> None:
        self.applied.append((first, last))

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        self.roles.append(role)

    def sync(self, kind: str = "", error: OSError | None = None) -> None:
        """End all work in flight (of one kind), well or with an error."""
        for work in [w for w in self.work if w.kind == kind or not kind]:
            self.work.remove(work)
            if error is None:
                work.task.run()
            self.replica.sync_done(work, error, self.net.now)


class NothingToDo:
    """Disk work that ends at once."""

    def run(self) -> None:
        """Nothing."""


class Net:
    def __init__(self) -> None:
        self.now = 0.0
        self.wires: list[tuple[NodeId, NodeId, Message]] = []
        self.hosts = {name: Host(name, self) for name in NAMES}

    def __getitem__(self, name: str) -> Host:
        return self.hosts[NodeId(name)]

    def deliver(self, *, sync: bool = True) -> None:
        for _ in range(1000):
            if sync:
                for host in self.hosts.values():
                    host.sync()
            if not self.wires:
                return
            _source, target, message = self.wires.pop(0)
            self.hosts[target].replica.receive(message, self.now)

    def elect(self, name: str = "n0") -> Host:
        self.now += 2.0
        self[name].replica.timer(self.now)
        self.deliver()
        assert self[name].replica.node.role is Role.LEADER
        return self[name]


def proposal(outcomes: list[DledgerError | None], *bodies: bytes) -> Proposal:
    return Proposal(bodies or (b"a" * 40,), lambda _p, error: outcomes.append(error))


def test_a_proposal_is_done_when_committed_and_applied() -> None:
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    wanted = proposal(outcomes, b"one", b"two")
    leader.replica.propose(wanted, net.now)
    assert (wanted.first, wanted.last, wanted.term) == (1, 2, leader.replica.node.term)
    assert list(wanted.positions) == [
        leader.log.position_of(Index(1)),
        leader.log.position_of(Index(2)),
    ]
    assert outcomes == []
    net.deliver()
    assert outcomes == [None]
    assert leader.applied[-1] == (1, 2)
    assert bytes(net["n1"].log.entry(Index(2)).body) == b"two"


def test_nothing_is_acknowledged_before_a_majority_has_it_on_disk() -> None:
    """D3, D4 (W6): whatever is delivered, without syncs nobody is told."""
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes), net.now)
    net.deliver(sync=False)
    leader.sync()
    net.deliver(sync=False)
    assert outcomes == []
    assert net["n1"].log.last.index == 1
    net["n1"].sync("log")
    net.deliver(sync=False)
    assert outcomes == [None]


def test_who_asked_is_told_when_a_majority_has_written() -> None:
    """R22: before any sync, once, and nothing is applied by it; all others wait for the disks."""
    net = Net()
    leader = net.elect()
    applied = list(leader.applied)
    outcomes: list[DledgerError | None] = []
    told: list[tuple[int, list[int]]] = []
    early = proposal(outcomes)
    early.written = lambda p: told.append((p.first, list(p.positions)))
    leader.replica.propose(early, net.now)
    assert told == []
    net.deliver(sync=False)
    assert told == [(1, [leader.log.position_of(Index(1))])]
    assert (outcomes, leader.applied) == ([], applied)
    leader.replica.propose(proposal(outcomes), net.now)
    net.deliver(sync=False)
    assert outcomes == []
    net.deliver()
    assert (len(told), outcomes) == (1, [None, None])


def test_a_vote_leaves_after_mark_and_both_slots() -> None:
    """D1, R1, R7: one piece of work syncs the flush mark, then the hard state; then the answer."""
    net = Net()
    net.now = 2.0
    net["n0"].replica.timer(net.now)
    assert [work.kind for work in net["n0"].work] == []
    net.deliver(sync=False)  # pre-votes need no disk
    assert [work.kind for work in net["n0"].work] == ["hard"]
    assert net.wires == []
    net["n0"].sync("hard")
    net.deliver(sync=False)
    assert not [m for _, _, m in net.wires if isinstance(m, VoteReply)]
    assert net["n1"].hard.state.voted_for is None
    net["n1"].sync("hard")
    assert net["n1"].hard.state.voted_for == "n0"
    assert [m.granted for _, _, m in net.wires if isinstance(m, VoteReply)] == [True]


def test_what_is_flushed_meanwhile_is_marked_before_a_vote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R1: entries of the old leader are flushed while the vote is saved; torn, they are damage."""
    net = Net()
    net.elect()
    voter = net["n1"]
    to_mark: list[NothingToDo] = []
    marked: list[object] = []
    monkeypatch.setattr(voter.log, "mark_deadline", lambda: net.now if to_mark else None)
    monkeypatch.setattr(voter.log, "begin_mark", lambda: to_mark.pop() if to_mark else None)
    monkeypatch.setattr(voter.log, "finish_mark", marked.append)
    net.now += 5.0
    last = voter.replica.node.log.last
    voter.replica.receive(VoteRequest(NodeId("n2"), Term(5), last, pre=False), net.now)
    assert [work.kind for work in voter.work] == ["hard"]
    to_mark.append(late := NothingToDo())  # a sync of the log has ended
    voter.sync("hard")
    assert voter.hard.state == HardState(Term(5), NodeId("n2"), 7)
    assert ([work.kind for work in voter.work], net.wires) == (["hard"], [])
    voter.sync("hard")
    granted = VoteReply(NodeId("n1"), Term(5), Term(5), granted=True, pre=False)
    assert (voter.work, marked) == ([], [late])
    assert net.wires == [(NodeId("n1"), NodeId("n2"), granted)]


@pytest.mark.parametrize("kind", ["log", "hard"])
def test_a_failed_sync_stops_the_replica_for_good(kind: str) -> None:
    """D5 (W7): it neither votes, acknowledges nor leads, and the sync is not tried again."""
    net = Net()
    leader = net.elect()
    victim = net["n1"] if kind == "hard" else leader
    outcomes: list[DledgerError | None] = []
    if kind == "log":
        leader.replica.propose(proposal(outcomes), net.now)
    else:
        net.now += 5.0
        victim.replica.timer(net.now)
        victim.replica.receive(VoteReply(NodeId("n2"), Term(2), Term(2), True, True), net.now)
    net.wires.clear()
    victim.sync(kind, OSError(errno.EIO, "Input/output error"))
    assert victim.replica.node.role is Role.FAILED
    assert isinstance(victim.replica.failure, NodeFailed)
    assert victim.roles[-1] is Role.FAILED
    assert victim.replica.deadline() == float("inf")
    victim.replica.timer(net.now + 9)
    net.deliver()
    assert victim.work == []
    if kind == "log":
        assert [type(error) for error in outcomes] == [OutcomeUnknown]
        with pytest.raises(NodeFailed, match="stopped"):
            leader.replica.propose(proposal(outcomes), net.now)


def test_a_failed_write_leaves_the_outcome_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []

    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(leader.log, "append", full)
    leader.replica.propose(proposal(outcomes), net.now)
    assert [type(error) for error in outcomes] == [OutcomeUnknown]
    assert leader.replica.node.role is Role.FAILED
    assert "No space" in str(leader.replica.failure)


@pytest.mark.parametrize("task", ["begin_sync", "begin_mark"])
def test_a_disk_that_fails_when_work_is_begun_stops_the_replica(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: beginning a mark writes the gathered slots, so it can fail like any write."""
    net = Net()
    leader = net.elect()

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(leader.log, task, full)
    monkeypatch.setattr(leader.log, "mark_deadline", lambda: net.now)
    leader.replica.propose(proposal([]), net.now)
    assert leader.replica.node.role is Role.FAILED
    assert "No space" in str(leader.replica.failure)


def test_the_flush_mark_is_written_in_time_where_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R1: no entry and no heartbeat is due then, so the rules have nothing to do."""
    net = Net()
    leader = net.elect()
    due = net.now + 0.01
    monkeypatch.setattr(leader.log, "mark_deadline", lambda: due)
    monkeypatch.setattr(leader.log, "begin_mark", NothingToDo)
    leader.replica.propose(proposal([]), net.now)
    net.deliver()
    assert leader.replica.deadline() == due
    leader.replica.timer(due - 0.001)
    assert [work.kind for work in leader.work] == []
    leader.replica.timer(due)
    assert [work.kind for work in leader.work] == ["mark"]


def test_a_lost_leadership_leaves_the_outcome_unknown() -> None:
    """S8: and the entries may be committed later all the same."""
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes), net.now)
    net.wires.clear()
    net.now += 5.0
    for _ in range(10):
        net.now += 0.2
        leader.replica.timer(net.now)
        net.wires.clear()
    assert leader.replica.node.role is not Role.LEADER
    assert [type(error) for error in outcomes] == [OutcomeUnknown]
    assert outcomes[0] is not None
    assert outcomes[0].retriable


def step_down(net: Net, leader: Host) -> None:
    """Nobody answers it any more, so it gives the lead up by itself."""
    net.wires.clear()
    net.now += 5.0
    leader.replica.timer(net.now)
    assert leader.replica.node.role is not Role.LEADER
    net.wires.clear()


@pytest.mark.parametrize("next_leader", ["n0", "n1"])
def test_what_the_next_leader_commits_is_acknowledged(next_leader: str) -> None:
    """Who is told "unknown" sends again: while the next leader may say, nobody is told."""
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    wanted = proposal(outcomes, b"one", b"two")
    leader.replica.propose(wanted, net.now)
    net.deliver(sync=False)  # all have written it, and nobody learns that
    step_down(net, leader)
    for host in net.hosts.values():
        host.sync()
    assert outcomes == []
    net.wires.clear()
    net.now += 0.7
    for _ in range(10):
        net[next_leader].replica.timer(net.now)
        net.deliver()
        net.now += 0.03
    assert net[next_leader].replica.node.role is Role.LEADER
    assert outcomes == [None]
    assert bytes(leader.log.entry(wanted.last).body) == b"two"
    net.now += 30.0
    leader.replica.timer(net.now)
    assert outcomes == [None], "once"


def test_what_was_cut_from_the_log_is_never_acknowledged() -> None:
    """Another leader's entries stand there; the same index is committed, and it is not theirs."""
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    wanted = proposal(outcomes)
    leader.replica.propose(wanted, net.now)
    step_down(net, leader)
    net.now += 0.3
    for _ in range(10):
        net["n1"].replica.timer(net.now)
        net.deliver()
        net.now += 0.03
    assert net["n1"].replica.node.role is Role.LEADER
    assert leader.replica.node.log.term_at(wanted.last) > wanted.term, "the next leader's own"
    assert leader.applied[-1][1] >= wanted.last
    assert [type(error) for error in outcomes] == [OutcomeUnknown]


def test_a_leader_whose_disk_hangs_does_not_wait_to_know() -> None:
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes), net.now)
    leader.replica.looked(DiskChecked(DiskHealth.STALLED, "hangs"), net.now)
    step_down(net, leader)
    assert [type(error) for error in outcomes] == [OutcomeUnknown]


def test_what_cannot_be_written_is_refused_before_it_gets_an_index() -> None:
    net = Net()
    leader = net.elect()
    last = leader.replica.node.log.last
    outcomes: list[DledgerError | None] = []
    with pytest.raises(EntryTooLarge, match="larger files"):
        leader.replica.propose(proposal(outcomes, b"ok", b"x" * 5000), net.now)
    stamped = Proposal([b"short"], lambda _p, _e: None, stamp_at=28)
    with pytest.raises(LogUsageError, match="no space"):
        leader.replica.propose(stamped, net.now)
    with pytest.raises(NotLeader) as refused:
        net["n1"].replica.propose(proposal(outcomes), net.now)
    assert refused.value.leader == "n0"
    assert outcomes == []
    assert leader.replica.node.log.last == last == leader.log.last


def test_a_damaged_range_costs_its_connection_and_nothing_else() -> None:
    """Found by the simulator: one flipped byte on the wire stopped a healthy follower."""
    net = Net()
    leader = net.elect()
    leader.replica.propose(proposal([], b"payload " * 8), net.now)
    source, target, message = next(w for w in net.wires if isinstance(w[2], AppendEntries))
    assert source == "n0"
    follower = net.hosts[target]
    before = follower.replica.node.log.last
    raw = bytearray(b"".join(bytes(part) for part in message.data))
    for place in (0, 9, 40, len(raw) - 1):
        broken = bytearray(raw)
        broken[place] ^= 0x10
        with pytest.raises(MalformedFrame):
            follower.replica.receive(replace(message, data=(broken,)), net.now)
    with pytest.raises(MalformedFrame):
        follower.replica.receive(replace(message, data=None, size=0), net.now)
    assert follower.replica.node.log.last == before == follower.log.last
    follower.replica.receive(message, net.now)
    assert follower.log.last.index == 1


def test_the_receive_buffer_may_be_reused() -> None:
    """What was received stays what it was, whatever the transport does with its buffer."""
    net = Net()
    leader = net.elect()
    leader.replica.propose(proposal([], b"keep me"), net.now)
    _, target, message = next(w for w in net.wires if isinstance(w[2], AppendEntries))
    buffer = bytearray(b"".join(bytes(part) for part in message.data))
    follower = net.hosts[target]
    follower.replica.receive(replace(message, data=(memoryview(buffer),)), net.now)
    buffer[:] = bytes(len(buffer))
    assert bytes(follower.log.entry(Index(1)).body) == b"keep me"


def test_reads_wait_until_applied_reaches_the_read_index() -> None:
    net = Net()
    leader = net.elect()
    leader.replica.propose(proposal([]), net.now)
    ready: list[DledgerError | None] = []
    leader.replica.read_index(ready.append, net.now)
    assert ready == []
    net.deliver()
    assert ready == [None]
    follower = net["n1"]
    follower.replica.read_index(ready.append, net.now)
    net.deliver()
    net.now += 0.2
    leader.replica.timer(net.now)
    net.deliver()
    assert ready == [None, None]
    assert follower.replica.applied == 1


def follower_that_read() -> tuple[Net, Host, list[DledgerError | None]]:
    """n1 asked at 10.0 and was answered at 10.3; the answers so far."""
    net = Net()
    net.elect()
    follower = net["n1"]
    answers: list[DledgerError | None] = []
    net.now = 10.0
    follower.replica.read_index(answers.append, net.now)
    net.now = 10.3
    net.deliver()
    assert answers == [None]
    return net, follower, answers


def test_a_read_that_may_be_old_is_served_by_what_was_proved() -> None:
    net, follower, answers = follower_that_read()
    follower.replica.read_index(answers.append, 10.9, staleness=1.0)
    assert answers == [None, None]
    assert not net.wires, "no round"
    follower.replica.read_index(answers.append, 10.9)
    assert len(answers) == 2, "a linearizable read has its own round"


def test_a_proof_is_as_old_as_its_question() -> None:
    """Between 10.0 and 10.3 others may have been acknowledged what the answer does not cover."""
    net, follower, answers = follower_that_read()
    follower.replica.read_index(answers.append, 11.1, staleness=1.0)
    assert len(answers) == 1
    net.deliver()
    assert answers == [None, None]
    follower.replica.read_index(answers.append, 12.0, staleness=1.0)
    assert answers == [None, None, None]


def test_a_clock_that_jumps_ahead_makes_reads_dearer_and_not_older() -> None:
    _, follower, answers = follower_that_read()
    follower.replica.read_index(answers.append, 3610.0, staleness=1.0)
    assert len(answers) == 1


def test_a_replica_that_failed_serves_no_old_read() -> None:
    net, follower, answers = follower_that_read()
    follower.replica.fail("the disk is gone")
    follower.replica.read_index(answers.append, net.now, staleness=60.0)
    assert isinstance(answers[-1], NodeFailed)


def test_transfer_moves_the_lead() -> None:
    net = Net()
    leader = net.elect()
    done: list[DledgerError | None] = []
    leader.replica.transfer(NodeId("n2"), done.append, net.now)
    net.deliver()
    assert done == [None]
    assert net["n2"].replica.node.role is Role.LEADER


def test_commit_is_not_remembered_beyond_a_restart() -> None:
    """R3: committed never starts at the log's end."""
    net = Net()
    leader = net.elect()
    leader.replica.propose(proposal([]), net.now)
    net.deliver()
    host = net["n1"]
    host.boot()
    assert host.replica.node.commit == NO_INDEX
    assert host.replica.node.log.last == EntryId(Term(1), Index(1))


def test_acknowledgements_name_the_flushed_index() -> None:
    net = Net()
    leader = net.elect()
    net["n1"].sync()
    leader.replica.propose(proposal([]), net.now)
    net.deliver(sync=False)
    assert not [m for _, _, m in net.wires if isinstance(m, AppendReply)]
    net["n1"].sync("log")
    replies = [m for _, _, m in net.wires if isinstance(m, AppendReply)]
    assert [(r.matched, r.flushed) for r in replies] == [(1, 1)]


@pytest.mark.parametrize(("error", "refused"), [(None, False), (OSError("no"), True)])
def test_a_sync_that_fails_after_a_stop_leaves_no_storage_to_close(
    error: OSError | None, refused: bool
) -> None:
    """The log would have to be synced once more to be closed in order."""
    net = Net()
    leader = net.elect()
    leader.replica.propose(proposal([]), net.now)
    assert leader.work
    leader.replica.stop(net.now)
    assert not leader.replica.disk_refused
    leader.sync(error=error)
    assert leader.replica.disk_refused == refused
