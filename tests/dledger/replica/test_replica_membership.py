"""Replica: configurations as entries; the order of noting, writing and sending them (R20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from commitlog.files.system import Buffer
from dledger.core.config import CoreConfig
from dledger.core.configuration import Change, ChangeKind, Configuration, ConfigurationEntry
from dledger.core.messages import AppendEntries, Message
from dledger.core.types import HardState, Index, NodeId, Role, Term
from dledger.errors import DledgerError, MembershipRefused, NotLeader, RangeRejected
from dledger.membership.members import decode_configuration, encode_configuration
from dledger.replica.ports import SyncWork
from dledger.replica.replica import Replica
from dledger.replica.request_ids import draw_first_id
from dledger.testing.memory import MemoryHardState, MemoryLog

NAMES = tuple(NodeId(f"n{i}") for i in range(3))
HEAD = b"G" * 40  # room for the stamp


@dataclass
class Host:
    """Ports, state machine and configurations of one replica."""

    name: NodeId
    net: Net
    log: MemoryLog = field(default_factory=lambda: MemoryLog(file_size=4096))
    work: list[SyncWork] = field(default_factory=list)
    noted: list[tuple[int, int]] = field(default_factory=list)
    known: list[tuple[str, ...]] = field(default_factory=list)
    entries: Sequence[ConfigurationEntry] = ()

    def __post_init__(self) -> None:
        self.replica = Replica(
            CoreConfig(node_id=self.name, voters=NAMES),
            self.log,
            MemoryHardState(HardState(Term(0), None, 7)),
            self,
            self,
            noop_body=lambda _term: b"x" * 64,
            jitter=lambda: 0.5,
            now=self.net.now,
            first_id=draw_first_id(),
            configurations=self,
        )
        self.replica.start(self.net.now)

    # Configurations

    def note(self, entry: ConfigurationEntry, term: Term) -> None:
        assert term > 0
        self.noted.append((entry.index, self.log.last.index))

    def encode(self, configuration: Configuration) -> Buffer:
        return HEAD + encode_configuration(configuration)

    def decode(self, body: Buffer) -> Configuration | None:
        text = bytes(body)
        return decode_configuration(text[len(HEAD) :]) if text[:20] == HEAD[:20] else None

    # Ports and state machine

    def send(self, to: NodeId, message: Message) -> None:
        self.net.wires.append((to, message))

    def configuration_changed(self, configuration: Configuration, index: Index) -> None:
        self.known.append(tuple(configuration.names))

    def start_sync(self, work: SyncWork) -> None:
        self.work.append(work)

    def apply(self, first: Index, last: Index) -> None:
        assert first <= last

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        assert role is not Role.FAILED

    def sync(self) -> None:
        for work in list(self.work):
            self.work.remove(work)
            work.task.run()
            self.replica.sync_done(work, None, self.net.now)


class Net:
    def __init__(self) -> None:
        self.now = 0.0
        self.wires: list[tuple[NodeId, Message]] = []
        self.hosts = {name: Host(name, self) for name in NAMES}
        self.now = 2.0
        self.hosts[NAMES[0]].replica.timer(self.now)
        self.deliver()
        assert self.hosts[NAMES[0]].replica.node.role is Role.LEADER

    def deliver(self) -> None:
        for _ in range(1000):
            for host in self.hosts.values():
                host.sync()
            if not self.wires:
                return
            target, message = self.wires.pop(0)
            if target in self.hosts:
                self.hosts[target].replica.receive(message, self.now)


def asked(net: Net, change: Change) -> list[DledgerError | None]:
    outcome: list[DledgerError | None] = []
    net.hosts[NAMES[0]].replica.change_members(change, outcome.append, net.now, None)
    return outcome


REMOVE_N2 = Change(ChangeKind.REMOVE, NAMES[2])


def test_a_change_is_noted_before_it_is_written() -> None:
    """A crash between the two leaves a place without an entry, never an entry without a place."""
    net = Net()
    end = net.hosts[NAMES[0]].log.last.index
    outcome = asked(net, REMOVE_N2)
    net.deliver()
    assert outcome == [None]
    assert net.hosts[NAMES[0]].noted == [(end + 1, end)]
    assert net.hosts[NAMES[1]].noted == [(end + 1, end)]


def test_followers_learn_the_group_from_the_frame() -> None:
    net = Net()
    asked(net, REMOVE_N2)
    net.deliver()
    for name in NAMES[:2]:
        assert net.hosts[name].known == [NAMES[:2]]
        assert net.hosts[name].replica.node.configuration.names == NAMES[:2]


def test_a_flag_on_another_entry_costs_the_connection() -> None:
    net = Net()
    leader = net.hosts[NAMES[0]]
    asked(net, REMOVE_N2)
    (message,) = [
        m for to, m in net.wires if to == NAMES[1] and isinstance(m, AppendEntries) and m.size
    ]
    net.wires.clear()
    part = leader.log.read_range(Index(0), Index(0), 1 << 20)
    wrong = AppendEntries(
        NAMES[0],
        message.term,
        part.prev,
        part.last,
        message.commit,
        part.runs,
        part.position,
        part.prev_chain_crc,
        part.size,
        part.parts,
        (ConfigurationEntry(Index(0), None),),
    )
    with pytest.raises(RangeRejected, match="is flagged and is no configuration"):
        net.hosts[NAMES[1]].replica.receive(wrong, net.now)
    assert net.hosts[NAMES[1]].replica.failure is None


def test_refusals_are_told_as_errors() -> None:
    net = Net()
    (unknown,) = asked(net, Change(ChangeKind.REMOVE, NodeId("n9")))
    assert isinstance(unknown, MembershipRefused)
    assert not unknown.retriable
    outcome: list[DledgerError | None] = []
    net.hosts[NAMES[1]].replica.change_members(REMOVE_N2, outcome.append, net.now, None)
    assert isinstance(outcome[0], NotLeader)
