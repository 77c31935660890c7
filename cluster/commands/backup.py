"""`dledger backup run / show / verify` and `dledger restore`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cluster.backup import manifest as manifests
from cluster.backup.backing_up import Added, back_up, read_manifest
from cluster.backup.checking import check
from cluster.backup.errors import BackupError
from cluster.backup.manifest import Manifest
from cluster.backup.node_log import NodeLog
from cluster.backup.places import Place, place_of
from cluster.backup.restoring import Until, restore
from cluster.commands.errors import FAILED, NOT_THERE, USAGE, CommandError
from cluster.commands.local import any_port_option, fitted_members, nodes_option, root_option
from cluster.commands.moments import EXAMPLES, moment
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.local import admin, plan, profile
from cluster.local.launcher import LocalCluster
from cluster.local.log_sizes import settings_for
from cluster.local.node_files import data_folder, write_node_file
from cluster.local.profile import BROKER
from cluster.settings.node import build_node, read_node
from dledger.config import RaftConfig

_TOLD_SECONDS = 2.0  # work that takes longer says how far it is
_FIRST_GROUP = RaftConfig.__dataclass_fields__["group"].default
_COLUMNS = ("group", "entries", "to_index", "to_time", "bytes", "added_entries", "added_bytes")

place_argument = click.argument("place", metavar="PLACE")
node_option = click.option(
    "--node",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A node's settings file (dledger node), instead of the local cluster.",
)


@click.group(cls=WholeHelpGroup)
def backup() -> None:
    """Copy a cluster's log while it runs; dledger restore makes a cluster of the copy.

    PLACE is a folder, or s3://BUCKET/PREFIX, with ?endpoint=URL for another store than Amazon's.
    """


@dataclass(frozen=True, slots=True)
class Replica:
    """One node's folder of a group. `committed`: as the node says, or has written when stopped."""

    name: str
    log: NodeLog
    committed: int


@backup.command("run")
@place_argument
@root_option
@node_option
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Go on until it is interrupted: a lost cluster costs so much at most, and the time of one"
    " round. A round that fails is told, and tried again with the next one.",
)
@output_option
def run(place: str, root: Path, node: Path | None, every: float | None, output: str) -> None:
    """Copy to PLACE all that is committed now and is not there yet.

    A replica is read on the machine where its files are, a follower where there is one. All groups
    of the local cluster, or that of one node.
    """
    target = place_of(place)
    while True:  # with --every until it is interrupted, else once
        began = time.monotonic()
        try:
            rows = [_run_one(found, target) for found in _replicas(root, node)]
            emit(rows, output, _COLUMNS)
        except (BackupError, OSError) as error:
            if every is None or not getattr(error, "retriable", True):
                raise
            click.echo(f"not done, tried again in {every:g} s: {error}", err=True)
        if every is None:
            return
        time.sleep(max(0.0, every - (time.monotonic() - began)))


def _run_one(replica: Replica, place: Place) -> dict[str, Any]:
    told = _Told(f"{replica.name}: entry", replica.committed)
    done = back_up(replica.log, replica.committed, place, _now_ms, lambda now: told(now.mark))
    return _row(done.manifest) | _added(done)


def _added(done: Added) -> dict[str, Any]:
    return {"added_entries": done.entries, "added_bytes": done.size}


class _Told:
    """Says on stderr every two seconds how far a long piece of work is."""

    def __init__(self, what: str, last: int) -> None:
        self._what, self._last = what, last
        self._next = time.monotonic() + _TOLD_SECONDS

    def __call__(self, number: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TOLD_SECONDS
            click.echo(f"{self._what} {number} of {self._last}", err=True)


def _replicas(root: Path, node: Path | None) -> Iterator[Replica]:
    """One of each group. Raises CommandError where none can be read."""
    if node is not None:
        yield _of_file(node)
        return
    cluster = LocalCluster(root)
    statuses = cluster.statuses()
    for group in cluster.profile.groups():
        yield _best(
            [
                _replica(
                    member.name,
                    data_folder(root, member) / f"dledger-{member.process}",
                    statuses[member.name],
                )
                for member in cluster.profile.of_kind(BROKER)
                if member.group == group
            ]
        )


def _best(found: Sequence[tuple[Replica | None, bool]]) -> Replica:
    """The replica that knows most to be committed; of equal ones a follower."""
    there = [(replica, leads) for replica, leads in found if replica is not None]
    if not there:
        raise CommandError("no replica has files here; dledger up starts the cluster", NOT_THERE)
    return max(there, key=lambda one: (one[0].committed, not one[1]))[0]


def _replica(
    name: str, folder: Path, status: Mapping[str, Any] | None
) -> tuple[Replica | None, bool]:
    """The replica, None where it has no folder; and whether it leads."""
    if not folder.exists():
        return None, False
    log = NodeLog(folder)
    if status is None:
        return Replica(name, log, log.committed_on_disk()), False
    return Replica(name, log, int(status["committed_index"])), status["role"] == "leader"


def _of_file(file: Path) -> Replica:
    settings = build_node(read_node(file, os.environ, ()))
    status: dict[str, Any] | None = None
    if settings.admin.listen is not None:
        host, port = settings.admin.listen
        try:
            code, body = admin.get(f"{host}:{port}", "/api/v1/status", token=settings.admin.token)
        except OSError:
            code, body = 0, b""  # it is stopped; its files say how far it was
        if code == 200:
            status = json.loads(body)
    found, _ = _replica(settings.raft.node_id, Path(settings.raft.data_dir), status)
    if found is None:
        raise CommandError(
            f"{settings.raft.data_dir} is not there; run this on the machine of the node", NOT_THERE
        )
    return found


@backup.command("show")
@place_argument
@output_option
def show(place: str, output: str) -> None:
    """Show the entries, times and bytes that PLACE holds."""
    target = place_of(place)
    emit([_row(found) for found in _manifests(target)], output, _COLUMNS[:5])


@backup.command("verify")
@place_argument
@output_option
def verify(place: str, output: str) -> None:
    """Read all of PLACE and check every record in it. Exit code 1 when something is damaged."""
    target = place_of(place)
    rows, faults = [], list[str]()
    for found in _manifests(target):
        told = _Told(f"{found.log.group}: part", len(found.pieces))
        checked = check(target, found, told)
        rows.append(
            _row(found) | {"parts": checked.parts, "whole": "no" if checked.faults else "yes"}
        )
        faults += checked.faults
    emit(rows, output, ("group", "entries", "to_index", "to_time", "bytes", "parts", "whole"))
    if faults:
        rest = f"\n  … and {len(faults) - 20} more" if len(faults) > 20 else ""
        raise CommandError(
            f"{len(faults)} parts of {target} are damaged; restore them from a copy, or begin "
            "another backup while the cluster lives:\n  " + "\n  ".join(faults[:20]) + rest,
            FAILED,
        )


@click.command("restore")
@place_argument
@root_option
@nodes_option
@any_port_option
@click.option("--to-index", type=int, help="The last entry that is wanted.")
@click.option(
    "--to-time",
    callback=moment,
    metavar="TIME",
    help=f"Nothing that was stored later: {EXAMPLES}.",
)
@click.option("--group", help="Of several groups in PLACE, this one only.")
@click.option("--yes", is_flag=True, help="Do it; without this nothing is written.")
@output_option
def restore_(
    place: str,
    root: Path,
    nodes: int,
    any_port: bool,
    to_index: int | None,
    to_time: int | None,
    group: str | None,
    yes: bool,
    output: str,
) -> None:
    """Make a new local cluster of the backup in PLACE, up to its end, an entry, or a moment.

    Offsets, message ids and positions of consumers stay. Secrets, accounts and settings are in the
    nodes' own files and not in a backup.
    """
    target = place_of(place)
    found = [one for one in _manifests(target) if group in (None, one.log.group)]
    if not found:
        raise CommandError(
            f"{target} has no group {group}; dledger backup show lists them", NOT_THERE
        )
    if to_index is not None and len(found) > 1:
        raise CommandError("an index is one of a single group; name it with --group", USAGE)
    until = Until(to_index, to_time)
    if profile.exists(root):
        raise CommandError(
            f"{root} has a cluster already; give another --root, or dledger down --purge", USAGE
        )
    rows = [_row(one) for one in found]
    if yes:
        rows = _restored(target, found, until, root, nodes, any_port)
    emit(rows, output, tuple(rows[0]))
    if yes:
        click.echo(f"next: dledger up --root {root}", err=True)
    else:
        click.echo("nothing was written; the same command with --yes does it", err=True)


def _restored(
    place: Place, found: Sequence[Manifest], until: Until, root: Path, nodes: int, any_port: bool
) -> list[dict[str, Any]]:
    sizes = {(one.log.data_file_size, one.log.index_file_size) for one in found}
    if len(sizes) > 1:
        raise CommandError(
            "the groups have log files of different sizes; restore them one by one (--group)", USAGE
        )
    ((data_file_size, index_file_size),) = sizes
    members = fitted_members(plan.plan(nodes, groups=len(found)), any_port)
    cluster = LocalCluster.create(
        root,
        members,
        settings_for(data_file_size) | {"raft.index_file_size": str(index_file_size)},
    )
    now_ms, rows = _now_ms(), []
    for manifest, name in zip(found, cluster.profile.groups(), strict=True):
        raft = [
            build_node(read_node(write_node_file(root, cluster.profile, member), {})).raft
            for member in cluster.profile.of_kind(BROKER)
            if member.group == name
        ]
        done = restore(place, manifest, raft, until, now_ms)
        rows.append(
            {
                "group": manifest.log.group,
                "entries": done.entries,
                "to_index": done.last,
                "to_time": _time(done.last_ms),
                "into": str(root),
            }
        )
    profile.save(root, replace(cluster.profile, formatted=True))
    return rows


def _manifests(place: Place) -> list[Manifest]:
    """Of every group in the place, the first one first. Raises CommandError without any."""
    found = []
    for group in sorted(place.folders(), key=lambda name: (name != _FIRST_GROUP, name)):
        try:
            found.append(read_manifest(place, group)[0])
        except FileNotFoundError:
            continue  # not one of ours
    if not found:
        raise CommandError(
            f"{place} holds no backup ({manifests.NAME}); dledger backup run makes one", NOT_THERE
        )
    return found


def _row(manifest: Manifest) -> dict[str, Any]:
    return {
        "group": manifest.log.group,
        "entries": manifest.mark - int(manifest.anchor.id.index),
        "to_index": manifest.mark,
        "to_time": _time(manifest.last_ms),
        "bytes": manifest.size,
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds") if ms else "-"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
