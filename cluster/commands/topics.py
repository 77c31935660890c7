"""`dledger topic create|list|describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from cluster.client import Admin
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.protocol.route import BrokerData
from commitlog.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from dledger.durability import Durability, durability_of


def is_internal(topic: str, brokers: Mapping[str, BrokerData]) -> bool:
    """Is it the system's own, a retry or a dead-letter topic, in a cluster with these brokers?"""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or any(
        is_system_topic(topic, cluster=data.cluster, broker=name) for name, data in brokers.items()
    )


@click.group(cls=WholeHelpGroup)
def topic() -> None:
    """Create, list and describe topics."""


@topic.command("create")
@click.argument("name")
@address_option
@click.option(
    "-q",
    "--queues",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="On each broker name.",
)
@click.option(
    "--durability",
    type=click.Choice([level.value for level in Durability]),
    help="When sends are acknowledged; in memory, a power failure of several nodes may take them "
    "back. Not given: as it was, at first as the brokers are set.",
)
def create(name: str, address: Reach, queues: int, durability: str | None) -> None:
    """Create topic NAME, or change its number of queues; done when a majority has it."""

    async def work() -> None:
        async with connected(address) as client:
            level = durability_of(durability) if durability else None
            await Admin(client).create_topic(name, queues, durability=level)

    asyncio.run(work())
    click.echo(f"{name}: {queues} queues")


@topic.command("list")
@address_option
@click.option("--all", "everything", is_flag=True, help="Internal topics, too.")
@output_option
def list_topics(address: Reach, everything: bool, output: str) -> None:
    """Every topic that a broker serves."""

    async def work() -> list[str]:
        async with connected(address) as client:
            admin = Admin(client)
            brokers = (await admin.status()).brokers
            topics = await admin.list_topics()
        return [name for name in topics if everything or not is_internal(name, brokers)]

    shown = sorted(asyncio.run(work()))
    emit([{"topic": name} for name in shown], output, ("topic",))


@topic.command("describe")
@click.argument("name")
@address_option
@output_option
def describe(name: str, address: Reach, output: str) -> None:
    """Queues of topic NAME: where they are, first and next offset, when sends are acknowledged."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            found = await Admin(client).describe_topic(name)
            durability = await Admin(client).topic_durability(name)
        return [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "first": bounds.min_offset,
                "next": bounds.max_offset,
                "messages": bounds.max_offset - bounds.min_offset,
                "durability": durability.value if durability else "as set",
            }
            for queue, bounds in sorted(found.bounds.items())
        ]

    columns = ("broker", "queue", "first", "next", "messages", "durability")
    emit(asyncio.run(work()), output, columns)
