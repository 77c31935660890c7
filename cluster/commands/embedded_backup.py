"""`dledger backup run --folder`: the groups of embedding programs, read of their folders.

    files say: committed up to 20 ─► copied      the log goes on to 45 ─► looked at for a second
                                                 still 20 ─► told: 21 to 45 are not known

An embedded node answers no command. It writes down what is committed within 0.1 s, unless its event
loop is blocked, it has no majority, or it was killed. What is in its log and not known to be
committed may be taken back by a later leader, so it is not copied; that is told, with its index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cluster.backup.backing_up import Added
from cluster.backup.node_log import NodeLog
from cluster.commands.errors import USAGE, CommandError
from cluster.commands.folders import nodes_in
from commitlog.files.held_locks import is_locked
from commitlog.inspect.command import LOCK_NAME

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


def copied(folders: Sequence[Path], copy: Copy) -> Iterator[tuple[Added, int]]:
    """Each group: the backup, and how many entries of the log are not known to be committed.

    Raises CommandError, BackupError, NodeFailed, OSError.
    """
    groups = dict[str, list[NodeLog]]()
    for folder in nodes_in(folders):
        log = NodeLog(folder)
        groups.setdefault(log.identity.group, []).append(log)
    for group, logs in groups.items():
        if len(clusters := {log.identity.cluster_id for log in logs}) > 1:
            raise CommandError(
                f"the folders hold group {group} of {len(clusters)} clusters "
                f"({', '.join(sorted(clusters))}); give each a place of its own",
                USAGE,
            )
    for logs in groups.values():
        best = _furthest(logs)
        done = copy(best.name, best.log, best.committed)
        end = best.log.last_behind(done.manifest.tail)
        if end > done.manifest.mark and _is_known_up_to(end, logs):
            best = _furthest(logs)
            again = copy(best.name, best.log, best.committed)
            done = Added(again.manifest, done.entries + again.entries, done.size + again.size)
        left = max(0, end - done.manifest.mark)
        if left:
            click.echo(_sentence(best, done.manifest.mark, end), err=True)
        yield done, left


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
