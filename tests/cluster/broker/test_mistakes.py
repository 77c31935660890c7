"""A mistake in what the log or a leadership owns ends the node; one in a request, a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster.broker.node import BrokerNode
from cluster.core.topics import TopicConfig
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from dledger.runtime.owned import ENDED, SPARED
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import until


def mistake(*_: object, **__: object) -> Any:
    raise ValueError("broken on purpose")


class Broken:
    """A unit that cannot hear how its batch ended."""

    outlives = False

    def settled(self, *_: object) -> None:
        mistake()


def settle(node: BrokerNode) -> None:
    parts = node.parts
    parts.writer.create_topic(TopicConfig("X"), lambda error: None)
    parts.appender.open().units.append(Broken())


def append(node: BrokerNode) -> None:
    node.parts.appender._cursors.write_back = mistake  # type: ignore[method-assign]
    node.parts.writer.create_topic(TopicConfig("X"), lambda error: None)


def apply(node: BrokerNode) -> None:
    node.parts.state.apply = mistake  # type: ignore[method-assign]
    node.parts.writer.create_topic(TopicConfig("X"), lambda error: None)


def dispatched(node: BrokerNode) -> None:
    node.parts.writer.create_topic(TopicConfig("X"), mistake)


def grown(node: BrokerNode) -> None:
    node.parts.derived.grown.append(mistake)
    node.parts.writer.create_topic(TopicConfig("X"), lambda error: None)


def timer(node: BrokerNode) -> None:
    node.parts.owned.call_later(0, mistake)


def task(node: BrokerNode) -> None:
    async def housekeeping() -> None:
        mistake()

    node.parts.owned.create_task(housekeeping())


def effect(node: BrokerNode) -> None:
    """While a client asks for something: it is the replica's all the same."""
    assert node._driver is not None
    node._driver.replica.read_index = mistake  # type: ignore[method-assign]
    frame = {"topic": "T", "queueId": "0"}
    connection = next(iter(node.parts.server.connections))
    node.parts.router.request(connection, Frame(Code.GET_MAX_OFFSET, 1, frame))


@pytest.mark.parametrize("where", [settle, append, apply, dispatched, grown, timer, task, effect])
async def test_a_mistake_in_what_the_log_owns_ends_the_node(
    make_brokers: MakeBrokers, where: Callable[[BrokerNode], None]
) -> None:
    async with make_brokers() as brokers:
        node = await brokers.leader()
        client = await brokers.client(node)
        assert (await client.send()).code == 0
        where(node)
        failed = await within(node.failed(), "the node ends")
        assert "broken on purpose" in str(failed)
        stories = [said for said in brokers.mistakes if ENDED in said]
        assert "applied up to" in stories[0], "it says how far the log was"
        assert node.parts.owned.mistakes == 0
        brokers.mistakes.clear()


def checked(node: BrokerNode) -> tuple[int, dict[str, object]]:
    node.parts.registry.consumer_ids = mistake  # type: ignore[method-assign]
    return Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"}


def looked(node: BrokerNode) -> tuple[int, dict[str, object]]:
    """After the leader proved that it leads, and what it knows is dispatched."""
    node.parts.queues.bounds = mistake  # type: ignore[method-assign]
    return Code.GET_MAX_OFFSET, {"topic": "T", "queueId": 0}


@pytest.mark.parametrize("where", [checked, looked])
async def test_a_mistake_in_a_request_costs_its_connection_and_is_counted(
    make_brokers: MakeBrokers, where: Callable[[BrokerNode], tuple[int, dict[str, object]]]
) -> None:
    async with make_brokers() as brokers:
        node = await brokers.leader()
        client, other = await brokers.client(node), await brokers.client(node)
        assert (await other.send()).code == 0
        answer = await client.ask(*where(node))
        assert answer.code == 1
        await until(lambda: len(node.parts.server.connections) == 1)
        assert (await other.send()).code == 0
        assert node.status()["mistakes"] == 1
        assert [SPARED in said for said in brokers.mistakes] == [True]
        assert node.status()["failed"] == ""
        brokers.mistakes.clear()


async def test_a_mistake_in_taking_sends_costs_their_connection(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        node = await brokers.leader()
        client, other = await brokers.client(node), await brokers.client(node)
        assert (await other.send()).code == 0
        sends = node.parts.sends
        usual = sends.handle
        sends.handle = mistake  # type: ignore[method-assign]
        client.send()
        await until(lambda: len(node.parts.server.connections) == 1)
        sends.handle = usual  # type: ignore[method-assign]
        assert (await other.send()).code == 0
        assert [SPARED in said for said in brokers.mistakes] == [True]
        brokers.mistakes.clear()
