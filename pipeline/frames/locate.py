"""Where the records of a stretch of log are (docs/spec/pipeline.md 5.2, step 1).

    index     the log's own 32-byte slots: magic, position, size, index  (docs/spec/raft_log.md 1.5)
    search    the message magic in the bytes; a hit is a record when the sizes lead from one record
              to the next, else it is four bytes of some body

Sizes decide, the search only proposes: of all hits those are kept that the chain of sizes reaches.
Where the chain breaks, `Found.end` says so, and the caller knows what may be there (a blank, the
end of the log, damage).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from commitlog.records.message_layout import HEAD_SIZE, MAGIC_V1, MAGIC_V2
from commitlog.records.record import HEADER_SIZE, MAGIC_ENTRY
from pipeline.frames.fields import ENTRY, Int64, copied_at, int32_at

SLOT = np.dtype(
    [("magic", ">i4"), ("position", ">i8"), ("size", ">i4"), ("index", ">i8"), ("term", ">i8")]
)
BLOCK_SIZE = 256 << 10  # bytes searched at once; a block and its masks stay in the cache

assert SLOT.itemsize == 32

# Both magics begin with DA A3 20, so one byte that is rare in text finds all candidates.
_LEAD, _SECOND, _THIRD = 0xDA, 0xA3, 0x20
_LAST = (MAGIC_V1 & 0xFF, MAGIC_V2 & 0xFF)


class Found(NamedTuple):
    """Records in a buffer, in order. Arrays run in parallel.

    `at`: offset of the message record; `size`: its bytes; `log_index`, `term`: of its entry, None
    in a plain log; `end`: offset behind the last record that was found.
    """

    at: Int64
    size: Int64
    log_index: Int64 | None
    term: Int64 | None
    end: int

    def __len__(self) -> int:
        return len(self.at)

    def slice(self, first: int, last: int) -> Found:
        """Records `first`..`last` - 1."""
        log_index = None if self.log_index is None else self.log_index[first:last]
        term = None if self.term is None else self.term[first:last]
        at, size = self.at[first:last], self.size[first:last]
        end = int(at[-1] + size[-1]) if len(at) else self.end
        return Found(at, size, log_index, term, end)


def from_index(slots: Any, base: int) -> Found:
    """Records as index slots name them; `base`: the log position of the buffer's first byte.

    Raises ValueError for a slot that is no entry's.
    """
    rows = np.frombuffer(slots, dtype=SLOT)
    if len(rows) and (rows["magic"] != MAGIC_ENTRY).any():
        wrong = int(np.flatnonzero(rows["magic"] != MAGIC_ENTRY)[0])
        raise ValueError(
            f"index slot {wrong} has magic {int(rows['magic'][wrong])}; it is no slot of an entry"
        )
    at = rows["position"].astype(np.int64) + (HEADER_SIZE - base)
    size = rows["size"].astype(np.int64) - HEADER_SIZE
    end = int(at[-1] + size[-1]) if len(at) else 0
    return Found(at, size, rows["index"].astype(np.int64), rows["term"].astype(np.int64), end)


def search(data: memoryview, *, entries: bool, start: int = 0) -> Found:
    """Records of `data` from `start` on, where one begins (with its entry header if `entries`).

    Ends where the chain of sizes does not lead to another record.
    """
    lead = HEADER_SIZE if entries else 0
    magics = _magic_hits(data, start + lead + 4)
    at = magics - 4
    chained = _follow(data, at, start + lead, lead)
    size = int32_at(data, chained)
    end = int(chained[-1] + size[-1]) if len(chained) else start
    if not entries:
        return Found(chained, size, None, None, end)
    heads = copied_at(data, chained - HEADER_SIZE, ENTRY)
    return Found(
        chained, size, heads["index"].astype(np.int64), heads["term"].astype(np.int64), end
    )


def _magic_hits(data: memoryview, first: int) -> Int64:
    """Offsets ≥ `first` at which four bytes of a message magic stand."""
    raw = np.frombuffer(data, dtype=np.uint8)
    found = []
    for begin in range(first, len(raw) - 3, BLOCK_SIZE):
        block = raw[begin : min(begin + BLOCK_SIZE, len(raw) - 3)]
        hits = np.flatnonzero(block == _LEAD) + begin
        hits = hits[(raw[hits + 1] == _SECOND) & (raw[hits + 2] == _THIRD)]
        last = raw[hits + 3]
        found.append(hits[(last == _LAST[0]) | (last == _LAST[1])])
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _follow(data: memoryview, at: Int64, first: int, lead: int) -> Int64:
    """The candidates that the chain of sizes reaches, beginning with `first`.

    Usually every candidate leads to the next one, and one comparison shows it. Around a false hit
    the chain is walked.
    """
    if not len(at) or at[0] != first:
        at = at[at >= first]
        if not len(at) or at[0] != first:
            return np.empty(0, np.int64)
    size = int32_at(data, at)
    following = at + size + lead
    good = np.empty(len(at), dtype=bool)
    good[:-1] = (following[:-1] == at[1:]) & (size[:-1] >= HEAD_SIZE)
    good[-1] = _fits(data, int(at[-1]), int(size[-1]))
    if good.all():
        return at
    return _walk(data, at, size, following, good)


def _walk(data: memoryview, at: Int64, size: Int64, following: Int64, good: Any) -> Int64:
    """Runs of good candidates are taken whole; between them the sizes say where it goes on."""
    breaks = np.flatnonzero(~good)
    kept = []
    place = 0
    while place < len(at):
        stop = int(breaks[np.searchsorted(breaks, place)]) if len(breaks) else len(at) - 1
        if not _fits(data, int(at[stop]), int(size[stop])):
            kept.append(at[place:stop])
            break
        kept.append(at[place : stop + 1])
        wanted = int(following[stop])
        place = int(np.searchsorted(at, wanted))
        if place >= len(at) or at[place] != wanted:
            break
        if not len(breaks) or breaks[-1] < place:
            kept.append(at[place:])
            break
    return np.concatenate(kept) if kept else np.empty(0, np.int64)


def _fits(data: memoryview, at: int, size: int) -> bool:
    return HEAD_SIZE <= size <= len(data) - at
