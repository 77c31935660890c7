"""Do all nodes get the same results, and have the same state? Compared through the log. Pure.

    applied past a window's end ─► the leader publishes what its results were, by CRC-32
    other results here than published, or others disagree ─► this node publishes its own
    a majority of the voters published the same, and not ours ─► this node stops, at the first
                                                                 index that differs
    all have published and no majority agrees ─► every node stops: it cannot be told who is right

What is published is an entry of the log, so all nodes see the same, in the same order. A node that
took another's state in the middle of a window has nothing to say about that window's results.

A state is compared the same way where a window ends, if its machine has a checksum: it has one
result there, and the number ~window. A node of a former release remembers no such window, so it
passes that over; it has no vote in it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from commitlog.records.checksum import crc32
from dledger.errors import StateMachineDiverged

#: Windows that are remembered, this one included; what is published comes within one, as a rule.
KEPT_MAX = 8
_WINDOW = struct.Struct(">qI")
_RESULT = struct.Struct(">HI")


@dataclass(slots=True)
class _Window:
    """`own`: (index in the window, CRC-32) of each result here; None: not all of it was seen.

    Of a state: its index there is that of the window's last entry.
    """

    own: bytearray | None
    published: dict[str, bytes] = field(default_factory=dict)


class Agreement:
    """Compares one node's results with those of the others.

    `every`: indexes of a window, 0 for none; it must fit in 16 bits.
    """

    def __init__(self, node: str, every: int, publish: Callable[[bytes], None]) -> None:
        """`publish`: bring these bytes into the log, once, as an entry of kind COMPARE."""
        assert 0 <= every < 1 << 16, "an index in a window has 16 bits"
        self._node, self._every, self._publish = node, every, publish
        self._windows: dict[int, _Window] = {}
        self._current = -1
        self._said: set[int] = set()

    def began_at(self, index: int) -> None:
        """Results up to this index are another node's; those behind it are ours."""
        self._windows.clear()
        self._said.clear()
        self._current = -1
        if self._every and (index + 1) % self._every:
            self._current = (index + 1) // self._every
            self._windows[self._current] = _Window(None)

    def note(self, indexes: Sequence[int], results: Sequence[bytes], *, leads: bool) -> None:
        """The commands at these indexes had these results. Call it for all, in order."""
        every, at = self._every, 0
        while every and at < len(indexes):
            window = indexes[at] // every
            if window != self._current:
                self._next(window, leads=leads)
            begin = window * every
            end = bisect_left(indexes, begin + every, at)
            own = self._windows[window].own
            if own is not None:
                places = [index - begin for index in indexes[at:end]]
                own += b"".join(map(_RESULT.pack, places, map(crc32, results[at:end])))
            at = end

    def ends_before(self, index: int) -> bool:
        """Is this the first index of a window?"""
        return self._every > 0 and index > 0 and index % self._every == 0

    def up_to_end(self, index: int, count: int) -> int:
        """How many of so many entries from this index on are in its window."""
        return min(count, self._every - index % self._every) if self._every else count

    def state_is(self, index: int, checksum: int, *, leads: bool) -> None:
        """The state behind all entries before this first index of a window has this checksum."""
        of_state = ~(index // self._every - 1)
        self._windows[of_state] = _Window(bytearray(_RESULT.pack(self._every - 1, checksum)))
        self._forget()
        if leads:
            self._say(of_state)

    def _forget(self) -> None:
        """Keep the newest windows, of results and of states."""
        for is_state in (False, True):
            same = sorted((one for one in self._windows if (one < 0) is is_state), key=abs)
            for gone in same[:-KEPT_MAX]:
                del self._windows[gone]
                self._said.discard(gone)

    def _next(self, window: int, *, leads: bool) -> None:
        before, self._current = self._current, window
        known = self._windows.get(window)
        if known is None:
            self._windows[window] = _Window(bytearray())
        if leads and before >= 0:
            self._say(before)
        self._forget()

    def _say(self, window: int) -> None:
        known = self._windows[window]
        if known.own is None or window in self._said:
            return
        self._said.add(window)
        count = len(known.own) // _RESULT.size
        name = self._node.encode()
        self._publish(_WINDOW.pack(window, count) + bytes(known.own) + name)

    def published(self, data: bytes, voters: Collection[str]) -> None:
        """A node has published its results. Raises StateMachineDiverged when ours are wrong."""
        window, count = _WINDOW.unpack_from(data)
        end = _WINDOW.size + count * _RESULT.size
        results, node = data[_WINDOW.size : end], data[end:].decode()
        known = self._windows.get(window)
        if known is None or known.own is None or window == self._current or node not in voters:
            return
        own = bytes(known.own)
        known.published[node] = results
        if results != own or len(set(known.published.values())) > 1:
            self._say(window)
        told = {name: said for name, said in known.published.items() if name in voters}
        most, votes = Counter(told.values()).most_common(1)[0]
        if votes > len(voters) // 2:
            if most != own:
                what = "state" if window < 0 else "result"
                self._stop(window, own, most, f"{votes} of {len(voters)} nodes have another {what}")
        elif len(told) == len(voters):
            other = next(said for said in told.values() if said != own)
            self._stop(window, own, other, "the nodes disagree and no majority is right")

    def _stop(self, window: int, own: bytes, other: bytes, detail: str) -> None:
        ours, theirs = set(_RESULT.iter_unpack(own)), set(_RESULT.iter_unpack(other))
        place = min(at for at, _ in ours ^ theirs)
        begin = max(window, ~window) * self._every
        if window < 0:
            raise StateMachineDiverged(begin + place, detail, what="the state")
        raise StateMachineDiverged(begin + place, detail)
