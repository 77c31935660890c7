"""Mending is called when it is due, and what is damaged is said once."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dledger.core.types import Index
from dledger.log.damage import Damage
from dledger.replica.replica import Replica
from dledger.runtime.clock import SystemClock
from dledger.runtime.owned import Owned
from dledger.runtime.repair_timer import RepairTimer
from tests.waiting import within

NEVER = float("inf")


class FakeReplica:
    """Says when it is to be tended again, and what is damaged."""

    def __init__(self, dues: list[float]) -> None:
        self.dues, self.damaged = dues, tuple[Damage, ...]()
        self.done = asyncio.Event()
        self.node = SimpleNamespace(node_id="n1")

    @property
    def repair(self) -> Any:
        return SimpleNamespace(status=lambda: SimpleNamespace(damaged=self.damaged))

    def tend(self, now: float) -> float:
        if not self.dues:
            self.done.set()
            return NEVER
        return now + self.dues.pop(0)


def timer_of(replica: FakeReplica, died: list[BaseException]) -> RepairTimer:
    return RepairTimer(SystemClock(), cast(Replica, replica), lambda: None, Owned(died.append))


async def test_it_comes_back_until_nothing_is_due() -> None:
    replica = FakeReplica([0.0, 0.001, 0.0])
    timer = timer_of(replica, [])
    timer.fire()
    await within(replica.done.wait(), "the end of what is due")
    assert replica.dues == []
    timer.stop()
    replica.dues = [0.0]
    timer.fire()
    assert replica.dues == [0.0]


async def test_damage_is_said_once_and_that_it_is_undone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    replica = FakeReplica([NEVER] * 9)
    timer = timer_of(replica, [])
    replica.damaged = (Damage(Index(3), Index(4), "rotten"),)
    for _ in range(3):
        timer.fire()
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        "n1: entries 3 to 4 are damaged on the disk"
    ]
    replica.damaged = ()
    for _ in range(2):
        timer.fire()
    assert caplog.records[-1].message == "n1: every entry on the disk is whole again"
    assert len(caplog.records) == 2


async def test_a_mistake_in_it_ends_the_node() -> None:
    died: list[BaseException] = []
    replica = FakeReplica([])
    replica.done = cast(asyncio.Event, None)
    timer_of(replica, died).fire()
    assert [type(error) for error in died] == [AttributeError]
