"""Cuts a log into equal shares, one for each task.

    files      ├──────────────────────┤├──────────────────────┤├─────────┤
    shares     ├───────────┼───────────┼───────────┼───────────┼─────────┤

A task's time is that of its bytes, and a stage ends with its last task: a short piece at the end of
each file would leave slots idle. So a share may go on in the next file, and is several pieces then.
Shares of an index differ by a record at most, those that are searched by the bytes of one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.frames.locate import SLOT
from pipeline.places import opened


@dataclass(frozen=True, slots=True)
class Piece:
    """One task's share of one file.

    Attributes:
        path: the log file; `position`: address of its first byte; `size`: of the file.
        begin, end: records that begin in these bytes of the file belong to the piece.
        entries: the file holds entries of the replicated log, else plain records.
        index: file with slots, "" to search; `first_slot`, `last_slot`: the piece's, end excluded.
        url: where the files are, "" for this machine's own.
        full: the file has records, or a blank behind them, up to its end; no unwritten rest.
        start: a record begins here, so a piece that begins here too searches none.
    """

    path: Path
    position: int
    size: int
    begin: int
    end: int
    entries: bool
    index: str = ""
    first_slot: int = 0
    last_slot: int = 0
    url: str = ""
    full: bool = False
    start: int = 0


def shares(
    log: Sequence[Piece], bytes_max: int, records_max: int = 0
) -> Iterator[tuple[Piece, ...]]:
    """As few equal shares as there can be of at most so many bytes, about, in the order of the log.

    `log`: what is wanted of each file, uncut. `records_max`: of a share, 0 for any number; wants
    the index of all of `log`, and then shares are of an equal number of records.
    """
    amounts = [_records(piece) if records_max else piece.end - piece.begin for piece in log]
    total = sum(amounts)
    count = -(-sum(piece.end - piece.begin for piece in log) // bytes_max)
    if records_max:
        count = max(count, -(-total // records_max))
    edges = [total * number // count for number in range(1, count + 1)]
    mine: list[Piece] = []
    edge = before = 0
    for piece, amount in zip(log, amounts, strict=True):
        after = before + amount
        inner = edges[edge : bisect_right(edges, after)]  # those where a share ends in this piece
        cuts = [0, *(place - before for place in inner), amount]
        for number, part in enumerate(_parts(piece, cuts, by_records=records_max > 0)):
            mine += part
            if number < len(inner):
                if mine:  # a record longer than a share leaves none for the next one
                    yield tuple(mine)
                mine = []
        edge, before = edge + len(inner), after


def slots_of(piece: Piece) -> Any:
    """The index's rows (`SLOT`) of a piece that was cut by it."""
    count = _records(piece)
    at = piece.first_slot * SLOT.itemsize
    if not piece.url:
        return np.fromfile(piece.index, SLOT, count, offset=at)
    found, _ = opened(piece.url)
    with found.open_input_file(piece.index) as file:
        return np.frombuffer(file.read_at(count * SLOT.itemsize, at), SLOT)


def _records(piece: Piece) -> int:
    return piece.last_slot - piece.first_slot


def _parts(piece: Piece, cuts: Sequence[int], *, by_records: bool) -> Iterator[list[Piece]]:
    """The piece between each two of `cuts`, which count bytes or records from the first; none where
    no record begins."""
    if len(cuts) == 2:
        yield [piece]
        return
    if not piece.index:
        for first, last in pairwise(piece.begin + cut for cut in cuts):
            yield [replace(piece, begin=first, end=last)] if first < last else []
        return
    starts = slots_of(piece)["position"].astype(np.int64) - piece.position
    slots = cuts if by_records else np.searchsorted(starts, np.array(cuts) + piece.begin).tolist()
    starts = np.append(starts, piece.end)
    for first, last in pairwise(slots):
        part = replace(
            piece,
            begin=int(starts[first]),
            end=int(starts[last]),
            first_slot=piece.first_slot + first,
            last_slot=piece.first_slot + last,
        )
        yield [part] if first < last else []
