"""One beat a host and interval, in place of one a group; quiet groups rely on it (R30).

    timer ─► a beat to each host that knows beats ─► look who is heard ─► tell the groups
    a carrier of another host ends ───────────────────────────────────────► tell the groups

A group that joins is told at once; one with heartbeats of its own learns nothing new from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from dledger.config import RaftConfig
from dledger.core.events import HostsWatched
from dledger.core.types import NodeId
from dledger.replica.beats import SPREAD_SECONDS_PER_GROUP, Beats
from dledger.runtime.owned import Owned

#: Told to a group.
Told = Callable[[HostsWatched], None]


class HostBeats:
    """Runs from `start` to `stop`. `send`: a beat to a host; it may get lost."""

    def __init__(
        self,
        config: RaftConfig,
        peers: Iterable[NodeId],
        owned: Owned,
        now: Callable[[], float],
        send: Callable[[NodeId, bool], None],
    ) -> None:
        core = config.core()
        self._peers = tuple(peers)
        self._beats = Beats(self._peers, core.heartbeat_interval, core.election_timeout_max, now())
        self._owned, self._now, self._send = owned, now, send
        self._groups: dict[str, tuple[Owned, Told]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Beat now, and every interval from then on."""
        now = self._now()
        for peer in self._peers:
            self._send(peer, self._beats.hears(peer, now))
        if self._beats.look(now):
            self._tell()
        self._timer = self._owned.call_later(self._beats.interval, self.start)

    def stop(self) -> None:
        """Send no more; the groups have ended before."""
        if self._timer is not None:
            self._timer.cancel()

    def join(self, group: str, owned: Owned, told: Told) -> None:
        """Tell a group, now and whenever it changes; a mistake in that ends `owned`."""
        self._groups[group] = owned, told
        owned.run(told, HostsWatched(self._beats.watched))

    def leave(self, group: str) -> None:
        """Forget a group that has ended."""
        self._groups.pop(group, None)

    def heard(self, peer: NodeId, *, hears_us: bool) -> None:
        """A beat has come."""
        self._beats.heard(peer, self._now(), hears_us=hears_us)

    def lost(self, peer: NodeId) -> None:
        """A carrier of that host has ended: before its groups' connections do, one by one."""
        if self._beats.lost(peer):
            self._tell()

    def _tell(self) -> None:
        spread = SPREAD_SECONDS_PER_GROUP * len(self._groups)
        watched = HostsWatched(self._beats.watched, spread)
        for owned, told in list(self._groups.values()):
            owned.run(told, watched)
