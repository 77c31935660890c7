"""`dledger message get|find|trace|resend|dead`: look at messages, follow one, send it again."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

import click

from cluster.client import Client, ConsumerConfig, ReceivedMessage
from cluster.client.admin.audit import record_action
from cluster.client.admin.message_trace import Trace, trace
from cluster.client.admin.resending import check_group_gets_it, resend
from cluster.client.admin.stored_messages import message_at, message_by_id, place_in
from cluster.client.message import Receipt
from cluster.commands.connecting import Reach, address_option, connected, the_broker
from cluster.commands.errors import NOT_THERE, USAGE, CommandError
from cluster.commands.moments import time_of
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
    """Find, follow and send again; `dledger dlq` has those that groups could not handle."""


@message.command("find")
@click.argument("topic")
@click.option("-k", "--key", required=True, help="One of its keys, or its message id.")
@click.option(
    *("-n", "--count"),
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Show at most so many, the newest ones.",
)
@address_option
@output_option
def find(topic: str, key: str, count: int, address: Reach, output: str) -> None:
    """Messages of TOPIC with a key, oldest first; exit code 3 when there is none."""

    if not key:
        raise CommandError("the key is empty; give one, or a message id", USAGE)

    async def work() -> list[ReceivedMessage]:
        async with connected(address) as client:
            return await client.admin().find_messages(topic, key, count_max=count)

    found = asyncio.run(work())
    if not found:
        raise CommandError(
            f"no message of {topic} has the key {key}; retention may have removed it", NOT_THERE
        )
    emit([_row(one, output) for one in found], output, _COLUMNS)


place_option = click.option(
    "--at", "place", metavar="[BROKER:]QUEUE:OFFSET", help="Its place in TOPIC."
)


@message.command("get")
@click.argument("topic", required=False)
@place_option
@click.option("--id", "offset_id", help="Its offset message id: 32 or 56 hex digits.")
@address_option
@output_option
def get(
    topic: str | None, place: str | None, offset_id: str | None, address: Reach, output: str
) -> None:
    """One message, whole: by its place in TOPIC, or by the id that holds its position."""
    if (place is None) == (offset_id is None) or (place is not None and topic is None):
        raise CommandError("no message is named; give TOPIC --at QUEUE:OFFSET, or --id ID", USAGE)

    async def work() -> ReceivedMessage:
        async with connected(address) as client:
            if offset_id is not None:
                return await message_by_id(client.instance, offset_id)
            return await at_place(client, topic or "", place or "")

    emit([_row(asyncio.run(work()), output, None)], output, _COLUMNS)


async def at_place(client: Client, topic: str, place: str) -> ReceivedMessage:
    """The message at `[BROKER:]QUEUE:OFFSET`. Raises NotFound, CommandError."""
    broker = None if place.count(":") > 1 else await the_broker(client, None)
    return await message_at(client.instance, *place_in(topic, place, broker))


@message.command("trace")
@click.argument("topic")
@click.option("-k", "--key", required=True, help="Its message id, or a key that it has alone.")
@address_option
@output_option
def trace_(topic: str, key: str, address: Reach, output: str) -> None:
    """The way of one message of TOPIC, from the log: half, delayed, stored, read, retried, dead.

    It needs nothing of producers and consumers. `read` and `waits` say how far a group is now.
    """

    async def work() -> Trace:
        async with connected(address) as client:
            return await trace(client.instance, topic, key)

    rows = [step.row() for step in asyncio.run(work()).steps]
    if output == "table":
        rows = [row | {"time": time_of(row["at_ms"])} for row in rows]
    emit(rows, output, ("kind", "time", "topic", "broker", "queue", "offset", "group", "detail"))


@message.command("resend")
@click.argument("topic")
@click.option("--at", "place", metavar="[BROKER:]QUEUE:OFFSET", required=True, help="Which one.")
@click.option("--to-topic", help="Another topic than that it was sent to first.")
@click.option("--to-group", help="Only this consumer group gets it.")
@address_option
@output_option
def resend_(
    topic: str,
    place: str,
    to_topic: str | None,
    to_group: str | None,
    address: Reach,
    output: str,
) -> None:
    """Send a message of TOPIC again: the same body, keys, tag and properties, and a new id.

    Without --to-topic and --to-group every group of its topic gets it. The message itself stays
    where it is; the copy names it in its property RESENT_OF.
    """
    if to_topic and to_group:
        raise CommandError("--to-topic and --to-group are both given; give one of them", USAGE)

    async def work() -> Receipt:
        async with connected(address) as client, client.producer() as producer:
            found = await at_place(client, topic, place)
            to = {"to-topic": to_topic, "to-group": to_group}
            words = [word for name, at in to.items() if at for word in (f"--{name}", at)]
            unsaid = await record_action(
                client.instance,
                "message resend",
                f"topic {topic}",
                shlex.join(["dledger", "message", "resend", topic, "--at", place, *words]),
                to,
                broker=found.queue.broker_name,
            )
            if unsaid:
                click.echo(unsaid, err=True)
            receipt = await resend(client.instance, producer, found, topic=to_topic, group=to_group)
            if to_group:
                await check_group_gets_it(client.instance, receipt, to_group)
            return receipt

    row = resent_row(asyncio.run(work()))
    emit([row], output, ("topic", "broker", "queue", "offset", "message_id"))


def resent_row(receipt: Receipt) -> dict[str, Any]:
    """Where the copy of a message is."""
    return {
        "topic": receipt.queue.topic,
        "broker": receipt.queue.broker_name,
        "queue": receipt.queue.queue_id,
        "offset": receipt.queue_offset,
        "message_id": receipt.message_id,
    }


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
            if group not in await client.admin().groups().names():
                raise CommandError(
                    f"no broker knows the group {group}; dledger group list shows groups", NOT_THERE
                ) from None
            return rows  # the first dead letter makes the topic
        async with client.reader(DLQ_PREFIX + group, config=ConsumerConfig()) as reader:
            while len(rows) < min(count, there):
                one = await reader.receive(READ_SECONDS_MAX)
                if one is None:
                    break
                rows.append(_row(one, output) | {"of_topic": one.properties.get(DLQ_ORIGIN_TOPIC)})
    return rows


def _row(
    one: ReceivedMessage, output: str, shown_max: int | None = BODY_SHOWN_MAX
) -> dict[str, Any]:
    body = one.body.decode("utf-8", "backslashreplace")
    return {
        "topic": one.topic,
        "broker": one.queue.broker_name,
        "queue": one.queue.queue_id,
        "offset": one.queue_offset,
        "stored_ms": one.store_timestamp_ms,
        "message_id": one.message_id,
        "keys": one.keys,
        "body": repr(body[:shown_max])[1:-1] if output == "table" else body,
        "properties": dict(one.properties),
    }
