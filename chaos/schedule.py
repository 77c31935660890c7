"""Draws the schedule of faults from a seed: the kind of each, its begin, its target and its length;
the same in each run.

    0 s      quiet      first fault   …gap…   next fault   …            last end   quiet   seconds
    ├────────────────────┼─────────────────────┼─────────────────────────┼─────────┤

A seed draws its *swarm parameters* first (docs/spec/chaos.md 5.1): which kinds it uses at all, how
often it aims at the leader, how short the gaps are. Extremes per seed find more than averages. A
long run is many seeds in one: its weather changes every `weather_seconds`, and what one weather
leaves out the next one has.

Tolerance: with n nodes at most (n - 1) // 2 are missing at any time; EVERYTHING is never mixed with
another fault. The plan keeps to it by the planned times, `Budget` by what really happens: a fault
whose node is still recovering from the one before waits its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from chaos.faults import FaultKind, Takes, Target, kind_of

RECOVERY_SECONDS = 1.0  # a node that came back is behind for about so long
WEATHER_SECONDS = 90.0
EACH_LENGTH = 0.3  # of a kind's longest time, when every kind is shown once


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault. `at` counts from the start of the load; `chance` seeds its details."""

    number: int
    at: float
    kind: str
    target: Target
    seconds: float
    chance: int

    def to_fields(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self) | {"target": self.target.value}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Planned:
        """The reverse. Raises KeyError, ValueError, TypeError for fields of something else."""
        return cls(**{**fields, "target": Target(fields["target"])})


@dataclass(frozen=True, slots=True)
class Swarm:
    """The weather from a moment of the run on.

    Attributes:
        gap_min, gap_max: seconds between the beginnings of two faults.
        leader_aim: chance that a fault that may hit the leader does.
        length: of a kind's longest time, how much is used.
        weights: per kind, 0 when this weather leaves it out.
        since: seconds of the run.
    """

    gap_min: float
    gap_max: float
    leader_aim: float
    length: float
    weights: dict[str, float]
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a schedule.

    Attributes:
        seconds: length of the run's load.
        nodes: size of the cluster.
        kinds: names that may be drawn.
        gap_min, gap_max: seconds between the beginnings of two faults.
        quiet: seconds without a fault at either end.
        swarm: draw extreme parameters; else every kind has its own weight all the time.
        weather_seconds: after as many, the parameters are drawn again.
    """

    seconds: float
    nodes: int
    kinds: tuple[str, ...]
    gap_min: float = 1.0
    gap_max: float = 3.0
    quiet: float = 2.0
    swarm: bool = True
    weather_seconds: float = WEATHER_SECONDS


def draw_swarm(
    random: Random, bounds: Bounds, before: Swarm | None = None, since: float = 0.0
) -> Swarm:
    """Parameters from `since` on; a kind that is on in the weather `before` is off in a third of
    the draws, or twice as likely.
    """
    even = {kind: kind_of(kind).weight for kind in bounds.kinds}
    if not bounds.swarm:
        return Swarm(bounds.gap_min, bounds.gap_max, 0.4, 1.0, even, since)
    weights = {
        kind: weight * random.choice((1.0, 2.0) if _left_out(before, kind) else (0.0, 1.0, 2.0))
        for kind, weight in even.items()
    }
    if not any(weights.values()):
        weights = even
    return Swarm(
        bounds.gap_min,
        random.choice(((bounds.gap_min + bounds.gap_max) / 2, bounds.gap_max)),
        random.choice((0.2, 0.5, 0.8)),
        random.choice((0.3, 1.0, 1.0)),
        weights,
        since,
    )


def _left_out(before: Swarm | None, kind: str) -> bool:
    return before is not None and not before.weights[kind]


def draw(seed: int, bounds: Bounds) -> tuple[tuple[Swarm, ...], list[Planned]]:
    """One weather after the other, and the schedule of one seed.

    Raises ValueError for an unknown kind, or when no kind is left.
    """
    kinds = [kind_of(name) for name in bounds.kinds]
    if not kinds:
        raise ValueError("no kind of fault may be drawn; name at least one that works here")
    random = Random(seed)
    weathers = [swarm := draw_swarm(random, bounds)]
    planned: list[Planned] = []
    going: list[Planned] = []  # of these, what is not over
    at, end = bounds.quiet, bounds.seconds - bounds.quiet
    while (at := at + random.uniform(swarm.gap_min, swarm.gap_max)) < end:
        if bounds.swarm and at >= swarm.since + bounds.weather_seconds:
            weathers.append(swarm := draw_swarm(random, bounds, swarm, round(at, 3)))
        kind = random.choices(kinds, [swarm.weights[kind.name] for kind in kinds])[0]
        one = _draw_one(random, kind, swarm, len(planned), at)
        going = [other for other in going if other.at + other.seconds + RECOVERY_SECONDS > one.at]
        if one.at + one.seconds <= end and fits(one, going, bounds.nodes):
            planned.append(one)
            going.append(one)
    return tuple(weathers), planned


def one_of_each(seed: int, bounds: Bounds) -> list[Planned]:
    """Every kind once, one after the other, short: a proof of each rather than a storm."""
    random = Random(seed)
    planned: list[Planned] = []
    at = bounds.quiet
    for name in bounds.kinds:
        kind = kind_of(name)
        low, high = kind.seconds
        seconds = round(low + (high - low) * random.random() * EACH_LENGTH, 3)
        target = random.choice(targets_among(kind, bounds.nodes))
        planned.append(
            Planned(len(planned), round(at, 3), name, target, seconds, random.getrandbits(32))
        )
        at += seconds + RECOVERY_SECONDS
    return planned


def _draw_one(random: Random, kind: FaultKind, swarm: Swarm, number: int, at: float) -> Planned:
    target = random.choice(kind.targets)
    if Target.LEADER in kind.targets and random.random() < swarm.leader_aim:
        target = Target.LEADER
    low, high = kind.seconds
    seconds = round(low + (high - low) * random.random() * swarm.length, 3)
    return Planned(number, round(at, 3), kind.name, target, seconds, random.getrandbits(32))


def missing(planned: Planned, nodes: int) -> int:
    """How many nodes a fault takes away; `nodes` for all of them."""
    takes, target = kind_of(planned.kind).takes, planned.target
    if takes is Takes.NOTHING:
        return 0
    if takes is Takes.EVERYTHING or target is Target.ALL:
        return nodes
    return minority(nodes) if takes is Takes.MINORITY or target is Target.MINORITY else 1


def fits(one: Planned, others: Sequence[Planned], nodes: int) -> bool:
    """Whether a fault may overlap those already planned."""
    overlapping = [
        other
        for other in others
        if other.at < one.at + one.seconds + RECOVERY_SECONDS
        and one.at < other.at + other.seconds + RECOVERY_SECONDS
    ]
    if missing(one, nodes) == nodes:
        return not overlapping
    if any(missing(other, nodes) == nodes for other in overlapping):
        return False
    return missing(one, nodes) + sum(missing(o, nodes) for o in overlapping) <= tolerated(nodes)


def targets_among(kind: FaultKind, nodes: int) -> list[Target]:
    """Returns the targets that the fault can hit while no other fault is on; of two nodes none may
    be missing, but both may."""
    found = []
    for target in kind.targets:
        if fits(Planned(0, 0.0, kind.name, target, 0.0, 0), (), nodes):
            found.append(target)
    return found


def tolerated(nodes: int) -> int:
    """Nodes that may miss while the others still are a majority."""
    return (nodes - 1) // 2


def minority(nodes: int) -> int:
    """How many nodes Target.MINORITY is: all that are tolerated, and one at least."""
    return max(1, tolerated(nodes))


class Budget:
    """Holds the tolerance while faults really happen, on one event loop.

    A blow to all nodes waits for those that are under way, and new ones wait for it: else it would
    have its turn only when the run is over.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._missing = 0
        self._holders = 0
        self._blows = 0  # that wait
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, count: int) -> AsyncIterator[None]:
        """Waits until `count` more nodes may be missing; if that is all of them, until no other
        fault is on."""
        is_blow = count >= self._nodes
        async with self._changed:
            self._blows += is_blow
            try:
                await self._changed.wait_for(lambda: self._may(count))
            finally:
                self._blows -= is_blow
                self._changed.notify_all()
            self._missing += count
            self._holders += 1
        try:
            yield
        finally:
            async with self._changed:
                self._missing -= count
                self._holders -= 1
                self._changed.notify_all()

    def _may(self, count: int) -> bool:
        if count >= self._nodes:
            return self._holders == 0
        return not self._blows and self._missing + count <= tolerated(self._nodes)
