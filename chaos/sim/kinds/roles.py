"""Faults of leadership and membership: transfers, leaders that die in turn, members that come and
go."""

from __future__ import annotations

from chaos.sim.kinds.links import between, cut
from chaos.sim.kinds.processes import down
from chaos.sim.kinds.stage import Injector, Stage
from chaos.sim.members import LOSS_KIND, Churn
from chaos.sim.node import SimNode
from chaos.sim.service import NodeService


def transfer(stage: Stage, victim: SimNode) -> None:
    """Asks each leader to hand over, to a node of its choice or to a given one."""
    for node in stage.nodes:
        if node.leads:
            to = stage.random.choice([None, *(other.index for other in stage.nodes)])
            NodeService(node).transfer(to)


def figure_8(stage: Stage, victim: SimNode) -> None:
    """Leaders die one after the other, right after each could reach one follower only."""
    random = stage.random
    rounds = random.randint(2, 4)

    def strike() -> None:
        nonlocal rounds
        leaders = stage.leaders()
        if leaders and rounds:
            rounds -= 1
            leader = random.choice(leaders)
            spared = random.choice(stage.others(leader))
            others = [other for other in stage.others(leader) if other != spared]
            cut(stage, between(stage, [leader.index], others, both=True), 1.0, stage.later)
            power = random.random() < 0.3
            stage.later(lambda: down(stage, leader, power=power), 0.3)
        if rounds:
            stage.later(strike, 1.2)

    strike()


def member_add(stage: Stage, victim: SimNode) -> None:
    """A spare machine is taken in."""
    _churn(stage).add()


def member_remove(stage: Stage, victim: SimNode) -> None:
    """A voter goes."""
    _churn(stage).remove(victim)


def member_change(stage: Stage, victim: SimNode) -> None:
    """One is taken in, or one goes."""
    (member_add if stage.random.random() < 0.5 else member_remove)(stage, victim)


def member_wipe(stage: Stage, victim: SimNode) -> None:
    """A voter's disk is lost, unless others' bytes are."""
    if stage.rot.may_lose(victim):
        _churn(stage).wipe(victim)


def member_loses_file(stage: Stage, victim: SimNode) -> None:
    """Lose both copies of a voter's small file, unless other bytes are lost already."""
    if stage.rot.may_lose(victim) and not stage.rot.holds(victim):
        _churn(stage).lose_file(victim)


def _churn(stage: Stage) -> Churn:
    assert stage.churn is not None, "the group of this run never changes"
    return stage.churn


INJECTORS: dict[str, Injector] = {
    "transfer": transfer,
    "figure-8": figure_8,
    "member-add": member_add,
    "member-remove": member_remove,
    "member-wipe": member_wipe,
    LOSS_KIND: member_loses_file,
}
