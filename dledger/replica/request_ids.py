"""Numbers of the questions that one process asks peers, so that no other one is given the answers.

    first process    4·10^17, 4·10^17 + 1, …     asks the leader for a read index, and is killed
    second process   1·10^18, 1·10^18 + 1, …     is sent the answer to that, and waits for no such

A leader may answer long after it was asked, and by then the process that asked may have been
started again: the answer would let its next read be served before what was acknowledged meanwhile
is applied (S9). So every start draws where its numbers begin. Which other answers may come late,
and why they do no harm: `core/messages.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import count

#: Frames hold numbers of 63 bits; a process would have to ask 2^62 times to count beyond them. Two
#: processes that ask 2^32 times each meet with a chance of 2^-29.
FIRST_ID_BITS = 62


def draw_first_id(bits: Callable[[int], int] = secrets.randbits) -> int:
    """Where the numbers of a process begin; call once at its start."""
    return bits(FIRST_ID_BITS)


def numbers_from(first_id: int) -> Callable[[], int]:
    """The numbers of one process, each once."""
    return count(first_id).__next__
