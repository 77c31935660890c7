"""Which followers the leader hears: looked at ten times a second, told to name servers on a change.

A follower that dies causes no election, and its own registration lasts for a minute. The leader
notices within one election timeout, so a stock client that looks at routes after that is led to
living nodes only (cluster/nameserver/relays.py, spread.py).
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.write.replica_log import ReplicaLog
from dledger.runtime.owned import Owned

LOOK_SECONDS = 0.1
SILENT_SECONDS = 0.5
"""A follower answers several times in an election timeout, which is about as long."""


class LivingFollowers:
    """Call it for the node ids of the followers that answered lately; () when this node follows."""

    def __init__(
        self,
        log: ReplicaLog,
        leadership: Leadership,
        owned: Owned,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._log, self._leadership, self._owned = log, leadership, owned
        self._changed = changed
        self._told: tuple[str, ...] = ()
        self._stopped = False

    def __call__(self) -> tuple[str, ...]:
        if not self._leadership.leads:
            return ()
        now = self._log.driver.now()
        return tuple(
            sorted(
                peer.node_id
                for peer in self._log.status().peers
                if now - peer.heard_at < SILENT_SECONDS
            )
        )

    def start(self) -> None:
        """Begin to look; `changed` is called when a look finds others than the one before."""
        if self._stopped:
            return
        living = self()
        if living != self._told:
            self._told = living
            self._changed()
        self._owned.call_later(LOOK_SECONDS, self.start)

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
