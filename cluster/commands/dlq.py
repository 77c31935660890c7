"""`dledger dlq list|show|resend|export`: messages that groups could not handle."""

from __future__ import annotations

import asyncio
import base64
import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, BinaryIO

import click

from cluster.client import Client, ReceivedMessage
from cluster.client.admin.audit import record_action
from cluster.client.admin.resending import check_group_gets_it, origin_topic, resend
from cluster.client.admin.stored_messages import messages_between
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import CommandError, exit_code_of
from cluster.commands.message import dead as show
from cluster.commands.moments import EXAMPLES, moment, time_of
from cluster.commands.output import emit, output_option, to_json
from cluster.commands.progress import Done, progress
from cluster.commands.registry import WholeHelpGroup
from cluster.errors import ClusterError, TopicNotFound
from commitlog.records.names import DLQ_PREFIX

since_option = click.option("--since", callback=moment, help=f"Dead since then: {EXAMPLES}.")
until_option = click.option("--until", callback=moment, help="Dead until then.")


@click.group(cls=WholeHelpGroup)
def dlq() -> None:
    """Dead letters: look, export, send again."""


dlq.add_command(show, "show")


@dlq.command("list")
@address_option
@output_option
def list_groups(address: Reach, output: str) -> None:
    """Groups that have dead letters."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            names = [n for n in await client.admin().list_topics() if n.startswith(DLQ_PREFIX)]
            counts = [(await client.admin().describe_topic(n)).message_count for n in sorted(names)]
            return [
                {"group": name.removeprefix(DLQ_PREFIX), "topic": name, "messages": count}
                for name, count in zip(sorted(names), counts, strict=True)
            ]

    emit(asyncio.run(work()), output, ("group", "messages", "topic"))


@dlq.command("resend")
@click.argument("group")
@click.option(
    "--to",
    type=click.Choice(["group", "topic"]),
    default="group",
    show_default=True,
    help="Who gets them: GROUP alone, or every group of their topic.",
)
@since_option
@until_option
@click.option("-n", "--count", type=click.IntRange(1), help="At most so many, the oldest ones.")
@click.option("--dry-run", is_flag=True, help="Only show which.")
@address_option
@output_option
def resend_letters(
    group: str,
    to: str,
    since: int | None,
    until: int | None,
    count: int | None,
    dry_run: bool,
    address: Reach,
    output: str,
) -> None:
    """Send dead letters of GROUP again; they stay among the dead ones, too.

    A group that consumes in order takes them from the topic only: --to topic.
    """

    async def work() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        to_group = group if to == "group" else None
        last: dict[str, Any] = {}
        async with (
            connected(address) as client,
            client.producer() as producer,
            aclosing(_letters(client, group, since, until, count)) as letters,
        ):
            try:
                async for letter in letters:
                    row = last = _row(letter)
                    if not rows and not dry_run:
                        await _record(client, letter, group, to, since, until, count)
                    if not dry_run:
                        receipt = await resend(client.instance, producer, letter, group=to_group)
                        if to_group is not None:
                            await check_group_gets_it(client.instance, receipt, to_group)
                        row |= {"to_topic": receipt.queue.topic, "copy": receipt.message_id}
                    rows.append(row)
            except ClusterError as error:
                if not rows or dry_run:
                    raise
                again = sum(row["stored_ms"] == last["stored_ms"] for row in rows)
                raise CommandError(
                    f"{len(rows)} were sent again, then {error.happened}; go on with --since "
                    f"{last['died']}, which sends {again} of them once more",
                    exit_code_of(error),
                ) from error
        return rows

    rows = asyncio.run(work())
    columns = ("broker", "queue", "offset", "died", "of_topic", "message_id", "keys")
    emit(rows, output, columns if dry_run else (*columns, "to_topic", "copy"))


async def _record(
    client: Client,
    first: ReceivedMessage,
    group: str,
    to: str,
    since: int | None,
    until: int | None,
    count: int | None,
) -> None:
    """Put it into the audit log, or say why it is not there; it is done all the same."""
    words: list[object] = ["dledger", "dlq", "resend", group, "--to", to]
    for option, value in (
        ("--since", time_of(since)),
        ("--until", time_of(until)),
        ("-n", count),
    ):
        words += [] if value is None else [option, value]
    unsaid = await record_action(
        client.instance,
        "dlq resend",
        f"group {group}",
        shlex.join(map(str, words)),
        {"to": to},
        broker=first.queue.broker_name,
    )
    if unsaid:
        click.echo(unsaid, err=True)


@dlq.command("export")
@click.argument("group")
@click.argument("file", type=click.File("wb", lazy=True), default="-")
@since_option
@until_option
@click.option("-n", "--count", type=click.IntRange(1), help="At most so many, the oldest ones.")
@address_option
@output_option
def export(
    group: str,
    file: BinaryIO,
    since: int | None,
    until: int | None,
    count: int | None,
    address: Reach,
    output: str,
) -> None:
    """Write dead letters of GROUP to FILE (- for stdout): a JSON object a line, body in base64.

    The number comes behind them: on stderr, or with -o json and a FILE on stdout.
    """

    async def work(told: Done) -> int:
        written = 0
        async with (
            connected(address) as client,
            aclosing(_letters(client, group, since, until, count)) as letters,
        ):
            async for letter in letters:
                file.write(to_json(_row(letter) | _content(letter)).encode() + b"\n")
                written += 1
                told(written)
        return written

    with progress("written: dead letter") as told:
        written, name = asyncio.run(work(told)), getattr(file, "name", "-")
    if output == "table" or name in ("-", "<stdout>"):
        click.echo(f"{written} written", err=True)
    else:
        emit([{"group": group, "file": name, "written": written}], output)


async def _letters(
    client: Client, group: str, since: int | None, until: int | None, count: int | None
) -> AsyncGenerator[ReceivedMessage]:
    """Dead letters of a group, the oldest first; none while it never had one."""
    left = count
    try:
        async with aclosing(
            messages_between(client.instance, DLQ_PREFIX + group, since, until)
        ) as found:
            async for letter in found:
                if left == 0:
                    return
                yield letter
                left = None if left is None else left - 1
    except TopicNotFound:
        return  # the first dead letter makes the topic


def _row(letter: ReceivedMessage) -> dict[str, Any]:
    return {
        "broker": letter.queue.broker_name,
        "queue": letter.queue.queue_id,
        "offset": letter.queue_offset,
        "died": time_of(letter.store_timestamp_ms),
        "stored_ms": letter.store_timestamp_ms,
        "of_topic": origin_topic(letter),
        "message_id": letter.message_id,
        "keys": letter.keys,
        "tags": letter.tags,
    }


def _content(letter: ReceivedMessage) -> dict[str, Any]:
    """Properties and body; a body that cannot be inflated comes as it is stored."""
    try:
        body, note = letter.body, ""
    except ValueError as error:
        body, note = letter.stored_body, str(error)
    encoded = base64.b64encode(body).decode()
    return {"properties": dict(letter.properties), "body_base64": encoded, "note": note}
