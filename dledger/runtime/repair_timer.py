"""The timer of a replica's repair and scrubbing, beside that of the rules; it logs new damage.

A node whose log is whole wakes for it once an hour, and while a pass runs some 16 times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dledger.log.damage import Damage
from dledger.replica.replica import Replica
from dledger.runtime.alarms import Alarms
from dledger.runtime.clock import Clock
from dledger.runtime.owned import Owned

_log = logging.getLogger(__name__)

#: Between two pieces of a pass at least: readers and writers of the log come first.
PAUSE_SECONDS_MIN = 0.001


class RepairTimer:
    """Calls `Replica.tend` when it is due, then `after`."""

    def __init__(
        self,
        clock: Clock,
        replica: Replica,
        after: Callable[[], None],
        owned: Owned,
        alarms: Alarms | None = None,
    ) -> None:
        """`alarms`: of the host; they keep far deadlines."""
        self._alarms = alarms
        self._clock, self._replica, self._after, self._owned = clock, replica, after, owned
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._said: frozenset[Damage] = frozenset()

    def fire(self) -> None:
        """Do the due repair work, and set the timer for the next; a mistake in it ends the node."""
        self._owned.run(self._fire)

    def _fire(self) -> None:
        self._cancel()
        if self._stopped:
            return
        now = self._clock.now()
        due = self._replica.tend(now)
        self._say()
        self._after()
        alarms = self._alarms
        if alarms is not None and alarms.take(due, now, self._owned, self.fire):
            return
        if due < float("inf"):
            delay = max(PAUSE_SECONDS_MIN, due - now)
            self._timer = self._owned.call_later(delay, self.fire)

    def stop(self) -> None:
        """End the timer; a second call has no effect."""
        self._stopped = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._alarms is not None:
            self._alarms.cancel(self.fire)

    def _say(self) -> None:
        """Each damaged range once, and that all are whole again."""
        repair, name = self._replica.repair, self._replica.node.node_id
        damaged = frozenset(() if repair is None else repair.status().damaged)
        for one in sorted(damaged - self._said, key=lambda damage: damage.first):
            _log.warning(
                "%s: entries %d to %d are damaged on the disk (%s); other replicas are asked for "
                "them, and this one does not lead meanwhile",
                name,
                one.first,
                one.last,
                one.reason,
            )
        if self._said and not damaged:
            _log.warning("%s: every entry on the disk is whole again", name)
        self._said = damaged
