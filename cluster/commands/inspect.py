"""`dledger inspect DIR`: the read-only viewer of `commitlog`, which needs no cluster.

Its options are its own (`dledger inspect --help`); so are its exit codes: 0 whole, 1 damaged,
2 usage.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from commitlog.errors import StoreDamaged
from commitlog.files.system import FileSystem
from commitlog.inspect import main
from commitlog.store.reader import Finding
from dledger.errors import LaterVersion, NodeFailed

#: What file systems have where a disk is mounted; its owner alone may enter it.
OF_THE_DISK = "lost+found"


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def inspect(arguments: tuple[str, ...]) -> None:
    """Read a stopped node's files, those of a Host, or a RocketMQ store."""
    sys.exit(main(list(arguments), node_check=node_findings, groups=groups_in))


def groups_in(files: FileSystem, folder: Path) -> list[Path]:
    """Folders of the groups of a Host's folder, by name; of a node's and of a store's root none."""

    if is_node(files, folder):
        return []
    nodes = nodes_below(files, folder)
    return [] if all(_is_in_a_root(files, node) for node in nodes) else nodes


def _is_in_a_root(files: FileSystem, node: Path) -> bool:
    """Is it a node of a store, and no group of a Host that has such a name all the same?"""
    from dledger.durable import identity
    from dledger.runtime.folder_names import ROOT_PREFIX

    if not node.name.startswith(ROOT_PREFIX):
        return False
    try:
        owner = identity.read(files, node)
    except (NodeFailed, OSError):  # nothing else tells
        return True
    return node.name == ROOT_PREFIX + owner.node_id or node.name != owner.group


def nodes_below(files: FileSystem, folder: Path) -> list[Path]:
    """Folders of nodes directly below a folder, by name; none where there is no such folder.

    One that this user may not enter may be a node's: who reads it says that it cannot.
    """

    if not files.is_dir(folder):
        return []
    below = (folder / name for name in sorted(files.list(folder)))
    return [path for path in below if _may_be_node(files, path)]


def _may_be_node(files: FileSystem, folder: Path) -> bool:
    try:
        return is_node(files, folder)
    except PermissionError:
        return folder.name != OF_THE_DISK


def is_node(files: FileSystem, folder: Path) -> bool:
    """Is it the folder of a node, or one that has lost the file that says so?

    A folder of the name of that file is a group's; one that a restore fills is no node yet.
    """
    from cluster.move.new_folders import STAGING
    from dledger.durable import identity
    from dledger.runtime.folder_check import has_lost_its_identity

    path = folder / identity.FILE_NAME
    if files.exists(path) and not files.is_dir(path):
        return True
    return not files.exists(folder / STAGING) and has_lost_its_identity(files, folder)


def node_findings(files: FileSystem, folder: Path, last_index: int) -> Iterator[Finding]:
    """The faults in a node's small files and in its states, where its log begins and later.

    What a later release wrote is told as that, and as nothing else.
    """
    from dledger.runtime.folder_check import flaws

    later = later_findings(files, folder)
    yield from later
    unknown = {found.path for found in later}
    for flaw in flaws(files, folder, last_index):
        if str(flaw.path) not in unknown:
            yield Finding(str(flaw.path), -1, flaw.reason, flaw.damage)
    for finding in state_findings(files, folder):
        if finding.path not in unknown:
            yield finding


def later_findings(files: FileSystem, folder: Path) -> list[Finding]:
    """The files of a node's folder that a later release wrote."""
    from dledger.runtime.later_files import later_files

    try:
        later = {path: error for path, error in later_files(files, folder)}
        later |= {
            path: error for path, error in _later_machines(files, folder) if path not in later
        }
    except OSError:
        return []  # one that cannot be read is told with the damaged ones
    return [Finding(str(path), -1, str(error), False, later=True) for path, error in later.items()]


def state_findings(files: FileSystem, folder: Path) -> Iterator[Finding]:
    """The faults of a node's states, each read; none where its log begins without a state."""
    from dledger.log import log_start
    from dledger.snapshots.snapshot_files import FOLDER, SnapshotFolder

    states = SnapshotFolder(files, folder)
    try:
        start = log_start.read(files, folder)
    except (NodeFailed, OSError):
        start = None  # told with the small files; the states are looked at all the same
    try:
        if files.is_dir(folder / FOLDER):
            for path in states.damaged(None if start is None else start.position):
                reason = "this state is damaged; a start takes an older one and the log"
                yield Finding(str(path), -1, reason)
        if start is not None:
            states.prove(start)
    except StoreDamaged as error:
        yield Finding(error.path or str(folder), error.position, error.reason)
    except PermissionError:
        raise  # of this user: no damage
    except OSError as error:
        path = error.filename or folder / FOLDER
        yield Finding(str(path), -1, f"a state cannot be read: {error.strerror or error}")


def _later_machines(files: FileSystem, folder: Path) -> Iterator[tuple[Path, LaterVersion]]:
    """States of a known form, in which a machine or a broker of a later release wrote."""
    from dledger.machine import state_head
    from dledger.snapshots.state_versions import beginning_of, paths

    for path in paths(files, folder):
        try:
            beginning = beginning_of(files, path, 8)
            state_head.look(beginning)
            if beginning[:1] == b"{":
                _look_at_brokers(beginning_of(files, path))
        except LaterVersion as error:
            yield path, error


def _look_at_brokers(state: bytes) -> None:
    from cluster.core.captured_state import CHECKPOINT_VERSION
    from dledger.versions import refuse_later

    with contextlib.suppress(ValueError):
        value = json.loads(state)
        if isinstance(value, dict):
            refuse_later("the broker's state", value.get("version"), CHECKPOINT_VERSION)
