"""The parts that belong to one leadership, in one list, so that no state of it outlives it (R9).

    part made ─► add(part, forget)          where it is made, not where leaderships end
    leadership ends, or one begins ─► leadership_ended() ─► each part, in the order of `add`

A part forgets what is not applied and tells who waits for it. `forget` runs inside the replica:
what asks another node is left to a later turn of the event loop. It is called when a leadership
begins, too, and is harmless then.

`tests/cluster/broker/test_leadership_parts.py` finds parts that are not in the list.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

Part = TypeVar("Part")


class LeadershipParts:
    """The parts of one broker that end with a leadership."""

    def __init__(self) -> None:
        self._parts: list[tuple[object, Callable[[], None]]] = []

    def __iter__(self) -> Iterator[object]:
        return (part for part, _ in self._parts)

    def add(self, part: Part, forget: Callable[[Part], None]) -> Part:
        """`part` has state of a leadership, and `forget(part)` drops it. Returns `part`."""
        self._parts.append((part, lambda: forget(part)))
        return part

    def leadership_ended(self) -> None:
        """Call every part's `forget`, also after one has failed; that is raised afterwards."""
        with contextlib.ExitStack() as stack:
            for _, forget in reversed(self._parts):
                stack.callback(forget)
