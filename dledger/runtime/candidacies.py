"""Candidacies of a host's groups: so many at once, those of the others in turn.

    a group's election is due ─► a place is free ──► it stands ─► it leads, or follows
                              └► none: it waits                 └► or its time is over
                                   ▲                                     │
                                   └── the group that has waited longest ◄┘

When a host dies, a third of a thousand groups look for a new leader in one moment. If all stand at
once, each vote waits behind the messages and syncs of all others. A processor that needs longer for
them than an election timeout wins no election at all: each candidate has begun anew before its
votes are there. So few groups stand at once, however slow the machine is, and each of them is
quick. A group that waits votes for others, and follows a leader that it hears of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from dledger.core.events import ElectionHeld
from dledger.core.types import Role
from dledger.replica.replica import Replica
from dledger.runtime.owned import Owned

#: Groups of a host that stand at once. More: on a slow machine candidates time out, as above. Less:
#: on a disk with slow syncs groups wait for each other's votes to be on disk.
AT_ONCE = 8
_CANDIDATES = (Role.PRE_CANDIDATE, Role.CANDIDATE)


class Candidate(Protocol):
    """A group that stands, or waits. `owned`: ends it, and no other one, by a mistake."""

    owned: Owned

    def turn(self) -> None:
        """Stand now; or `leave`, if that is not needed any more."""
        ...


class Candidacies:
    """The places of one host, on its event loop."""

    def __init__(self, owned: Owned, seconds_max: float) -> None:
        """`seconds_max`: a candidate without a majority gives its place away after so long, if
        another group waits for it: the longest election timeout.
        """
        self._owned, self._seconds_max = owned, seconds_max
        #: Until when, the first to end first; those that wait, in order.
        self._standing: dict[Candidate, float] = {}
        self._waiting: dict[Candidate, None] = {}
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def take(self, one: Candidate) -> bool:
        """A place for `one`; False: it waits for its `turn`, which is called through its `owned`.

        One that stands already, and begins anew, has its place until its time is over.
        """
        if one in self._standing:
            return True
        if not self._waiting and len(self._standing) < AT_ONCE:
            self._standing[one] = self._owned.time() + self._seconds_max
            return True
        self._waiting[one] = None
        self._set_timer()
        return False

    def leave(self, one: Candidate) -> None:
        """Give the place of `one` to another group; without an effect where it has none."""
        self._waiting.pop(one, None)
        if self._standing.pop(one, None) is not None and self._waiting and self._turn is None:
            self._turn = self._owned.call_soon(self._come_round)

    def _come_round(self) -> None:
        self._turn, now = None, self._owned.time()
        for one in [one for one, until in self._standing.items() if until <= now]:
            del self._standing[one]
        while self._waiting and len(self._standing) < AT_ONCE:
            one = next(iter(self._waiting))
            del self._waiting[one]
            self._standing[one] = now + self._seconds_max
            one.owned.run(one.turn)  # which may end at once: then it has left
        self._set_timer()

    def _set_timer(self) -> None:
        """For the end of the place that ends first, as long as a group waits for one."""
        if self._timer is None and self._waiting and self._standing:
            until = next(iter(self._standing.values()))
            self._timer = self._owned.call_later(
                max(0.0, until - self._owned.time()), self._time_is_over
            )

    def _time_is_over(self) -> None:
        self._timer = None
        self._come_round()


class Candidacy:
    """One group's: its timer goes through here, so that its election waits for a place."""

    def __init__(
        self,
        places: Candidacies | None,
        owned: Owned,
        replica: Replica,
        tell: Callable[[Callable[[float], None]], None],
    ) -> None:
        """`places`: of the host, None: the group has none. `tell`: as of the driver."""
        self._places, self.owned, self._replica, self._tell = places, owned, replica, tell
        self._stands = False

    def timer(self, now: float) -> None:
        """The replica's deadline has come; an election that is due begins, or waits."""
        node, places = self._replica.node, self._places
        if places is not None and node.role is not Role.LEADER and now >= node.deadline():
            self._stands = places.take(self)
            if not self._stands:
                self._replica.looked(ElectionHeld(held=True), now)
        self._replica.timer(now)

    def turn(self) -> None:
        """A place is free for this group, which may have a leader by now, or have failed."""
        self._stands = True
        if self._replica.failure is None:
            self._tell(self._go_on)
        else:
            self.stop()

    def _go_on(self, now: float) -> None:
        self._replica.looked(ElectionHeld(held=False), now)
        self._replica.timer(now)

    def look(self) -> None:
        """After every event: give the place away if the group needs none any more."""
        if self._stands and self._replica.node.role not in _CANDIDATES:
            self.stop()

    def stop(self) -> None:
        """The group stands no more, or its node ends: give its place, or its wait, away."""
        self._stands = False
        if self._places is not None:
            self._places.leave(self)
