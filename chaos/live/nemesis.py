"""The nemesis: carries out a schedule of faults on the arena and records each fault's nodes, real
times and observed effect.

Faults of links share the links and take turns; `Budget` keeps as many nodes in service as the plan
promised. After a fault the operator brings its nodes back, and only then another may miss.

A fault that found nothing to act on (nothing un-synced, nobody to hand over to) is carried out
again on the same nodes, and its span is that of all tries. One that a node should have noticed and
did not is never tried again: that is a finding.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil

from chaos.drivers.loop_disk import LoopDisks
from chaos.drivers.probe import faults_in
from chaos.drivers.shim import Shims
from chaos.drivers.stage import Clients, NotUpAgain, Stage, recipe_seconds
from chaos.faults import Driver, Target, kind_of
from chaos.live.aim import Aim, Aimed
from chaos.live.arena import Arena
from chaos.schedule import Budget, Planned, missing
from cluster.errors import ClusterError
from cluster.local import endings

END_SECONDS_MAX = 60.0  # the slowest fault and its recovery on a busy machine
TRIES_MAX = 3
AGAIN_SECONDS = 2.0  # other faults have passed meanwhile
#: Notes of a driver that say what a node did wrong: another try would hide it.
FINDINGS = ("unnoticed", "broken")
AIM_MISSED = "aim_missed"  # note: the target that no node fitted, so that a random one was hit
#: Notes that say why a fault had no effect (drivers/file_damage.py).
REASONS = ("unnoticed", "overwritten")


@dataclass(slots=True)
class Happened:
    """One fault as it really was; times in seconds of the run, None while not reached.

    Attributes:
        seen: what was observed of its effect, "" for none.
        recovery: seconds until its nodes were ready again.
        error: why it could not be carried out or ended.
    """

    planned: Planned
    nodes: tuple[str, ...] = ()
    began: float | None = None
    ended: float | None = None
    seen: str = ""
    recovery: float = 0.0
    error: str = ""
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def took_effect(self) -> bool:
        """True if the driver saw an effect; a fault without one does not count."""
        return bool(self.seen)

    @property
    def why_not(self) -> str:
        """Why it had no effect, as far as is known."""
        noted = (f"{name}: {said}" for name in REASONS if (said := self.notes.get(name)))
        return self.error or next(noted, "")

    def to_fields(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "number": self.planned.number,
            "kind": self.planned.kind,
            "target": self.planned.target.value,
            "planned_at": self.planned.at,
            "planned_seconds": self.planned.seconds,
            "nodes": list(self.nodes),
            "began": self.began,
            "ended": self.ended,
            "recovery_seconds": round(self.recovery, 3),
            "took_effect": self.took_effect,
            "seen": self.seen,
            "error": self.error,
            **self.notes,
        }


class Nemesis:
    """Carries out a schedule. `clients`, `disks` and `shims` are needed by some faults, beside the
    links."""

    def __init__(
        self,
        arena: Arena,
        now: Callable[[], float],
        *,
        clients: Clients | None = None,
        disks: LoopDisks | None = None,
        shims: Shims | None = None,
        told: Callable[[Happened], None] = lambda _: None,
    ) -> None:
        self.happened: list[Happened] = []
        self._arena, self._now, self._told = arena, now, told
        self._clients, self._disks, self._shims = clients, disks, shims
        self._faults = faults_in(arena.through)
        self._nodes = arena.cluster.brokers
        self._budget = Budget(len(self._nodes))
        self._aim = Aim(arena)
        self._links = asyncio.Lock()
        # Held by a fault that takes a node away, until the node is back: nobody else starts it.
        self._held = {node: asyncio.Lock() for node in self._nodes}

    async def play(self, schedule: Sequence[Planned], *, in_turn: bool = False) -> None:
        """Until every fault has ended and every node is back. Raises NotUpAgain.

        `in_turn`: each begins when the one before has ended, however late that is.
        """
        self.happened = [Happened(planned) for planned in schedule]
        if in_turn:
            for one in self.happened:
                await self._one(one)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for one in self.happened:
                    group.create_task(self._one(one))
        except* NotUpAgain as failed:
            raise failed.exceptions[0] from None

    async def _one(self, one: Happened) -> None:
        await asyncio.sleep(max(0.0, one.planned.at - self._now()))
        kind = kind_of(one.planned.kind)
        if kind.driver is Driver.LINK:
            async with self._links:
                await self._within_budget(one)
        else:
            await self._within_budget(one)

    async def _within_budget(self, one: Happened) -> None:
        async with self._budget.take(missing(one.planned, len(self._nodes))):
            await self._carry_out(one)

    async def _carry_out(self, one: Happened) -> None:
        random = Random(one.planned.chance)
        takes = missing(one.planned, len(self._nodes)) > 0
        # Those that another fault has taken are left alone: two faults are to meet on two nodes.
        taken = [node for node, lock in self._held.items() if lock.locked()]
        aimed = await self._aim.choose(one.planned.target, random, taken)
        one.nodes = aimed.nodes
        async with contextlib.AsyncExitStack() as stack:
            if takes:
                for node in one.nodes:  # all of them, or one: never in two orders
                    await stack.enter_async_context(self._held[node])
            await self._do(one, random, aimed, takes=takes)
            if takes:
                await self._back(one, one.nodes)
                for node in one.nodes:
                    self._aim.came_back(node)
        if not takes:
            for node in one.nodes:
                async with self._held[node]:
                    await self._back(one, [node])
        self._told(one)

    async def _do(self, one: Happened, random: Random, aimed: Aimed, *, takes: bool) -> None:
        stage = self._stage(one, random)
        because = aimed.because
        one.began = self._now()
        if takes and one.planned.target is Target.CATCHING_UP:
            because = await self._aim.let_lag(one.nodes[0]) or because
        await self._once(one, stage)
        for tries in range(2, TRIES_MAX + 1):
            if one.seen or one.error or any(stage.notes.get(name) for name in FINDINGS):
                break
            if takes:
                await self._back(one, one.nodes)
            await asyncio.sleep(AGAIN_SECONDS)
            stage.notes["tries"] = tries
            await self._once(one, stage)
            one.seen = one.seen and f"{one.seen}; at try {tries}"
        one.ended = self._now()
        one.notes = stage.notes | ({"aim": because} if because else {})
        if not aimed.met:
            one.notes[AIM_MISSED] = one.planned.target.value

    async def _once(self, one: Happened, stage: Stage) -> None:
        try:
            async with asyncio.timeout(
                one.planned.seconds + END_SECONDS_MAX + 2 * recipe_seconds()
            ):
                with endings.because(f"fault {one.planned.kind} on {' '.join(one.nodes)}"):
                    one.seen = await self._faults[one.planned.kind](stage)
        except (OSError, TimeoutError, ClusterError, psutil.Error) as error:
            # A node that had just ended, or a question that nobody answered: the run goes on.
            one.error = f"{type(error).__name__}: {error}"

    async def _back(self, one: Happened, nodes: Sequence[str]) -> None:
        """The operator brings the fault's nodes back. The caller holds their locks."""
        stage = self._stage(one, Random(0))
        for node in nodes:
            one.recovery = max(one.recovery, await stage.up_again(node))

    def _stage(self, one: Happened, random: Random) -> Stage:
        return Stage(
            self._arena,
            one.nodes,
            one.planned.seconds,
            random,
            one.planned.target,
            self._disks,
            self._shims,
            self._clients,
            self._now,
        )
