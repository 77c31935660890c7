"""`dledger node join|replace`: a new node of a running group, from an empty folder to a voter.

    look     at the group: its members, its settings, is the name free, is the other one dead
    make     the settings file, and a folder that is formatted to join
    run      the node, in the foreground, and have it taken in (`cluster/local/admission.py`)

Said again on the same FILE, each goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from cluster.commands.connecting import Reach, address_option, connected, the_broker
from cluster.commands.errors import RETRY, USAGE, CommandError
from cluster.commands.new_node_options import NewNodeOptions, new_node_options

if TYPE_CHECKING:
    from cluster.local.admission import Seat
    from cluster.local.new_node import Shared
    from cluster.settings.node import NodeSettings

LOGS: Mapping[str, Callable[[], TextIO]] = {
    "stderr": lambda: sys.stderr,
    "stdout": lambda: sys.stdout,
}

log_option = click.option(
    "--log-to",
    type=click.Choice(list(LOGS)),
    default="stderr",
    show_default=True,
    help="Where the log goes; log.file names a file instead, which rotates.",
)
then_stop_option = click.option(
    "--then-stop",
    is_flag=True,
    help="Stop when it is a voter: a supervisor starts it from then on.",
)
at_option = click.option(
    "--at",
    metavar="HOST[:PORT[:PORT]]",
    help="Where clients (10911) and nodes (20911) reach it.",
)


@click.command("join")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", help="Its name, which no member has.")
@at_option
@click.option("--learner", is_flag=True, help="It is sent the log and never votes.")
@new_node_options
@then_stop_option
@log_option
@address_option
def join(
    file: Path,
    name: str | None,
    at: str | None,
    learner: bool,
    options: NewNodeOptions,
    then_stop: bool,
    log_to: str,
    address: Reach,
) -> None:
    """Make FILE for a new node of a running cluster, run it, and have it taken in.

    Settings come from the cluster (-a), secrets from --like or --secret-file. It goes on running in
    the foreground; later starts: dledger node run FILE. Said again, it goes on where it stopped.
    """
    from cluster.local.admission import Seat, member_of

    known = _made(file)
    name = known.raft.node_id if known and name is None else name
    if name is None:
        raise CommandError(
            "the new node has no name; give it one that no member has: --name n3", USAGE
        )
    broker, found = asyncio.run(_look(address, options.broker))
    if known is None:
        if member_of(found, name) is not None:
            raise CommandError(
                f"{broker} has a member {name} already; choose another name, or, if that one is "
                f"dead: dledger node replace {file} --dead {name}",
                USAGE,
            )
        if at is None:
            raise CommandError(
                "the new node has no address; say where it is reached: --at HOST", USAGE
            )
    seat = Seat(broker, name, "add-learner" if learner else "add")
    _run(file, seat, _prepared(file, known, seat, at, found, options), then_stop, log_to, address)


@click.command("replace")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--dead", metavar="NAME", required=True, help="The member that it stands in for.")
@click.option("--name", help="Another name for the new node; the dead one's unless given.")
@at_option
@click.option("--force", is_flag=True, help="Also one that lives; a leader must hand over first.")
@new_node_options
@then_stop_option
@log_option
@address_option
def replace(
    file: Path,
    dead: str,
    name: str | None,
    at: str | None,
    force: bool,
    options: NewNodeOptions,
    then_stop: bool,
    log_to: str,
    address: Reach,
) -> None:
    """A new node takes a dead member's place: FILE is made as by join, and run.

    Under the dead one's name it is readmitted and counts when it has the log again. Under another
    --name it is added, and when it votes the dead one is removed. The dead one must never start
    again on its old folder; if it does, nobody lets it in.
    """
    from cluster.local.admission import Seat, member_of

    known = _made(file)
    name = name or (known.raft.node_id if known else dead)
    broker, found = asyncio.run(_look(address, options.broker))
    row = member_of(found, dead)
    if row is None and not (known and member_of(found, name)):
        members = ", ".join(member["node"] for member in found["members"])
        raise CommandError(f"{broker} has no member {dead}; it has {members}", USAGE)
    if dead == found["leader"]:
        raise CommandError(
            f"{dead} is alive and leads {broker}, and a leader cannot be replaced; move the lead "
            f"first: dledger leader move {broker}",
            RETRY,
        )
    if row is not None and not force and not asyncio.run(_is_dead(address, broker, dead)):
        raise CommandError(
            f"{dead} is alive: the leader hears it; stop it first, or say --force", RETRY
        )
    if known is None and name != dead and member_of(found, name) is not None:
        raise CommandError(f"{broker} has a member {name} already; choose another name", USAGE)
    if known is None and at is None and name != dead:
        raise CommandError("the new node has no address; say where it is reached: --at HOST", USAGE)
    seat = Seat(broker, name, "readmit") if name == dead else Seat(broker, name, instead_of=dead)
    _run(file, seat, _prepared(file, known, seat, at, found, options), then_stop, log_to, address)


def _made(file: Path) -> NodeSettings | None:
    """The settings in FILE, if an attempt before has made it. Raises SettingsError."""
    from cluster.settings.node import build_node, read_node

    return build_node(read_node(file, os.environ)) if file.exists() else None


async def _look(address: Reach, broker: str | None) -> tuple[str, dict[str, Any]]:
    """The broker name that is meant, and its members and settings."""
    async with connected(address) as client:
        name = await the_broker(client, broker)
        return name, await client.admin().members(name)


async def _is_dead(address: Reach, broker: str, node: str) -> bool:
    from cluster.local import admission

    async with connected(address) as client:
        return await admission.is_dead(client.admin(), broker, node)


def _prepared(
    file: Path,
    known: NodeSettings | None,
    seat: Seat,
    at: str | None,
    found: dict[str, Any],
    options: NewNodeOptions,
) -> NodeSettings:
    """The node's settings, its file written and its folder formatted."""
    from cluster.local import new_node

    if known is None:
        shared = _shared(found, seat.node, at, options)
        made = new_node.make(file, options.node(file, seat.node, shared), new_node.format_to_join)
        click.echo(f"wrote {file} and formatted {made.raft.data_dir}")
        return made
    if known.raft.node_id != seat.node:
        raise CommandError(
            f"{file} is of {known.raft.node_id} and not of {seat.node}; give another FILE", USAGE
        )
    new_node.format_to_join(known)
    return known


def _shared(found: dict[str, Any], name: str, at: str | None, options: NewNodeOptions) -> Shared:
    """The group's settings, overridden by options. Raises CommandError without its secrets."""
    from cluster.local import new_node

    told = found["shared"]
    shared = options.shared()
    members = {
        row["node"]: new_node.Place(row["service"], row["address"])
        for row in found["members"]
        if row["address"]
    }
    shared = new_node.Shared(members, shared.settings).with_default(told["settings"])
    if at is not None:
        shared = shared.with_member(name, new_node.read_place(at))
    missing = [key for key in told["secrets"] if shared.get(*key.split(".", 1)) is None]
    if missing:
        raise CommandError(
            f"the cluster has a secret ({missing[0]}), which it does not tell; give --like with "
            "another node's file, or --secret-file",
            USAGE,
        )
    return shared


def _run(
    file: Path,
    seat: Seat,
    settings: NodeSettings,
    then_stop: bool,
    log_to: str,
    address: Reach,
) -> None:
    """Run the node until it is told to stop; have it taken in meanwhile. Ends the process."""
    from cluster.local import admission, service
    from cluster.local.node_main import ReplicaService, start_all

    replica = ReplicaService(settings)

    async def beside() -> bool:
        async with connected(address) as client:
            await admission.take_in(client.admin(), seat, replica.node)
        click.echo(f"{seat.node} is a {seat.standing} of {seat.broker}; from now on it starts with")
        click.echo(f"dledger node run {file}")
        return then_stop

    sys.exit(service.run(lambda: start_all([replica]), log=LOGS[log_to](), beside=beside))
