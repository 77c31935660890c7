"""Wrong twins of `dledger.replica.replica` and its parts."""

from __future__ import annotations

import secrets
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dledger.core.types import Index
    from dledger.replica.disk_work import DiskWork
    from dledger.replica.replica import Replica


def state_taken_beside_what_waits(self: Replica, index: Index) -> None:
    """Takes a peer's state, but leaves proposals waiting, which it then acknowledges (S8)."""
    self.applied = index
    self._waiting_reads.serve(index)


def mark_once(self: DiskWork, sequence: int) -> bool:
    """Writes no second mark for entries flushed meanwhile, so the vote goes first (R1)."""
    return False


def draw_the_same_first_id(bits: Callable[[int], int] = secrets.randbits) -> int:
    """Draws 1 as the first request id of every process (S9)."""
    return 1


def numbers_that_begin_anew(first_id: int) -> Callable[[], int]:
    """Numbers requests from 1 in each process, wherever its ids were drawn to begin (S9)."""
    return count(1).__next__
