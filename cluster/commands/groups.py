"""`dledger group list|describe|reset`: groups, how far behind, and moved to another place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from cluster.client.admin.group_admin import GroupDescription, QueueLag
from cluster.client.routing.offset_lookup import FIRST, LAST
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import NOT_THERE, CommandError
from cluster.commands.moments import EXAMPLES, moment_ms
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.errors import ConsumerOffline, GroupNotFound

_PLACES = {"first": FIRST, "last": LAST}


@click.group(cls=WholeHelpGroup)
def group() -> None:
    """List, describe and move consumer groups."""


@group.command("list")
@address_option
@output_option
def list_groups(address: Reach, output: str) -> None:
    """Every group that is connected or has read something: members, messages and seconds behind."""

    async def work() -> Sequence[GroupDescription]:
        async with connected(address) as client:
            return await client.admin().groups().describe_all()

    rows = [
        {
            "group": found.name,
            "members": len(found.members),
            "topics": sorted(found.subscriptions or {row.queue.topic for row in found.queues}),
            "lag": found.messages,
            "lag_seconds": found.seconds,
        }
        for found in asyncio.run(work())
    ]
    emit(rows, output, ("group", "members", "lag", "lag_seconds", "topics"))


@group.command("describe")
@click.argument("name")
@address_option
@output_option
def describe(name: str, address: Reach, output: str) -> None:
    """Queues of group NAME: what it reads next, how many messages and seconds it is behind.

    Behind the queues come its members; two that share a client id are marked, since both are given
    the same queues.
    """
    found = asyncio.run(_describe(name, address))
    rows = [_queue_row(row) for row in found.queues]
    if output != "table":
        emit([{"group": name, "members": _member_rows(found), "queues": rows}], output)
        return
    emit(rows, output, ("topic", "broker", "queue", "next", "end", "lag", "lag_seconds"))
    click.echo()
    emit(_member_rows(found), output, ("member", "address", "language", "note"))
    if found.is_broadcasting:
        click.echo("broadcasting: each member keeps its own offsets; those above are not its")


async def _describe(name: str, address: Reach) -> GroupDescription:
    async with connected(address) as client:
        try:
            return await client.admin().groups().describe(name)
        except GroupNotFound as error:
            raise CommandError(str(error), NOT_THERE) from error


def _queue_row(row: QueueLag) -> dict[str, Any]:
    return {
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "next": row.next,
        "end": row.end,
        "lag": row.messages,
        "lag_seconds": row.seconds,
    }


def _member_rows(found: GroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "member": member.client_id,
            "address": member.address,
            "language": member.language,
            "note": "its id is used by another connection, too" if member.is_shared else "",
        }
        for member in found.members
    ]


def _place(_: click.Context, __: click.Parameter, value: str) -> int:
    """`first`, `last`, or a time as ISO 8601 has it, in ms since 1970."""
    if value in _PLACES:
        return _PLACES[value]
    try:
        return moment_ms(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither first nor last nor a time like {EXAMPLES}"
        ) from None


@group.command("reset")
@click.argument("name")
@click.option("--topic", required=True, help="Whose queues.")
@click.option("--to", callback=_place, required=True, help="first, last, or a time (ISO 8601).")
@address_option
@output_option
def reset(name: str, topic: str, to: int, address: Reach, output: str) -> None:
    """Let group NAME go on at another place of a topic; its members are told and go there."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            try:
                found = await client.admin().groups().reset(name, topic, to)
            except ConsumerOffline as error:
                raise CommandError(
                    f"{error}; dledger group list shows groups", NOT_THERE
                ) from error
        return [
            {"topic": q.topic, "broker": q.broker_name, "queue": q.queue_id, "next": offset}
            for q, offset in sorted(found.items())
        ]

    emit(asyncio.run(work()), output, ("topic", "broker", "queue", "next"))
