"""`dledger backup run / show / verify`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
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
from cluster.broker.config import BrokerConfig
from cluster.commands.backup_audit import audited
from cluster.commands.backup_failures import Failed, raise_failed
from cluster.commands.connecting import Reach, address_option
from cluster.commands.embedded_backup import copied
from cluster.commands.errors import FAILED, NOT_THERE, USAGE, CommandError
from cluster.commands.local import root_option
from cluster.commands.output import emit, output_option
from cluster.commands.progress import progress
from cluster.commands.registry import WholeHelpGroup
from cluster.local import admin, profile
from cluster.local.launcher import LocalCluster
from cluster.local.node_files import data_folder
from cluster.local.profile import BROKER, Member
from cluster.settings.node import NodeSettings, build_node, read_node
from commitlog.address import join_address
from commitlog.errors import StoreDamaged
from dledger.config import RaftConfig
from dledger.errors import NodeFailed

_FIRST_GROUP = RaftConfig.__dataclass_fields__["group"].default
_FIRST_BROKER = BrokerConfig.__dataclass_fields__["broker_name"].default
_COLUMNS = ("group", "entries", "to_index", "to_time", "bytes", "added_entries", "added_bytes")

place_argument = click.argument("place", metavar="PLACE")
node_option = click.option(
    "--node",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A node's settings file (dledger node), instead of the local cluster.",
)


folder_option = click.option(
    "--folder",
    "folders",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    metavar="DIR",
    help="The data_dir of an embedded node, or of a Host (all its groups), instead of the local"
    " cluster; its program may run. Several: of replicas on this machine the furthest is read.",
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
@folder_option
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Go on until it is interrupted: a lost cluster costs so much at most, and the time of one"
    " round. A round that fails is told, and tried again with the next one.",
)
@address_option
@output_option
def run(
    place: str,
    root: Path,
    node: Path | None,
    folders: Sequence[Path],
    every: float | None,
    address: Reach,
    output: str,
) -> None:
    """Copy to PLACE all that is committed now and is not there yet.

    A replica is read on the machine where its files are, a follower where there is one. All groups
    of the local cluster, or that of one node, or those of an embedding program. With --every it
    waits for a cluster that is not made yet. A cluster that runs has its beginning and its end in
    the audit log, with --every from the round on that finds it running; where there are accounts,
    give --account of an administrator for that.
    """
    target = place_of(place)
    if folders and node is not None:
        raise CommandError("--node and --folder name two sources; give one of them", USAGE)
    if every is not None and not folders:
        _wait_for_files(root, node, every)

    def running() -> tuple[Reach, list[str]]:  # an embedded node has no audit log
        return (address, []) if folders else _running(root, node, address)

    rounds = _Rounds()
    with audited(running, str(target), every, rounds.facts) as look:
        while True:  # with --every until it is interrupted, else once
            began = time.monotonic()
            try:
                look()
                if folders:
                    rows, failed = _embedded(folders, target)
                else:
                    rows, failed = _of_cluster(root, node, target)
                if rows or not failed:
                    emit(rows, output, _COLUMNS)
                    rounds.done(rows)
                raise_failed(failed, len(rows))
            except (BackupError, OSError) as error:
                if every is None or not getattr(error, "retriable", True):
                    raise
                click.echo(f"not done, tried again in {every:g} s: {error}", err=True)
            if every is None:
                return
            time.sleep(max(0.0, every - (time.monotonic() - began)))


def _wait_for_files(root: Path, node: Path | None, every: float) -> None:
    """With `--every` it may be started before the cluster: by a service manager, say."""
    told = False
    while not _has_files(root, node):  # until somebody makes the cluster, or interrupts
        if not told:
            what = f"of {node}" if node is not None else f"in {root}"
            click.echo(
                f"no replica has files {what} yet; it looks every {every:g} s, and begins when one "
                "has (dledger up, or dledger node run)",
                err=True,
            )
            told = True
        time.sleep(every)


def _has_files(root: Path, node: Path | None) -> bool:
    if node is not None:
        return Path(build_node(read_node(node, os.environ, ())).raft.data_dir).exists()
    if not profile.exists(root):
        return False
    return any(
        _replica_folder(root, member).exists()
        for member in LocalCluster(root).profile.of_kind(BROKER)
    )


def _replica_folder(root: Path, member: Member) -> Path:
    return data_folder(root, member) / f"dledger-{member.process}"


class _Rounds:
    """Entries and bytes that all rounds together have copied."""

    def __init__(self) -> None:
        self._count = self._entries = self._size = 0
        self._to: dict[str, Any] = {}

    def done(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._count += 1
        self._entries += sum(row["added_entries"] for row in rows)
        self._size += sum(row["added_bytes"] for row in rows)
        self._to = {row["group"]: row["to_index"] for row in rows}

    def facts(self) -> dict[str, Any]:
        return {
            "rounds": self._count,
            "added_entries": self._entries,
            "added_bytes": self._size,
            "to_index": self._to,
        }


def _running(root: Path, node: Path | None, given: Reach) -> tuple[Reach, list[str]]:
    """How the cluster is reached, and its broker names; none when it is stopped."""
    if node is not None:
        settings = build_node(read_node(node, os.environ, ()))
        broker = settings.broker
        own = broker.advertised or f"{broker.listen_host}:{broker.listen_port}"
        names = [broker.broker_name] if _status_of(settings) is not None else []
        return replace(given, address=own), names
    cluster = LocalCluster(root) if profile.exists(root) else None
    if cluster is None or not any(cluster.statuses().values()):
        return given, []
    first = str(cluster.profile.settings.get("broker.broker_name", _FIRST_BROKER))
    return replace(given, address=cluster.nameserver), [
        group or first for group in cluster.profile.groups()
    ]


def _of_cluster(
    root: Path, node: Path | None, place: Place
) -> tuple[list[dict[str, Any]], list[Failed]]:
    rows, failed = [], []
    for replica in _replicas(root, node):
        if isinstance(replica, Failed):
            failed.append(replica)
            continue
        try:
            done = _copy(place, replica.name, replica.log, replica.committed)
            rows.append(row_of(done.manifest) | _added(done))
        except (BackupError, NodeFailed, StoreDamaged, OSError) as error:
            failed.append(Failed((str(replica.log.folder),), error))
    return rows, failed


def _copy(place: Place, name: str, log: NodeLog, committed: int) -> Added:
    with progress(f"{name}: entry", committed) as told:
        return back_up(log, committed, place, now_ms, lambda now: told(now.mark))


def _embedded(folders: Sequence[Path], place: Place) -> tuple[list[dict[str, Any]], list[Failed]]:
    rows, failed = [], []
    for found in copied(folders, partial(_copy, place)):
        if isinstance(found, Failed):
            failed.append(found)
        else:
            done, left = found
            rows.append(row_of(done.manifest) | _added(done) | {"not_known_entries": left})
    return rows, failed


def _added(done: Added) -> dict[str, Any]:
    return {"added_entries": done.entries, "added_bytes": done.size}


def _replicas(root: Path, node: Path | None) -> Iterator[Replica | Failed]:
    """One of each group. Raises CommandError where a group has no files here."""
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
                    _replica_folder(root, member),
                    statuses[member.name],
                )
                for member in cluster.profile.of_kind(BROKER)
                if member.group == group
            ]
        )


def _best(found: Sequence[tuple[Replica | Failed | None, bool]]) -> Replica | Failed:
    """The replica that knows most to be committed; of equal ones a follower."""
    there = [(replica, leads) for replica, leads in found if isinstance(replica, Replica)]
    unreadable = [replica for replica, _ in found if isinstance(replica, Failed)]
    if unreadable and not there:
        return Failed(
            tuple(name for one in unreadable for name in one.folders), unreadable[0].error
        )
    if not there:
        raise CommandError("no replica has files here; dledger up starts the cluster", NOT_THERE)
    return max(there, key=lambda one: (one[0].committed, not one[1]))[0]


def _replica(
    name: str, folder: Path, status: Mapping[str, Any] | None
) -> tuple[Replica | Failed | None, bool]:
    """The replica, None where it has no folder; and whether it leads."""
    if not folder.exists():
        return None, False
    try:
        log = NodeLog(folder)
        if status is None:
            return Replica(name, log, log.committed_on_disk()), False
    except (NodeFailed, OSError) as error:
        return Failed((str(folder),), error), False
    return Replica(name, log, int(status["committed_index"])), status["role"] == "leader"


def _of_file(file: Path) -> Replica | Failed:
    settings = build_node(read_node(file, os.environ, ()))
    found, _ = _replica(settings.raft.node_id, Path(settings.raft.data_dir), _status_of(settings))
    if found is None:
        raise CommandError(
            f"{settings.raft.data_dir} is not there; run this on the machine of the node", NOT_THERE
        )
    return found


def _status_of(settings: NodeSettings) -> dict[str, Any] | None:
    """The node's own words; None: it is stopped, and its files say how far it was."""
    if settings.admin.listen is None:
        return None
    address = join_address(*settings.admin.listen)
    try:
        code, body = admin.get(address, "/api/v1/status", token=settings.admin.token)
    except OSError:
        return None
    return dict(json.loads(body)) if code == 200 else None


@backup.command("show")
@place_argument
@output_option
def show(place: str, output: str) -> None:
    """Show the entries, times and bytes that PLACE holds."""
    target = place_of(place)
    emit([row_of(found) for found in manifests_in(target)], output, _COLUMNS[:5])


@backup.command("verify")
@place_argument
@output_option
def verify(place: str, output: str) -> None:
    """Read all of PLACE and check every record in it. Exit code 1 when something is damaged."""
    target = place_of(place)
    rows, faults = [], list[str]()
    for found in manifests_in(target):
        with progress(f"{found.log.group}: part", len(found.pieces)) as told:
            checked = check(target, found, told)
        rows.append(
            row_of(found) | {"parts": checked.parts, "whole": "no" if checked.faults else "yes"}
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


def manifests_in(place: Place) -> list[Manifest]:
    """The manifests of all groups in the place, the first group first. CommandError without any."""
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


def row_of(manifest: Manifest) -> dict[str, Any]:
    """A backup as the commands show it."""
    return {
        "group": manifest.log.group,
        "entries": manifest.mark - int(manifest.anchor.id.index),
        "to_index": manifest.mark,
        "to_time": moment_text(manifest.last_ms),
        "bytes": manifest.size,
    }


def moment_text(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC; "-" for none."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds") if ms else "-"


def now_ms() -> int:
    """The machine's time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
