"""`dledger status`: every node of the local cluster, or of one that is given by an address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cluster.client.discovery import ENVIRONMENT_ADDRESS
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import FAILED, RETRY, CommandError
from cluster.commands.folders import status_rows
from cluster.commands.local import root_option
from cluster.commands.margin import margin_sentence
from cluster.commands.output import emit, output_option
from cluster.commands.watching import looks
from cluster.errors import ClusterError
from cluster.local import plan, processes, profile
from cluster.local.launcher import LocalCluster
from dledger.errors import LaterVersion

STATUS_COLUMNS = (
    "node",
    "group",
    "role",
    "term",
    "leader",
    "first",
    "last",
    "committed",
    "applied",
    "lag",
    "disk",
    "up",
)


def local_rows(cluster: LocalCluster) -> list[dict[str, Any]]:
    """One row per broker: its own report, and how far it is behind."""
    found = cluster.statuses()
    newest: dict[str, int] = {}
    for name, status in found.items():
        group = cluster.profile.member(name).group
        newest[group] = max(newest.get(group, -1), int(status["last_index"]) if status else -1)
    rows = []
    for name, status in found.items():
        member = cluster.profile.member(name)
        row: dict[str, Any] = {
            "node": member.process,
            "group": member.group or plan.group_name(0),
            "up": status is not None,
            "role": "unreachable",
        }
        end = processes.last_end(cluster.folder(name))
        ended = None if end is None else asdict(end) | {"sentence": end.sentence()}
        if status:
            row |= {key: value for key, value in status.items() if key != "node"} | {
                "first": status["first_index"],
                "last": status["last_index"],
                "committed": status["committed_index"],
                "applied": status["applied_index"],
                "lag": newest[member.group] - int(status["last_index"]),
            }
        rows.append(row | {"last_end": ended})
    return rows


def margins(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How many more nodes of each group may fail now, as its leader says."""
    for row in rows:
        if row.get("margin"):
            yield f"{row['group']}: {margin_sentence(row['margin'])}"


def relays(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Which nodes of each group have a relay port, the sends that came to them, and how often they
    told stock consumers of a new leader.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("relay_port"):
            groups.setdefault(str(row["group"]), []).append(row)
    for group, found in groups.items():
        names = ", ".join(str(row["node"]) for row in found)
        sends = sum(int(row["sends_through_relays"]) for row in found)
        told = sum(int(row.get("notifications", 0)) for row in found)
        parts = [f"{sends:,} sends"] if sends else []
        parts += [f"{told:,} notifications"] if told else []
        counts = f", with {' and '.join(parts)} so far" if parts else ""
        yield f"{group}: relays at {names}{counts}"


def last_ends(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """How each node's process last ended, one line for a process; only the local ones are known."""
    for node, end in {row["node"]: row.get("last_end") for row in rows}.items():
        if end is not None:
            yield f"{node}: {end['sentence']}"


def troubles(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The troubles of a node, in its own words: a sentence each."""
    for row in rows:
        if row.get("failed"):
            yield f"{row['node']} has failed: {row['failed']}"
        elif row.get("disk_detail"):
            yield f"{row['node']}: its disk is {row['disk']}: {row['disk_detail']}"


async def _asked(address: Reach) -> list[dict[str, Any]]:
    async with connected(address) as client:
        admin = client.admin()
        rows = await admin.replicas()
        for row in rows:
            if row["role"] == "leader":
                # More than the table needs: left out where the account or the group refuses it.
                with contextlib.suppress(ClusterError):
                    row["margin"] = await admin.members(str(row["group"]))
        return rows


def remote_rows(address: Reach) -> list[dict[str, Any]]:
    """The same of the cluster at `address`, asked of each node by its client port."""
    rows = asyncio.run(_asked(address))
    newest: dict[str, int] = {}
    for row in rows:
        newest[row["group"]] = max(newest.get(row["group"], -1), row.get("last_index", -1))
    return [
        row
        | {name: row.get(f"{name}_index") for name in ("first", "last", "committed", "applied")}
        | {"lag": newest[row["group"]] - row["last_index"] if "last_index" in row else None}
        for row in rows
    ]


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@root_option
@address_option
@output_option
@click.option("-w", "--watch", is_flag=True, help="Again every second, until Ctrl-C.")
def status(folders: tuple[Path, ...], root: Path, address: Reach, output: str, watch: bool) -> None:
    """Role, term and pointers of every node; exit code 4 while there is no leader.

    With -a of that cluster, else of the local one; where there is none, of the one at
    $NAMESRV_ADDR. FOLDERS: of embedded nodes, or of a Host with all its groups, as their files
    say; whether one leads, its program knows. Exit code 1: a small file is lost, or a later release
    wrote one of them.
    """
    if folders:
        for found in looks(lambda: status_rows(folders), watch=watch):
            if watch and output == "table":
                click.clear()
            emit(found, output, STATUS_COLUMNS)
            if output == "table":
                for row in found:
                    for path, reason in row["damage"].items():
                        click.echo(f"{path}: {reason}")
        _refuse_later(found)
        if any(row["damage"] for row in found):
            sys.exit(FAILED)
        return
    named = bool(
        address.address or (os.environ.get(ENVIRONMENT_ADDRESS) and not profile.exists(root))
    )
    cluster = None if named else LocalCluster(root)

    def look() -> list[dict[str, Any]]:
        return remote_rows(address) if cluster is None else local_rows(cluster)

    rows: list[dict[str, Any]] = []
    for rows in looks(look, watch=watch):
        if watch and output == "table":
            click.clear()
        emit(rows, output, STATUS_COLUMNS)
        if output == "table":
            for sentence in (*margins(rows), *relays(rows), *troubles(rows), *last_ends(rows)):
                click.echo(sentence)
    _check_led(rows, "dledger up starts them" if cluster else "start the nodes that do not answer")


def _refuse_later(rows: Iterable[Mapping[str, Any]]) -> None:
    """Raises LaterVersion, if a later release wrote a file of one of the folders."""
    if later := [path for row in rows for path in row["later"]]:
        raise LaterVersion(
            f"{', '.join(later)}: of a form that this release does not know; ask the dledger of "
            "the release that wrote it"
        )


def _check_led(rows: Iterable[Mapping[str, Any]], advice: str) -> None:
    """Raises CommandError if a group has no leader."""
    rows = list(rows)
    led = {row["group"] for row in rows if row["role"] == "leader"}
    leaderless = [
        group for group in dict.fromkeys(row["group"] for row in rows) if group not in led
    ]
    if leaderless:
        down_nodes = dict.fromkeys(str(row["node"]) for row in rows if not row["up"])
        why = f"; not answering: {' '.join(down_nodes)}" if down_nodes else ""
        of = f" {', '.join(leaderless)}" if len(led) + len(leaderless) > 1 else ""
        raise CommandError(f"no node leads{of} at the moment{why}; {advice}", RETRY)
