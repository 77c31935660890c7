"""`dledger backup run --folder`: the groups of embedding programs, read of their folders.

    files say: committed up to 20 ─► copied      the log goes on to 45 ─► looked at for a second
                                                 still 20 ─► told: 21 to 45 are not known

An embedded node answers no command. It writes down what is committed within 0.1 s, unless its event
loop is blocked, it has no majority, or it was killed. What is in its log and not known to be
committed may be taken back by a later leader, so it is not copied; that is told, with its index.

A replica that cannot be read is told, and another one of its group is; a group without one is told,
and the others are copied (`Failed`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cluster.backup.backing_up import Added
from cluster.backup.errors import BackupBusy, BackupDamaged, BackupError, PlaceFailed
from cluster.backup.node_log import NodeLog
from cluster.commands.backup_failures import Failed
from cluster.commands.errors import USAGE, CommandError, sentence_of
from cluster.commands.folders import nodes_in
from commitlog.errors import StoreDamaged
from commitlog.files.held_locks import is_locked
from commitlog.files.system import is_out_of_space
from commitlog.inspect.command import LOCK_NAME
from dledger.errors import NodeFailed

#: A program that runs is given so long to write down what it had committed when its log was read.
WAIT_SECONDS = 1.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Furthest:
    """The replica of a group with the highest committed index in its files."""

    name: str
    log: NodeLog
    committed: int


#: Copies a replica's committed entries, and shows how far it is.
Copy = Callable[[str, NodeLog, int], Added]


def copied(folders: Sequence[Path], copy: Copy) -> Iterator[tuple[Added, int] | Failed]:
    """Each group: the backup, and how many entries of the log are not known to be committed.

    Raises CommandError for folders that are none, or of several clusters; then nothing is copied.
    """
    groups, unreadable = dict[str, list[NodeLog]](), list[Failed]()
    for folder in nodes_in(folders):
        try:
            log = NodeLog(folder)
            log.committed_on_disk()  # can that be read, too?
        except (NodeFailed, OSError) as error:
            unreadable.append(Failed((str(folder),), error))
            continue
        groups.setdefault(log.identity.group, []).append(log)
    for group, logs in groups.items():
        if len(clusters := {log.identity.cluster_id for log in logs}) > 1:
            raise CommandError(
                f"the folders hold group {group} of {len(clusters)} clusters "
                f"({', '.join(sorted(clusters))}); give each a place of its own",
                USAGE,
            )
    yield from unreadable
    for logs in groups.values():
        yield _group_copied(logs, copy)


def _group_copied(logs: Sequence[NodeLog], copy: Copy) -> tuple[Added, int] | Failed:
    """By the furthest replica; by the next one, if that cannot be read."""
    left = list(logs)
    while True:  # at most once for each replica
        best = None
        try:
            best = _furthest(left)
            return _copied(best, left, copy)
        except (BackupError, NodeFailed, StoreDamaged, OSError) as error:
            if best is None or len(left) == 1 or not _is_of_replica(error):
                return Failed(tuple(str(log.folder) for log in left), error)
            told = f"{sentence_of(error)}; the next replica of its group is taken"
            click.echo(told, err=True)
            left = [log for log in left if log is not best.log]


def _is_of_replica(error: Exception) -> bool:
    """May another replica do? Not where the place refuses: it would again."""
    refused = isinstance(error, PlaceFailed | BackupBusy | BackupDamaged)
    return not refused and not (isinstance(error, OSError) and is_out_of_space(error))


def _copied(best: Furthest, logs: Sequence[NodeLog], copy: Copy) -> tuple[Added, int]:
    done = copy(best.name, best.log, best.committed)
    end = best.log.last_behind(done.manifest.tail)
    if end > done.manifest.mark and _is_known_up_to(end, logs):
        best = _furthest(logs)
        again = copy(best.name, best.log, best.committed)
        done = Added(again.manifest, done.entries + again.entries, done.size + again.size)
    left = max(0, end - done.manifest.mark)
    if left:
        click.echo(_sentence(best, done.manifest.mark, end), err=True)
    return done, left


def _furthest(logs: Sequence[NodeLog]) -> Furthest:
    committed = list(map(NodeLog.committed_on_disk, logs))
    at = committed.index(max(committed))
    return Furthest(str(logs[at].folder), logs[at], committed[at])


def _is_known_up_to(end: int, logs: Sequence[NodeLog]) -> bool:
    """Wait until one says that entry `end` is committed; False: time is over, or none runs."""
    until = time.monotonic() + WAIT_SECONDS
    while max(map(NodeLog.committed_on_disk, logs)) < end:
        if time.monotonic() >= until or not any(map(_is_open, logs)):
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _is_open(log: NodeLog) -> bool:
    return is_locked(log.folder / LOCK_NAME)


def _sentence(best: Furthest, mark: int, end: int) -> str:
    group = best.log.identity.group
    why = "and its program has stopped without a word of them; start it"
    if _is_open(best.log):
        why = (
            f"and its program has not said so for {WAIT_SECONDS:g} s, as it is busy or has no "
            "majority; look at it"
        )
    return (
        f"group {group}: copied up to entry {mark}; {mark + 1} to {end} are in the log of "
        f"{best.name} and not known to be committed, {why}, then run this again"
    )
