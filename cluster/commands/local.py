"""`dledger up / down / ps / logs`: the local cluster of a folder."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from cluster.commands.errors import NOT_THERE, USAGE, CommandError
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.progress import progress
from cluster.local import one_address, plan, processes, profile
from cluster.local.launcher import LocalCluster
from cluster.local.log_follow import LogFollower
from cluster.local.profile import Member

Function = TypeVar("Function", bound=Callable[..., Any])

# A follower of a log needs no better than this.
FOLLOW_SECONDS = 0.2


def root_option(function: Function) -> Function:
    """`--root DIR`: the cluster's folder."""
    option = click.option(
        "--root",
        type=click.Path(path_type=Path, file_okay=False),
        default=profile.default_root,
        show_default="$DLEDGER_HOME/local or ~/.dledger/local",
        help="The cluster's folder.",
    )
    return option(function)


nodes_option = click.option(
    "-n",
    "--nodes",
    type=click.IntRange(1, plan.NODES_MAX),
    default=3,
    show_default=True,
    help="Broker nodes.",
)
any_port_option = click.option(
    "--any-port", is_flag=True, help="Take ports that are free instead of the usual."
)


def _of_a_new_one(*flags: str, most: int, default: int, text: str) -> Callable[..., Any]:
    """An option that says how many a new cluster has; None when it is not given."""
    shown = f"{text}  [default: {default}, or what is there]"
    return click.option(*flags, type=click.IntRange(1, most), help=shown)


@click.command()
@root_option
@_of_a_new_one("-n", "--nodes", most=plan.NODES_MAX, default=3, text="Broker nodes.")
@_of_a_new_one(
    *("-g", "--groups"),
    most=plan.GROUPS_MAX,
    default=1,
    text="Broker names; every node holds a replica of each.",
)
@_of_a_new_one(
    "--nameservers",
    most=plan.NAMESERVERS_MAX,
    default=1,
    text="Name servers; several share their configuration, and a majority must agree on changes.",
)
@any_port_option
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="A setting.")
@output_option
def up(
    root: Path,
    nodes: int | None,
    groups: int | None,
    nameservers: int | None,
    any_port: bool,
    settings: tuple[str, ...],
    output: str,
) -> None:
    """Start a local cluster, or its stopped nodes; return when it is ready.

    Data stays in the cluster's folder: down and up again continue where it was.
    """
    if profile.exists(root):
        cluster = LocalCluster(root)
        _refuse_other_counts(cluster, nodes, groups, nameservers)
        _refuse_changes(cluster, settings, any_port)
    else:
        planned = plan.plan(nodes or 3, groups=groups or 1, nameservers=nameservers or 1)
        members = fitted_members(planned, any_port)
        cluster = LocalCluster.create(root, members, setting_pairs(settings))
    began = time.monotonic()
    with progress("starting"):
        started = cluster.up()
    seconds = time.monotonic() - began
    rows = _processes(cluster)
    if output != "table":
        row = {"started": list(started), "seconds": round(seconds, 1)}
        row |= {"nameserver": str(cluster.nameserver), "folder": str(root), "nodes": rows}
        emit([row], output)
        return
    what = f"started {' '.join(started)}" if started else "everything was running"
    click.echo(f"{what}; ready in {seconds:.1f} s\n")
    emit(rows, "table", ("node", "client", "peer", "admin", "pid"))
    click.echo(f"\nname server  {cluster.nameserver}\nfolder       {root}")


def fitted_members(planned: Sequence[Member], any_port: bool) -> tuple[Member, ...]:
    """As this machine can have them; says so where that is not as planned."""
    members, sentence = one_address.fitted(planned, one_address.has_host)
    if sentence:
        click.echo(sentence, err=True)
    return plan.with_any_ports(members) if any_port else members


def setting_pairs(settings: tuple[str, ...]) -> dict[str, str]:
    """SECTION.KEY=VALUE as section.key → value. Raises CommandError for another form."""
    pairs = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or "." not in name:
            raise CommandError(
                f"--set {setting} is not of the form section.key=value; dledger config show lists "
                "them",
                USAGE,
            )
        pairs[name] = value
    return pairs


def _refuse_other_counts(
    cluster: LocalCluster, nodes: int | None, groups: int | None, nameservers: int | None
) -> None:
    """Raises CommandError where a cluster that exists was asked to have more or fewer of them."""
    others = (
        f"dledger up --root DIR makes another cluster, dledger down --purge ends {cluster.root}"
    )
    there = len(cluster.brokers)
    if nodes is not None and nodes != there:
        free = next(
            name for number in range(there + 1) if (name := f"n{number}") not in cluster.brokers
        )
        one = (
            f"dledger member add {free} --start --yes adds one"
            if nodes > there
            else f"dledger member remove {cluster.brokers[-1]} --stop --yes takes one away"
        )
        raise CommandError(
            f"the cluster in {cluster.root} has {there} nodes and not {nodes}; {one}, {others}",
            USAGE,
        )
    for what, asked, found in (
        ("--groups", groups, len(cluster.profile.groups())),
        ("--nameservers", nameservers, len(cluster.profile.nameservers)),
    ):
        if asked is not None and asked != found:
            raise CommandError(
                f"the cluster in {cluster.root} was made with {what} {found} and not {asked}, "
                f"which stays so; {others}",
                USAGE,
            )


def _refuse_changes(cluster: LocalCluster, settings: tuple[str, ...], any_port: bool) -> None:
    if any_port or (settings and setting_pairs(settings) != cluster.profile.settings):
        raise CommandError(
            f"the cluster in {cluster.root} was made with other members, ports or settings; "
            "dledger down --purge removes it and its messages, --root DIR makes another",
            USAGE,
        )


@click.command()
@root_option
@click.option("--purge", is_flag=True, help="Delete the folder with every message in it, too.")
@output_option
def down(root: Path, purge: bool, output: str) -> None:
    """Stop the local cluster: only processes that dledger up has started."""
    row: dict[str, Any] = {"folder": str(root), "stopped": [], "killed": [], "deleted": False}
    if not profile.exists(root):
        emit_done([row], output, f"no local cluster in {root}; nothing to stop")
        return
    try:
        cluster = LocalCluster(root)
    except profile.ProfileError as error:
        if not purge:
            raise
        shutil.rmtree(root)
        said = f"deleted {root}, whose profile could not be read ({error})"
        emit_done([row | {"deleted": True}], output, said)
        return
    running = list(cluster.running())
    with progress("stopping"):
        killed = list(cluster.down())
    sentences = [f"stopped {' '.join(running)}" if running else "nothing was running"]
    if killed:
        click.echo(f"killed {' '.join(killed)}, which did not stop when asked", err=True)
    if purge:
        cluster.purge()
        sentences.append(f"deleted {root}")
    row |= {"stopped": running, "killed": killed, "deleted": purge}
    emit_done([row], output, *sentences)


def _processes(cluster: LocalCluster) -> list[dict[str, Any]]:
    rows = []
    for member in cluster.profile.members:
        folder = cluster.folder(member.name)
        process = processes.running(folder)
        memory = process.memory_info().rss / 1e6 if process else None
        rows.append(
            {
                "node": member.name,
                "state": process.status() if process else "stopped",
                "pid": process.pid if process else None,
                "client": member.client,
                "peer": member.peer or None,
                "admin": f"http://{member.admin}" if member.admin else None,
                "rss_mb": round(memory) if memory else None,
                "folder": str(folder),
            }
        )
    return rows


@click.command()
@root_option
@output_option
def ps(root: Path, output: str) -> None:
    """Processes, addresses and folders of the local cluster."""
    emit(_processes(LocalCluster(root)), output)


@click.command()
@root_option
@click.argument("node")
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="How many."
)
@output_option
def logs(root: Path, node: str, follow: bool, lines: int, output: str) -> None:
    """Print the last lines that NODE (ns, n0, n1, ...) has logged."""
    if follow and output == "json":
        raise click.UsageError("a followed log has no end, and -o json is one value; give -o jsonl")
    cluster = LocalCluster(root)
    path = cluster.folder(node) / "log.txt"
    if not path.exists():
        raise CommandError(f"{node} was never started; dledger up starts it", NOT_THERE)
    with contextlib.closing(LogFollower(path)) as log:
        content = log.read().splitlines(keepends=True)
        text = "".join(content[-lines:] if lines else [])
        while True:  # with --follow until it is interrupted, else once
            text = _print_log(node, text, output, grows=follow)
            if not follow:
                return
            sys.stdout.flush()
            time.sleep(FOLLOW_SECONDS)
            text += log.read()


def _print_log(node: str, text: str, output: str, *, grows: bool) -> str:
    """Print `text`; returns the beginning of a last line without its end."""
    if output == "table":
        sys.stdout.write(text)
        return ""
    found = text.splitlines(keepends=True)
    rest = found.pop() if grows and found and not found[-1].endswith("\n") else ""
    emit([{"node": node, "line": line.rstrip("\n")} for line in found], output)
    return rest
