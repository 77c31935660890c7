"""The leases of one leader, and the log for changes of owners (R23)."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.internal_topics import LocksChanged
from cluster.core.locks import Locked, LockLeases
from cluster.errors import ClusterError

Done = Callable[[Exception | None], None]


class Locks:
    """Drives `LockLeases` with a clock and the log."""

    def __init__(
        self, leases: LockLeases, writer: StateWriter, *, now: Callable[[], float]
    ) -> None:
        self.leases, self._writer, self._now = leases, writer, now

    def begin(self) -> None:
        """A leadership begins: every known owner has a full lease."""
        self.leases.begin(self._now())

    def leadership_ended(self) -> None:
        """Leases were this leader's own; owners are in the log."""
        self.leases.drop()

    def change(self, group: str, decision: Locked, done: Done) -> None:
        """Log new owners; `done(None)` when the table shows them, at once for none.

        Raises QueueFull, and InvalidRequest for too many at once.
        """
        owners = decision.change
        self.leases.proposed(group, decision, self._now())
        if not owners:
            done(None)
            return

        def settled(error: Exception | None) -> None:
            self.leases.settled(group, owners, self._now())
            done(error)

        try:
            self._writer.write(LocksChanged(group, owners), settled)
        except ClusterError:
            self.leases.settled(group, owners, self._now())
            raise
