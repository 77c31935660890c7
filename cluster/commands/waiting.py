"""`dledger schedule list` and `dledger txn list`: messages that wait."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import click

from cluster.client.admin.waiting_messages import waiting
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.moments import time_of
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.protocol.waiting_headers import DELAYED, TRANSACTIONS

topic_option = click.option("--topic", help="Only those that were sent to this topic.")
count_option = click.option(
    *("-n", "--count"),
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="At most so many, those that were stored first.",
)


@click.group(cls=WholeHelpGroup)
def schedule() -> None:
    """Delayed messages and timers that are not delivered yet."""


@click.group(cls=WholeHelpGroup)
def txn() -> None:
    """Transactions without an outcome yet."""


@schedule.command("list")
@topic_option
@count_option
@address_option
@output_option
def list_scheduled(topic: str | None, count: int, address: Reach, output: str) -> None:
    """Messages that wait for their time, in the order in which they were sent."""
    rows = asyncio.run(_rows(DELAYED, topic, count, address))
    columns = ("due", "topic", "broker", "queue", "level", "message_id", "keys", "stored", "size")
    emit(rows, output, columns)


@txn.command("list")
@topic_option
@count_option
@address_option
@output_option
def list_open(topic: str | None, count: int, address: Reach, output: str) -> None:
    """Half messages without an outcome; `checks` is how often a producer was asked for it."""
    rows = asyncio.run(_rows(TRANSACTIONS, topic, count, address))
    columns = ("stored", "topic", "broker", "queue", "group", "checks", "due", "message_id", "keys")
    emit(rows, output, columns)


async def _rows(kind: str, topic: str | None, count: int, address: Reach) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with (
        connected(address) as client,
        aclosing(waiting(client.instance, kind)) as found,
    ):
        async for row in found:
            if topic in (None, row["topic"]):
                times = {"due": time_of(row["due_ms"]), "stored": time_of(row["stored_ms"])}
                rows.append(row | times)
                if len(rows) == count:
                    break
    return rows
