"""Kinds of faults in the simulator do what their names say, and the negative control turns red."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.faults import KINDS, Target
from chaos.schedule import Planned
from chaos.sim.course import Course
from chaos.sim.disk import SimDisk
from chaos.sim.node import SimNode
from chaos.sim.profile import Profile
from chaos.sim.world import World, run_seed


def _course(kind: str, target: Target = Target.LEADER, count: int = 4) -> Course:
    faults = (Planned(n, 2.0 + 3 * n, kind, target, 1.5, 17 + n) for n in range(count))
    return Course(schedule=tuple(faults), calm=True)


def _count(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[object]:
    calls: list[object] = []
    function: Callable[..., object] = getattr(owner, name)

    def counted(*arguments: object, **named: object) -> object:
        calls.append(arguments)
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_lying_syncs_lose_what_was_acknowledged() -> None:
    """Of some seeds at least: else the judges of this arena could not turn red."""
    course = _course("fsync-lies", Target.ALL, 2)
    kinds = {run_seed(seed, 3, 10.0, course=course).violation for seed in range(6)}
    assert kinds - {""}, "six clusters lost nothing"
    assert [kind.name for kind in KINDS if kind.simulated and not kind.safe] == ["fsync-lies"]


def test_what_is_rolled_back_is_found_and_mended() -> None:
    world = World(3, 3, 16.0, course=_course("rollback"), profile=Profile(repair=True))
    result = world.run()
    assert not result.violation, result.detail
    assert sum(node.disk.healed for node in world.nodes) > 8


def test_who_is_at_its_file_limit_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = _count(monkeypatch, SimDisk, "repair")
    assert not run_seed(3, 3, 16.0, course=Course(schedule=(), calm=True)).violation
    usual = len(replaced)
    assert not run_seed(3, 3, 16.0, course=_course("file-limit")).violation
    assert len(replaced) > 2 * usual


def test_who_is_cut_while_it_begins_a_file_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = _count(monkeypatch, SimNode, "start")
    assert not run_seed(3, 3, 16.0, course=_course("snapshot-cut")).violation
    assert len(starts) >= 3 + 4
