"""Faults of one run: which, on whom, how long. Names as in the catalogue (chaos.md 3.2).

Every fault that is begun has its end in the schedule; `heal_all` ends what is left. Leaders are
aimed at more often than chance would, and a machine dies more often while its disk is busy.

Fault atlas: rotten bytes on at most a minority, each undone by the operator before the final
judgement; everything else may hit any number of nodes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from chaos.sim.network import LANES, Network, Pipe
from chaos.sim.node import SimNode
from chaos.sim.rot import Rot
from chaos.sim.scheduler import Scheduler
from chaos.sim.service import NodeService
from chaos.sim.swarm import SwarmOptions

#: kill, crash-loop, power and clean stop: how long a machine stays down, in seconds.
DOWN_MAX = 4.0

KINDS = (
    "kill",
    "kill-all",
    "crash-loop",
    "stop",
    "power-loss",
    "power-all",
    "failpoint",
    "pause",
    "disk-slow",
    "disk-hang",
    "io-error",
    "read-error",
    "disk-full",
    "bit-rot",
    "partition",
    "isolate-leader",
    "one-way",
    "edge-cut",
    "ring",
    "flap",
    "clog",
    "old-leader-returns",
    "reset",
    "clock",
    "transfer",
    "figure-8",
)


class Nemesis:
    """Begins a fault every now and then, until `stop`."""

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        options: SwarmOptions,
        nodes: Sequence[SimNode],
        network: Network,
        note: Callable[[str, str], None],
    ) -> None:
        self._scheduler, self._random, self._options = scheduler, random, options
        self._nodes, self._network, self._note = nodes, network, note
        self._rot = Rot(nodes, random)
        self._kinds = [kind for kind in KINDS if options.faults.get(kind)]
        self._weights = [options.faults[kind] for kind in self._kinds]
        self._stopped = False
        self.counts: dict[str, int] = {}
        self._schedule_next()

    def _schedule_next(self) -> None:
        gap = 1.5 + self._random.random() * (self._options.fault_gap_max - 1.5)
        self._scheduler.after(gap, self._begin)

    def _begin(self, _: None) -> None:
        if self._stopped:
            return
        self._restart_failed()
        kind = self._random.choices(self._kinds, self._weights)[0]
        self.counts[kind] = self.counts.get(kind, 0) + 1
        victim = self._victim()
        self._note(kind, victim.id)
        getattr(self, "_" + kind.replace("-", "_"))(victim)
        self._schedule_next()

    def _victim(self) -> SimNode:
        leaders = [node for node in self._nodes if node.leads]
        if leaders and self._random.random() < self._options.leader_aim:
            return self._random.choice(leaders)
        return self._random.choice(self._nodes)

    def _later(self, action: Callable[[], None], delay_max: float) -> None:
        delay = 0.02 + self._random.random() * delay_max
        self._scheduler.after(delay, lambda _: None if self._stopped else action())

    def _restart_failed(self) -> None:
        """The operator: replaces failed disks, starts what stopped or refused."""
        for node in self._nodes:
            if self._random.random() < 0.5:
                self._mend(node)

    def _mend(self, node: SimNode) -> None:
        failed = node.replica is not None and node.replica.failure is not None
        if not (failed or node.refused):
            return
        self._rot.undo(node)
        node.disk.mend()
        if failed:
            node.crash(power=self._random.random() < 0.5)
        node.excused = False
        node.start()

    # -- processes and power -----------------------------------------------------------------

    def _down(self, node: SimNode, *, power: bool) -> None:
        node.crash(power=power)
        self._later(node.start, DOWN_MAX if self._random.random() < 0.5 else 0.3)

    def _kill(self, victim: SimNode) -> None:
        self._down(victim, power=False)

    def _power_loss(self, victim: SimNode) -> None:
        self._down(victim, power=True)

    def _kill_all(self, victim: SimNode) -> None:
        for node in self._nodes:
            self._down(node, power=False)

    def _power_all(self, victim: SimNode) -> None:
        for node in self._nodes:
            self._down(node, power=True)

    def _stop(self, victim: SimNode) -> None:
        victim.stop()
        self._later(victim.start, 1.0)

    def _crash_loop(self, victim: SimNode) -> None:
        """Dies again, several times, in the middle of its own recovery."""
        victim.crash(power=True)
        again = self._random.randint(1, 3)

        def start() -> None:
            nonlocal again
            if victim.up:
                return
            if again:
                again -= 1
                victim.disk.fuse(self._random.randint(1, 16), power=self._random.random() < 0.5)
                victim.start()
                if victim.up:
                    victim.crash(power=True)
                self._later(start, 0.3)
            else:
                victim.start()

        self._later(start, 0.3)

    def _failpoint(self, victim: SimNode) -> None:
        """Power goes, or the process dies, in the middle of one of the next disk operations."""
        power = self._random.random() < 0.6
        victim.disk.fuse(self._random.randint(1, 20), power=power)
        life = victim.life

        def cut() -> None:
            if victim.life == life:
                victim.crash(power=True)
            if not victim.up:
                self._later(victim.start, 1.0)

        self._later(cut, 1.0)

    def _pause(self, victim: SimNode) -> None:
        victim.pause()
        self._later(victim.resume, self._random.choice((0.3, 1.0, 4.0)))

    def _clock(self, victim: SimNode) -> None:
        victim.skip_clock(self._random.choice((0.05, 0.3, 2.0, 60.0)))

    # -- disks -------------------------------------------------------------------------------

    def _disk_slow(self, victim: SimNode) -> None:
        victim.slow = self._random.choice((10.0, 50.0))

        def fast() -> None:
            victim.slow = 1.0

        self._later(fast, 3.0)

    def _disk_hang(self, victim: SimNode) -> None:
        victim.hang_disk()
        self._later(victim.free_disk, 6.0)

    def _io_error(self, victim: SimNode) -> None:
        victim.excused = True
        victim.disk.fail(self._random.randint(1, 20))

    def _read_error(self, victim: SimNode) -> None:
        victim.excused = True
        victim.disk.read_error = True

        def heal() -> None:
            victim.disk.read_error = False

        self._later(heal, 2.0)

    def _disk_full(self, victim: SimNode) -> None:
        victim.excused = True
        victim.disk.free = 0

        def space() -> None:
            victim.disk.free = 1 << 40

        self._later(space, 3.0)

    def _bit_rot(self, victim: SimNode) -> None:
        self._rot.begin(victim)

    # -- network -----------------------------------------------------------------------------

    def _cut(self, pipes: Sequence[Pipe], seconds_max: float) -> None:
        """Block or freeze, later open."""
        freeze = self._random.random() < 0.4
        for pipe in pipes:
            if freeze:
                self._network.freeze(pipe)
            else:
                self._network.block(pipe)

        def heal() -> None:
            for pipe in pipes:
                self._network.open(pipe)

        self._later(heal, seconds_max)

    def _between(self, ones: Sequence[int], others: Sequence[int], *, both: bool) -> list[Pipe]:
        pairs = [(one, other) for one in ones for other in others if one != other]
        if both:
            pairs += [(other, one) for one, other in pairs]
        return [self._network.pipes[a, b, lane] for a, b in pairs for lane in range(LANES)]

    def _others(self, node: SimNode) -> list[int]:
        return [other.index for other in self._nodes if other is not node]

    def _partition(self, victim: SimNode) -> None:
        order = [node.index for node in self._nodes]
        self._random.shuffle(order)
        size = self._random.randint(1, len(order) // 2)
        self._cut(self._between(order[:size], order[size:], both=True), 6.0)

    def _isolate_leader(self, victim: SimNode) -> None:
        for node in self._nodes:
            if node.leads:
                self._cut(self._between([node.index], self._others(node), both=True), 5.0)

    def _one_way(self, victim: SimNode) -> None:
        pipes = self._between([victim.index], self._others(victim), both=False)
        if self._random.random() < 0.5:
            pipes = self._between(self._others(victim), [victim.index], both=False)
        if self._random.random() < 0.3:
            lane = self._random.randrange(LANES)
            pipes = [pipe for pipe in pipes if pipe.lane == lane]
        self._cut(pipes, 4.0)

    def _edge_cut(self, victim: SimNode) -> None:
        other = self._random.choice(self._others(victim))
        self._cut(self._between([victim.index], [other], both=True), 6.0)

    def _ring(self, victim: SimNode) -> None:
        """Majorities ring: each node sees its neighbours only, and each sees a majority."""
        count = len(self._nodes)
        reach = count // 4 + 1 if count > 3 else 1
        order = [node.index for node in self._nodes]
        self._random.shuffle(order)
        pipes = []
        for one in range(count):
            for other in range(count):
                distance = min((one - other) % count, (other - one) % count)
                if distance > reach:
                    pipes += self._between([order[one]], [order[other]], both=False)
        self._cut(pipes or self._between([order[0]], [order[1]], both=True), 6.0)

    def _flap(self, victim: SimNode) -> None:
        pipes = self._between([victim.index], self._others(victim), both=True)
        for _ in range(self._random.randint(2, 6)):
            self._later(lambda: self._cut(pipes, 0.3), 2.0)

    def _clog(self, victim: SimNode) -> None:
        """Traffic of one lane stands still, then all of it arrives at once."""
        lane = self._random.randrange(LANES)
        pipes = [p for p in self._network.pipes.values() if p.lane == lane]
        chosen = [p for p in pipes if victim.index in (p.source, p.target)]
        for pipe in chosen:
            self._network.freeze(pipe)

        def heal() -> None:
            for pipe in chosen:
                self._network.open(pipe)

        self._later(heal, 5.0)

    def _old_leader_returns(self, victim: SimNode) -> None:
        """The leader's words are held back for some election timeouts, then all arrive."""
        pipes = self._between([victim.index], self._others(victim), both=False)
        for pipe in pipes:
            self._network.freeze(pipe)

        def heal() -> None:
            for pipe in pipes:
                self._network.open(pipe)

        self._later(heal, 3 * self._options.log.election_max)

    def _reset(self, victim: SimNode) -> None:
        for other in self._others(victim):
            if self._random.random() < 0.6:
                lane = self._random.randrange(LANES)
                self._network.cut_connection(victim.index, other, lane)

    # -- roles -------------------------------------------------------------------------------

    def _transfer(self, victim: SimNode) -> None:
        for node in self._nodes:
            if node.leads:
                to = self._random.choice([None, *(other.index for other in self._nodes)])
                NodeService(node).transfer(to)

    def _figure_8(self, victim: SimNode) -> None:
        """Leaders die one after the other, right after each could reach one follower only."""
        rounds = self._random.randint(2, 4)

        def strike() -> None:
            nonlocal rounds
            leaders = [node for node in self._nodes if node.leads]
            if leaders and rounds:
                rounds -= 1
                leader = self._random.choice(leaders)
                spared = self._random.choice(self._others(leader))
                others = [other for other in self._others(leader) if other != spared]
                self._cut(self._between([leader.index], others, both=True), 1.0)
                power = self._random.random() < 0.3
                self._later(lambda: self._down(leader, power=power), 0.3)
            if rounds:
                self._later(strike, 1.2)

        strike()

    # -- the end -----------------------------------------------------------------------------

    def heal_all(self) -> None:
        """End every fault: the liveness phase begins."""
        self._stopped = True
        self._network.open_all()
        for node in self._nodes:
            node.slow = 1.0
            node.resume()
            node.free_disk()
            failed = node.replica is not None and node.replica.failure is not None
            self._rot.undo(node)
            node.disk.mend()
            if failed or (node.excused and node.up):
                node.crash(power=False)
            node.excused = False
            node.start()
