"""How long each group of an event loop may apply entries in one turn of the loop.

    entries to apply ─► nobody waits, and the turn has time left ─► applied at once
                     └► else the group waits ─► the next turns ─► parts of them, in a fair order

The groups of a host share 50 ms of each turn, so that the loop comes to its other work as soon as
it would with one group: heartbeats, elections, connections. Those that wait have equal parts of a
turn, or fewer of them have a part where that would be too small. The next one is the group that
has applied for the shortest time while others waited. So equal groups take turns, one with long
entries has no more time than others, and none waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from dledger.runtime.owned import Owned

#: Seconds of one turn, but for one piece of entries that takes longer: half a heartbeat's interval.
TURN_SECONDS = 0.05
#: The smallest part of it. Less: each group comes sooner, and a larger share of the time is lost
#: between groups, some 0.2 ms each.
PART_SECONDS_MIN = 0.002
#: Time of turns that is forgotten by the next one only once it adds up to so much: what is quick
#: costs no callback of the loop.
COUNTED_SECONDS = 0.001
#: A group is charged for so many seconds of a part at least, and at most: a clock of milliseconds
#: sees no time in a short one, and for one entry of seconds a group should not wait for minutes.
CHARGE_SECONDS_MIN, CHARGE_SECONDS_MAX = 0.0001, TURN_SECONDS


class Turns:
    """The turns of one event loop, as far as its groups apply entries in them."""

    def __init__(self, owned: Owned) -> None:
        """`owned`: of the host, or of a node that is alone; has the loop's clock, too."""
        self._owned = owned
        self._used, self._is_set = 0.0, False
        #: Those that wait, the next one first: (seconds charged, number of the wait, share).
        self._waiting: list[tuple[float, int, Share]] = []
        self._number = 0
        #: What the group that was last to begin had been charged: others begin with that.
        self._charged = 0.0
        #: The group whose part of the turn it is.
        self._serves: Share | None = None

    def share(self, owned: Owned, go_on: Callable[[], object]) -> Share:
        """For a new group. `go_on`: has it apply entries, through its `owned`."""
        return Share(self, owned, go_on)

    def _left(self) -> float:
        """Seconds of this turn; less than half a part is none: each group applies something."""
        left = TURN_SECONDS - self._used
        return left if left > PART_SECONDS_MIN / 2 else 0.0

    def _set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._owned.call_soon(self._come_round)

    def _come_round(self) -> None:
        """The loop's next turn: those that wait apply, as far as time allows."""
        self._is_set, self._used = False, 0.0
        count = len(self._waiting)
        while count and self._waiting and self._left() > 0:
            share = heappop(self._waiting)[2]
            self._serve(share, max(self._left() / count, PART_SECONDS_MIN))
            count -= 1
        if self._waiting or self._used > COUNTED_SECONDS:
            self._set()

    def _serve(self, share: Share, seconds: float) -> None:
        share.waits, share.part = False, min(seconds, self._left())
        begun, self._serves = self._owned.time(), share
        self._charged = max(self._charged, share.charged)
        try:
            share.owned.run(share.go_on)
        finally:
            self._serves, share.part = None, 0.0
            used = max(0.0, self._owned.time() - begun)
            self._used += used
            share.charged += min(max(used, CHARGE_SECONDS_MIN), CHARGE_SECONDS_MAX)
        if share.waits:
            self._wait(share)

    def _came(self, share: Share) -> None:
        if self._serves is not share:  # else it is charged first
            self._wait(share)

    def _wait(self, share: Share) -> None:
        share.charged = max(share.charged, self._charged)
        self._number += 1
        heappush(self._waiting, (share.charged, self._number, share))
        self._set()

    def _ask(self, share: Share) -> float:
        if self._serves is share:
            part, share.part = share.part, 0.0
            return part
        if self._waiting or self._serves is not None:
            return 0.0
        share.charged = self._charged = max(self._charged, share.charged)
        return self._left()

    def _took(self, share: Share, seconds: float) -> None:
        if self._serves is share:
            return  # `_serve` measures all of it
        self._used += seconds
        share.charged += min(seconds, CHARGE_SECONDS_MAX)
        if self._used > COUNTED_SECONDS:
            self._set()


class Share:
    """One group's share of the turns.

    Attributes:
        seconds: how long it may apply, as it was told last.
        held: its machine has taken no entry in this turn, and is to be asked again in the next.
    """

    __slots__ = ("_turns", "charged", "go_on", "held", "owned", "part", "seconds", "waits")

    def __init__(self, turns: Turns, owned: Owned, go_on: Callable[[], object]) -> None:
        self._turns, self.owned, self.go_on = turns, owned, go_on
        self.seconds = self.charged = self.part = 0.0
        self.waits = self.held = False

    def ask(self) -> float:
        """How many seconds it may apply entries for now; 0.0: it has to `wait` for its turn."""
        self.seconds = self._turns._ask(self)
        return self.seconds

    def took(self, seconds: float) -> None:
        """Count these seconds, in which the group has applied entries."""
        self._turns._took(self, seconds)

    def wait(self) -> None:
        """Have `go_on` called when its turn has come; in a later turn of the loop."""
        if not self.waits:
            self.waits = True
            self._turns._came(self)
