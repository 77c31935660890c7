"""A deletion of a group in a cluster of two broker names; one that broke off is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.admin import topic_requests
from cluster.client.admin import group_admin
from cluster.client.admin.group_admin import retry_topics
from cluster.core.internal_topics import TopicsChanged
from cluster.core.topics import TopicConfig
from cluster.errors import ConnectionLost, TopicNotFound
from tests.cluster.broker.harness import Brokers, heard_mistakes
from tests.waiting import eventually

from .conftest import MakeWorld, World

OWN, POPPED = "%RETRY%readers", "%RETRY%readers+T"


async def make_topics(brokers: Brokers, *names: str) -> None:
    logged: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    change = TopicsChanged(tuple(TopicConfig(name, 1, 1) for name in names))
    (await brokers.leader()).parts.writer.write(change, logged.set_result)
    assert await logged is None


async def eventually_topics(world: World, check: Callable[[set[str]], bool], what: str) -> None:
    async def found() -> bool:
        return check(set(await world.mq.admin().list_topics()))

    await eventually(found, what)


@pytest.mark.parametrize("earlier", [False, True])
async def test_a_retry_topic_that_one_broker_name_has_goes_with_its_group(
    make_world: MakeWorld,
    new_address: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    earlier: bool,
) -> None:
    """The other name says that it is not there, or finds it illegal as `earlier` releases do."""
    if earlier:
        monkeypatch.setattr(topic_requests, "is_pop_retry", lambda _: False)
    async with make_world() as world:
        settings = {"name_servers": (world.address,), "broker_name": "broker-b"}
        others = Brokers(tmp_path / "b", [new_address()], settings)
        with heard_mistakes(others.mistakes):
            await others.start()
            try:
                await make_topics(world.brokers, POPPED)
                await make_topics(others, "of-b")
                groups = world.mq.admin().groups()
                async with world.mq.consumer("of-b", group="readers") as consumer:
                    await consumer.commit()
                await eventually_topics(world, lambda found: {POPPED, OWN} <= found, "all there")
                await groups.delete("readers")
                assert "readers" not in await groups.names()
                await eventually_topics(world, lambda found: not {POPPED, OWN} & found, "gone")
                with pytest.raises(TopicNotFound):
                    await world.mq.admin().delete_topic(POPPED)
            finally:
                await others.close()
        assert others.mistakes == []


async def test_a_deletion_that_broke_off_is_repeated(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_world() as world:
        await make_topics(world.brokers, "T", POPPED)
        groups = world.mq.admin().groups()
        async with world.mq.consumer("T", group="readers") as consumer:
            await consumer.commit()
        await eventually_topics(world, lambda found: {POPPED, OWN} <= found, "all there")

        async def breaks_off(*_: Any) -> None:
            raise ConnectionLost("of this test")

        with monkeypatch.context() as patched:
            patched.setattr(group_admin, "delete_from_all", breaks_off)
            with pytest.raises(ConnectionLost):
                await groups.delete("readers")
        await groups.delete("readers")
        await eventually_topics(world, lambda found: not {POPPED, OWN} & found, "gone")


async def test_a_group_that_comes_while_another_is_deleted_keeps_its_retry_topics(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`a_b` and its %RETRY%a_b_c are made when the deletion of `a` has read one of both lists."""
    async with make_world() as world:
        await make_topics(world.brokers, "T", "c", "b_c")
        groups = world.mq.admin().groups()
        async with world.mq.consumer("T", group="a") as consumer:
            await consumer.commit()
        real_topics, real_groups, reads = group_admin.topic_names, groups.names, 0

        async def after_one(found: list[str]) -> list[str]:
            nonlocal reads
            reads += 1
            if reads == 1:
                async with world.mq.consumer("T", group="a_b") as consumer:
                    await consumer.commit()
                await make_topics(world.brokers, "%RETRY%a_b_c")
                await eventually_topics(world, lambda all_: "%RETRY%a_b_c" in all_, "it is made")
            return found

        async def topics(instance: Any) -> list[str]:
            return await after_one(await real_topics(instance))

        async def names() -> list[str]:
            return await after_one(await real_groups())

        monkeypatch.setattr(group_admin, "topic_names", topics)
        monkeypatch.setattr(groups, "names", names)
        await groups.delete("a")
        assert reads == 2
        assert "%RETRY%a_b_c" in await world.mq.admin().list_topics()


class _Name(str):
    """Counts how often names are compared with the beginning of another."""

    compared = 0

    def startswith(self, *args: Any) -> bool:
        _Name.compared += 1
        return str.startswith(self, *args)


def test_retry_topics_are_found_without_comparing_each_with_each_group() -> None:
    """With 4,000 topics and groups that held the client's loop for 5.7 s."""
    number = 100
    topics = [_Name(f"{start}t{at}") for start in ("", "%RETRY%g_") for at in range(number)]
    assert retry_topics("g", topics, [f"g{at}" for at in range(number)]) == topics[number:]
    assert _Name.compared <= 3 * len(topics)
