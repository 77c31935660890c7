"""Folders of embedded nodes on this machine, for `dledger status` and `dledger verify`.

    DIR of a node        identity, data/ …       that node
    DIR of a Host        orders/, prices/, …     a node of each group
    several of them      n0 n1 n2                the replicas of each group, side by side

An embedded node answers no command: its program does. So its files are read; none is written.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cluster.commands.errors import NOT_THERE, CommandError, sentence_of
from cluster.commands.inspect import is_node, later_findings, nodes_below, state_findings
from commitlog.errors import StoreUsageError
from commitlog.files.held_locks import is_locked
from commitlog.files.system import OS_FILES
from commitlog.inspect.command import LOCK_NAME, READS_OF_OPEN, still_there
from commitlog.store.committed import committed_index
from commitlog.store.reader import Finding, StoreReader
from dledger.durable import hard_state, identity, small_files
from dledger.errors import NodeFailed
from dledger.log import log_start
from dledger.runtime.folder_check import (
    Flaw,
    Start,
    flaws,
    index_before,
    is_only_voter,
    lost_end,
)
from dledger.runtime.later_files import LaterFile, later_files

T = TypeVar("T")
Key = tuple[str, str]  # cluster and group; of a folder that does not say, none and the folder


@dataclass(slots=True)
class Replica:
    """One node's folder, and the checksum of each committed entry of its log.

    Attributes:
        reasons: what is damaged in its log; states: in its states; flaws: in its small files.
        later: what a later release wrote, and this one cannot judge.
    """

    folder: Path
    owner: identity.Identity | None
    committed: int
    first: int = -1
    last: int = -1
    sums: dict[int, int] = field(default_factory=dict)
    reasons: list[Finding] = field(default_factory=list)
    states: list[Finding] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)
    later: list[str] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """Replicas with the same one are compared."""
        owner = self.owner
        return ("", str(self.folder)) if owner is None else (owner.cluster_id, owner.group)

    @property
    def verified_to(self) -> int:
        """The last committed entry that was read whole, without one missing before it."""
        at = max(self.first, 0) - 1
        while at + 1 in self.sums:
            at += 1
        return at


def nodes_in(folders: Iterable[Path]) -> list[Path]:
    """Folders of nodes at these paths, or directly below them. Raises CommandError for none."""
    found: list[Path] = []
    for folder in folders:
        if is_node(OS_FILES, folder):
            found.append(folder)
            continue
        below = nodes_below(OS_FILES, folder)
        if not below:
            raise CommandError(
                f"{folder} is no folder of a node, nor does it hold any; give the data_dir of an "
                "embedded node or of a Host",
                NOT_THERE,
            )
        found += below
    return found


def status_rows(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """One row a node, by its small files alone. Raises CommandError, OSError."""
    rows = [_status(folder) for folder in nodes_in(folders)]
    newest: dict[Key, int] = {}
    for row in rows:
        key = row["cluster"], row["group"]
        newest[key] = max(newest.get(key, -1), row["last"])
    return [row | {"lag": newest[row["cluster"], row["group"]] - row["last"]} for row in rows]


def _known(read: Callable[[], T]) -> T | None:
    """The value of a small file; None for one that is damaged, or that a later release wrote."""
    try:
        return read()
    except (NodeFailed, OSError, ValueError, struct.error):
        return None


def _damage(folder: Path) -> list[Flaw]:
    """Losses among a node's small files, by them alone."""
    later = {found.path for found in _later(folder)}
    return [one for one in flaws(OS_FILES, folder) if one.damage and one.path not in later]


def _status(folder: Path) -> dict[str, Any]:
    owner = _known(lambda: identity.read(OS_FILES, folder))
    state = _known(lambda: hard_state.peek(OS_FILES, folder))
    start = _known(lambda: log_start.read(OS_FILES, folder))
    mark = _known(lambda: small_files.mark(OS_FILES, folder))
    is_open = is_locked(folder / LOCK_NAME)
    damage, later = _damage(folder), _later(folder)
    unknown = {one.path.name for one in damage} | {found.path.name for found in later}
    first = owner.first_index if owner is not None and log_start.FILE_NAME not in unknown else None
    return {
        "node": None if owner is None else owner.node_id,
        "cluster": None if owner is None else owner.cluster_id,
        "group": None if owner is None else owner.group,
        "folder": str(folder),
        "role": "open" if is_open else "stopped",
        "term": None if state is None else state.term,
        "leader": None,
        "first": first if start is None else start.index + 1,
        "last": -1 if mark is None else mark.index,
        "committed": _known(lambda: committed_index(OS_FILES, folder)),
        "applied": None,
        "disk": _disk(damage, later),
        "up": is_open,
        "later": [str(found.path) for found in later],
        "damage": {str(one.path): one.reason for one in damage},
        "start": start_of(damage).value if not later else "it does not start",
    }


def start_of(found: Iterable[Flaw]) -> Start:
    """How a start ends, with all these faults together."""
    of_each = {one.start for one in found}
    return next((one for one in (Start.REFUSED, Start.ANEW) if one in of_each), Start.AS_BEFORE)


def _disk(damage: Sequence[Flaw], later: Iterable[LaterFile]) -> str:
    if names := [found.path.name for found in later]:
        return f"not judged, of a later release: {' '.join(names)}"
    lost = dict.fromkeys(one.path.name for one in damage if not one.in_the_way)
    strange = dict.fromkeys(one.path.name for one in damage if one.in_the_way)
    said = [f"lost: {' '.join(lost)}"] if lost else []
    said += [f"in the way: {' '.join(strange)}"] if strange else []
    return "; ".join(said) or "good"


def _later(folder: Path) -> list[LaterFile]:
    return list(later_files(OS_FILES, folder))


def compared(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """One row a node: how far its log is whole and that of the others; reads all of it.

    Entries that are not known to be committed may differ: a leader takes them back.
    """
    groups: dict[Key, list[Replica]] = {}
    for folder in nodes_in(folders):
        replica = _settled(folder)
        groups.setdefault(replica.key, []).append(replica)
    return [row for replicas in groups.values() for row in _rows(replicas)]


def _settled(folder: Path) -> Replica:
    """A replica as it is read; again, if its node runs and may have changed the files meanwhile.

    A log whose first files go while it is read, say, lacks files, and an entry that is being
    written is none yet; damage stays where it is.
    """
    found = _read(folder)
    for _ in range(READS_OF_OPEN - 1):
        is_whole = not (found.reasons or found.states or found.flaws)
        if is_whole or not is_locked(folder / LOCK_NAME):
            break
        again = _read(folder)
        again.reasons = still_there(again.reasons, found.reasons)
        again.states = still_there(again.states, found.states)
        found = again
    return found


def _read(folder: Path) -> Replica:
    committed = committed_index(OS_FILES, folder)
    owner = _known(lambda: identity.read(OS_FILES, folder))
    found = Replica(folder, owner, -1 if committed is None else committed)
    try:
        with StoreReader(folder) as reader:
            for item in reader.items():
                if item.header is not None:
                    found.first = item.header.sequence if found.first < 0 else found.first
                    found.last = item.header.sequence
                    if found.last <= found.committed:
                        found.sums[found.last] = item.header.chain_crc
            in_log = [finding for finding in reader.findings if finding.damage]
    except PermissionError:
        raise  # of this user: no damage, for which a backup would be restored
    except (StoreUsageError, OSError) as error:
        path = getattr(error, "filename", None) or folder
        in_log = [Finding(str(path), -1, sentence_of(error))]
    found.flaws = _damage(folder)
    later = later_findings(OS_FILES, folder)
    found.later = [f"not judged: {one.path}: {one.reason}" for one in later]
    told = {one.path for one in later} | {str(one.path) for one in found.flaws}
    found.reasons = [one for one in in_log if one.path not in told]
    found.states = [one for one in state_findings(OS_FILES, folder) if one.path not in told]
    for flaw in _known(lambda: list(lost_end(OS_FILES, folder, found.last))) or ():
        found.reasons.append(Finding(str(flaw.path), -1, flaw.reason))
    if max(found.last, index_before(OS_FILES, folder)) < found.committed:
        reason = f"the log ends after entry {found.last}, but entry {found.committed} was committed"
        found.reasons.append(Finding(f"{folder}/data", -1, reason))
    return found


def _rows(replicas: Sequence[Replica]) -> Iterator[dict[str, Any]]:
    at, odd = _difference(replicas)
    for replica in replicas:
        lost = [f"{flaw.path.name}: {flaw.reason}" for flaw in replica.flaws]
        found = [one.reason for one in (*replica.reasons, *replica.states)]
        damaged_at, reason = None, "; ".join([*found, *lost, *replica.later])
        if replica.reasons:
            damaged_at = replica.verified_to + 1
        elif any(replica is one for one in odd):
            damaged_at, reason = at, "another entry than the other replicas have"
        yield {
            "replica": None if replica.owner is None else replica.owner.node_id,
            "group": None if replica.owner is None else replica.owner.group,
            "folder": str(replica.folder),
            "verified_to": replica.verified_to,
            "damaged_at": damaged_at,
            "reason": reason,
            "only_voter": is_only_voter(OS_FILES, replica.folder, replica.owner),
            "states_damaged": len(replica.states),
            "lost": sorted({flaw.path.name for flaw in replica.flaws}),
            "start": "it does not start" if replica.later else start_of(replica.flaws).value,
        }


def _difference(replicas: Sequence[Replica]) -> tuple[int | None, Sequence[Replica]]:
    """The first entry that is not the same everywhere, and the replicas that most do not agree
    with: all of them where none has a majority.
    """
    for at in sorted(set().union(*(replica.sums for replica in replicas))):
        counts = Counter(one.sums[at] for one in replicas if at in one.sums).most_common()
        if len(counts) > 1:
            right = counts[0][0] if counts[0][1] > counts[1][1] else None
            return at, [one for one in replicas if at in one.sums and one.sums[at] != right]
    return None, ()
