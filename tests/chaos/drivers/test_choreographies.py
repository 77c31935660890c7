"""Steps of choreographies that need no cluster."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from chaos.drivers import steps
from chaos.drivers.choreographies import FAULTS
from chaos.drivers.shim import Shims
from chaos.drivers.stage import WHOLE, Stage
from chaos.live.arena import Arena as RealArena


class Arena:
    """Says who leads, one after the other."""

    def __init__(self, leaders: list[str]) -> None:
        self._leaders = leaders

    async def leader(self, *, seconds_max: float) -> str:
        return self._leaders.pop(0) if len(self._leaders) > 1 else self._leaders[0]


class FakeStage:
    nodes = ("n0", "n1", "n2")

    def __init__(self, leaders: list[str]) -> None:
        self.arena, self.random = Arena(leaders), Random(1)

    async def until(self, seen: Callable[[], bool], seconds_max: float) -> bool:
        return seen()


@pytest.mark.parametrize("leaders", [["n0"], ["n0", "n2", "n1"]])
async def test_a_vote_is_asked_for_until_somebody_stands(
    leaders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first hand-overs fail, as those to a node that is behind do; n1 may lead meanwhile."""
    asked: list[tuple[str, str]] = []

    async def hand_over(_: Stage, leader: str, to: str) -> None:
        asked.append((leader, to))

    monkeypatch.setattr(steps, "hand_over", hand_over)
    stage = cast(Stage, FakeStage(list(leaders)))
    candidate = await steps.elect(stage, "n1", lambda: len(asked) == 3)
    assert len(asked) == 3
    assert candidate == asked[-1][1]
    assert [leader for leader, _ in asked] == (leaders * 3)[:3]
    assert all(to not in ("n1", leader) for leader, to in asked)


async def test_nobody_stands_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hand_over(*_: object) -> None: ...

    monkeypatch.setattr(steps, "hand_over", hand_over)
    monkeypatch.setattr(steps, "LEADER_SECONDS_MAX", 0.05)
    stage = cast(Stage, FakeStage(["n0"]))
    assert await steps.elect(stage, "n1", lambda: False) == ""


#: Courses in which at some time no majority runs, or none sees each other.
BLACKOUTS = (
    *("power-all-under-load", "power-all-before-the-sync", "vote-then-power-loss"),
    *("leader-flap-figure-8", "nats-amnesia-pause", "nats-amnesia-partition"),
)


@pytest.mark.parametrize("name", sorted(set(FAULTS) - set(BLACKOUTS)))
async def test_a_course_that_keeps_a_majority_says_so_also_when_it_fails(name: str) -> None:
    async def statuses() -> None:
        raise OSError("nobody answers")

    async def leader(**_: object) -> str:
        raise OSError("nobody answers")

    times = count(3)
    stage = Stage(
        cast(RealArena, SimpleNamespace(statuses=statuses, leader=leader, cluster=None)),
        ("n0", "n1", "n2"),
        0.1,
        Random(1),
        shims=cast(Shims, object()),
        now=lambda: float(next(times)),
    )
    with pytest.raises((OSError, AttributeError)):
        await FAULTS[name](stage)
    assert stage.notes[WHOLE] == [[3.0, None]]


async def test_a_span_ends_with_what_it_is_about() -> None:
    times = count(3)
    stage = Stage(cast(RealArena, None), ("n0",), 0.1, Random(1), now=lambda: float(next(times)))
    with stage.majority_whole():
        pass
    with pytest.raises(TimeoutError), stage.majority_whole():
        raise TimeoutError
    assert stage.notes[WHOLE] == [[3.0, 4.0], [5.0, 6.0]]
