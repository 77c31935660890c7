"""Faults of a machine under test: those of the simulator, and three that aim at states and turns.

away       a node is down, or cut off, until others may have deleted what it lacks
overtake   the next machine that is given a state is killed, stopped or made leader meanwhile
interrupt  the same of the next machine that has left entries to a later turn of its loop
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.sim.kinds.links import around, cut
from chaos.sim.kinds.processes import down
from chaos.sim.kinds.stage import Injector, Stage
from chaos.sim.kinds.table import RANDOM_KINDS
from chaos.sim.node import SimNode
from chaos.sim.random_nemesis import KINDS, RandomNemesis
from chaos.sim.service import NodeService
from chaos.testing.machine_node import MachineNode
from chaos.testing.process import MachineProcess

#: Failing and rotten disks are the log's matter, not a machine's; two shapes need five nodes.
_LOGS_OWN = {"io-error", "read-error", "disk-full", "bit-rot", "ring", "figure-8"}
#: Each half of the time that a node is away, at most.
AWAY_SECONDS = 1.5
#: How long a fault waits for a machine that is given a state, and how often it looks.
WAIT_SECONDS, LOOK_SECONDS = 6.0, 0.02
#: A machine is behind for some turns of its loop only.
TURN_LOOK_SECONDS = 0.005


def away(stage: Stage, victim: SimNode) -> None:
    """The node hears of no entries for so long that it may need a state."""
    if stage.random.random() < 0.5:
        victim.crash(power=stage.random.random() < 0.3)
        stage.ends(lambda: stage.ends(victim.start, AWAY_SECONDS), AWAY_SECONDS)
    else:
        cut(stage, around(stage, victim), 2 * AWAY_SECONDS, stage.ends)


def overtake(stage: Stage, victim: SimNode) -> None:
    """The first machine that is given a state: the thread ends too late, or not at all."""
    if stage.random.random() < 0.5:  # else some other fault may have had it sent one
        away(stage, victim)
    _at_first(stage, LOOK_SECONDS, lambda process: process.is_restoring)


def interrupt(stage: Stage, victim: SimNode) -> None:
    """The first machine that has some of its entries: its next turn comes otherwise, or not."""
    waiting = stage.random.choice((0, 10))  # several turns: others may act in between
    _at_first(
        stage,
        TURN_LOOK_SECONDS,
        lambda process: process.is_behind and process.applying.waiting > waiting,
    )


def _at_first(stage: Stage, seconds: float, is_it: Callable[[MachineProcess], bool]) -> None:
    """Look again and again for a machine of which that is true."""
    until = stage.scheduler.now + WAIT_SECONDS
    which = stage.random.choice(("kill", "power", "stop", "lead", "lead", "cut"))

    def look() -> None:
        for node in stage.nodes:
            assert isinstance(node, MachineNode)
            if which == "lead" and node.leads:
                continue
            if node.process is not None and is_it(node.process):
                _meanwhile(stage, node, which)
                return
        if stage.scheduler.now < until:
            stage.later(look, seconds)

    look()


def _meanwhile(stage: Stage, node: SimNode, which: str) -> None:
    if which == "stop":
        node.stop()
        stage.ends(node.start, 1.0)
    elif which == "lead":
        for leader in stage.leaders():
            NodeService(leader).transfer(node.index)
    elif which == "cut":
        cut(stage, around(stage, node), 1.0, stage.ends)
    else:
        down(stage, node, power=which == "power")


INJECTORS: dict[str, Injector] = {"away": away, "overtake": overtake, "interrupt": interrupt}
#: What the simulator does to a machine under test.
FAULTS = (*(kind for kind in KINDS if kind not in _LOGS_OWN), *INJECTORS)
#: So many times as likely as the others.
WEIGHTS = {"away": 4.0, "overtake": 4.0, "interrupt": 4.0}


class MachineNemesis(RandomNemesis):
    """Begins these faults."""

    kinds = FAULTS
    injectors = {**RANDOM_KINDS, **INJECTORS}  # noqa: RUF012  # a constant
