"""`dledger topic tail`: the newest messages of a topic, and those that come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import click

from cluster.client import Client, ReceivedMessage
from cluster.client.admin.stored_messages import messages_of
from cluster.client.routing.offset_lookup import FIRST, LAST, offset_at
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.moments import time_of
from cluster.commands.output import format_option, to_json
from cluster.protocol.json_body import MessageQueue

LOOK_SECONDS = 0.5
COUNT_DEFAULT = 10
BODY_SHOWN_MAX = 200

Places = dict[MessageQueue, int]
"""Queue → the offset that is read next."""


@click.command("tail")
@click.argument("name")
@click.option(
    *("-n", "--count"),
    type=click.IntRange(0),
    default=COUNT_DEFAULT,
    show_default=True,
    help="So many of the newest messages.",
)
@click.option("-f", "--follow", is_flag=True, help="Also show new messages, until Ctrl-C.")
@address_option
@format_option("text", "jsonl")
def tail(name: str, count: int, follow: bool, address: Reach, output: str) -> None:
    """The newest messages of topic NAME, the oldest of them first; no group moves.

    Each line has the time of storing, the queue, the offset, the keys and the body.
    `dledger consume` reads all of them.
    """

    async def work() -> None:
        async with connected(address) as client:
            async for message in messages_of_tail(client, name, count, follow):
                click.echo(_line(message) if output == "text" else to_json(_row(message)))

    asyncio.run(work())


async def messages_of_tail(
    client: Client, topic: str, count: int, follow: bool
) -> AsyncGenerator[ReceivedMessage]:
    """The newest `count` messages, then, with `follow`, each that is stored later.

    Raises TopicNotFound, ClusterError.
    """
    ends = await _ends(client, topic)
    first = {
        queue: max(await offset_at(client.instance, queue, FIRST), end - count)
        for queue, end in ends.items()
    }
    newest = await _between(client, first, ends)
    for message in newest[len(newest) - min(count, len(newest)) :]:
        yield message
    while follow:
        await asyncio.sleep(LOOK_SECONDS)
        now = await _ends(client, topic)
        new = {queue: await offset_at(client.instance, queue, FIRST) for queue in now.keys() - ends}
        ends |= new  # a queue that was added; one that a look misses keeps its place
        for message in await _between(client, ends, now):
            yield message
        ends |= now


async def _ends(client: Client, topic: str) -> Places:
    """The offset behind the last message of each queue; queues that were added are found, too."""
    route = await client.instance.routes.refresh(topic)
    return {
        queue: await offset_at(client.instance, queue, LAST)
        for queue in sorted(route.read_queues(topic))
    }


async def _between(client: Client, first: Places, ends: Places) -> list[ReceivedMessage]:
    """Messages of all queues from `first` on and before `ends`, by the time of storing."""
    found = [
        message
        for queue, end in ends.items()
        async for message in messages_of(client.instance, queue, first[queue], end)
    ]
    return sorted(found, key=lambda one: (one.store_timestamp_ms, one.position))


def _line(message: ReceivedMessage) -> str:
    body = repr(message.body.decode("utf-8", "backslashreplace")[:BODY_SHOWN_MAX])[1:-1]
    place = f"{message.queue.broker_name}:{message.queue.queue_id}:{message.queue_offset}"
    keys = f" [{' '.join(message.keys)}]" if message.keys else ""
    return f"{time_of(message.store_timestamp_ms)} {place}{keys} {body}"


def _row(message: ReceivedMessage) -> dict[str, object]:
    return {
        "stored_ms": message.store_timestamp_ms,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "keys": message.keys,
        "tags": message.tags,
        "body": message.body.decode("utf-8", "backslashreplace"),
        "properties": dict(message.properties),
    }
