"""`dledger topic create|alter|list|describe|tail|delete`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from cluster.client import TopicSettings
from cluster.client.admin.topics import PERMS
from cluster.commands.confirming import confirm_deletion, yes_option
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import CommandError
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.commands.tail import tail
from cluster.protocol.route import BrokerData
from commitlog.records.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from dledger.producers.durability import Durability, durability_of

QUEUES_DEFAULT = 4
PERM_NAMES = {bits: name for name, bits in PERMS.items()}


def is_internal(topic: str, brokers: Mapping[str, BrokerData]) -> bool:
    """Is it the system's own, a retry or a dead-letter topic, in a cluster with these brokers?"""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or any(
        is_system_topic(topic, cluster=data.cluster, broker=name) for name, data in brokers.items()
    )


_durability_option = click.option(
    "--durability",
    type=click.Choice([level.value for level in Durability]),
    help="When sends are acknowledged; in memory, a power failure of several nodes may take them "
    "back. Not given: as it was, at first as the brokers are set.",
)

_perm_option = click.option(
    "--perm",
    type=click.Choice(list(PERMS)),
    help="read: sends are refused; write: reads are. Not given: as it was, at first read-write.",
)


@click.group(cls=WholeHelpGroup)
def topic() -> None:
    """Create, alter, list, describe and delete topics."""


topic.add_command(tail)


@topic.command("create")
@click.argument("name")
@address_option
@click.option("-q", "--queues", type=click.IntRange(1), help="On each broker name; 4 if not given.")
@_durability_option
@_perm_option
@output_option
def create(
    name: str,
    address: Reach,
    queues: int | None,
    durability: str | None,
    perm: str | None,
    output: str,
) -> None:
    """Create topic NAME; done when a majority has it. A topic that exists stays as it is."""
    level = durability_of(durability) if durability else None

    async def work() -> dict[str, TopicSettings]:
        async with connected(address) as client:
            number = queues or QUEUES_DEFAULT
            return await client.admin().create_topic(
                name, number, perm=PERMS[perm or "read-write"], durability=level
            )

    found = asyncio.run(work())
    for row in found.values():
        wanted = (
            (queues, row.write_queues, f"-q {queues}"),
            (level, row.durability, f"--durability {durability}"),
            (PERMS.get(perm or ""), row.perm, f"--perm {perm}"),
        )
        if any(given not in {None, now} for given, now, _ in wanted):
            options = [option for given, _, option in wanted if given is not None]
            raise CommandError(
                f"the topic {name} exists, with {_said(row)}, and stays as it is; "
                f"to change it: dledger topic alter {name} {' '.join(options)}"
            )
    _show(name, found, output)


@topic.command("alter")
@click.argument("name")
@address_option
@click.option("-q", "--queues", type=click.IntRange(1), help="To write, on each broker name.")
@_durability_option
@_perm_option
@output_option
def alter(
    name: str,
    address: Reach,
    queues: int | None,
    durability: str | None,
    perm: str | None,
    output: str,
) -> None:
    """Change topic NAME; done when a majority has it.

    With fewer queues, no message is hidden: the queues that are left over stay readable. When
    retention has removed their messages, the same command lets the queues go.
    """
    if queues is None and durability is None and perm is None:
        raise click.UsageError("nothing to change was named; give -q, --durability or --perm")

    async def work() -> dict[str, TopicSettings]:
        async with connected(address) as client:
            level = durability_of(durability) if durability else None
            return await client.admin().alter_topic(
                name, queues, perm=PERMS.get(perm or ""), durability=level
            )

    _show(name, asyncio.run(work()), output)


def _show(name: str, found: Mapping[str, TopicSettings], output: str) -> None:
    rows = [
        {
            "topic": name,
            "broker": broker,
            "write_queues": row.write_queues,
            "read_queues": row.read_queues,
            "perm": PERM_NAMES.get(row.perm, str(row.perm)),
            "durability": row.durability.value if row.durability else None,
        }
        for broker, row in sorted(found.items())
    ]
    emit_done(rows, output, *sorted({f"{name}: {_said(row)}" for row in found.values()}))


def _said(row: TopicSettings) -> str:
    level = "" if row.durability is None else f", durability {row.durability.value}"
    if row.perm != PERMS["read-write"]:
        level += f", {PERM_NAMES.get(row.perm, row.perm)} only"
    if row.read_queues <= row.write_queues:
        return f"{row.write_queues} queues{level}"
    return (
        f"{row.write_queues} queues{level}; {row.read_queues} can be read, "
        "since there are messages in the others"
    )


@topic.command("list")
@address_option
@click.option("--all", "everything", is_flag=True, help="Internal topics, too.")
@output_option
def list_topics(address: Reach, everything: bool, output: str) -> None:
    """Every topic that a broker serves."""

    async def work() -> list[str]:
        async with connected(address) as client:
            admin = client.admin()
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
    """Queues of topic NAME: offsets, permission, when sends are acknowledged."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            found = await client.admin().describe_topic(name)
            settings = await client.admin().topic_settings(name)
        return [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "first": bounds.min_offset,
                "next": bounds.max_offset,
                "messages": bounds.max_offset - bounds.min_offset,
                "perm": PERM_NAMES.get(settings.perm, str(settings.perm)),
                "durability": settings.durability.value if settings.durability else "as set",
            }
            for queue, bounds in sorted(found.bounds.items())
        ]

    columns = ("broker", "queue", "first", "next", "messages", "perm", "durability")
    emit(asyncio.run(work()), output, columns)


@topic.command("delete")
@click.argument("name")
@yes_option
@address_option
@output_option
def delete(name: str, yes: bool, address: Reach, output: str) -> None:
    """Delete topic NAME on all brokers; its messages cannot be read any more."""
    confirm_deletion(name, f"delete the topic {name} and lose sight of its messages?", yes)

    async def work() -> None:
        async with connected(address) as client:
            await client.admin().delete_topic(name)

    asyncio.run(work())
    emit_done([{"topic": name, "deleted": True}], output, f"{name}: deleted")
