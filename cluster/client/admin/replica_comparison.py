"""The replicas of a group compared by their rolling checksum at the same index (31015).

Each replica reads and verifies its own bytes, so only a few numbers travel. A replica that finds
damage is reported with the entry and left out from there on. If undamaged replicas differ, the
first entry at which they differ is found by halving.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: (first, last) → the answer of one replica to 31015.
Ask = Callable[[int, int], Awaitable[Mapping[str, Any]]]


#: Seconds before a replica that restarted, and has not applied all entries yet, is asked again.
RESTARTED_SECONDS = 0.05


@dataclass(slots=True)
class Comparison:
    """The result for entries `first`..`last`, up to the first difference.

    Attributes:
        whole: replica → last entry that was verified on it.
        damaged: replica → first entry that is damaged there, and how.
        differ_at: the first entry that is not the same on replicas that are whole, -1 for none.
        odd: the replicas that differ from most replicas at that entry.
    """

    first: int
    last: int
    whole: dict[str, int] = field(default_factory=dict)
    damaged: dict[str, tuple[int, str]] = field(default_factory=dict)
    differ_at: int = -1
    odd: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        """True if no replica is damaged and all have the same entries."""
        return not self.damaged and self.differ_at < 0


async def compare(replicas: Mapping[str, Ask]) -> Comparison:
    """Compare the entries that all replicas keep and have applied; see the module's text.

    Raises the error of a replica that does not answer, since its bytes cannot be compared.
    """
    bounds = await _ask_all(replicas, 0, -1)
    first = max(found["first_index"] for found in bounds.values())
    last = min(found["applied_index"] for found in bounds.values())
    result = Comparison(first, last, dict.fromkeys(replicas, first - 1))
    asked, index = dict(replicas), first
    while asked and index <= last and result.differ_at < 0:
        index = await _compare_next(asked, index, last, result)
    return result


async def _compare_next(asked: dict[str, Ask], index: int, last: int, result: Comparison) -> int:
    """Compare from `index` as far as one answer goes. Returns the index at which to go on."""
    found = await _ask_all(asked, index, last)
    through = min(int(answer["last"]) for answer in found.values())
    for name, answer in found.items():
        if answer["damaged"] >= 0 and answer["last"] <= through:
            result.damaged[name] = answer["damaged"], str(answer["reason"])
            result.whole[name] = answer["last"]
            del asked[name]
    if through < index:
        await asyncio.sleep(RESTARTED_SECONDS)
        return index
    crcs = await _checksums(asked, index, through)
    if len(set(crcs.values())) > 1:
        await _find_difference(asked, index, through, result)
        return index
    for name in asked:
        result.whole[name] = through
    return through + 1


async def _find_difference(
    asked: Mapping[str, Ask], low: int, high: int, result: Comparison
) -> None:
    """Find the first difference; the replicas agree before `low` and differ at `high`."""
    while low < high:
        middle = (low + high) // 2
        if len(set((await _checksums(asked, middle, middle)).values())) > 1:
            high = middle
        else:
            low = middle + 1
    crcs = await _checksums(asked, low, low)
    usual = max(crcs.values(), key=list(crcs.values()).count)
    result.differ_at = low
    result.odd = tuple(sorted(name for name, crc in crcs.items() if crc != usual))


async def _checksums(replicas: Mapping[str, Ask], first: int, last: int) -> dict[str, int]:
    """Each replica's rolling checksum at `last`."""
    found = await _ask_all(replicas, first, last)
    return {name: int(answer["chain_crc"]) for name, answer in found.items()}


async def _ask_all(replicas: Mapping[str, Ask], first: int, last: int) -> dict[str, dict[str, Any]]:
    answers = await asyncio.gather(*(ask(first, last) for ask in replicas.values()))
    return dict(zip(replicas, map(dict, answers), strict=True))
