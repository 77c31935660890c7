"""`dledger doctor`: the alerts of this machine and of the cluster, each with one thing to try."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cluster.client.discovery import ENVIRONMENT_ADDRESS
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import FAILED, CommandError
from cluster.commands.local import root_option
from cluster.commands.output import emit, emit_lines, format_option
from cluster.health.alerts import (
    CRITICAL,
    WARNING,
    alert,
    alert_text,
    alerts,
    clock_of_this_machine,
)
from cluster.health.machine import look, machine_alerts
from cluster.health.members import reports
from cluster.health.ports import with_programs
from cluster.local import profile

Alert = dict[str, str]


@click.command()
@root_option
@address_option
@format_option("text", "json", "jsonl")
def doctor(root: Path, address: Reach, output: str) -> None:
    """Print the alerts of this machine and of the cluster, each with one thing to try.

    Exit code 1 when something is critical, 0 with warnings only. With -a of that cluster, else of
    the one at $NAMESRV_ADDR or the local one; where there is none, of the machine alone.
    """
    found = list(machine_alerts(look(root)))
    has_cluster = bool(
        address.address or os.environ.get(ENVIRONMENT_ADDRESS) or profile.exists(root)
    )
    if has_cluster:
        found += asyncio.run(cluster_alerts(address))
    if output == "text":
        _tell(found, has_cluster)
    elif output == "jsonl":
        emit_lines(found)
    else:
        emit(found, output)
    sys.exit(FAILED if any(one["level"] == CRITICAL for one in found) else 0)


async def cluster_alerts(address: Reach) -> list[Alert]:
    """The alerts of a cluster; one that cannot be reached is an alert, and no error."""
    try:
        async with connected(address) as client:
            replicas, members = await reports(client.admin())
            addresses = {str(row["node"]): str(row["address"]) for row in replicas}
            found = with_programs(alerts(replicas, members), addresses)
            return [*clock_of_this_machine(replicas), *found]
    except CommandError as error:
        what, _, attempt = error.message.partition("; ")
        said = attempt or "dledger status shows which nodes run, dledger up starts them"
        return [alert(CRITICAL, "cluster", address.address or "the cluster", what, said)]


def _tell(found: Sequence[Alert], has_cluster: bool) -> None:
    for level in (CRITICAL, WARNING):
        for one in found:
            if one["level"] == level:
                click.echo(alert_text(one))
    if not found:
        click.echo("nothing is wrong" + ("" if has_cluster else " with this machine"))
    if not has_cluster:
        click.echo("no cluster was looked at: -a HOST:PORT names one")
