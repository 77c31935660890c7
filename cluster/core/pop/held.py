"""Messages that clients hold: taken, not acknowledged yet, not given again (a fold of the log).

    replay_taken(address, taken)  address: of the checkpoint's own record
    replay_done(address, offsets) acknowledged, or stored again for a retry
    take_due(now)               checkpoints whose time is over, for the leader that gives them again

A checkpoint goes when each of its messages is done with. What was not acknowledged comes back as a
record that names the checkpoint and the message, so it comes back once, under any leader (R17).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.core.pop.records import Place, Taken

#: Checkpoints of all groups, each some 500 bytes here; more are not made until some are done.
HELD_MAX: Final = 500_000
#: Messages of one queue and group that clients may hold (RocketMQ's popInflightMessageThreshold).
UNACKED_MAX: Final = 10_000


@dataclass(slots=True)
class Held:
    """One pop's checkpoint and its unacknowledged offsets, as the state's checkpoints keep it."""

    place: Place
    start: int
    pop_ms: int
    invisible_ms: int
    left: set[int]

    @property
    def due_ms(self) -> int:
        """When unacknowledged messages come back, in ms since 1970."""
        return self.pop_ms + self.invisible_ms

    @property
    def key(self) -> tuple[Place, int, int]:
        """The key that its handles hold. Two pops of one place in the same ms share it."""
        return self.place, self.start, self.pop_ms


class HeldTable:
    """See the module's text."""

    def __init__(self) -> None:
        self._rows: dict[int, Held] = {}
        self._keys: dict[tuple[Place, int, int], tuple[int, ...]] = {}
        self._unacked: dict[Place, int] = {}
        self._due: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._rows)

    # -- the fold ----------------------------------------------------------------------------------

    def replay_taken(self, address: int, taken: Taken) -> None:
        """Hold the messages of a checkpoint; one known already, or without messages, is ignored."""
        if not taken.offsets or address in self._rows:
            return
        held = Held(taken.place, taken.start, taken.pop_ms, taken.invisible_ms, set(taken.offsets))
        self._rows[address] = held
        self._keys[held.key] = (*self._keys.get(held.key, ()), address)
        self._unacked[taken.place] = self._unacked.get(taken.place, 0) + len(held.left)
        heapq.heappush(self._due, (held.due_ms, address))

    def replay_done(self, address: int, offsets: Iterable[int]) -> None:
        """Mark offsets of a pop as acknowledged; unknown or acknowledged ones are ignored."""
        held = self._rows.get(address)
        if held is None:
            return
        place, before = held.place, len(held.left)
        held.left.difference_update(offsets)
        left = self._unacked[place] = self._unacked[place] - before + len(held.left)
        if not left:
            del self._unacked[place]
        if not held.left:
            self._forget(address)

    def replay_deletion(self, group: str) -> None:
        """Drop all held messages of a deleted group."""
        for address, held in list(self._rows.items()):
            if held.place.group == group:
                self.replay_done(address, tuple(held.left))

    def _forget(self, address: int) -> None:
        key = self._rows.pop(address).key
        alike = tuple(other for other in self._keys[key] if other != address)
        if alike:
            self._keys[key] = alike
        else:
            del self._keys[key]

    # -- looking -----------------------------------------------------------------------------------

    def get(self, address: int) -> Held | None:
        """The checkpoint at that address; None if all its messages are done with."""
        return self._rows.get(address)

    def find(self, place: Place, start: int, pop_ms: int) -> tuple[int, Held] | None:
        """The checkpoint that a handle names, with its address; of several the newest."""
        alike = self._keys.get((place, start, pop_ms))
        return None if alike is None else (alike[-1], self._rows[alike[-1]])

    def unacked(self, place: Place) -> int:
        """Messages of that queue that the group holds."""
        return self._unacked.get(place, 0)

    # -- the leader --------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When the time of the next checkpoint is over."""
        while self._due and self._due[0][1] not in self._rows:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int, count_max: int) -> list[int]:
        """Addresses of pops after their invisible time; none is given again before `put_back`."""
        found: list[int] = []
        while len(found) < count_max:
            due_ms = self.next_due_ms()
            if due_ms is None or due_ms > now_ms:
                break
            found.append(heapq.heappop(self._due)[1])
        return found

    def put_back(self, addresses: Iterable[int], not_before_ms: int = 0) -> None:
        """Make pops due again that were taken by `take_due` and still hold messages."""
        for address in addresses:
            held = self._rows.get(address)
            if held is not None:
                heapq.heappush(self._due, (max(held.due_ms, not_before_ms), address))

    def begin(self) -> None:
        """A leadership begins: pops that an earlier one took and did not finish are due again."""
        self._due = [(held.due_ms, address) for address, held in self._rows.items()]
        heapq.heapify(self._due)

    # -- checkpoints of the state ------------------------------------------------------------------

    def to_checkpoint(self) -> list[list[Any]]:
        """One JSON row per held checkpoint, for `restore`."""
        return [
            [
                address,
                held.place.group,
                held.place.topic,
                held.place.queue,
                held.start,
                held.pop_ms,
                held.invisible_ms,
                sorted(held.left),
            ]
            for address, held in self._rows.items()
        ]

    def restore(self, rows: Sequence[Sequence[Any]]) -> None:
        """Raises ValueError or TypeError."""
        self._rows, self._keys, self._unacked, self._due = {}, {}, {}, []
        for address, group, topic, queue, start, pop_ms, invisible_ms, left in rows:
            place = Place(str(group), str(topic), int(queue))
            offsets = tuple(int(offset) for offset in left)
            taken = Taken(place, int(start), int(pop_ms), int(invisible_ms), offsets)
            self.replay_taken(int(address), taken)
