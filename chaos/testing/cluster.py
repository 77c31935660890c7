"""One run of a machine under faults, from one seed.

clients of all nodes ─► commands and questions, one at a time each ─► answers, errors, or none
RandomNemesis ─► kills, power cuts, partitions, clocks, hung disks …  all healed at the end
the end: all nodes have applied the same; then judge.py looks at all of it
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chaos.sim import swarm
from chaos.sim.clients import ClientEnvironment
from chaos.sim.course import FROM_SEED, Begun, Course
from chaos.sim.host_beats import HostBeats
from chaos.sim.network import CALM, Network, Pipe
from chaos.sim.scheduler import Scheduler
from chaos.sim.service import NodeService
from chaos.testing.ending import Ending
from chaos.testing.faults import FAULTS, WEIGHTS, MachineNemesis
from chaos.testing.judge import Call, Judge, MachineViolation, Read
from chaos.testing.log_book import LogBook
from chaos.testing.machine_node import MachineNode
from chaos.testing.process import MachineProcess
from chaos.testing.subject import Draw, MakeMachine, Subject
from dledger.core.messages import Message
from dledger.core.types import NodeId
from dledger.errors import DledgerError
from dledger.machine.node import Consistency
from dledger.wire.frames import FrameType

__all__ = ["FAULTS", "Draw", "MachineViolation", "Report", "run_seed", "run_subject"]

Ended = Callable[[], None]
_FORWARDS = frozenset({FrameType.FORWARD, FrameType.FORWARD_REPLY})
#: Of clients that ask: how many of their turns are questions, and of these, how many local ones.
READS, LOCAL_READS = 0.35, 0.2
#: Of a client's patience: some wait until their node has been sent a state with their results.
PATIENCES = (1.0, 1.0, 1.0, 6.0)
#: How many commands a client begins at once: some of many are half done when a leader falls.
BURSTS = (*(1,) * 6, 2, 2, 8, 8, 40)
#: How many of the frames that hand commands over come late, as from a connection that was thought
#: to be dead: behind the same commands, sent again.
LATE, LATE_SECONDS = 0.1, 1.5
#: Bytes of a log file: with small ones states are saved, beginnings of logs go, states are sent.
FILE_SIZES = (2 << 10, 2 << 10, 4 << 10, 1 << 20)
#: Of runs, and of their nodes: how many have a former release at first.
FORMER_RUNS, FORMER_NODES = 0.4, 0.6


@dataclass(frozen=True, slots=True)
class Pace:
    """How a run goes; times in virtual seconds.

    Attributes:
        seconds: with faults, before the end without.
        gap_min: the least between the beginnings of two faults.
        gap_max: the longest; None: as the seed draws it.
        patience: of a client for one command.
        pause: the longest between two turns of a client.
        is_quick: elections at once, in all seeds, so that more is done in a second.
        falls_silent: hosts watch each other, and the group is quiet while no client asks.
    """

    seconds: float = 20.0
    gap_min: float = swarm.GAP_MIN
    gap_max: float | None = None
    patience: float = 3.0
    pause: float = 0.2
    is_quick: bool = False
    falls_silent: bool = False


#: Of a run, where its caller says nothing else.
NODES, CLIENTS = 3, 3
#: As many faults as in 20 s of the usual pace, for a third of the processor time.
DENSE = Pace(6.0, 0.3, 1.4, patience=0.8, pause=0.2, is_quick=True)
#: Clients that pause, in groups that fall silent meanwhile.
SILENT = Pace(12.0, 0.5, 2.5, patience=0.8, pause=4.0, is_quick=True, falls_silent=True)


@dataclass(frozen=True, slots=True)
class Report:
    """One run: virtual seconds, calls begun and answered, reads that were served, and how often
    each fault was begun.

    Attributes:
        shared: entries of several commands that were committed.
        cut: those of a leader that were lost.
        restored: states of a leader that machines were given.
        overtaken: those of them that the end of the process was quicker than.
        led: how often a node began to lead meanwhile.
        waited: how often entries were left to a later turn of a node's loop.
        ended_behind: how often a process ended with such entries.
        led_behind: how often a node began to lead with such entries.
        recalled: commands whose callers got results that a leader's state had kept.
        silent: how often each fault was begun while no client asked.
    """

    seed: int
    seconds: float
    calls: int
    answered: int
    applied: int
    reads: int
    faults: dict[str, int]
    shared: int = 0
    cut: int = 0
    restored: int = 0
    overtaken: int = 0
    led: int = 0
    waited: int = 0
    ended_behind: int = 0
    led_behind: int = 0
    recalled: int = 0
    silent: dict[str, int] = field(default_factory=dict)


class SimulatedRun:
    """Builds and runs one seed."""

    def __init__(
        self,
        subject: Subject,
        seed: int,
        pace: Pace,
        *,
        nodes: int,
        clients: int,
        course: Course = FROM_SEED,
    ) -> None:
        self._subject, self.seed, self._pace, self._course = subject, seed, pace, course
        #: Faults that the run has begun, in order.
        self.begun: list[Begun] = []
        self._random = random = Random(f"dledger-testing-{seed}")
        self._options = _options(random, nodes, pace)
        self.scheduler = Scheduler()
        self.nodes = [
            MachineNode(at, self.scheduler, random, self._options, self) for at in range(nodes)
        ]
        self._network = Network(
            self.scheduler,
            random,
            self._options.network,
            nodes,
            self._deliver,
            lambda node, peer: self.nodes[node].peer_lost(peer),
        )
        self.book, self._codec = LogBook(), subject.make()
        for node in self.nodes:
            node.make, node.network = subject.make, self._network
            node.book, node.group_nodes = self.book, self.nodes
        self.calls: list[Call] = []
        self.reads: list[Read] = []
        self._forwarded: set[tuple[Pipe, bytes]] = set()
        self._clients, self._open = clients, True
        self.hosts: HostBeats | None = None
        self._numbers = itertools.count(1)

    def run(self) -> Report:
        """Faults, then none, then the judgement. Raises MachineViolation."""
        is_former = self._random.random() < FORMER_RUNS
        for node in self.nodes:
            if is_former and self._random.random() < FORMER_NODES:
                node.upgraded_at = self._random.random() * 1.2 * self._pace.seconds
                self.scheduler.at(node.upgraded_at, MachineNode.upgrade, node)
        for node in self.nodes:
            node.start()
        environment = ClientEnvironment(
            self.scheduler,
            self._random,
            self._options.load,
            [NodeService(node) for node in self.nodes],
            self._options.network.latency,
            lambda _: True,
        )
        nemesis = MachineNemesis(
            self.scheduler,
            self._random,
            self._options,
            self.nodes,
            self._network,
            environment,
            lambda *_: None,
            None,
            self._course,
        )
        self.begun = nemesis.begun
        if self._pace.falls_silent:
            self.hosts = HostBeats(self.scheduler, self.nodes, self._network)
            self.hosts.begin()
        self.ask(True, 1.0)
        self.scheduler.run_until(self._pace.seconds)
        self._network.options = CALM
        nemesis.heal_all()
        ending = Ending(self, self._network, self._options.network, self._pace.patience)
        ending.play()
        judge = Judge(self._subject, self.seed, self.nodes, self.calls, self.reads, self.book)
        return Report(
            self.seed,
            self.scheduler.now,
            len(self.calls),
            sum(call.result is not None for call in self.calls),
            judge.applied(),
            sum(read.ended is not None for read in self.reads),
            nemesis.counts,
            self.book.committed_shared,
            self.book.cut,
            self.book.restored,
            self.book.overtaken,
            self.book.led,
            self.book.waited,
            self.book.ended_behind,
            self.book.led_behind,
            self.book.recalled,
            ending.silent,
        )

    def ask(self, again: bool, seconds: float = 0.2) -> None:
        """Clients begin to ask, within so many seconds, or stop."""
        self._open = again
        for _ in range(self._clients if again else 0):
            self.scheduler.after(self._random.random() * seconds, self._next)

    # -- clients -----------------------------------------------------------------------------------

    def _next(self, _: object) -> None:
        """One client's next command or question, at any node that runs."""
        if not self._open:
            return
        node = self._random.choice(self.nodes)
        process = node.process
        if process is None:
            self.scheduler.after(self._pace.pause, self._next)
            return
        went_on, count = False, 1

        def go_on(_: object) -> None:
            nonlocal went_on
            if not went_on:
                went_on = True
                self._next(None)

        def ended() -> None:
            nonlocal count
            count -= 1
            if not count:
                self.scheduler.after(self._random.random() * self._pace.pause, go_on)

        if self._subject.ask is not None and self._random.random() < READS:
            self._ask(node, process, ended)
        else:
            count = self._random.choice(BURSTS)
            for _ in range(count):
                self._command(node, process, ended)
        self.scheduler.after(2 * self._pace.patience, go_on)  # its node died

    def _command(self, node: MachineNode, process: MachineProcess, ended: Ended) -> None:
        now, number = self.scheduler.now, next(self._numbers)
        command = self._subject.draw(self._random, number)
        data = number.to_bytes(4, "big") + self._codec.encode(command)
        call = Call(data, node.id, now)
        self.calls.append(call)

        def done(result: Any, error: DledgerError | None) -> None:
            call.ended, call.result, call.error = self.scheduler.now, result, error
            ended()

        ends_at = now + self._pace.patience * self._random.choice(PATIENCES)
        node.in_process(process, lambda: process.propose(data, done, ends_at))

    def _ask(self, node: MachineNode, process: MachineProcess, ended: Ended) -> None:
        subject = self._subject
        assert subject.ask is not None
        question = subject.ask(self._random, next(self._numbers))
        is_local = self._random.random() < LOCAL_READS
        consistency = Consistency.LOCAL if is_local else Consistency.LINEARIZABLE
        read = Read(question, node.id, is_local, self.scheduler.now)
        self.reads.append(read)

        def found(finding: object, index: int, error: DledgerError | None) -> None:
            if error is None:
                read.ended, read.finding, read.index = self.scheduler.now, finding, index
            ended()

        def look(machine: Any) -> Any:
            return subject.look(machine, question)

        node.in_process(process, lambda: process.read(look, found, consistency))

    def _deliver(self, pipe: Pipe, frame: bytes) -> None:
        node = self.nodes[pipe.target]
        if len(frame) > 4 and frame[4] in _FORWARDS:
            if (pipe, frame) in self._forwarded:  # a connection brings a frame once
                return
            self._forwarded.add((pipe, frame))
            if self._random.random() < LATE:
                late = self._random.random() * LATE_SECONDS
                self.scheduler.after(late, lambda _: node.forwarded(pipe.source, frame))
            else:
                node.forwarded(pipe.source, frame)
        else:
            node.receive(pipe, frame)

    # -- Observer ----------------------------------------------------------------------------------

    def started(self, node: object) -> None:
        """As a SimNode's observer."""

    def stepped(self, node: object) -> None:
        """As a SimNode's observer."""

    def sending(self, node: object, to: NodeId, message: Message) -> None:
        """As a SimNode's observer."""

    def violation(self, name: str, detail: str) -> None:
        """End the run."""
        known = sys.exception()
        if isinstance(known, MachineViolation):  # found in the middle of an event
            raise known
        raise MachineViolation(f"seed {self.seed}: {name}: {detail}")


def _options(random: Random, nodes: int, pace: Pace) -> swarm.SwarmOptions:
    """The seed's, changed by the pace, with files of a few entries, or of a whole run."""
    options = swarm.draw(random, nodes, FAULTS)
    size = random.choice(FILE_SIZES)
    log = dataclasses.replace(options.log, file_size=size, slots_per_file=size // 128)
    if pace.is_quick:
        log = dataclasses.replace(log, heartbeat=0.1, election_min=0.3, election_max=0.6)
    gap_max = options.fault_gap_max if pace.gap_max is None else pace.gap_max
    faults = {kind: WEIGHTS.get(kind, 1.0) * weight for kind, weight in options.faults.items()}
    options = dataclasses.replace(options, log=log, faults=faults)
    return dataclasses.replace(options, fault_gap_min=pace.gap_min, fault_gap_max=gap_max)


def run_subject(
    subject: Subject,
    seed: int,
    pace: Pace = DENSE,
    *,
    nodes: int = NODES,
    clients: int = CLIENTS,
) -> Report:
    """One seed of a machine under faults. Raises MachineViolation, with the seed in its text."""
    return SimulatedRun(subject, seed, pace, nodes=nodes, clients=clients).run()


def run_seed(
    make: MakeMachine,
    draw: Draw,
    seed: int,
    *,
    seconds: float = 20.0,
    nodes: int = 3,
    clients: int = 4,
) -> Report:
    """One seed of a machine without reads, at the usual pace. Raises MachineViolation."""
    return run_subject(Subject(make, draw), seed, Pace(seconds), nodes=nodes, clients=clients)
