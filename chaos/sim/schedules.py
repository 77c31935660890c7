"""Runs schedules of live runs in the simulator, and writes the simulator's random faults as such a
schedule.

conf/*.toml, seed ─► schedule.draw ─► Course(schedule)     `dledger sim --config FILE`
Begun of a run    ─► planned           the same faults for real processes, where the kind exists
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaos.faults import BY_NAME, Target
from chaos.live.settings import RunSettings
from chaos.schedule import Bounds, Planned, draw
from chaos.sim.course import Begun, Course
from chaos.sim.kinds.table import CATALOGUE, CATALOGUE_NAMES


@dataclass(frozen=True, slots=True)
class Schedules:
    """Draws a schedule for each seed.

    Attributes:
        config: the file whose settings bound it.
        passed_over: kinds of the file that only real processes have.
    """

    config: str
    bounds: Bounds
    passed_over: tuple[str, ...] = ()

    def of(self, seed: int, nodes: int, seconds: float) -> tuple[Planned, ...]:
        """The schedule of one seed."""
        return tuple(draw(seed, replace(self.bounds, nodes=nodes, seconds=seconds))[1])


def schedules_of(config: str, settings: RunSettings) -> Schedules:
    """As `dledger chaos run --config` draws them, of the kinds that the simulator has.

    Raises ValueError when it has none of them.
    """
    kinds = tuple(kind for kind in settings.kinds if kind in CATALOGUE)
    if not kinds:
        raise ValueError(f"the simulator has none of these faults: {', '.join(settings.kinds)}")
    passed_over = tuple(dict.fromkeys(kind for kind in settings.kinds if kind not in CATALOGUE))
    return Schedules(config, settings.bounds(kinds), passed_over)


def planned(course: Course, begun: Sequence[Begun]) -> list[Planned]:
    """The faults of a run as a schedule: as they were planned, or as they were drawn."""
    numbers = {one.number for one in begun}
    if course.schedule is not None:
        return [one for one in course.schedule if one.number in numbers]
    return [_planned(one) for one in begun]


def _planned(one: Begun) -> Planned:
    """Turns a simulated fault into a planned one. Its target is a role, because the machines of a
    live cluster lead other terms."""
    kind = BY_NAME[CATALOGUE_NAMES.get(one.kind, one.kind)]
    target = Target.LEADER if one.led else Target.FOLLOWER
    if one.kind == "kill-all":
        target = Target.ALL
    elif target not in kind.targets:
        target = kind.targets[0]
    seconds = one.seconds or kind.seconds[0]
    return Planned(one.number, round(one.at, 3), kind.name, target, seconds, one.number)
