"""`dledger chaos rejoins`: one node after the other is cut off and comes back (requirement L1).

A round: a node, drawn, sees nobody for some election timeouts, by pipes that lose everything or by
pipes that hold it all back until they open. Then:

    while it is away   the others are a healthy majority: if one of them led, it leads in its term
                       all the time; if the one that went led, one of the others does, soon
    when it is back    it has all that was committed before within REJOIN_SECONDS_MAX, and the
                       others' leader still leads, in the same term: its return disturbs no node

Clients append and read all the time, and `Watch` looks at every invariant after every event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

import click

from chaos.sim.clients import open_clients
from chaos.sim.course import NOTHING
from chaos.sim.network import CONNECTIONS, Pipe
from chaos.sim.node import SimNode
from chaos.sim.watch import Violated
from chaos.sim.world import STEP, World
from chaos.tools.progress import progress_bar
from cluster.commands.output import report_option, to_json

#: Rounds of one cluster; then another one is drawn, with other disks, files and windows.
ROUNDS_A_SEED = 50
ELECT_SECONDS_MAX = 15.0
REJOIN_SECONDS_MAX = 10.0
#: Longest that a node is away, in longest election timeouts.
AWAY_TIMEOUTS_MAX = 4.0


@dataclass(slots=True)
class Rejoined:
    """Sums over rounds. `caught_up_max`: longest time to have everything again, in seconds."""

    rounds: int = 0
    leaders_cut_off: int = 0
    violations: int = 0
    detail: str = ""
    seconds: float = 0.0
    caught_up_max: float = 0.0

    def add(self, other: Rejoined) -> None:
        """Adds the sums of other rounds; keeps the first detail and the longer `caught_up_max`."""
        self.rounds += other.rounds
        self.leaders_cut_off += other.leaders_cut_off
        self.violations += other.violations
        self.detail = self.detail or other.detail
        self.seconds += other.seconds
        self.caught_up_max = max(self.caught_up_max, other.caught_up_max)


class Rejoins:
    """One cluster, drawn by its seed, in which nodes are cut off and come back."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.world = World(seed, nodes, 0.0, course=NOTHING)
        self.found = Rejoined()

    def run(self, rounds: int) -> Rejoined:
        """All rounds; a violation ends them."""
        try:
            for node in self.world.nodes:
                node.start()
            self._until("liveness", ELECT_SECONDS_MAX, lambda: self._led(self.world.nodes))
            open_clients(self.world.environment)
            for _ in range(rounds):
                self._round()
        except Violated as broken:
            self.found.violations = 1
            self.found.detail = f"seed {self.world.seed}: {broken}"
        self.found.seconds = self.world.scheduler.now
        return self.found

    def _round(self) -> None:
        world = self.world
        victim = world.random.choice(world.nodes)
        others = [node for node in world.nodes if node is not victim]
        led = victim.leads
        before = self._leader(others)
        pipes = self._cut_off(victim)
        timeout = world.options.log.election_max
        self._pass(timeout * (0.5 + world.random.random() * AWAY_TIMEOUTS_MAX), others, before)
        if led:
            self._until("liveness", ELECT_SECONDS_MAX, lambda: self._led(others))
        before = self._leader(others)
        for pipe in pipes:
            world.network.open(pipe)
        self._come_back(victim, others, before)
        self.found.rounds += 1
        self.found.leaders_cut_off += led

    def _cut_off(self, victim: SimNode) -> list[Pipe]:
        network = self.world.network
        pairs = [(victim.index, other.index) for other in self.world.nodes if other is not victim]
        pipes = [
            network.pipes[source, target, connection]
            for one, other in pairs
            for source, target in ((one, other), (other, one))
            for connection in range(CONNECTIONS)
        ]
        hold = network.freeze if self.world.random.random() < 0.5 else network.block
        for pipe in pipes:
            hold(pipe)
        return pipes

    def _come_back(
        self, victim: SimNode, others: list[SimNode], before: tuple[SimNode, int] | None
    ) -> None:
        world, began = self.world, self.world.scheduler.now
        wanted = len(world.watch.committed) - 1
        self._until("rejoin", REJOIN_SECONDS_MAX, lambda: self._has(victim, wanted))
        took = world.scheduler.now - began
        self.found.caught_up_max = max(self.found.caught_up_max, took)
        self._pass(2 * world.options.log.election_max, others, before)

    def _pass(
        self, seconds: float, others: list[SimNode], before: tuple[SimNode, int] | None
    ) -> None:
        """Lets time pass and reports a violation if another node leads the others afterwards.
        `before`: their leader and its term, None if there was none."""
        self.world.scheduler.run_until(self.world.scheduler.now + seconds)
        after = self._leader(others)
        if before is not None and after != before:
            leader, term = before
            now = f"{after[0].id} in term {after[1]}" if after else "nobody"
            self.world.watch.violation(
                "disturbed", f"{leader.id} led a healthy majority in term {term}, now {now} leads"
            )

    def _until(self, name: str, seconds_max: float, done: Callable[[], bool]) -> None:
        scheduler = self.world.scheduler
        limit = scheduler.now + seconds_max
        while not done():
            if scheduler.now >= limit:
                self.world.watch.violation(name, f"not after {seconds_max:g} s")
            scheduler.run_until(scheduler.now + STEP)

    def _led(self, nodes: list[SimNode]) -> bool:
        """One of them leads, and has had an entry of its term decided."""
        leader = self._leader(nodes)
        if leader is None or leader[0].replica is None:
            return False
        core = leader[0].replica.node
        return core.log.term_at(core.commit) == core.term

    @staticmethod
    def _leader(nodes: list[SimNode]) -> tuple[SimNode, int] | None:
        leading = [(n, int(n.replica.node.term)) for n in nodes if n.replica and n.leads]
        return max(leading, key=lambda found: found[1], default=None)

    @staticmethod
    def _has(node: SimNode, index: int) -> bool:
        return node.replica is not None and node.replica.applied >= index


def run_rounds(
    rounds: int,
    *,
    first_seed: int = 0,
    progress: Callable[[Rejoined], None] = lambda found: None,
) -> Rejoined:
    """So many rounds on several clusters; every fourth has five nodes."""
    total, seed = Rejoined(), first_seed
    while total.rounds < rounds and not total.violations:
        nodes = 5 if seed % 4 == 3 else 3
        total.add(Rejoins(seed, nodes).run(min(ROUNDS_A_SEED, rounds - total.rounds)))
        progress(total)
        seed += 1
    return total


@click.command("rejoins")
@click.option("--rounds", type=click.IntRange(1), default=1000, show_default=True, help="How many.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the first cluster.")
@report_option
def rejoins(rounds: int, seed: int, output: str) -> None:
    """Cut off one node after the other in the simulator; exit code 1 when that disturbs others."""
    with progress_bar(rounds) as advance:
        found = run_rounds(
            rounds,
            first_seed=seed,
            progress=lambda now: advance(now.rounds, f"{now.leaders_cut_off} of them led"),
        )
    if output == "json":
        click.echo(to_json(asdict(found)))
    else:
        for name, value in asdict(found).items():
            click.echo(f"{name:16} {value}")
    sys.exit(1 if found.violations else 0)
