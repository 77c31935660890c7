"""`dledger restore`: a backup becomes a new local cluster, or one node of several machines."""

from __future__ import annotations

import json
import os
import shlex
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cluster.backup.manifest import Manifest
from cluster.backup.places import Place, place_of
from cluster.backup.restoring import Restored, Until, check_until, restore
from cluster.broker.access.audit.restored import NOTE
from cluster.commands.backup import manifests_in, moment_text, now_ms, place_argument, row_of
from cluster.commands.connecting import user_here
from cluster.commands.embedded_restore import check_new, restored_into
from cluster.commands.errors import NOT_THERE, USAGE, CommandError
from cluster.commands.local import any_port_option, fitted_members, nodes_option, root_option
from cluster.commands.moments import EXAMPLES, moment
from cluster.commands.output import emit, output_option
from cluster.commands.progress import Done, progress
from cluster.local import plan, profile
from cluster.local.launcher import LocalCluster
from cluster.local.log_sizes import settings_for
from cluster.local.node_files import write_node_file
from cluster.local.profile import BROKER
from cluster.move.new_folders import all_or_nothing
from cluster.settings.node import build_node, read_node
from commitlog.files.system import OS_FILES
from dledger.config import RaftConfig

_LOOK_SECONDS = 1.0
"""For one member to take a connection."""


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
@click.option(
    "--node",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Make the folder of this node alone (dledger node init --no-format), instead of a local"
    " cluster; the same on the machine of each member.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make folders of embedded nodes instead of a cluster: DIR for one member, DIR/NAME for"
    " each of several. DIR must be new or empty.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="NAME",
    help="With --into: a node_id of the new group; again for each.  [default: n0]",
)
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
    node: Path | None,
    into: Path | None,
    members: Sequence[str],
    yes: bool,
    output: str,
) -> None:
    """Make a new local cluster of the backup in PLACE, up to its end, an entry, or a moment.

    Offsets, message ids and positions of consumers stay. Secrets, accounts and settings are in the
    nodes' own files and not in a backup.
    """
    target = place_of(place)
    found = [one for one in manifests_in(target) if group in (None, one.log.group)]
    if not found:
        raise CommandError(
            f"{target} has no group {group}; dledger backup show lists them", NOT_THERE
        )
    if to_index is not None and len(found) > 1:
        raise CommandError("an index is one of a single group; name it with --group", USAGE)
    until = Until(to_index, to_time)
    following = f"dledger up --root {root}"
    if into is not None:
        check_new(found, node, into, members)
        following = "RaftConfig with the cluster_id and the data_dir that this has printed"
    elif members:
        raise CommandError("--member is for --into; dledger up has -n", USAGE)
    elif node is not None:
        following = f"the same on each other machine, then dledger node run {node}"
    elif profile.exists(root):
        raise CommandError(
            f"{root} has a cluster already; give another --root, or dledger down --purge", USAGE
        )
    for one in found:
        check_until(one, until)
    rows = [row_of(one) for one in found]
    if yes and into is not None:
        with _told(found[0], until) as told:
            rows = restored_into(target, found[0], until, into, members or ("n0",), told)
    elif yes and node is not None:
        rows = [_restored_node(target, found, until, node)]
    elif yes:
        rows = _restored(target, found, until, root, nodes, any_port)
    emit(rows, output, tuple(rows[0]))
    if yes:
        click.echo(f"next: {following}", err=True)
    else:
        click.echo("nothing was written; the same command with --yes does it", err=True)


def _restored_node(
    place: Place, found: Sequence[Manifest], until: Until, file: Path
) -> dict[str, Any]:
    """One replica of the group with the members of FILE; each machine makes the same log."""
    if len(found) > 1:
        raise CommandError(f"{place} has several groups; name one with --group", USAGE)
    (manifest,) = found
    raft = build_node(read_node(file, os.environ)).raft
    own = raft.group
    if own != manifest.log.group and own in (one.log.group for one in manifests_in(place)):
        raise CommandError(
            f"{file} is of the group {own}, and {manifest.log.group} is another one; give --group "
            f"{own}, which {place} has, too",
            USAGE,
        )
    if len(raft.peers) > 1 and until.index is None:
        raise CommandError(
            "each machine must restore the same entries, also when the backup grows meanwhile; "
            f"give --to-index, of the whole backup {manifest.mark}, the same one everywhere",
            USAGE,
        )
    _check_that_none_runs(raft, file)
    root = build_node(read_node(file, os.environ)).broker.root
    with all_or_nothing([root, Path(raft.data_dir)]), _told(manifest, until) as told:
        done = restore(place, manifest, [raft], until, None, voters=[*raft.peers], progress=told)
        leave_note([root], place, manifest, done, until)
    return _restored_row(manifest, done, Path(raft.data_dir))


def _told(manifest: Manifest, until: Until) -> AbstractContextManager[Done]:
    last = manifest.mark if until.index is None else until.index
    return progress(f"{manifest.log.group}: entry", last)


def _check_that_none_runs(raft: RaftConfig, file: Path) -> None:
    """Raises CommandError for a group with a member that runs.

    It may have acknowledged what the backup lacks, and would take this node for the voter that it
    had: the node could lead, and what the others have would be lost or stop them.
    """
    for name in raft.peers:
        if name == raft.node_id:
            continue
        host, port = raft.dial_address(name)
        try:
            socket.create_connection((host, port), timeout=_LOOK_SECONDS).close()
        except OSError:
            continue
        raise CommandError(
            f"{name} runs at {host}:{port}, and a restored folder is for a group that is lost as a "
            f"whole; for one lost node use dledger node replace, and to restore all of it stop "
            f"{name} first, and start none before every machine has its folder"
        )


def leave_note(
    folders: Sequence[Path], place: Place, manifest: Manifest, done: Restored, until: Until
) -> None:
    """Each node's folder says that it was restored; its first leader tells the audit log."""
    words = ["dledger", "restore", str(place)]
    words += [] if until.index is None else ["--to-index", str(until.index)]
    words += [] if until.time_ms is None else ["--to-time", moment_text(until.time_ms)]
    note = {
        "id": f"{done.checksum:08x}-{done.last}",
        "target": f"backup {place}",
        "command": shlex.join([*words, "--yes"]),
        "by": user_here(),
        "group": manifest.log.group,
        "entries": done.entries,
        "to_index": done.last,
        "to_time": moment_text(done.last_ms),
        "last_ms": done.last_ms,
    }
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        OS_FILES.write_atomic(folder / NOTE, json.dumps(note).encode())


def _restored_row(manifest: Manifest, done: Restored, into: Path) -> dict[str, Any]:
    return {
        "group": manifest.log.group,
        "entries": done.entries,
        "to_index": done.last,
        "to_time": moment_text(done.last_ms),
        "checksum": f"{done.checksum:08x}",
        "into": str(into),
    }


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
    sizes_given = settings_for(data_file_size) | {"raft.index_file_size": str(index_file_size)}
    with all_or_nothing([root]):
        cluster = LocalCluster.create(root, members, sizes_given)
        profile.profile_path(root).unlink()  # until it is whole: dledger up starts no half of it
        rows = _groups_restored(place, found, until, cluster)
        profile.save(root, replace(cluster.profile, formatted=True))
    return rows


def _groups_restored(
    place: Place, found: Sequence[Manifest], until: Until, cluster: LocalCluster
) -> list[dict[str, Any]]:
    """Fill the nodes of each group; a row for each group."""
    at_ms, rows, root = now_ms(), [], cluster.root
    for manifest, name in zip(found, cluster.profile.groups(), strict=True):
        made = [
            build_node(read_node(write_node_file(root, cluster.profile, member), {}))
            for member in cluster.profile.of_kind(BROKER)
            if member.group == name
        ]
        rafts = [one.raft for one in made]
        with _told(manifest, until) as told:
            done = restore(place, manifest, rafts, until, at_ms, progress=told)
        leave_note([one.broker.root for one in made], place, manifest, done, until)
        rows.append(_restored_row(manifest, done, root))
    return rows
