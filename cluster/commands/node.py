"""`dledger node init|format|run|status`: one node, from one file, under any supervisor."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from cluster.commands.config import said_of_secrets
from cluster.commands.errors import NOT_THERE, RETRY, USAGE, CommandError
from cluster.commands.new_node_options import NewNodeOptions, new_node_options
from cluster.commands.node_join import LOGS, join, log_option, replace
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.commands.status import troubles
from cluster.settings.node import NodeSettings, build_node, read_node

STATUS_COLUMNS = (
    *("node", "role", "term", "leader", "last", "committed", "applied", "dispatched"),
    *("members", "disk", "disk_used", "serves"),
)

file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
there_argument = click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
set_option = click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="A setting."
)


@click.group(cls=WholeHelpGroup)
def node() -> None:
    """Make and run one node, in the foreground: for systemd, containers, machines of one's own."""


@node.command("init")
@file_argument
@new_node_options
@click.option("--name", help="Its name; the first member's, or n0, unless given.")
@click.option(
    "--member",
    multiple=True,
    metavar="NAME=HOST[:PORT[:PORT]]",
    help="One of the group: where clients (10911) and nodes (20911) reach it; repeatable.",
)
@click.option(
    "--no-format", is_flag=True, help="Only write FILE: it goes to another machine, see format."
)
@click.option(
    "--no-tls", is_flag=True, help="Nodes beyond this machine without TLS: others can read it all."
)
@output_option
def init(
    file: Path,
    name: str | None,
    member: tuple[str, ...],
    options: NewNodeOptions,
    no_format: bool,
    no_tls: bool,
    output: str,
) -> None:
    """Write FILE for a node of a new cluster, with fresh secrets, and make its folder.

    For the other nodes of the same cluster say --like FILE of the first. Members beyond this
    machine encrypt what they send each other: --certificates FOLDER, as dledger tls init makes it.
    """
    from cluster.local import new_node

    formatted = None if no_format else new_node.format_first
    made = new_node.make(file, options.new(file, name, member, no_tls=no_tls), formatted)
    others = [name for name in made.raft.peers if name != made.raft.node_id]
    said = [f"wrote {file}" + ("" if no_format else f" and formatted {made.raft.data_dir}")]
    if others:
        own = f" --certificates {options.certificates}" if options.certificates else ""
        said.append(f"the others' files: dledger node init --like {file} --name {others[0]}{own} …")
    first = "dledger node format, once, then " if no_format else ""
    said.append(f"start it with: {first}dledger node run {file}")
    row = _made_row(made, formatted=not no_format) | {"file": str(file), "others": others}
    emit_done([row], output, *said)


node.add_command(join)
node.add_command(replace)


@node.command("format")
@there_argument
@click.option("--joins", is_flag=True, help="Of a node that a running group will take in.")
@output_option
def format_(file: Path, joins: bool, output: str) -> None:
    """Make the folder that FILE names, once in a node's life; a folder that exists stays.

    A node whose folder is lost must not be formatted again, but replaced: dledger node replace.
    """
    from cluster.broker.node import BrokerNode
    from cluster.local import new_node

    settings = _settings(file, ())
    said = f"{settings.raft.data_dir} was formatted before; nothing was changed"
    before = new_node.is_formatted(settings)
    if not before:
        BrokerNode.format(settings.raft, joins=joins)
        said = f"formatted {settings.raft.data_dir}"
    emit_done([_made_row(settings, formatted=not before)], output, said)


def _made_row(made: NodeSettings, *, formatted: bool) -> dict[str, Any]:
    folder = str(made.raft.data_dir)
    return {"node": made.raft.node_id, "folder": folder, "formatted": formatted}


@node.command("run")
@click.argument(
    "files",
    metavar="FILE...",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    nargs=-1,
    required=True,
)
@log_option
@set_option
def run(files: tuple[Path, ...], log_to: str, settings: tuple[str, ...]) -> None:
    """Run the node of FILE in the foreground until SIGTERM or Ctrl-C; then exit code 0.

    Several FILEs: one for each group that this process holds a replica of. With $NOTIFY_SOCKET set
    (systemd's Type=notify) it says when its ports are open.
    """
    from cluster.local import node_main, service

    nodes = [_settings(file, settings) for file in files]
    for file in files:  # containers get their files so, therefore it is no error
        if sentence := said_of_secrets(file, read_node(file, {})):
            click.echo(sentence, err=True)
    sys.exit(service.run(lambda: node_main.serve(nodes), log=LOGS[log_to]()))


@node.command("status")
@there_argument
@output_option
def status(file: Path, output: str) -> None:
    """Role, term, pointers, members and disk of the node of FILE.

    Exit code 0: it serves. 4: it runs and does not serve, and says why. 3: nothing answers.
    """
    import orjson

    from cluster.local import admin

    settings = _settings(file, ())
    listen, token = settings.admin.listen, settings.admin.token
    if listen is None:
        raise CommandError(f"{file} sets no admin.listen, where a node is asked; set it", USAGE)
    address = f"{listen[0]}:{listen[1]}"
    try:
        code, body = admin.get(address, "/api/v1/status", token=token)
        ready, why = admin.get(address, "/readyz", token=token)
    except OSError as error:
        raise CommandError(
            f"{settings.raft.node_id} does not answer at {address} ({error}); "
            f"dledger node run {file} starts it",
            NOT_THERE,
        ) from error
    if code != 200:
        said = body.decode("utf-8", "replace").strip()
        raise CommandError(
            f"{address} does not show its status; try again, or see its log: {said}", RETRY
        )
    found = orjson.loads(body)
    if found.get("node_id") != settings.raft.node_id:
        raise CommandError(
            f"{found.get('node_id')} answers at {address}, not {settings.raft.node_id}; give each "
            "node of this machine an admin.listen of its own",
            NOT_THERE,
        )
    row = _row(found, serves=ready == 200)
    emit([row], output, STATUS_COLUMNS)
    if output == "table":
        for trouble in troubles([row]):
            click.echo(trouble)
    if ready != 200:
        reason = why.decode("utf-8", "replace").strip()
        raise CommandError(
            f"{row['node']} does not serve at the moment: {reason}; ask again in a moment", RETRY
        )


def _row(found: dict[str, Any], *, serves: bool) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != "node"} | {
        "node": found["node_id"],
        "last": found["last_index"],
        "committed": found["committed_index"],
        "applied": found["applied_index"],
        "dispatched": found["dispatched_index"],
        "members": found["configuration"]["voters"],
        "disk_used": found["disk_used_ratio"],
        "serves": serves,
    }


def _settings(file: Path, flags: tuple[str, ...]) -> NodeSettings:
    return build_node(read_node(file, os.environ, flags))
