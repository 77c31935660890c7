"""Reads the bytes of every replica from its disk after its process ended, for the checkers.

    dledger-<node>/data    the log: files in a row, each named by the address of its first byte
    dledger-<node>/index   32 bytes an entry, likewise
    consumequeue/<topic>/<queue>/   20 bytes a message, likewise; what points behind the last entry
                                    compared, and blanks at both ends, are left out

Entries are read as a start would read them (checksums, chain); bytes are read as they are. Not
compared: `index/` (keys; its files begin at a node's own times), and what is a node's own: its
vote, its marks, its checkpoints.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chaos.checkers.chains import chain
from chaos.checkers.convergence import CHUNK_SIZE, chunk_hashes
from chaos.checkers.copies import Copies, Copy, Region
from chaos.checkers.membership import Change
from chaos.live.log_links import link_of
from chaos.live.replicas import opened
from cluster.local.launcher import LocalCluster
from commitlog.errors import StoreError
from dledger.core.configuration import Standing
from dledger.core.types import NO_INDEX, Index
from dledger.errors import DledgerError
from dledger.log.file_log import FileLog
from dledger.replica.envelope import open_members

SLOT_SIZE = 32  # of the log's index (docs/spec/raft_log.md 1.5)
# of a consume queue: address, size, hash of the tag (docs/spec/store.md 3.1)
UNIT = struct.Struct(">qiq")
BLANK_UNIT = (0, 0x7FFFFFFF)  # before a queue's first message, when it does not open a file


@dataclass(frozen=True, slots=True)
class _Span:
    """Files in a row, and which of their bytes are meant."""

    folder: Path
    start: int
    end: int


def read_copies(cluster: LocalCluster, last: int) -> Copies:
    """Every replica through entry `last`; the cluster must be stopped. Raises OSError."""
    with contextlib.ExitStack() as stack:
        logs: dict[str, FileLog] = {}
        unreadable: dict[str, str] = {}
        for node in cluster.brokers:
            try:
                replica = opened(
                    _folder(cluster, node), cluster_id=cluster.profile.cluster_id, node_id=node
                )
                logs[node] = stack.enter_context(replica)
            except (StoreError, DledgerError) as error:
                unreadable[node] = str(error)
        first = max((log.first_index for log in logs.values()), default=Index(0))
        chains = {}
        for node, log in list(logs.items()):
            try:
                chains[node] = _chain(log, first, last)
            except (StoreError, DledgerError) as error:
                unreadable[node] = str(error)
        spans = {node: _log_spans(cluster, node, logs[node], first, last) for node in chains}
        longest = min(
            (logs[node] for node in chains), key=lambda one: one.first_index, default=None
        )
        changes, links = (None, b"") if longest is None else _told_by(cluster, longest, first, last)
        whole = {node for node in chains if logs[node].first_index == 0}
    for node, found in spans.items():
        found |= _queues(cluster.folder(node) / "data" / "consumequeue", found["log"].end)
    for name in {name for found in spans.values() for name in found}:
        for node in whole:  # it was told of every message, so it has every queue
            spans[node].setdefault(name, _Span(cluster.folder(node), 0, 0))
    _trim(spans)
    copies = {
        node: Copy(chains[node], {name: _region(span) for name, span in spans[node].items()})
        for node in chains
    }
    return Copies(first, last, copies, unreadable, changes, links)


def _folder(cluster: LocalCluster, node: str) -> Path:
    return cluster.folder(node) / "data" / f"dledger-{node}"


def _chain(log: FileLog, first: Index, last: int) -> list[bytes]:
    end = Index(min(last, log.last.index))
    return chain((one.header.epoch, bytes(one.body)) for one in log.entries(first, end))


def _told_by(
    cluster: LocalCluster, log: FileLog, first: int, last: int
) -> tuple[list[Change], bytes]:
    """Configurations that the log holds, and its own checksums from entry `first` on.

    A log from its beginning starts with all nodes.
    """
    found = [] if log.first_index else [Change(NO_INDEX, frozenset(cluster.brokers))]
    links = bytearray()
    for entry in log.entries(log.first_index, Index(min(last, log.last.index))):
        if entry.header.sequence >= first:
            links += link_of(entry.header.chain_crc)
        group = open_members(entry.body)
        if group is not None:
            mute = {one.node_id for one in group.members if one.standing is Standing.RETURNING}
            at = entry.header.sequence
            found.append(Change(at, frozenset({*group.voters, *mute}), frozenset(mute)))
    return found, bytes(links)


def _log_spans(
    cluster: LocalCluster, node: str, log: FileLog, first: Index, last: int
) -> dict[str, _Span]:
    folder = _folder(cluster, node)
    end = Index(min(last, log.last.index) + 1)
    header = log.entry(Index(end - 1)).header  # what follows may be a blank that only some have
    return {
        "log": _Span(folder / "data", log.position_of(first), header.position + header.size),
        "log index": _Span(folder / "index", first * SLOT_SIZE, end * SLOT_SIZE),
    }


def _queues(root: Path, end: int) -> dict[str, _Span]:
    """Each queue's units that point below address `end`, by name."""
    spans = {}
    for folder in sorted(path for path in root.glob("*/*") if path.is_dir()):
        units = list(_units(folder))
        held = [at for at, address in units if address < end]
        if held:
            name = f"consumequeue/{folder.parent.name}/{folder.name}"
            spans[name] = _Span(folder, held[0], held[-1] + UNIT.size)
    return spans


def _units(folder: Path) -> Iterator[tuple[int, int]]:
    """(address of the unit, address of its message) of every unit that is not blank."""
    for path in sorted(folder.iterdir()):
        at = int(path.name)
        data = path.read_bytes()
        for address, size, _ in UNIT.iter_unpack(data[: len(data) // UNIT.size * UNIT.size]):
            if size == 0:
                return
            if (address, size) != BLANK_UNIT:
                yield at, address
            at += UNIT.size


def _trim(spans: Mapping[str, dict[str, _Span]]) -> None:
    """Let each region begin where all replicas that have it have its beginning."""
    for name in {name for found in spans.values() for name in found}:
        begin = max(found[name].start for found in spans.values() if name in found)
        for found in spans.values():
            if name in found:
                span = found[name]
                found[name] = _Span(span.folder, begin, max(begin, span.end))


def _region(span: _Span) -> Region:
    chunks: list[bytes] = []
    for at in range(span.start, span.end, CHUNK_SIZE):
        chunks += chunk_hashes(_bytes(span.folder, at, min(at + CHUNK_SIZE, span.end)))
    return Region(span.start, span.end - span.start, tuple(chunks))


def _bytes(folder: Path, start: int, end: int) -> bytes:
    """Bytes of files in a row; those of a file that is not there are missing."""
    parts = []
    for path in sorted(folder.iterdir()):
        base = int(path.name)
        begin, stop = max(start - base, 0), min(end - base, path.stat().st_size)
        if begin < stop:
            with path.open("rb") as file:
                file.seek(begin)
                parts.append(file.read(stop - begin))
    return b"".join(parts)
