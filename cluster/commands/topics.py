"""`dledger topic create|list|describe`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from cluster.client import Admin
from cluster.commands.messages import address_option, connected
from cluster.commands.output import emit, output_option

INTERNAL_PREFIXES = ("rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_", "TBW102", "%RETRY%", "%DLQ%")


@click.group()
def topic() -> None:
    """Create, list and describe topics."""


@topic.command("create")
@click.argument("name")
@address_option
@click.option("-q", "--queues", type=click.IntRange(1), default=4, show_default=True)
def create(name: str, address: str | None, queues: int) -> None:
    """Create topic NAME, or change its number of queues; done when a majority has it."""

    async def work() -> None:
        async with connected(address) as client:
            await Admin(client).create_topic(name, queues)

    asyncio.run(work())
    click.echo(f"{name}: {queues} queues")


@topic.command("list")
@address_option
@click.option("--all", "everything", is_flag=True, help="Internal topics, too.")
@output_option
def list_topics(address: str | None, everything: bool, output: str) -> None:
    """Every topic that a broker serves."""

    async def work() -> list[str]:
        async with connected(address) as client:
            return await Admin(client).list_topics()

    names = sorted(asyncio.run(work()))
    shown = [n for n in names if everything or not n.startswith(INTERNAL_PREFIXES)]
    emit([{"topic": name} for name in shown], output, ("topic",))


@topic.command("describe")
@click.argument("name")
@address_option
@output_option
def describe(name: str, address: str | None, output: str) -> None:
    """Queues of topic NAME: where they are, first and next offset."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            found = await Admin(client).describe_topic(name)
        return [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "first": bounds.min_offset,
                "next": bounds.max_offset,
                "messages": bounds.max_offset - bounds.min_offset,
            }
            for queue, bounds in sorted(found.bounds.items())
        ]

    emit(asyncio.run(work()), output, ("broker", "queue", "first", "next", "messages"))
