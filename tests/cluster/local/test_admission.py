"""Who is dead, by what a leader says of its members; and how a refused node is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from cluster.client import Admin
from cluster.errors import InvalidRequest, PlannedMove
from cluster.local import admission
from cluster.local.admission import AdmissionError, is_dead

pytestmark = pytest.mark.virtual_time

Silence = Callable[[float], float | None]


class FakeAdmin:
    """A leader that says how long n1 was not heard, `silence` of the seconds since the start."""

    def __init__(self, silence: Silence, *, settings: dict[str, Any] | None = None) -> None:
        self._silence, self._settings = silence, settings or {}
        self._begun = asyncio.get_running_loop().time()
        self.term: Callable[[float], int] = lambda _: 1
        self.looks = 0

    async def members(self, broker: str) -> dict[str, Any]:
        self.looks += 1
        passed = asyncio.get_running_loop().time() - self._begun
        row = {"node": "n1", "silent_seconds": self._silence(passed)}
        shared = {"settings": self._settings}
        return {"members": [row], "term": self.term(passed), "shared": shared}


async def dead(fake: FakeAdmin) -> bool:
    return await is_dead(cast(Admin, fake), "broker-a", "n1")


async def test_one_that_was_silent_for_long_is_dead_at_once() -> None:
    fake = FakeAdmin(lambda passed: 60 + passed)
    assert await dead(fake)
    assert fake.looks == 1


async def test_one_that_was_killed_just_now_is_dead_soon() -> None:
    assert await dead(FakeAdmin(lambda passed: passed))


async def test_one_that_is_heard_lives() -> None:
    assert not await dead(FakeAdmin(lambda _: 0.05))
    assert not await dead(FakeAdmin(lambda passed: passed % 1.5)), "seldom, as under load"


async def test_the_leader_lives() -> None:
    assert not await dead(FakeAdmin(lambda _: None))


async def test_a_new_leader_counts_from_its_own_beginning() -> None:
    """Its clock and what it heard are not those of the one before."""
    fake = FakeAdmin(lambda passed: 2 + passed if passed < 0.8 else passed - 0.8)
    fake.term = lambda passed: 1 if passed < 0.8 else 2
    assert await dead(fake)


async def test_where_elections_take_long_silence_must_last() -> None:
    fake = FakeAdmin(lambda _: 5.0, settings={"raft.election_timeout_max_ms": 10_000})
    assert not await dead(fake)


async def test_a_stranger_is_neither() -> None:
    with pytest.raises(AdmissionError, match="has no member n9"):
        await is_dead(cast(Admin, FakeAdmin(lambda _: 0.0)), "broker-a", "n9")


class Changing:
    """Refuses a change so often."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    async def change_members(
        self, broker: str, kind: str, node: str, *, dry_run: bool
    ) -> dict[str, Any]:
        if self._errors:
            raise self._errors.pop(0)
        return {"done": (broker, kind, node, dry_run)}


async def change(*errors: Exception) -> dict[str, Any]:
    admin = cast(Admin, Changing(*errors))
    return await admission.change(admin, "b", "add", "n3", seconds_max=1.0)


async def test_a_change_is_asked_for_again_while_it_is_too_early() -> None:
    assert await change(*[PlannedMove("not yet")] * 5) == {"done": ("b", "add", "n3", False)}
    with pytest.raises(PlannedMove):
        await change(*[PlannedMove("not yet")] * 50)
    with pytest.raises(InvalidRequest):
        await change(InvalidRequest("never"))
