"""A producer's numbers in its messages' properties, and answers to what it sent before (R8).

    __PID ⟨producer id⟩   __SEQ ⟨0, 1, 2, … per producer and queue⟩

A repeat is answered like its original, and only when the original is committed and applied: never
earlier, so a repeat cannot be acknowledged for a message that may still be lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from cluster.errors import InvalidRequest
from dledger.core.types import Index
from dledger.errors import DledgerError

PRODUCER_ID_SIZE_MAX = 64  # one table row per id; ours have 22 characters
WAITING_MAX = 100_000  # repeats that wait for their originals; as many as may be in flight

_PRODUCER = b"__PID\x01"
_SEQUENCE = b"__SEQ\x01"


def read_numbers(properties: bytes) -> tuple[str, int]:
    """Producer id and sequence of a message that has a `__PID`.

    Raises InvalidRequest for an id or a number that cannot be one.
    """
    begin = properties.index(_PRODUCER) + 6
    end = properties.find(b"\x02", begin)
    producer = properties[begin : end if end >= 0 else None]
    at = properties.find(_SEQUENCE, begin)
    begin = at + 6
    end = properties.find(b"\x02", begin)
    digits = properties[begin : end if end >= 0 else None]
    if at < 0 or not digits.isdigit() or len(digits) > 18:
        raise InvalidRequest(
            "a message with __PID needs __SEQ, a whole number that counts from 0 in each queue"
        )
    if not 0 < len(producer) <= PRODUCER_ID_SIZE_MAX or not producer.isascii():
        raise InvalidRequest(
            f"__PID has {len(producer)} bytes; it must have 1 to {PRODUCER_ID_SIZE_MAX} ASCII ones"
        )
    return producer.decode(), int(digits)


Answer = Callable[[DledgerError | None], None]


class RepeatsWaiting:
    """Answers held back until an index is applied."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Answer]] = []
        self._number = 0

    @property
    def full(self) -> bool:
        return len(self._heap) >= WAITING_MAX

    def wait(self, index: Index, answer: Answer) -> None:
        """Call `answer(None)` when `index` is applied."""
        self._number += 1
        heapq.heappush(self._heap, (index, self._number, answer))

    def applied(self, index: Index) -> None:
        heap = self._heap
        while heap and heap[0][0] <= index:
            heapq.heappop(heap)[2](None)

    def drop(self, error: DledgerError) -> None:
        """Leadership ended: the originals' outcome is unknown here."""
        waiting, self._heap = self._heap, []
        for _, _, answer in sorted(waiting, key=lambda item: item[:2]):
            answer(error)
