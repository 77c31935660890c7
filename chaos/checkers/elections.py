"""Checks Raft's promises about leaders, terms and votes with the traces of all nodes.

    Seen(time, node, term, leads, vote, commit, last, boot, …)  one line of a node's trace
    Elected(node, term, at, digest)                             a leader's log at a committed index

Traces are read in the order of time; a node that starts again has a higher `boot`. An elected
leader's `digest` is the hash of its log at the highest index that anybody had told committed when
it was elected (None: its log ends below that).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from chaos.checkers.anomaly import Anomaly

LINK_SIZE = 4  # bytes; a leader is compared at one place, so chance hides one in 2^32


class Links(NamedTuple):
    """The checksums that identify a log up to each entry from `first` on: LINK_SIZE bytes an
    entry.
    """

    first: int
    data: bytes

    @property
    def last(self) -> int:
        """Index of the last entry that has a checksum here; `first` - 1 without any."""
        return self.first + len(self.data) // LINK_SIZE - 1

    def at(self, index: int) -> bytes | None:
        """The chain checksum of the log up to entry `index`; None if it is not known."""
        place = (index - self.first) * LINK_SIZE
        return self.data[place : place + LINK_SIZE] or None if place >= 0 else None


class Seen(NamedTuple):
    """The state of one node at one moment.

    `vote`: on its disk for `term`; "" while it has not voted in it. `begins`: address of the first
    byte of its log. `no_op`: a leader's first entry of its term, `configuration`: the newest one in
    its log; entries by index. `life`, `generation`: number and token, of the node's folder
    (`generation.py`). `links`: of the end of a new leader's log. `changing`: configurations
    in its log that it has not committed. None: not told.
    """

    time: float
    node: str
    term: int
    leads: bool
    vote: str | None = None
    commit: int = -1
    last: int = -1
    boot: int = 0
    begins: int | None = None
    no_op: int | None = None
    configuration: int | None = None
    life: int | None = None
    generation: tuple[int, int] | None = None
    links: Links | None = None
    changing: tuple[int, ...] | None = None


def find_two_leaders(trace: Iterable[Seen]) -> list[Anomaly]:
    """At most one leader per term (Raft 5.2, Election Safety)."""
    leader: dict[int, Seen] = {}
    found: dict[int, Anomaly] = {}
    for seen in trace:
        if not seen.leads:
            continue
        first = leader.setdefault(seen.term, seen)
        if _is_another(first, seen) and seen.term not in found:
            found[seen.term] = Anomaly(
                "election-safety",
                f"term {seen.term} has two leaders: {first.node} at {first.time:.6f} s, "
                f"{seen.node} at {seen.time:.6f} s",
            )
    return list(found.values())


def _is_another(one: Seen, other: Seen) -> bool:
    """True if the two rows are of different nodes; a node with a new folder counts as a different
    one, where both rows tell their folder."""
    if one.node != other.node:
        return True
    return None not in (one.life, other.life) and one.life != other.life


def find_going_back(trace: Iterable[Seen]) -> list[Anomaly]:
    """Term, vote within a term and commit index never go back, not even over a restart.

    The commit index is told anew after a restart, so it counts within one boot. A leader never
    shortens its log while it leads (Raft 5.3, Leader Append-Only). A folder that was emptied, or
    is an older copy of itself, has promised nothing: see _Folders.
    """
    folders = _Folders()
    last: dict[Hashable, Seen] = {}
    found = []
    for seen in trace:
        folder = folders.of(seen)
        before = last.get(folder)
        if before is not None:
            found += _step(before, seen)
            if seen.vote is None and seen.term == before.term:
                seen = seen._replace(vote=before.vote)  # a vote is remembered over silence
        last[folder] = seen
    return found


class _Folders:
    """Which folder a process is on: each is compared with itself.

    A process that starts on an older copy of its node's folder is behind what it had promised until
    a peer tells it so, and stops (docs/spec/chaos.md 3.2, kind 17); the next process on the newest
    folder must be where that folder was. An older copy is known by its generation, which is lower
    than one that was seen before, or the same with another token.
    """

    def __init__(self) -> None:
        self._life: dict[str, int] = {}
        self._newest: dict[tuple[str, int], tuple[int, int]] = {}
        self._older: dict[tuple[str, int], bool] = {}  # by node and boot

    def of(self, seen: Seen) -> Hashable:
        life = self._life.get(seen.node, 0) if seen.life is None else seen.life
        self._life[seen.node] = life
        folder, process = (seen.node, life), (seen.node, seen.boot)
        newest = self._newest.get(folder)
        if process not in self._older:
            self._older[process] = _is_older(seen.generation, newest)
        if self._older[process]:
            return (*folder, seen.boot)
        if seen.generation is not None:
            self._newest[folder] = max(seen.generation, newest or seen.generation)
        return folder


def _is_older(generation: tuple[int, int] | None, newest: tuple[int, int] | None) -> bool:
    if generation is None or newest is None:
        return False
    return generation[0] < newest[0] or (generation[0] == newest[0] and generation != newest)


def _step(before: Seen, after: Seen) -> list[Anomaly]:
    where = f"{after.node} at {after.time:.6f} s"
    if after.term < before.term:
        return [Anomaly("term-back", f"{where}: term {after.term} after {before.term}")]
    found = []
    same_term, same_boot = after.term == before.term, after.boot == before.boot
    if same_term and before.vote and after.vote is not None and after.vote != before.vote:
        said = f"vote for {after.vote or 'nobody'} after one for {before.vote} in term {after.term}"
        found.append(Anomaly("vote-changed", f"{where}: {said}"))
    if same_boot and after.commit < before.commit:
        found.append(
            Anomaly(
                "commit-back",
                f"{where}: committed {after.commit} after {before.commit} in one process",
            )
        )
    if same_term and same_boot and before.leads and after.leads and after.last < before.last:
        found.append(
            Anomaly("leader-truncated", f"{where}: log ends at {after.last} after {before.last}")
        )
    return found


class Elected(NamedTuple):
    """A leader and the hash of its log at index `at`, the highest committed one at that time."""

    node: str
    term: int
    at: int
    digest: bytes | None


def find_incomplete_leaders(
    elected: Iterable[Elected], committed: Mapping[int, bytes]
) -> list[Anomaly]:
    """Every leader has every committed entry (Raft 5.4, Leader Completeness).

    `committed`: index → hash of the log up to there, as it was when it was committed.
    """
    return [
        Anomaly(
            "leader-completeness",
            f"{leader.node} won term {leader.term} "
            + (
                f"with a log that ends below the committed entry {leader.at}"
                if leader.digest is None
                else f"and its log differs at or below the committed entry {leader.at}"
            ),
        )
        for leader in elected
        if leader.at in committed and leader.digest != committed[leader.at]
    ]
