"""`dledger group create|alter|list|describe|lag|reset|clone|delete`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from cluster.client.admin.group_admin import GroupAdmin, GroupDescription, QueueLag
from cluster.client.admin.group_settings import GroupSettings
from cluster.client.routing.offset_lookup import FIRST, LAST
from cluster.commands.confirming import confirm_deletion, yes_option
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import NOT_THERE, CommandError
from cluster.commands.group_settings import alter, create, settings_text
from cluster.commands.moments import EXAMPLES, moment_ms
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.commands.watching import looks
from cluster.errors import ConsumerOffline, GroupNotFound
from cluster.protocol.json_body import MessageQueue

_PLACES = {"first": FIRST, "last": LAST}

_dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@click.group(cls=WholeHelpGroup)
def group() -> None:
    """Create, alter, list, describe, move and delete consumer groups."""


group.add_command(create)
group.add_command(alter)


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
    """Queues of group NAME: its next offset, and how many messages and seconds it is behind.

    Behind the queues come its members; two that share a client id are marked, since both are given
    the same queues.
    """
    found, settings = asyncio.run(_describe_whole(name, address))
    rows = [_queue_row(row) for row in found.queues]
    if output != "table":
        shown = {broker: asdict(row) for broker, row in settings.items()}
        row = {"group": name, "members": _member_rows(found), "queues": rows, "settings": shown}
        emit([row], output)
        return
    emit(rows, output, ("topic", "broker", "queue", "next", "end", "lag", "lag_seconds"))
    click.echo()
    emit(_member_rows(found), output, ("member", "address", "language", "note"))
    click.echo(f"settings: {settings_text(settings)}")
    if found.is_broadcasting:
        click.echo("broadcasting: each member keeps its own offsets; those above are not its")


async def _describe_whole(
    name: str, address: Reach
) -> tuple[GroupDescription, dict[str, GroupSettings]]:
    async with connected(address) as client:
        settings = await client.admin().groups().settings(name)
        try:
            return await client.admin().groups().describe(name), settings
        except GroupNotFound as error:
            if not settings:
                raise CommandError(str(error), NOT_THERE) from error
    return GroupDescription(name, (), {}, False, ()), settings  # made, and not used yet


async def _describe(name: str, address: Reach) -> GroupDescription:
    async with connected(address) as client:
        try:
            return await client.admin().groups().describe(name)
        except GroupNotFound as error:
            raise CommandError(str(error), NOT_THERE) from error


@group.command("lag")
@click.argument("name")
@click.option("-w", "--watch", is_flag=True, help="Again every second, until Ctrl-C.")
@address_option
@output_option
def lag(name: str, watch: bool, address: Reach, output: str) -> None:
    """How far group NAME is behind in each topic: messages, and seconds of the oldest one."""
    for found in looks(lambda: asyncio.run(_describe(name, address)), watch=watch):
        if watch and output == "table":
            click.clear()
        emit(_by_topic(found), output, ("topic", "queues", "lag", "lag_seconds"))


def _by_topic(found: GroupDescription) -> list[dict[str, Any]]:
    topics: dict[str, list[QueueLag]] = {}
    for row in found.queues:
        topics.setdefault(row.queue.topic, []).append(row)
    return [
        {
            "topic": topic,
            "queues": len(rows),
            "lag": sum(row.messages for row in rows),
            "lag_seconds": max(row.seconds for row in rows),
        }
        for topic, rows in sorted(topics.items())
    ]


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
@_dry_run_option
@address_option
@output_option
def reset(name: str, topic: str, to: int, dry_run: bool, address: Reach, output: str) -> None:
    """Let group NAME go on at another place of a topic; its members are told and go there."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            groups = client.admin().groups()
            now = await _next_of(groups, name)
            try:
                if dry_run:
                    moved = await groups.places(topic, to)
                else:
                    moved = await groups.reset(name, topic, to)
            except ConsumerOffline as error:
                raise CommandError(
                    f"{error}; dledger group list shows groups", NOT_THERE
                ) from error
        return _moved_rows(now, moved)

    _show_moved(asyncio.run(work()), output, dry_run)


@group.command("clone")
@click.argument("source")
@click.argument("target")
@click.option("--topic", help="Only this one; else all that SOURCE reads.")
@_dry_run_option
@address_option
@output_option
def clone(
    source: str, target: str, topic: str | None, dry_run: bool, address: Reach, output: str
) -> None:
    """Let group TARGET go on where group SOURCE is now; TARGET must have no members."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            groups = client.admin().groups()
            now = await _next_of(groups, target)
            try:
                moved = await groups.clone(source, target, topic, dry_run=dry_run)
            except GroupNotFound as error:
                raise CommandError(str(error), NOT_THERE) from error
        return _moved_rows(now, moved)

    _show_moved(asyncio.run(work()), output, dry_run)


async def _next_of(groups: GroupAdmin, name: str) -> dict[MessageQueue, int]:
    return {row.queue: row.next for row in await groups.lag(name)}


def _moved_rows(
    now: Mapping[MessageQueue, int], moved: Mapping[MessageQueue, int]
) -> list[dict[str, Any]]:
    return [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "before": now.get(queue),
            "next": offset,
        }
        for queue, offset in sorted(moved.items())
    ]


def _show_moved(rows: Sequence[Mapping[str, Any]], output: str, dry_run: bool) -> None:
    emit(rows, output, ("topic", "broker", "queue", "before", "next"))
    if dry_run and output == "table":
        click.echo("nothing was changed; the same command without --dry-run does it")


@group.command("delete")
@click.argument("name")
@click.option("--dead-letters", is_flag=True, help="Those that it could not handle go, too.")
@yes_option
@address_option
@output_option
def delete(name: str, dead_letters: bool, yes: bool, address: Reach, output: str) -> None:
    """Forget group NAME: its settings, its offsets and its retries.

    It must have no members. Its dead letters stay in their topic unless --dead-letters is given.
    """
    confirm_deletion(name, f"forget where the group {name} is, and its retries?", yes)

    async def work() -> None:
        async with connected(address) as client:
            try:
                await client.admin().groups().delete(name, dead_letters=dead_letters)
            except GroupNotFound as error:
                raise CommandError(str(error), NOT_THERE) from error

    asyncio.run(work())
    row = {"group": name, "deleted": True, "dead_letters": dead_letters}
    emit_done([row], output, f"{name}: deleted")
