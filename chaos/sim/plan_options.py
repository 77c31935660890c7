"""Options of `dledger sim` that `dledger chaos shrink` has, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chaos.live.settings import load
from chaos.sim.profile import EVERYTHING, Profile
from chaos.sim.runner import Plan
from chaos.sim.schedules import schedules_of

SECONDS = 60.0

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Faults, nodes and seconds as `dledger chaos run --config` has them.",
)


_FLAGS = (
    click.option(
        "--membership", is_flag=True, help="Members are added, removed and lose their disks."
    ),
    click.option("--snapshots", is_flag=True, help="Beginnings of logs go, and states are sent."),
    click.option(
        "--sick-disks",
        is_flag=True,
        help="Nodes look at their disks, as real ones do: hung ones go.",
    ),
    click.option(
        "--repair", is_flag=True, help="Nodes repair what rots in their logs; nobody else does."
    ),
    click.option("--everything", is_flag=True, help="All of these at once."),
    click.option(
        "--lost-files",
        is_flag=True,
        help="Both copies of a small file are lost, of one voter at a time.",
    ),
    click.option(
        "--lease-reads", is_flag=True, help="Reads by leases, under clocks that drift and jump."
    ),
    click.option(
        "--quiescence", is_flag=True, help="Groups without traffic fall silent, as in a host."
    ),
)


def profile_options(function: Callable[..., None]) -> Callable[..., None]:
    """The flags of a `Profile`, as the argument `profile`."""

    @functools.wraps(function)
    def with_profile(
        *,
        membership: bool,
        snapshots: bool,
        sick_disks: bool,
        repair: bool,
        everything: bool,
        lease_reads: bool,
        lost_files: bool,
        quiescence: bool,
        **others: Any,
    ) -> None:
        drawn = Profile(membership, snapshots, sick_disks, repair)
        drawn = EVERYTHING if everything else drawn
        others["profile"] = replace(
            drawn, lease_reads=lease_reads, lost_files=lost_files, quiescence=quiescence
        )
        function(**others)

    for flag in reversed(_FLAGS):
        with_profile = flag(with_profile)
    return with_profile


def with_schedules(plan: Plan, config: Path, seconds: float | None) -> Plan:
    """Returns the plan with the faults of a live run's file; also with its node count and seconds,
    where the command line gave none.

    Kinds that the simulator does not have are told on standard error. Raises click.UsageError when
    the file does not do.
    """
    if plan.course.calm:
        raise click.UsageError("--calm has no faults and --config names some; leave one out")
    try:
        settings = load(config)
        schedules = schedules_of(str(config), settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    length = seconds or settings.seconds
    if length <= 2 * settings.quiet + settings.gap_min:
        said = f"of {config} no fault fits into {length:g} s; give it more --seconds"
        raise click.UsageError(said)
    if schedules.passed_over:
        names = ", ".join(schedules.passed_over)
        click.echo(f"skipped, as the simulator does not have them: {names}", err=True)
    return replace(plan, nodes=plan.nodes or settings.nodes, seconds=length, schedules=schedules)
