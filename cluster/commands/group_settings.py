"""`dledger group create|alter`: rights of a group, and how often it tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import click

from cluster.client.admin.group_settings import GroupSettings
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import NOT_THERE, CommandError
from cluster.commands.output import emit_done, output_option
from cluster.errors import GroupNotFound

F = TypeVar("F", bound=Callable[..., Any])
RETRIES_MAX = 1_000_000


def _options(function: F) -> F:
    for option in (
        click.option("--retry-queues", type=click.IntRange(1, 4096), help="Of a new retry topic."),
        click.option(
            "--retries",
            type=click.IntRange(0, RETRIES_MAX),
            help="How often a message comes back before it is a dead letter; 16 if never set.",
        ),
        click.option(
            "--broadcast/--no-broadcast",
            default=None,
            help="May members read as broadcasting ones, each everything?",
        ),
        click.option(
            "--consume/--no-consume",
            default=None,
            help="May it read? --no-consume pauses it; its offsets stay.",
        ),
    ):
        function = option(function)
    return function


@click.command("create")
@click.argument("name")
@_options
@address_option
@output_option
def create(name: str, address: Reach, output: str, **given: bool | int | None) -> None:
    """Create group NAME before its first member comes; one that exists stays as it is."""
    wanted = _given(given)
    found = _done(name, wanted, address, create=True)
    for row in found.values():
        if any(getattr(row, field) != value for field, value in wanted.items()):
            raise CommandError(
                f"the group {name} exists, with {_said(row)}, and stays as it is; "
                f"to change it: dledger group alter {name}"
            )
    _show(name, found, output)


@click.command("alter")
@click.argument("name")
@_options
@address_option
@output_option
def alter(name: str, address: Reach, output: str, **given: bool | int | None) -> None:
    """Change the given settings of group NAME. --no-consume pauses it, --consume ends that."""
    wanted = _given(given)
    if not wanted:
        raise click.UsageError(
            "nothing to change was named; give --retries, --no-consume, --no-broadcast "
            "or --retry-queues"
        )
    _show(name, _done(name, wanted, address, create=False), output)


def _given(options: Mapping[str, bool | int | None]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _done(
    name: str, wanted: Mapping[str, Any], address: Reach, *, create: bool
) -> dict[str, GroupSettings]:
    async def work() -> dict[str, GroupSettings]:
        async with connected(address) as client:
            groups = client.admin().groups()
            try:
                return await (groups.create if create else groups.alter)(name, **wanted)
            except GroupNotFound as error:
                raise CommandError(str(error), NOT_THERE) from error

    return asyncio.run(work())


def _show(name: str, found: Mapping[str, GroupSettings], output: str) -> None:
    rows = [{"group": name, "broker": broker} | asdict(row) for broker, row in found.items()]
    emit_done(rows, output, *sorted({f"{name}: {_said(row)}" for row in found.values()}))


def _said(row: GroupSettings) -> str:
    parts = ["may read" if row.consume else "paused", f"{row.retries} retries"]
    parts += [] if row.broadcast else ["no broadcasting"]
    return ", ".join(parts)


def settings_text(found: Mapping[str, GroupSettings]) -> str:
    """A line for `group describe`; empty for a group as it is made by its first member."""
    said = sorted({_said(row) for row in found.values()})
    return "; ".join(said)
