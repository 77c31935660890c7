"""Creations of topics in groups: at once while few come, all of them in the end."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from cluster.broker.produce.paced_creation import (
    AT_ONCE_MAX,
    GROUP_MAX,
    GROUP_SECONDS,
    PacedCreation,
)
from cluster.core.topics import TopicConfig
from cluster.errors import QueueFull
from dledger.errors import NotLeader
from dledger.runtime.owned import Owned


class _Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call, self.is_cancelled = call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class _World:
    """A clock and a timer that the test turns, and a log that remembers what was created."""

    def __init__(self) -> None:
        self.now, self.created, self.answers = 0.0, list[str](), list[Exception | None]()
        self.timers: list[_Timer] = []
        self.refusal: Exception | None = None
        owned = SimpleNamespace(
            time=lambda: self.now, call_later=self._call_later, bound=lambda done: done
        )
        self.paced = PacedCreation(self._create, cast(Owned, owned))

    def _create(self, config: TopicConfig, done: Callable[[Exception | None], None]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.created.append(config.name)
        done(None)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> _Timer:
        assert seconds == GROUP_SECONDS
        self.timers.append(_Timer(call))
        return self.timers[-1]

    def begin(self, name: str) -> None:
        self.paced.begin(TopicConfig(name), self.answers.append)

    def tick(self) -> None:
        self.now += GROUP_SECONDS
        self.timers.pop(0).call()


@pytest.fixture
def world() -> _World:
    return _World()


def test_few_creations_begin_at_once(world: _World) -> None:
    for number in range(AT_ONCE_MAX):
        world.begin(f"T{number}")
    assert len(world.created) == AT_ONCE_MAX
    assert not world.timers


def test_a_burst_begins_in_groups_and_in_order(world: _World) -> None:
    names = [f"T{number}" for number in range(AT_ONCE_MAX + 2 * GROUP_MAX + 1)]
    for name in names:
        world.begin(name)
    assert world.created == names[:AT_ONCE_MAX]
    world.tick()
    assert world.created == names[: AT_ONCE_MAX + GROUP_MAX]
    world.begin("late")
    world.tick()
    world.tick()
    assert world.created == [*names, "late"]
    assert not world.timers
    assert world.answers == [None] * len(world.created)


def test_sends_to_one_topic_that_waits_are_all_told(world: _World) -> None:
    for number in range(AT_ONCE_MAX):
        world.begin(f"T{number}")
    for _ in range(3):
        world.begin("T")
    assert world.paced.is_waiting("T")
    world.refusal = QueueFull("full")
    world.tick()
    assert world.answers[AT_ONCE_MAX:] == [world.refusal] * 3
    assert not world.paced.is_waiting("T")


def test_what_waits_ends_with_the_leadership(world: _World) -> None:
    for number in range(AT_ONCE_MAX + 3):
        world.begin(f"T{number}")
    world.paced.leadership_ended()
    assert [type(answer) for answer in world.answers[AT_ONCE_MAX:]] == [NotLeader] * 3
    assert world.timers.pop().is_cancelled
    world.now += 10
    world.begin("next")
    assert world.created[-1] == "next"
