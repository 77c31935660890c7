"""A tiny cluster of bare RaftNodes for tests: messages in a list, disks that obey, time by hand.

No bytes: a node's log is its term view. Each test decides what is delivered, flushed or lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dledger.core import effects as fx
from dledger.core import events as ev
from dledger.core.configuration import (
    Change,
    ChangeKind,
    Configuration,
    ConfigurationEntry,
)
from dledger.core.invariants import (
    ClusterChecker,
    broken_between,
    broken_in_state,
    logs_match,
)
from dledger.core.log_view import LogView
from dledger.core.messages import AppendEntries, Message
from dledger.core.node import RaftNode
from dledger.core.types import HardState, Index, NodeId, Role, Term, TermRun

from . import build


def runs_between(log: LogView, first: int, last: int) -> tuple[TermRun, ...]:
    """Terms of `first`..`last` as runs."""
    runs, start = [], 0
    for run in log.runs:
        low, high = max(start, first), min(run.last, last)
        if low <= high:
            runs.append(TermRun(run.term, Index(high)))
        start = run.last + 1
    return tuple(runs)


@dataclass
class Node:
    raft: RaftNode
    auto_flush: bool = True
    auto_persist: bool = True
    to_persist: list[int] = field(default_factory=list)
    persisted: int = 0
    held: list[tuple[int, NodeId, Message]] = field(default_factory=list)
    effects: list[fx.Effect] = field(default_factory=list)
    hard: HardState = field(default_factory=lambda: HardState(Term(0), None, 1))
    frame_entries_max: int = 100
    joins: bool = False
    known: list[ConfigurationEntry] = field(default_factory=list)


class Net:
    """Nodes n0..; `deliver` hands messages over in order until nothing moves."""

    def __init__(self, count: int = 3, seed: int = 1, **settings: Any) -> None:
        self.now = 0.0
        #: What a node's clock shows at a moment; as a rule just that.
        self.clocks: dict[str, Callable[[float], float]] = {}
        self.random = random.Random(seed)
        self.names = self.voters = tuple(NodeId(f"n{i}") for i in range(count))
        self.changes = 0
        self.settings = settings
        self.wires: list[tuple[NodeId, NodeId, Message]] = []
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.incarnations: dict[NodeId, int] | None = None  # as leaders have met them
        self.drop: Callable[[NodeId, NodeId, Message], bool] = lambda *_: False
        self.checker = ClusterChecker()
        self.truncations: list[tuple[NodeId, Index]] = []
        self.nodes = {name: self._make(name, []) for name in self.names}
        for name in self.names:
            self._run(name, self.nodes[name].raft.start(self.now_of(name)))

    def _make(
        self,
        name: NodeId,
        runs: list[TermRun],
        known: list[ConfigurationEntry] | None = None,
        *,
        joins: bool = False,
    ) -> Node:
        voters = () if joins else self.voters
        old = self.nodes.get(name) if hasattr(self, "nodes") else None
        hard = HardState(Term(0), None, 1) if old is None else old.hard
        known = list(known or [])
        raft = build.node(
            name,
            voters=voters,
            log=runs,
            hard=hard,
            now=self.now_of(name),
            jitter=self.random.random,
            configurations=known,
            **self.settings,
        )
        return Node(raft, hard=hard, joins=joins, known=known)

    def join(self, name: str) -> None:
        """A new, empty node that learns from the log who its group is."""
        node = NodeId(name)
        self.names = (*self.names, node)
        self.nodes[node] = self._make(node, [], joins=True)
        self._run(node, self.nodes[node].raft.start(self.now_of(node)))

    def wipe(self, name: str) -> None:
        """Its disk is lost: the same name, another life, formatted to join."""
        node = NodeId(name)
        self.wires = [w for w in self.wires if node not in w[:2]]
        del self.nodes[node]
        self.nodes[node] = self._make(node, [], joins=True)
        self._run(node, self.nodes[node].raft.start(self.now_of(node)))

    def forget(self, name: str, incarnation: int) -> None:
        """Its vote file or its flush mark is lost: the same log, another incarnation."""
        node = NodeId(name)
        self.nodes[node].hard = HardState(Term(0), None, incarnation, forgot=True)
        self.restart(node)

    def change(self, leader: str, kind: ChangeKind, name: str, incarnation: int = 0) -> None:
        """Ask for one step; `membership_done` finds how it ended."""
        self.changes += 1
        change = Change(kind, NodeId(name), incarnation)
        self.handle(leader, ev.MembershipRequested(change, self.changes, self.incarnations))

    def membership_done(self, name: str) -> fx.MembershipDone | None:
        """The answer to the newest change asked for at `name`."""
        done = [e for e in self.nodes[NodeId(name)].effects if isinstance(e, fx.MembershipDone)]
        return done[-1] if done and done[-1].change_id == self.changes else None

    def configuration(self, name: str) -> Configuration:
        return self.raft(name).configuration

    def restart(self, name: NodeId, keep: Index | None = None) -> None:
        """Crash and come back with the flushed log (or up to `keep`) and the persisted vote."""
        old = self.nodes[name]
        flushed = old.raft.status().flushed if keep is None else keep
        runs = list(runs_between(old.raft.log, 0, flushed))
        self.wires = [w for w in self.wires if w[0] != name and w[1] != name]
        known = [e for e in old.known if e.index <= flushed]
        self.nodes[name] = self._make(name, runs, known, joins=old.joins)
        self._run(name, self.nodes[name].raft.start(self.now_of(name)))

    def now_of(self, name: str) -> float:
        return self.clocks[name](self.now) if name in self.clocks else self.now

    def handle(self, name: str, event: ev.Event) -> list[fx.Effect]:
        node = self.nodes[NodeId(name)]
        before = node.raft.status()
        effects = node.raft.handle(event, self.now_of(name))
        after = node.raft.status()
        wrong = broken_in_state(after) + broken_between(before, after)
        wrong += self.checker.observe(node.raft)
        assert not wrong, wrong
        self._run(NodeId(name), effects)
        return effects

    def _run(self, name: NodeId, effects: list[fx.Effect]) -> None:
        node = self.nodes[name]
        node.effects.extend(effects)
        flush = False
        for effect in effects:
            match effect:
                case fx.PersistHardState(sequence, state):
                    node.to_persist.append(sequence)
                    node.hard = state if node.auto_persist else node.hard
                case fx.Send(to, message, after):
                    self._send(name, to, message, after)
                case fx.SendAppend():
                    self._send_append(name, effect)
                case fx.TruncateAfter(index):
                    self.truncations.append((name, index))
                case fx.AppendConfiguration(index, _, configuration):
                    node.known = [e for e in node.known if e.index < index]
                    node.known.append(ConfigurationEntry(index, configuration))
                    flush = True
                case fx.AppendReceived(message, first):
                    node.known = [e for e in node.known if e.index < first]
                    node.known += [e for e in message.configurations if e.index >= first]
                    flush = True
                case fx.AppendLocal() | fx.AppendNoop():
                    flush = True
                case _:
                    pass
        if node.auto_persist:
            self.persist(name)
        if flush and node.auto_flush:
            self.flush(name)

    def persist(self, name: str) -> None:
        node = self.nodes[NodeId(name)]
        while node.to_persist:
            sequence = node.to_persist.pop(0)
            node.persisted = sequence
            ready = [h for h in node.held if h[0] <= sequence]
            node.held = [h for h in node.held if h[0] > sequence]
            self.wires += [(NodeId(name), to, message) for _, to, message in ready]
            self.handle(name, ev.HardStatePersisted(sequence))

    def flush(self, name: str, index: int | None = None) -> None:
        last = self.nodes[NodeId(name)].raft.log.last.index
        self.handle(name, ev.EntriesFlushed(last if index is None else Index(index)))

    def _send(self, name: NodeId, to: NodeId, message: Message, after: int) -> None:
        if after <= self.nodes[name].persisted:
            self.wires.append((name, to, message))
        else:
            self.nodes[name].held.append((after, to, message))

    def _send_append(self, name: NodeId, effect: fx.SendAppend) -> None:
        node = self.nodes[name]
        prev = effect.prev
        last = prev.index if effect.probe else effect.last_max
        last = Index(min(last, prev.index + node.frame_entries_max))
        runs = runs_between(node.raft.log, prev.index + 1, last)
        message = AppendEntries(
            name,
            effect.term,
            prev,
            last,
            effect.commit,
            runs,
            configurations=node.raft.configurations_in(Index(prev.index + 1), last),
            when_written=effect.when_written,
        )
        self._send(name, effect.to, message, effect.after)
        self.handle(name, ev.AppendSent(effect.to, last, 100 * (last - prev.index)))

    def deliver(self, rounds: int = 1000) -> None:
        while self.wires and rounds:
            rounds -= 1
            source, target, message = self.wires.pop(0)
            if (
                target not in self.nodes
                or (source, target) in self.cut
                or self.drop(source, target, message)
            ):
                continue
            self.handle(target, ev.MessageReceived(message))

    def isolate(self, name: str) -> None:
        for other in self.names:
            self.cut |= {(NodeId(name), other), (other, NodeId(name))}

    def heal(self) -> None:
        self.cut.clear()

    def run(self, seconds: float, step: float = 0.01) -> None:
        """Let time pass; every node's timer fires when it is due."""
        end = self.now + seconds
        while self.now < end:
            self.now = round(self.now + step, 6)
            for name in self.names:
                if self.nodes[name].raft.deadline() <= self.now_of(name):
                    self.handle(name, ev.TimerFired())
            self.deliver()

    def leader(self) -> str:
        """The leader of the highest term; fails when there is none."""
        leading = [n.raft for n in self.nodes.values() if n.raft.role is Role.LEADER]
        assert leading, "nobody leads"
        return max(leading, key=lambda raft: raft.term).node_id

    def elect(self, name: str | None = None) -> str:
        """Run until somebody (or `name`) leads and everybody follows."""
        if name is not None:
            self.now += 1.0
            raft = self.nodes[NodeId(name)].raft
            raft.state.election_deadline = self.now
            self.handle(name, ev.TimerFired())
            self.deliver()
            assert self.leader() == name
        else:
            self.run(3.0)
        return self.leader()

    def propose(self, name: str, count: int = 1, size: int = 100) -> list[fx.Effect]:
        return self.handle(name, ev.ProposalReceived(count, size, f"p{count}"))

    def raft(self, name: str) -> RaftNode:
        return self.nodes[NodeId(name)].raft

    def followers(self) -> list[str]:
        leader = self.leader()
        return [name for name in self.names if name != leader]

    def check_logs(self) -> None:
        wrong = logs_match((name, node.raft.log) for name, node in self.nodes.items())
        assert not wrong, wrong
