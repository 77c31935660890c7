"""Groups of a host stand for election a few at a time; each of them gets its turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from dledger.core.events import ElectionHeld
from dledger.core.types import Role
from dledger.runtime.candidacies import AT_ONCE, Candidacies, Candidacy
from dledger.runtime.owned import Owned

SECONDS = 0.5


class Loop(Owned):
    """A virtual clock, and what is to be called: in the next turn, and later."""

    def __init__(self) -> None:
        self.mistakes_seen: list[BaseException] = []
        super().__init__(self.mistakes_seen.append)
        self.now = 1000.0
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: object) -> Any:
        return self.call_later(0.0, callback, *args)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> Any:
        self.calls.append((self.now + seconds, partial(self.run, callback, *args)))
        return object()

    def pass_time(self, seconds: float = 0.0) -> None:
        """Let so much time pass, and make the calls that are due at its end."""
        self.now += seconds
        while due := [one for one in self.calls if one[0] <= self.now]:
            self.calls = [one for one in self.calls if one not in due]
            for _, call in due:
                call()


class Group:
    """One group that asks for a place when its election is due."""

    def __init__(self, places: Candidacies, *, leads_at_once: bool = False) -> None:
        self.places, self.leads_at_once = places, leads_at_once
        self.died: list[BaseException] = []
        self.owned = Owned(self.died.append)
        self.turns = 0
        self.mistake: Exception | None = None

    def ask(self) -> bool:
        return self.places.take(self)

    def turn(self) -> None:
        self.turns += 1
        if self.mistake is not None:
            raise self.mistake
        if self.leads_at_once:
            self.places.leave(self)


def groups(count: int, **given: bool) -> tuple[Loop, list[Group]]:
    """So many groups of one host."""
    loop = Loop()
    places = Candidacies(loop, SECONDS)
    return loop, [Group(places, **given) for _ in range(count)]


def test_so_many_stand_at_once_and_the_others_in_order() -> None:
    loop, made = groups(3 * AT_ONCE)
    assert [one.ask() for one in made] == AT_ONCE * [True] + 2 * AT_ONCE * [False]
    for gone, came in zip(made, made[AT_ONCE:], strict=False):
        loop.pass_time()
        assert came.turns == 0
        gone.places.leave(gone)
        loop.pass_time()
        assert came.turns == 1
    assert [one.turns for one in made] == AT_ONCE * [0] + 2 * AT_ONCE * [1]


def test_a_group_that_comes_later_waits_behind_those_that_wait() -> None:
    loop, made = groups(AT_ONCE + 2)
    for one in made[:-1]:
        one.ask()
    made[0].places.leave(made[0])  # the place is given in the next turn of the loop
    assert not made[-1].ask()
    loop.pass_time()
    assert [one.turns for one in made[AT_ONCE:]] == [1, 0]


def test_a_group_that_needs_its_place_no_more_passes_it_on_at_once() -> None:
    """As one that heard of a leader while it waited: a hundred of them delay nobody."""
    loop, made = groups(AT_ONCE + 100, leads_at_once=True)
    for one in made:
        one.ask()
    made[0].places.leave(made[0])
    loop.pass_time()
    assert all(one.turns == 1 for one in made[AT_ONCE:])


def test_a_group_without_a_majority_gives_its_place_away_when_its_time_is_over() -> None:
    loop, made = groups(2 * AT_ONCE)
    for one in made:
        one.ask()
    loop.pass_time(SECONDS / 2)
    assert all(one.turns == 0 for one in made)
    loop.pass_time(SECONDS / 2)
    assert all(one.turns == 1 for one in made[AT_ONCE:])
    assert not made[0].ask()
    loop.pass_time(SECONDS)
    assert made[0].turns == 1


def test_a_group_keeps_its_place_while_no_other_one_waits() -> None:
    loop, made = groups(AT_ONCE + 1)
    for one in made[:AT_ONCE]:
        one.ask()
    loop.pass_time(100 * SECONDS)
    assert all(one.ask() for one in made[:AT_ONCE])
    assert not loop.calls
    assert not made[-1].ask()
    loop.pass_time()
    assert made[-1].turns == 1


def test_a_group_that_ends_while_it_waits_gets_no_turn() -> None:
    loop, made = groups(AT_ONCE + 2)
    for one in made:
        one.ask()
    gone, last = made[AT_ONCE:]
    gone.places.leave(gone)
    made[0].places.leave(made[0])
    loop.pass_time()
    assert (gone.turns, last.turns) == (0, 1)


def test_a_mistake_of_one_group_is_its_own() -> None:
    loop, made = groups(AT_ONCE + 2)
    for one in made:
        one.ask()
    ill, last = made[AT_ONCE:]
    ill.mistake = RuntimeError("a mistake")
    made[0].places.leave(made[0])
    made[1].places.leave(made[1])
    loop.pass_time()
    assert ill.died == [ill.mistake]
    assert last.turns == 1
    assert not loop.mistakes_seen


class Node:
    """A replica whose election is due, as far as its candidacy asks."""

    def __init__(self, places: Candidacies | None) -> None:
        self.failure: str | None = None
        self.node: Any = SimpleNamespace(role=Role.FOLLOWER, deadline=lambda: 0.0)
        self.seen: list[object] = []
        self.owned = Owned(pytest.fail)  # type: ignore[arg-type]  # takes the error as its reason
        replica: Any = self
        self.candidacy = Candidacy(places, self.owned, replica, self.tell)

    def tell(self, event: Callable[[float], None]) -> None:
        event(0.0)
        self.candidacy.look()

    def looked(self, found: object, _now: float) -> None:
        self.seen.append(found)

    def timer(self, _now: float) -> None:
        self.seen.append("timer")

    def becomes(self, role: Role) -> None:
        self.node.role = role
        self.candidacy.look()


@pytest.mark.parametrize("end", [Role.LEADER, Role.FOLLOWER, Role.FAILED])
def test_a_group_gives_its_place_away_as_soon_as_it_leads_or_follows(end: Role) -> None:
    loop = Loop()
    places = Candidacies(loop, SECONDS)
    *made, last = [Node(places) for _ in range(AT_ONCE + 1)]
    for one in (*made, last):
        one.candidacy.timer(0.0)
    assert [one.seen for one in made] == [["timer"]] * AT_ONCE
    assert last.seen == [ElectionHeld(held=True), "timer"]
    for role in (Role.PRE_CANDIDATE, Role.CANDIDATE):
        made[0].becomes(role)
        loop.pass_time()
        assert len(last.seen) == 2
    made[0].becomes(end)
    loop.pass_time()
    assert last.seen[2:] == [ElectionHeld(held=False), "timer"]


def test_a_node_that_failed_while_it_waited_passes_its_turn_on() -> None:
    loop = Loop()
    places = Candidacies(loop, SECONDS)
    *made, ill, last = [Node(places) for _ in range(AT_ONCE + 2)]
    for one in (*made, ill, last):
        one.candidacy.timer(0.0)
    ill.failure = "its disk"
    made[0].candidacy.stop()
    loop.pass_time()
    assert len(ill.seen) == 2
    assert last.seen[2:] == [ElectionHeld(held=False), "timer"]


def test_a_leaders_heartbeats_and_a_group_without_a_host_wait_for_nobody() -> None:
    loop = Loop()
    places = Candidacies(loop, SECONDS)
    made = [Node(places) for _ in range(AT_ONCE)]
    for one in made:
        one.candidacy.timer(0.0)
    leader, alone = Node(places), Node(None)
    leader.node.role = Role.LEADER
    for one in (leader, alone):
        one.candidacy.timer(0.0)
        assert one.seen == ["timer"]
