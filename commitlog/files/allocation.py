"""Blocks in steps ahead of the writer, so that a full disk is an error of a step, never of a write.

log        8 MiB, then as much as there is, at most 128 MiB at a time
derived    one block, then as much as there is, at most 1 MiB at a time
"""

from __future__ import annotations

from commitlog.files.system import ALLOCATE_STEP, File, is_out_of_space

#: Bytes; steps grow with the file, and half a step is in reserve. A node whose disk fills up writes
#: into the reserve until it has given up the lead: the largest holds four times what may be on its
#: way to a follower (16 MiB), the smallest lets an empty node be small.
ALLOCATE_STEP_MAX = 128 << 20
#: Of files that are derived from the log: a queue with one message takes one block.
DERIVED_STEP, DERIVED_STEP_MAX = 4096, 1 << 20


def next_step(file: File, *, derived: bool = False) -> int:
    """How far the file should be allocated next; `derived`: one of very many."""
    low, high = (DERIVED_STEP, DERIVED_STEP_MAX) if derived else (ALLOCATE_STEP, ALLOCATE_STEP_MAX)
    step = min(max(file.allocated, low), high)
    return min(file.allocated + step, file.size)


def reserve(file: File) -> int:
    """So many allocated bytes should be free; with fewer, it is time for the next step."""
    return (next_step(file) - file.allocated) // 2


def allocate_blocks(file: File, end: int, *, derived: bool = False) -> None:
    """Allocate blocks before a write up to `end`. Raises OSError (ENOSPC): then do not write."""
    if end <= file.allocated:
        return
    wanted = max(end, next_step(file, derived=derived))
    try:
        file.allocate(wanted)
    except OSError as error:
        if not is_out_of_space(error) or wanted == end:
            raise
        file.allocate(end)
