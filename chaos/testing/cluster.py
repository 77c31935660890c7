"""One run of a machine under faults, from one seed, and the judgement of it.

    clients of all nodes ─► commands, one at a time each ─► answers, errors, or none
    RandomNemesis ─► kills, power cuts, partitions, clocks, hung disks …  all healed at the end
    judge:  every node applied the same commands at the same indexes, each once
            what was answered was applied, with that result; what was refused for certain was not
            who was answered before another began stands before it in the log
            a fresh machine that applies the log gives every node's every result

The log's order is the witness of linearizability: all answers follow from one order of the commands
that respects real time, which is what linearizable means. A state that was restored wrongly, a
command that was applied twice and one that was lost show as answers that do not follow.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.sim import swarm
from chaos.sim.clients import ClientEnvironment
from chaos.sim.course import FROM_SEED
from chaos.sim.network import CALM, Network, Pipe
from chaos.sim.random_nemesis import KINDS, RandomNemesis
from chaos.sim.scheduler import Scheduler
from chaos.sim.service import NodeService
from chaos.testing.process import Applied, MachineNode, MakeMachine, apply_bytes
from dledger.core.messages import Message
from dledger.core.types import NodeId
from dledger.errors import DledgerError, Outcome
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.wire.frames import FrameType

#: Draws a command; the number counts up, for values that are to be one of a kind.
Draw = Callable[[Random, int], Any]
#: Failing and rotten disks are the log's matter, not a machine's; two shapes need five nodes.
_LOGS_OWN = {"io-error", "read-error", "disk-full", "bit-rot", "ring", "figure-8"}
#: What the simulator does to a machine under test.
FAULTS = tuple(kind for kind in KINDS if kind not in _LOGS_OWN)
_FORWARDS = frozenset({FrameType.FORWARD, FrameType.FORWARD_REPLY})
COMMAND_SECONDS = 3.0
PAUSE_SECONDS = 0.2
LIVENESS_SECONDS = 40.0


class MachineViolation(AssertionError):
    """A run that no correct machine and log would give; the text names seed and finding."""


@dataclass(slots=True)
class Call:
    """One command of a client; `ended` is None while it has no answer, for ever if it got none."""

    data: bytes
    node: str
    begun: float
    ended: float | None = None
    result: bytes | None = None
    error: DledgerError | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """One run: virtual seconds, calls begun and answered, and how often each fault was begun."""

    seed: int
    seconds: float
    calls: int
    answered: int
    applied: int
    faults: dict[str, int]


class SimulatedRun:
    """Builds and runs one seed."""

    def __init__(
        self, make: MakeMachine, draw: Draw, seed: int, *, nodes: int, clients: int
    ) -> None:
        self.make, self._draw, self.seed = make, draw, seed
        self._random = random = Random(f"dledger-testing-{seed}")
        options = swarm.draw(random, nodes, FAULTS)
        log = dataclasses.replace(options.log, file_size=1 << 20, slots_per_file=8192)
        self._options = dataclasses.replace(options, log=log)
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
        self._codec = make()
        self.calls: list[Call] = []
        self._clients, self._open = clients, True
        self._numbers = itertools.count(1)

    def run(self, seconds: float) -> Report:
        """Faults for so many virtual seconds, then none. Raises MachineViolation."""
        for node in self.nodes:
            node.make, node.network = self.make, self._network
            node.start()
        environment = ClientEnvironment(
            self.scheduler,
            self._random,
            self._options.load,
            [NodeService(node) for node in self.nodes],
            self._options.network.latency,
            lambda _: True,
        )
        nemesis = RandomNemesis(
            self.scheduler,
            self._random,
            self._options,
            self.nodes,
            self._network,
            environment,
            lambda *_: None,
            None,
            FROM_SEED,
        )
        for _ in range(self._clients):
            self.scheduler.after(self._random.random(), self._next)
        self.scheduler.run_until(seconds)
        self._network.options = CALM
        nemesis.heal_all()
        self._settle()
        applied = self._judge()
        answered = sum(call.result is not None for call in self.calls)
        return Report(
            self.seed, self.scheduler.now, len(self.calls), answered, applied, nemesis.counts
        )

    # -- clients -----------------------------------------------------------------------------------

    def _next(self, _: object) -> None:
        """One client's next command, at any node that runs."""
        if not self._open:
            return
        node = self._random.choice(self.nodes)
        process, now = node.process, self.scheduler.now
        if process is None:
            self.scheduler.after(PAUSE_SECONDS, self._next)
            return
        number = next(self._numbers)
        command = self._draw(self._random, number)
        data = number.to_bytes(4, "big") + self._codec.encode(command)
        call = Call(data, node.id, now)
        self.calls.append(call)
        went_on = False

        def go_on(_: object) -> None:
            nonlocal went_on
            if not went_on:
                went_on = True
                self._next(None)

        def done(result: Any, error: DledgerError | None) -> None:
            call.ended, call.result, call.error = self.scheduler.now, result, error
            self.scheduler.after(self._random.random() * PAUSE_SECONDS, go_on)

        node.in_process(process, lambda: process.propose(data, done, now + COMMAND_SECONDS))
        self.scheduler.after(2 * COMMAND_SECONDS, go_on)  # its node died

    def _deliver(self, pipe: Pipe, frame: bytes) -> None:
        node = self.nodes[pipe.target]
        if len(frame) > 4 and frame[4] in _FORWARDS:
            node.forwarded(pipe.source, frame)
        else:
            node.receive(pipe, frame)

    # -- the end -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        """The clients are answered again, then all nodes have applied the same."""
        end, before = self.scheduler.now + LIVENESS_SECONDS, len(self.calls)
        while not any(call.result is not None for call in self.calls[before:]):
            if self.scheduler.now > end:
                self.violation("liveness", "no command is answered after all faults ended")
            self.scheduler.run_until(self.scheduler.now + 0.5)
        self._open = False
        while True:  # until they are equal, or it took too long
            self.scheduler.run_until(self.scheduler.now + 0.5)
            ends = {
                (node.process.applied, node.replica.log.last.index)
                for node in self.nodes
                if node.process is not None and node.replica is not None
            }
            are_equal = len(ends) == 1 and all(one == other for one, other in ends)
            if are_equal and all(node.up for node in self.nodes):
                return
            if self.scheduler.now > end:
                self.violation("liveness", f"nodes do not become equal: {sorted(ends)}")

    def _judge(self) -> int:
        log: dict[int, Applied] = {}
        for node in self.nodes:
            for begun_behind, applied in node.lives:
                self._check_process(node.id, begun_behind, applied, log)
        order = [log[index] for index in sorted(log)]
        place: dict[bytes, Applied] = {}
        for one in order:
            if one.data in place:
                self.violation("applied-twice", f"entries {place[one.data].index} and {one.index}")
            place[one.data] = one
        fresh = self.make()
        for one in order:
            expected = apply_bytes(fresh, one.index, one.time_ms, one.data)
            if expected != one.result:
                self.violation(
                    "wrong-result", f"entry {one.index}: {one.result!r} instead of {expected!r}"
                )
        self._check_answers(place)
        self._check_order(place)
        self._check_states(fresh)
        return len(order)

    def _check_process(
        self, name: str, begun_behind: int, applied: Sequence[Applied], log: dict[int, Applied]
    ) -> None:
        last = begun_behind
        for one in applied:
            if one.index <= last:
                self.violation("applied-twice", f"{name}: entry {one.index} behind {last}")
            last = one.index
            known = log.setdefault(one.index, one)
            if known != one:
                self.violation("nodes-differ", f"{name} at entry {one.index}: {one} and {known}")

    def _check_answers(self, place: dict[bytes, Applied]) -> None:
        for call in self.calls:
            applied = place.get(call.data)
            if call.result is not None:
                if applied is None:
                    self.violation("lost", f"{call} was answered and is not in the log")
                elif applied.result != call.result:
                    self.violation("wrong-answer", f"{call} and {applied}")
            elif call.error is not None and call.error.outcome is Outcome.NOT_DONE and applied:
                self.violation("done-all-the-same", f"{call} and {applied}")

    def _check_order(self, place: dict[bytes, Applied]) -> None:
        """A call that ended before another began stands before it."""
        ended = sorted(
            (call.ended, place[call.data].index)
            for call in self.calls
            if call.ended is not None and call.result is not None
        )
        begun = sorted(
            (call.begun, place[call.data].index) for call in self.calls if call.data in place
        )
        at, highest = 0, -1
        for when, index in begun:
            while at < len(ended) and ended[at][0] < when:
                highest = max(highest, ended[at][1])
                at += 1
            if index < highest:
                self.violation("order", f"entry {index} began after entry {highest} had ended")

    def _check_states(self, fresh: ReplicatedStateMachine[Any, Any]) -> None:
        state = fresh.snapshot()
        expected = state if isinstance(state, bytes) else state()
        for node in self.nodes:
            assert node.process is not None
            found = node.process.machine.snapshot()
            if found != expected:
                self.violation("states-differ", f"{node.id}: {found!r} instead of {expected!r}")

    # -- Observer ----------------------------------------------------------------------------------

    def started(self, node: object) -> None:
        """As a SimNode's observer."""

    def stepped(self, node: object) -> None:
        """As a SimNode's observer."""

    def sending(self, node: object, to: NodeId, message: Message) -> None:
        """As a SimNode's observer."""

    def violation(self, name: str, detail: str) -> None:
        """End the run."""
        raise MachineViolation(f"seed {self.seed}: {name}: {detail}")


def run_seed(
    make: MakeMachine,
    draw: Draw,
    seed: int,
    *,
    seconds: float = 20.0,
    nodes: int = 3,
    clients: int = 4,
) -> Report:
    """One seed of a machine under faults. Raises MachineViolation, with the seed in its text."""
    return SimulatedRun(make, draw, seed, nodes=nodes, clients=clients).run(seconds)
