"""Bad input of the ready objects is refused: a command that no node can apply stops all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dledger import CommandRefused, LogUsageError
from dledger.machine.state_machine import bytes_of
from dledger.objects.counter import TOO_LARGE, ReplicatedCounter
from dledger.objects.dictionary import ReplicatedDict
from dledger.objects.kv import Compare, Delete, Get, KeyValueStore, Lease, Put
from dledger.objects.lock import Grant, ReplicatedLock
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import within

HUGE = 10**4300 - 1
STRANGE: list[Any] = [
    None, True, -1, 0, 1.5, float("nan"), float("inf"), HUGE, -HUGE, "", "5", "\ud800", "\0",
    b"5", [], [1], {}, {"a": 1}, (1, 2), {1: 2}, object(), 1j,
]  # fmt: skip
Call = Callable[[Any, Any], Awaitable[Any]]

CALLS: dict[str, tuple[type[Any], Call]] = {
    "add": (ReplicatedCounter, lambda on, value: on.add(value)),
    "set-key": (ReplicatedDict, lambda on, value: on.set(value, 1)),
    "set": (ReplicatedDict, lambda on, value: on.set("a", value)),
    "update": (ReplicatedDict, lambda on, value: on.update(value)),
    "update-value": (ReplicatedDict, lambda on, value: on.update({"b": value})),
    "pop": (ReplicatedDict, lambda on, value: on.pop(value)),
    "setdefault": (ReplicatedDict, lambda on, value: on.setdefault("c", value)),
    "lock-name": (ReplicatedLock, lambda on, value: on.try_acquire(value, lease=1)),
    "lock-owner": (ReplicatedLock, lambda on, value: on.try_acquire("a", lease=1, owner=value)),
    "lock-lease": (ReplicatedLock, lambda on, value: on.try_acquire("b", lease=value, owner="x")),
    "lock-renew": (ReplicatedLock, lambda on, value: on.renew(Grant("b", "x", 0, 0), lease=value)),
    "lock-grant": (ReplicatedLock, lambda on, value: on.release(Grant(value, value, value, 0))),
    "put-key": (KeyValueStore, lambda on, value: on.put(value, 1)),
    "put": (KeyValueStore, lambda on, value: on.put("a", value)),
    "put-lease": (KeyValueStore, lambda on, value: on.put("a", 1, lease=Lease(value, 1))),
    "delete": (KeyValueStore, lambda on, value: on.delete(value)),
    "prefix": (KeyValueStore, lambda on, value: on.transact([Delete("x", value), Get("y", value)])),
    "expected": (KeyValueStore, lambda on, value: on.compare_and_set("a", 2, expected=value)),
    "revision": (KeyValueStore, lambda on, value: on.compare_and_set("a", 2, revision=value)),
    "below": (
        KeyValueStore,
        lambda on, value: on.transact([Put("b", 1)], when=[Compare("a", "value", "<", value)]),
    ),
    "field": (
        KeyValueStore,
        lambda on, value: on.transact([Put("b", 1)], when=[Compare("a", value, "=", 1)]),
    ),
    "compact": (KeyValueStore, lambda on, value: on.compact(value)),
    "grant": (KeyValueStore, lambda on, value: on.grant(value)),
    "renew": (KeyValueStore, lambda on, value: on.renew(Lease(value, 1))),
}


@pytest.mark.parametrize("name", CALLS)
async def test_no_node_stops(name: str, tmp_path: Path, new_address: Callable[[], str]) -> None:
    kind, call = CALLS[name]
    (config,) = Group(tmp_path, new_address, 1).configs.values()
    done = 0
    async with kind(config, create=True, clock=LoopClock()) as on:
        for value in STRANGE * 2:
            try:
                await within(call(on, value), "an answer")
                done += 1
            except (LogUsageError, CommandRefused, TypeError, AttributeError):
                pass
            assert on.node.failure is None, f"{value!r} was taken"
        machine = on.node.machine
        again = type(machine)()
        finish = again.restore(bytes_of(machine.snapshot()))
        if finish is not None:
            finish()
        assert again.checksum() == machine.checksum(), "its state is another one as JSON"
        assert bytes_of(again.snapshot()) == bytes_of(machine.snapshot())
    assert done or name in ("renew", "field", "put-lease")


async def test_a_sum_that_no_text_can_hold_is_refused(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    (config,) = Group(tmp_path, new_address, 1).configs.values()
    async with ReplicatedCounter(config, create=True, clock=LoopClock()) as counter:
        assert await counter.add(HUGE) == HUGE
        with pytest.raises(CommandRefused, match="digits"):
            await counter.add(1)
        assert await counter.add(-1) == HUGE - 1 == TOO_LARGE - 2
        assert counter.node.failure is None
