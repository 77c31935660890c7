"""When an append is answered, and the risk of each level. The commit is the same for all (R22).

    level                answered when                       what may take it back
    majority-on-disk     committed: flushed on a majority    loss of a majority of the disks
    majority-in-memory   written by a majority, into the     also a power failure, or a crash of the
                         memory of their systems             system, in the few ms until the next
                                                             sync: of all nodes, or of one that has
                                                             it while another one is gone

A killed process takes nothing back at either level: what it wrote is in its system's memory.
Readers see an entry when it is committed, at both levels: what is taken back, no reader has seen,
and a reader that asks right behind an answer from memory may not see it yet.
"""

from __future__ import annotations

import enum


class Durability(enum.Enum):
    """Named by where a majority has an entry when it is answered."""

    MAJORITY_ON_DISK = "majority-on-disk"
    MAJORITY_IN_MEMORY = "majority-in-memory"


def durability_of(text: str) -> Durability:
    """The level of that name. Raises ValueError that says which there are."""
    try:
        return Durability(text)
    except ValueError:
        names = " or ".join(level.value for level in Durability)
        raise ValueError(f"the durability {text[:40]!r} does not exist; give {names}") from None
