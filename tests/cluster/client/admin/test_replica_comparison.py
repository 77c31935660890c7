"""Replicas compared by rolling checksum: who is damaged, and where they differ first."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from cluster.client.admin.replica_comparison import Ask, Comparison, compare

ANSWER_COUNT = 7  # entries of one answer


def replica(bodies: list[bytes], *, first: int = 0, damaged: int = -1) -> Ask:
    """One that keeps entries from `first` on, with the checksum over all of them."""

    async def ask(low: int, high: int) -> Mapping[str, Any]:
        low, high = max(low, first), min(high, len(bodies) - 1, low + ANSWER_COUNT - 1)
        found = low <= damaged <= high
        last = damaged - 1 if found else max(high, low - 1)
        crc = 0
        for body in bodies[: last + 1]:
            crc = zlib.crc32(body, crc)
        return {
            "first_index": first,
            "applied_index": len(bodies) - 1,
            "last": last,
            "chain_crc": crc,
            "damaged": damaged if found else -1,
            "reason": "rotten" if found else "",
        }

    return ask


def compared(**replicas: Ask) -> Comparison:
    return asyncio.run(compare(replicas))


BODIES = [f"entry {index}".encode() for index in range(40)]


def test_replicas_that_agree_as_far_as_all_of_them_are() -> None:
    found = compared(a=replica(BODIES), b=replica(BODIES[:33], first=4), c=replica(BODIES))
    assert found.agree
    assert (found.first, found.last) == (4, 32)
    assert found.whole == {"a": 32, "b": 32, "c": 32}


def test_nothing_to_compare() -> None:
    found = compared(a=replica([]), b=replica(BODIES))
    assert (found.agree, found.last) == (True, -1)


@pytest.mark.parametrize("place", [0, 1, 6, 7, 8, 39])
def test_the_damaged_ones_are_named_and_the_others_compared_to_the_end(place: int) -> None:
    other = min(place + 3, 39)
    found = compared(
        a=replica(BODIES, damaged=place), b=replica(BODIES), c=replica(BODIES, damaged=other)
    )
    assert found.damaged == {"a": (place, "rotten"), "c": (other, "rotten")}
    assert found.whole == {"a": place - 1, "b": 39, "c": other - 1}
    assert found.differ_at == -1
    assert not found.agree


@pytest.mark.parametrize("place", [0, 1, 6, 7, 8, 25, 39])
def test_the_first_entry_at_which_whole_replicas_differ_is_found(place: int) -> None:
    others = [*BODIES[:place], b"another", *BODIES[place + 1 :]]
    found = compared(a=replica(BODIES), b=replica(others), c=replica(BODIES))
    assert (found.differ_at, found.odd) == (place, ("b",))
    assert not found.agree
