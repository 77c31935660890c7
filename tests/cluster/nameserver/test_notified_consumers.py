"""Stock consumers in virtual time while nodes are killed and cut off: when they pull again.

Without notification routes a consumer waits for its next look, 30 s at most. With them it is told,
and pulls from the new leader after the pause of 3 s that it makes after an error.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .notified_world import PAUSE_SECONDS, NotifiedWorld, what_is_wrong
from .stock_world import Steps

SECONDS = 75.0
SOON_SECONDS = PAUSE_SECONDS + 1.0


def played(seed: int, groups: int = 1, *, notify: bool = True) -> NotifiedWorld:
    nodes, members = 3 + 2 * (seed % 2), 1 + seed // 4 % 3
    world = NotifiedWorld(seed, nodes, groups, notify=notify, members=members)
    world.run(SECONDS)
    assert what_is_wrong(world) == [], f"seed {seed}"
    return world


def waits_of(seeds: range, *, notify: bool = True) -> list[float]:
    return [wait for seed in seeds for wait in played(seed, notify=notify).waits]


def soon(waits: list[float]) -> float:
    """The share of them."""
    assert len(waits) > 5
    return sum(wait < SOON_SECONDS for wait in waits) / len(waits)


def test_they_pull_from_the_new_leader_after_one_pause() -> None:
    assert soon(waits_of(range(8))) > 0.9


def test_without_notification_routes_they_wait_for_their_next_look() -> None:
    """The world can tell."""
    assert soon(waits_of(range(8), notify=False)) < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_two_groups_lose_no_message_and_deliver_each_once_per_level(seed: int) -> None:
    """A member has queues of one notification route, perhaps not of the group that is led anew."""
    assert played(seed, 2).delivered


def test_the_follower_on_which_they_wait_dies_and_then_the_leader() -> None:
    """Its death is no election, so nobody is told; they wait there again when it is back."""
    world = NotifiedWorld(1, 3, 1, notify=True)
    world.faults = two_deaths(world)  # type: ignore[method-assign]
    world.run(SECONDS)
    assert what_is_wrong(world) == []
    assert len(world.waits) == world.members
    assert max(world.waits) < SOON_SECONDS


def two_deaths(world: NotifiedWorld) -> Callable[[], Steps]:
    def faults() -> Steps:
        yield 60.0 - world.now
        (address,) = {one for row in world.consumers for one in row.connections}
        group, follower = world.reached(address)
        leader = group.leader
        assert leader is not None
        assert follower is not leader
        for node in (follower, leader):
            world.break_down(node, kills=True)
            yield 1.0
            world.heal(node)
            yield 5.0

    return faults


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_five_thousand_schedules() -> None:
    assert soon(waits_of(range(1_000, 3_500))) > 0.95
    for seed in range(3_500, 6_000):
        played(seed, 2)
