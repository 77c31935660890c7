"""The replicas' own bytes, as they lie on their disks after a run: are they one log and its files?

    entry   first ………………… last        a chain of hashes per replica (chains.py)
    region  "log", "log index", "consumequeue/<topic>/<queue>": hashed chunk by chunk

What is behind `last` is not compared: a leader of the last moment may have begun its term there.
A region begins where all replicas have it; a log may have lost its beginning on one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.checkers.anomaly import Anomaly
from chaos.checkers.chains import find_log_mismatch
from chaos.checkers.convergence import Tail, find_different_bytes
from chaos.checkers.elections import Elected, Links, Seen, find_incomplete_leaders
from chaos.checkers.membership import Change

LOOK_SECONDS_MAX = 0.1  # between the first and the last line of one look at all nodes


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes `start` … `start + size - 1` of files in a row, and the hash of each chunk of them."""

    start: int
    size: int
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """One replica: the hash behind each entry from `Copies.first` on, and its regions by name."""

    chain: Sequence[bytes]
    regions: Mapping[str, Region]


@dataclass(frozen=True, slots=True)
class Copies:
    """All replicas, from entry `first` to `last`, at which they all were when the run settled.

    `unreadable`: node → why its log could not be read as a start would read it. `changes`: the
    group as the longest log has it, oldest first; None when nobody read it. `links`: of that log
    from entry `first` on, as `Links` has them; empty when nobody read them.
    """

    first: int
    last: int
    of: Mapping[str, Copy]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    changes: Sequence[Change] | None = None
    links: bytes = b""

    def tails(self, time: float) -> list[Tail]:
        """Returns the end of each replica's log on its disk, with `time` as the time of
        observation."""
        return [
            Tail(time, node, self.first + len(copy.chain) - 1, copy.chain[-1])
            for node, copy in sorted(self.of.items())
            if copy.chain
        ]


def find_different_copies(copies: Copies) -> list[Anomaly]:
    """Finds logs that do not match, files with different bytes, and logs that cannot be read."""
    found = [
        Anomaly("unreadable-replica", f"{node}: {why}")
        for node, why in sorted(copies.unreadable.items())
    ]
    chains = {node: copy.chain for node, copy in copies.of.items()}
    found += find_log_mismatch(chains, first_index=copies.first, commit=copies.last)
    for name in sorted({name for copy in copies.of.values() for name in copy.regions}):
        regions = {
            node: copy.regions[name] for node, copy in copies.of.items() if name in copy.regions
        }
        found += _different(name, regions)
    return found


def _different(name: str, regions: Mapping[str, Region]) -> list[Anomaly]:
    """Sizes first: the last chunks of two sizes differ in any case, and say less."""
    sizes = {(region.start, region.size) for region in regions.values()}
    if len(sizes) > 1:
        said = ", ".join(f"{node} {one.size} bytes" for node, one in sorted(regions.items()))
        return [Anomaly("bytes-differ", f"{name} is not equally long: {said}")]
    ((start, _),) = sizes
    chunks = {node: region.chunks for node, region in regions.items()}
    return [
        Anomaly(one.name, f"{name}: {one.detail}")
        for one in find_different_bytes(chunks, start=start)
    ]


def find_leaders_without(trace: Iterable[Seen], copies: Copies) -> list[Anomaly]:
    """Checks leader completeness: compares the nodes' traces with the logs on their disks."""
    longest = max((copy.chain for copy in copies.of.values()), key=len, default=())
    committed = {copies.first + n: digest for n, digest in enumerate(longest)}
    firsts = list(_elections(trace))
    at_the_end = [_elected(seen, at, copies) for seen, at in firsts if at is not None]
    when_elected = [_linked(seen, seen.links, at) for seen, at in firsts if seen.links is not None]
    kept = Links(copies.first, copies.links)
    found = find_incomplete_leaders(at_the_end, committed)
    for leader in when_elected:
        link = kept.at(leader.at) if leader.at <= copies.last else None
        if link is not None:
            found += find_incomplete_leaders([leader], {leader.at: link})
    return list(dict.fromkeys(found))


def _linked(seen: Seen, links: Links, at: int | None) -> Elected:
    """Returns the leader with the link of its log that it reported when elected, at the highest
    index known committed then, by others or by itself. Below the reported links there is none, so
    the index is -1 there.
    """
    known = max(-1 if at is None else at, seen.commit)
    return Elected(seen.node, seen.term, known if known >= links.first else -1, links.at(known))


def _elections(trace: Iterable[Seen]) -> Iterator[tuple[Seen, int | None]]:
    """Yields each leader as it was first seen in its term, with the index known to be committed
    then.

    Whatever a line of a term below its own, or an earlier look, told committed must be in its log.
    The lines of one look cross each other: what another tells in the leader's own term, it may
    have committed itself after it was looked at.
    """
    found = set[tuple[str, int]]()
    told: list[Seen] = []  # rising in `commit`: one that tells no more is not kept
    for seen in trace:
        if seen.leads and (seen.node, seen.term) not in found:
            before = (row for row in reversed(told) if row.term <= seen.term)
            known = next((row for row in before if _binds(row, seen)), None)
            if known is not None or seen.links is not None:
                found.add((seen.node, seen.term))
                yield seen, None if known is None else known.commit
        if not told or seen.commit > told[-1].commit:
            told.append(seen)


def _binds(row: Seen, leader: Seen) -> bool:
    return row.term < leader.term or row.time < leader.time - LOOK_SECONDS_MAX


def _elected(seen: Seen, at: int, copies: Copies) -> Elected:
    copy = copies.of.get(seen.node)
    place = at - copies.first
    held = seen.last >= at and copy is not None and 0 <= place < len(copy.chain)
    return Elected(seen.node, seen.term, at, copy.chain[place] if copy and held else None)
