"""Faults of a schedule that was drawn beforehand (chaos/schedule.py), as live runs have them.

Each has chance of its own, so that its details stay as they are when others are left out. Whom it
hits is decided when it begins, as in `chaos/live/nemesis.py`. Kinds that the simulator does not
have are passed over: `chaos/faults.py` says which those are.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from chaos.faults import Target
from chaos.schedule import Planned, minority
from chaos.sim.kinds.table import CATALOGUE
from chaos.sim.nemesis import Nemesis
from chaos.sim.node import SimNode
from chaos.sim.service import NodeService

#: The operator looks after the machines as often; seconds.
ROUND_SECONDS = 1.0
#: How long a hand-over is waited for, and how often is looked who leads; seconds.
HAND_OVER_SECONDS_MAX = 2.0
LOOK_SECONDS = 0.01


class ScriptedNemesis(Nemesis):
    """Begins each fault of the course's schedule at its time, until `heal_all`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for planned in self._course.schedule or ():
            if planned.kind in CATALOGUE:
                self._scheduler.at(planned.at, self._begin, planned)
        if self._course.schedule:
            self._scheduler.after(ROUND_SECONDS, self._go_round)

    def _begin(self, planned: Planned) -> None:
        if self._healed:
            return
        left_out = self._course.leaves_out(planned.number)  # then nobody hands over either
        if planned.target is Target.NEW_LEADER and not left_out:
            self._hand_over(planned)
        else:
            self._hit(planned, [])

    def _hand_over(self, planned: Planned) -> None:
        """Makes the leader hand over and hits the new leader; the old one if no other node leads in
        time."""
        before = self._stage.leaders()
        for node in before:
            NodeService(node).transfer(None)
        end = self._scheduler.now + HAND_OVER_SECONDS_MAX

        def look(_: None) -> None:
            new = [node for node in self._stage.leaders() if node not in before]
            if new or not before or self._scheduler.now >= end:
                self._hit(planned, new[:1])
            else:
                self._scheduler.after(LOOK_SECONDS, look)

        look(None)

    def _hit(self, planned: Planned, victims: list[SimNode]) -> None:
        """Carries out the fault on `victims`; if there are none, on nodes chosen by the fault's
        target."""
        if self._healed:
            return
        random = Random(planned.chance)
        stage = replace(self._stage, random=random, seconds=planned.seconds)
        victims = victims or self._choose(planned.target, random)
        self._carry_out(planned.number, planned.kind, CATALOGUE[planned.kind], stage, victims)

    def _go_round(self, _: None) -> None:
        if not self._healed:
            self._look_after_machines()
            self._scheduler.after(ROUND_SECONDS, self._go_round)

    def _choose(self, target: Target, random: Random) -> list[SimNode]:
        """Chooses the nodes that `target` means now; random ones if there is no leader."""
        members = self._members()
        if target is Target.ALL:
            return members
        if target is Target.RANDOM:
            return [random.choice(members)]
        if target is Target.MINORITY:
            drawn = random.sample(members, min(minority(len(members)), len(members)))
            return [node for node in members if node in drawn]
        leaders = [node for node in self._stage.leaders() if node in members]
        if target in (Target.LEADER, Target.NEW_LEADER):
            return [random.choice(leaders or members)]
        followers = [node for node in members if node not in leaders] or members
        if target is Target.FOLLOWER:
            return [random.choice(followers)]
        if target is Target.LAST_VOTER:
            voters = [node for node in followers if any(_voted(node, for_) for for_ in leaders)]
            return [random.choice(voters or followers)]
        if target is Target.CATCHING_UP:  # one that is down is not
            followers = [node for node in followers if node.up] or followers
        best = max if target is Target.MOST_CURRENT else min
        return [best(followers, key=_end_of_log)]

    def _members(self) -> list[SimNode]:
        """Without spare machines."""
        if self._churn is None:
            return list(self._nodes)
        return self._churn.members() or list(self._nodes)


def _end_of_log(node: SimNode) -> int:
    """-1 while no process runs."""
    return -1 if node.replica is None else int(node.replica.log.last.index)


def _voted(node: SimNode, leader: SimNode) -> bool:
    """Whether its vote made this leader."""
    if node.replica is None or leader.replica is None:
        return False
    mine, its = node.replica.node.status(), leader.replica.node.status()
    return (mine.term, mine.voted_for) == (its.term, leader.id)
