"""`dledger leader move|spread`: moves leaderships on purpose; no request is lost by it."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import RETRY, CommandError
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup

COLUMNS = ("broker", "leader", "address")


@click.group(cls=WholeHelpGroup)
def leader() -> None:
    """Hand the lead of a broker name to another node, or spread several over the nodes."""


@leader.command("move")
@click.argument("broker")
@click.argument("node", required=False)
@address_option
@output_option
def move(broker: str, node: str | None, address: Reach, output: str) -> None:
    """NODE (an id as n1, or a client address) leads BROKER from now on; without it the best one.

    A node that is set as raft.preferred_leader takes the lead back once it has caught up.
    """

    async def work() -> dict[str, Any]:
        async with connected(address) as client:
            names = sorted((await client.admin().status()).brokers)
            if names and broker not in names:
                raise CommandError(
                    f"the name servers know no broker name {broker}; the broker name comes first,"
                    f" then the node: dledger leader move {names[0]} {node or broker}",
                    RETRY,
                )
            return await client.admin().transfer_leader(broker, node)

    emit([asyncio.run(work())], output, COLUMNS)


@leader.command("spread")
@address_option
@output_option
def spread(address: Reach, output: str) -> None:
    """Each broker name gets another node for its leader, as far as there are enough."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            return await client.admin().spread_leaders()

    emit(asyncio.run(work()), output, COLUMNS)
