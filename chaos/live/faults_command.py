"""`dledger chaos faults`: which kinds of faults work on this machine."""

from __future__ import annotations

from collections.abc import Mapping

import click

from chaos.drivers import toxics
from chaos.drivers.probe import availability, in_namespaces
from chaos.faults import KINDS
from chaos.live.toxic_links import which_server
from cluster.commands.output import report_option, to_json


@click.command("faults")
@report_option
def show_faults(output: str) -> None:
    """Every kind of fault: does it work on this machine, and why not."""
    found = availability()
    if output == "json":
        rows = [
            {"number": k.number, "name": k.name, "text": k.text, "driver": k.driver.value}
            | {"simulated": k.simulated, "available": not found[k.name], "reason": found[k.name]}
            for k in KINDS
        ]
        click.echo(
            to_json(
                {"faults": rows, "available": _count(found), "namespaces": in_namespaces()}
                | {"toxiproxy": {"server": which_server(), "kinds": list(toxics.FAULTS)}}
            )
        )
        return
    for kind in KINDS:
        sim = "sim" if kind.simulated else ""
        reason = f"skipped: {found[kind.name]}" if found[kind.name] else "live"
        click.echo(f"{kind.number:3}  {kind.name:14} {sim:4} {kind.text:44} {reason}")
    click.echo(f"{_count(found)} of {len(KINDS)} kinds work live on this machine")
    below = in_namespaces()
    reason = next((f", skipped: {why}" for why in below.values() if why), "")
    click.echo(
        f"below TCP, with --network namespaces: {_count(below)} of {len(below)} kinds{reason} "
        f"({', '.join(below)})"
    )
    click.echo(
        f"with --network toxiproxy: {len(toxics.FAULTS)} kinds through {which_server()} "
        f"({', '.join(toxics.FAULTS)})"
    )


def _count(found: Mapping[str, str]) -> int:
    return sum(not reason for reason in found.values())
