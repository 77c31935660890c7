"""`dledger message find|dead`: one message by its key or id; what a group could not handle."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from cluster.client import ConsumerConfig, ReceivedMessage
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import NOT_THERE, CommandError
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.errors import TopicNotFound
from commitlog.records.names import DLQ_PREFIX
from commitlog.records.property_names import DLQ_ORIGIN_TOPIC

_COLUMNS = ("topic", "broker", "queue", "offset", "stored_ms", "message_id", "keys", "body")
READ_SECONDS_MAX = 30.0  # for one message that is known to be there
BODY_SHOWN_MAX = 60


@click.group(cls=WholeHelpGroup)
def message() -> None:
    """Find messages, and those that a group could not handle."""


@message.command("find")
@click.argument("topic")
@click.option("-k", "--key", required=True, help="One of its keys, or its message id.")
@click.option(
    *("-n", "--count"),
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="At most so many, the newest ones.",
)
@address_option
@output_option
def find(topic: str, key: str, count: int, address: Reach, output: str) -> None:
    """Messages of TOPIC with a key, oldest first; exit code 3 when there is none."""

    async def work() -> list[ReceivedMessage]:
        async with connected(address) as client:
            return await client.admin().find_messages(topic, key, count_max=count)

    found = asyncio.run(work())
    if not found:
        raise CommandError(
            f"no message of {topic} has the key {key}; retention may have removed it", NOT_THERE
        )
    emit([_row(one, output) for one in found], output, _COLUMNS)


@message.command("dead")
@click.argument("group")
@click.option(
    *("-n", "--count"),
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="At most so many, the oldest ones.",
)
@address_option
@output_option
def dead(group: str, count: int, address: Reach, output: str) -> None:
    """Dead letters of GROUP, oldest first; they stay where they are."""
    emit(asyncio.run(_dead(group, count, address, output)), output, (*_COLUMNS, "of_topic"))


async def _dead(group: str, count: int, address: Reach, output: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    async with connected(address) as client:
        try:
            there = (await client.admin().describe_topic(DLQ_PREFIX + group)).message_count
        except TopicNotFound:
            return rows  # the first dead letter makes the topic
        async with client.reader(DLQ_PREFIX + group, config=ConsumerConfig()) as reader:
            while len(rows) < min(count, there):
                one = await reader.receive(READ_SECONDS_MAX)
                if one is None:
                    break
                rows.append(_row(one, output) | {"of_topic": one.properties.get(DLQ_ORIGIN_TOPIC)})
    return rows


def _row(one: ReceivedMessage, output: str) -> dict[str, Any]:
    body = one.body.decode("utf-8", "backslashreplace")
    return {
        "topic": one.topic,
        "broker": one.queue.broker_name,
        "queue": one.queue.queue_id,
        "offset": one.queue_offset,
        "stored_ms": one.store_timestamp_ms,
        "message_id": one.message_id,
        "keys": one.keys,
        "body": repr(body[:BODY_SHOWN_MAX])[1:-1] if output == "table" else body,
        "properties": dict(one.properties),
    }
