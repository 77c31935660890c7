"""`dledger client list`: producers and consumers that are connected now."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from cluster.client.admin.connected_clients import (
    ConnectedConsumer,
    ConnectedProducer,
    connected_consumers,
    connected_producers,
)
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup

CONSUMERS, PRODUCERS = "consumers", "producers"


@click.group(cls=WholeHelpGroup)
def client() -> None:
    """Connected producers and consumers."""


@client.command("list")
@click.option("--kind", type=click.Choice([CONSUMERS, PRODUCERS]), help="Only these.")
@click.option("-g", "--group", help="Only of this producer group or consumer group.")
@address_option
@output_option
def list_clients(kind: str | None, group: str | None, address: Reach, output: str) -> None:
    """Every connected client: its group, its address, and the language of its library."""

    async def work() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async with connected(address) as mq:
            if kind != PRODUCERS:
                found = await connected_consumers(mq.admin().groups())
                rows += [_row("consumer", one) for one in found]
            if kind != CONSUMERS:  # one that is connected to several broker names is one
                known = {(p.group, p.client_id): p for p in await connected_producers(mq.instance)}
                rows += [_row("producer", one) for one in known.values()]
        return [row for row in rows if group in (None, row["group"])]

    emit(asyncio.run(work()), output, ("kind", "group", "client", "address", "language"))


def _row(kind: str, one: ConnectedConsumer | ConnectedProducer) -> dict[str, Any]:
    return {
        "kind": kind,
        "group": one.group,
        "client": one.client_id,
        "address": one.address,
        "language": one.language,
    }
