"""`dledger member list|add|remove|replace|recover`: the members of a group.

Every change is a dry run unless `--yes` is given: it says what would be and what that risks.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from cluster.commands.connecting import (
    Reach,
    address_option,
    broker_option,
    connected,
    the_broker,
)
from cluster.commands.errors import USAGE, CommandError
from cluster.commands.local import root_option
from cluster.commands.margin import margin_sentence
from cluster.commands.output import emit, output_option, to_json
from cluster.commands.registry import WholeHelpGroup
from cluster.local import admission
from cluster.local.launcher import LocalCluster

#: The change before this one shows as done when it is written, and is when a majority has it.
CHANGE_SECONDS_MAX = 3.0
COLUMNS = ("node", "standing", "behind", "silent_seconds", "service", "address")

yes_option = click.option("--yes", is_flag=True, help="Do it; without this only say what would be.")


@click.group(cls=WholeHelpGroup)
def member() -> None:
    """Add, remove and replace the nodes of a broker name while it runs."""


@member.command("list")
@broker_option
@address_option
@output_option
def list_(broker: str | None, address: Reach, output: str) -> None:
    """Members of the group, nodes that called and are none, and how many may fail now."""

    async def work() -> dict[str, Any]:
        async with connected(address) as client:
            return await client.admin().members(await the_broker(client, broker))

    _show(asyncio.run(work()), output)


@member.command("add")
@click.argument("node")
@click.option("--learner", is_flag=True, help="It is sent the log and never votes.")
@click.option("--start", is_flag=True, help="Start it first, as one more node of dledger up.")
@broker_option
@yes_option
@address_option
@output_option
@root_option
def add(
    node: str,
    learner: bool,
    start: bool,
    broker: str | None,
    yes: bool,
    address: Reach,
    output: str,
    root: Path,
) -> None:
    """Take NODE in, which runs on a folder that was formatted to join.

    It is sent the log and made a voter when it keeps pace.
    """
    if start and yes:
        local = LocalCluster(root)
        local.add_node(node)
    elif start:
        click.echo(f"would start {node} beside the others; nothing was changed; --yes does it")
        return
    _change("add-learner" if learner else "add", node, broker, yes, address, output, wait=start)


@member.command("remove")
@click.argument("node")
@click.option("--stop", is_flag=True, help="Then stop it, a node of dledger up, and forget it.")
@broker_option
@yes_option
@address_option
@output_option
@root_option
def remove(
    node: str,
    stop: bool,
    broker: str | None,
    yes: bool,
    address: Reach,
    output: str,
    root: Path,
) -> None:
    """Let NODE go, the leader as soon as another; stop its process afterwards."""
    _change("remove", node, broker, yes, address, output)
    if stop and yes:
        LocalCluster(root).forget_node(node)


@member.command("replace")
@click.argument("node")
@broker_option
@yes_option
@address_option
@output_option
def replace(node: str, broker: str | None, yes: bool, address: Reach, output: str) -> None:
    """Take NODE back, which lost its disk and runs on a folder that was formatted to join.

    Or which lost both copies of its vote file or its flush mark, and kept its log. It keeps its
    place in the quorum, and is not counted until it has the log again.
    """
    _change("readmit", node, broker, yes, address, output)


@member.command("recover")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--unsafe", is_flag=True, help="You know that acknowledged messages may be lost.")
@yes_option
@output_option
def recover(folder: Path, unsafe: bool, yes: bool, output: str) -> None:
    """A majority is lost for good: make the stopped node in FOLDER the only voter.

    Also for a node alone that lost both copies of its vote file or its flush mark.
    FOLDER is its dledger-<node> folder. Choose the survivor with the highest term and entry; the
    lost nodes must never start again on their folders. Add new ones afterwards.
    """
    from dledger.runtime import unsafe_recovery

    if not unsafe:
        raise CommandError("a lost majority cannot be made good safely; say --unsafe", USAGE)
    found = unsafe_recovery.look(folder) if not yes else unsafe_recovery.recover(folder)
    row = {**found.as_row(), "done": yes}
    if output == "table":
        click.echo(found.sentence())
        click.echo("done; start the node" if yes else "nothing was changed; --yes does it")
    else:
        emit([row], output)


def _change(
    kind: str,
    node: str,
    broker: str | None,
    yes: bool,
    address: Reach,
    output: str,
    *,
    wait: bool = False,
) -> None:
    """`wait`: for a node that was started just now, until it has called."""

    async def work() -> dict[str, Any]:
        async with connected(address) as client:
            name = await the_broker(client, broker)
            patience = CHANGE_SECONDS_MAX if yes else 0.0
            return await admission.change(
                *(client.admin(), name, kind, node),
                seconds_max=admission.CALL_SECONDS_MAX if wait else patience,
                dry_run=not yes,
            )

    found = asyncio.run(work())
    found["dry_run"] = not yes
    _show(found, output)
    if output == "table" and not yes:
        click.echo("nothing was changed; --yes does it")


def _show(found: dict[str, Any], output: str) -> None:
    if output != "table":
        click.echo(to_json(found))
        return
    emit(found["members"], output, COLUMNS)
    for visitor in found["visitors"]:
        click.echo(f"{visitor['node']} has called and is no member: {visitor['address']}")
    click.echo(margin_sentence(found))
