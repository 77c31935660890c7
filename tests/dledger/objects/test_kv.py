"""`KeyValueStore` on three nodes: changes, watches and leases are the same from any of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from dledger import (
    CommandRefused,
    Compacted,
    Consistency,
    LogUsageError,
    MachineSettings,
    NodeFailed,
)
from dledger.objects.kv import Compare, Delete, Get, KeyValueStore, Put
from dledger.objects.kv_machine import Change
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import within

Stores = list[KeyValueStore]


@pytest_asyncio.fixture
async def stores(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Stores]:
    made = []
    for config in Group(tmp_path, new_address).configs.values():
        settings = MachineSettings(propose_seconds=60)
        made.append(KeyValueStore(config, create=True, settings=settings, clock=LoopClock()))
        await made[-1].start()
    for one in made:
        await within(one.node.propose(["look"]), "a leader")
    yield made
    for one in made:
        await one.close()


async def take(changes: AsyncIterator[Change], count: int) -> list[Change]:
    return [await within(anext(changes), "a change") for _ in range(count)]


async def test_changes_of_any_node_are_seen_at_every_other(stores: Stores) -> None:
    one, two, three = stores
    assert await one.put("a/1", {"x": [1, None]}) == 1
    assert await two.put("a/2", b"\0\xff") == 2
    assert await three.put("b", "text") == 3
    found = await one.get("a/1")
    assert found is not None
    assert (found.value, found.revision, found.version) == ({"x": [1, None]}, 1, 1)
    assert [item.value for item in await two.prefix("a/")] == [{"x": [1, None]}, b"\0\xff"]
    assert [item.key for item in await three.range("a/2", limit=2)] == ["a/2", "b"]
    assert not await one.compare_and_set("b", 1, revision=2)
    assert await two.compare_and_set("b", 1, expected="text")
    assert await three.compare_and_set("c", 1, revision=0)
    done = await one.transact(
        [Put("b", 2), Get("a/", prefix=True), Delete("a/", prefix=True)],
        when=[Compare("b", "value", "=", 1), Compare("c", "version", ">", 0)],
        otherwise=[Put("never", 0)],
    )
    assert done.succeeded
    before, got, count = done.results
    assert (before.value, [item.key for item in got], count) == (1, ["a/1", "a/2"], 2)
    assert [item.key for item in await two.range()] == ["b", "c"]
    assert await two.delete("c") == 1
    assert await two.delete("c") == 0
    assert await three.revision() == 7
    with pytest.raises(LogUsageError, match="key is text"):
        await one.put(1, 2)  # type: ignore[arg-type]
    with pytest.raises(LogUsageError, match="neither bytes nor JSON"):
        await one.put("x", {1, 2})
    with pytest.raises(LogUsageError, match="nothing to compare"):
        await one.compare_and_set("x", 1)


async def test_a_watch_goes_on_at_another_node_where_it_stopped(stores: Stores) -> None:
    one, two, three = stores
    new = one.watch()
    waiting = asyncio.ensure_future(take(new, 2))
    await one.node.read(lambda: None)
    for number in range(4):
        await two.put(f"k{number % 2}", number)
    first = await waiting
    assert [change.item and change.item.value for change in first] == [0, 1]
    later = await take(three.watch("k1", after=first[0].revision), 2)
    assert [change.item and change.item.value for change in later] == [1, 3]
    await one.delete("k", prefix=True)
    gone = await take(two.watch(after=4), 2)
    assert [(change.revision, change.key, change.item) for change in gone] == [
        (5, "k0", None),
        (5, "k1", None),
    ]
    await one.compact(3)
    await three.revision()
    with pytest.raises(Compacted, match="up to 3 are gone"):
        await anext(three.watch(after=2))
    with pytest.raises(CommandRefused, match="not there yet"):
        await one.compact(100)
    watching = asyncio.ensure_future(anext(three.watch()))
    await one.put("last", 1)
    await within(watching, "a change")
    ending = asyncio.ensure_future(take(three.watch(after=6), 1))
    await three.node.read(lambda: None)
    await three.close()
    with pytest.raises(NodeFailed):
        await within(ending, "the end of a watch")


async def test_a_lease_ends_by_itself_and_takes_its_keys(stores: Stores) -> None:
    one, two, three = stores
    lease = await one.grant(0.5)
    revision = await two.put("mine", 1, lease=lease)
    await two.put("other", 1)
    (change,) = await take(three.watch("mine", after=revision), 1)
    assert (change.key, change.item) == ("mine", None)
    assert not await one.renew(lease)
    with pytest.raises(CommandRefused, match="has ended"):
        await one.put("mine", 2, lease=lease)
    async with two.holding(3600) as held:
        await two.put("held", 1, lease=held)
        assert await three.renew(held)
    assert not await two.revoke(held)
    assert [item.key for item in await three.range()] == ["other"]
    assert await one.get("other", Consistency.LOCAL) is not None
    with pytest.raises(LogUsageError, match="lease"):
        await one.grant(0)
