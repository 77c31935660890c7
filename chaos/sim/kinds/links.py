"""Faults of links: cut or frozen pipes, in one direction or both, of one connection or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from chaos.sim.kinds.stage import Injector, Stage
from chaos.sim.network import CONNECTIONS, Pipe
from chaos.sim.node import SimNode

#: Puts the healing on the time table: `Stage.ends`, or `Stage.later` for a step of something longer
End = Callable[[Callable[[], None], float], object]


def cut(stage: Stage, pipes: Sequence[Pipe], seconds_max: float, end: End) -> None:
    """Block or freeze, later open."""
    hold = stage.network.freeze if stage.random.random() < 0.4 else stage.network.block
    for pipe in pipes:
        hold(pipe)
    end(partial(_open, stage, pipes), seconds_max)


def freeze(stage: Stage, pipes: Sequence[Pipe], seconds_max: float) -> None:
    """Traffic stands still, then all of it arrives at once."""
    for pipe in pipes:
        stage.network.freeze(pipe)
    stage.ends(partial(_open, stage, pipes), seconds_max)


def _open(stage: Stage, pipes: Sequence[Pipe]) -> None:
    for pipe in pipes:
        stage.network.open(pipe)


def between(stage: Stage, ones: Sequence[int], others: Sequence[int], *, both: bool) -> list[Pipe]:
    """All connections from `ones` to `others`, with `both` also back."""
    pairs = [(one, other) for one in ones for other in others if one != other]
    if both:
        pairs += [(other, one) for one, other in pairs]
    return [
        stage.network.pipes[a, b, connection] for a, b in pairs for connection in range(CONNECTIONS)
    ]


def around(stage: Stage, node: SimNode) -> list[Pipe]:
    """Every pipe between a machine and the others."""
    return between(stage, [node.index], stage.others(node), both=True)


def isolate(stage: Stage, victim: SimNode) -> None:
    """Cuts all links of the victim."""
    cut(stage, around(stage, victim), 6.0, stage.ends)


def split(stage: Stage, victim: SimNode) -> None:
    """Two groups of machines, drawn, do not see each other."""
    order = [node.index for node in stage.nodes]
    stage.random.shuffle(order)
    size = stage.random.randint(1, len(order) // 2)
    cut(stage, between(stage, order[:size], order[size:], both=True), 6.0, stage.ends)


def isolate_leader(stage: Stage, victim: SimNode) -> None:
    """Cuts all links of each node that leads."""
    for node in stage.leaders():
        cut(stage, around(stage, node), 5.0, stage.ends)


def one_way(stage: Stage, victim: SimNode) -> None:
    """Can send and not receive, or the reverse; now and then on one connection only."""
    random = stage.random
    pipes = between(stage, [victim.index], stage.others(victim), both=False)
    if random.random() < 0.5:
        pipes = between(stage, stage.others(victim), [victim.index], both=False)
    if random.random() < 0.3:
        connection = random.randrange(CONNECTIONS)
        pipes = [pipe for pipe in pipes if pipe.connection == connection]
    cut(stage, pipes, 4.0, stage.ends)


def edge_cut(stage: Stage, victim: SimNode) -> None:
    """Two machines do not see each other."""
    other = stage.random.choice(stage.others(victim))
    cut(stage, between(stage, [victim.index], [other], both=True), 6.0, stage.ends)


def majorities_ring(stage: Stage, victim: SimNode) -> None:
    """Each machine sees its neighbours only, and each sees a majority; of three one edge is cut."""
    count = len(stage.nodes)
    _circle(stage, (count // 2 + 1) // 2)


def _circle(stage: Stage, reach: int) -> None:
    """Arranges the nodes in a circle in which each sees `reach` neighbours at either side. If that
    would be all nodes, it cuts one edge."""
    count = len(stage.nodes)
    order = [node.index for node in stage.nodes]
    stage.random.shuffle(order)
    pipes = []
    for one in range(count):
        for other in range(count):
            distance = min((one - other) % count, (other - one) % count)
            if distance > reach:
                pipes += between(stage, [order[one]], [order[other]], both=False)
    pipes = pipes or between(stage, [order[0]], [order[1]], both=True)
    cut(stage, pipes, 6.0, stage.ends)


def bridge(stage: Stage, victim: SimNode) -> None:
    """Two halves do not see each other; one machine that is left over sees both."""
    others = stage.others(victim)
    stage.random.shuffle(others)
    half = len(stage.nodes) // 2
    near, far = [victim.index, *others[: half - 1]], others[half - 1 : 2 * half - 1]
    cut(stage, between(stage, near, far, both=True), 6.0, stage.ends)


def ring(stage: Stage, victim: SimNode) -> None:
    """As the catalogue has it: an edge; of five a bridge or a ring of majorities, too."""
    count = len(stage.nodes)
    shape = stage.random.choice(("edge", "bridge", "majorities-ring")) if count > 4 else "edge"
    if shape == "majorities-ring":
        majorities_ring(stage, victim)
    else:
        (edge_cut if shape == "edge" else bridge)(stage, victim)


def flap(stage: Stage, victim: SimNode) -> None:
    """Fails and heals quickly, some times."""
    pipes = around(stage, victim)
    for _ in range(stage.random.randint(2, 6)):
        stage.later(lambda: cut(stage, pipes, 0.3, stage.later), 2.0)


def clog(stage: Stage, victim: SimNode) -> None:
    """Traffic of one connection stands still, then all of it arrives at once."""
    connection = stage.random.randrange(CONNECTIONS)
    pipes = [p for p in stage.network.pipes.values() if p.connection == connection]
    freeze(stage, [p for p in pipes if victim.index in (p.source, p.target)], 5.0)


def old_leader_returns(stage: Stage, victim: SimNode) -> None:
    """The leader's words are held back for some election timeouts, then all arrive."""
    pipes = between(stage, [victim.index], stage.others(victim), both=False)
    freeze(stage, pipes, 3 * stage.options.log.election_max)


def reset(stage: Stage, victim: SimNode) -> None:
    """Connections break, and are made again."""
    for other in stage.others(victim):
        if stage.random.random() < 0.6:
            connection = stage.random.randrange(CONNECTIONS)
            stage.network.cut_connection(victim.index, other, connection)


INJECTORS: dict[str, Injector] = {
    "partition": split,
    "isolate-leader": isolate_leader,
    "one-way": one_way,
    "edge-cut": edge_cut,
    "ring": majorities_ring,
    "flap": flap,
    "clog": clog,
    "old-leader-returns": old_leader_returns,
    "reset": reset,
}
