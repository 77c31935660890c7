"""Parts that the groups of one process share: the port, connections, threads for disk work.

    start ─► port, threads ─► groups come and go ─► close: the port, the groups, then the threads

Each group keeps what its safety rests on for itself: its log, its votes, its timers, its `Owned`.
A mistake in a group ends that group. One in what is shared ends all of them.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from typing import Protocol

from dledger.config import RaftConfig
from dledger.errors import NodeFailed
from dledger.replica.disk_watch import LOOK_SECONDS
from dledger.runtime.alarms import Alarms
from dledger.runtime.candidacies import Candidacies
from dledger.runtime.clock import Clock, seeded_jitter
from dledger.runtime.disk_threads import DiskThreads, SharedDiskQueue
from dledger.runtime.host_beats import Told
from dledger.runtime.host_links import HostLinks
from dledger.runtime.loop_watch import LoopWatch
from dledger.runtime.owned import ENDED, Owned
from dledger.runtime.peer_port import GREETING_MAX, PeerPort
from dledger.runtime.sync_thread import Done
from dledger.runtime.turns import Turns

_log = logging.getLogger(__name__)

#: Threads for each kind of disk work. More: groups wait less for each other's syncs, on a disk that
#: does several at once. Less: the opposite. Several also for votes, of which each needs a sync.
THREADS = {"log": 4, "hard": 2, "files": 2}
#: Connections that have not said who they are may hold one of so many of the process's file
#: descriptors: a group that gets none for its next file ends. Many peers' groups dial at once when
#: a host comes up, and a connection closed for want of one is dialled again.
GREETING_SHARE = 10
#: And so many at most.
GREETING_PER_HOST_MAX = 16 * GREETING_MAX
#: A disk that hangs keeps its threads for so long, then they are left behind.
STOP_SECONDS_MAX = 10.0


def greeting_max() -> int:
    """Connections without an accepted hello, for the limit of descriptors as it is now."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return GREETING_PER_HOST_MAX
    return max(1, min(limit // GREETING_SHARE, GREETING_PER_HOST_MAX))


class Guest(Protocol):
    """A replica that runs on the shared parts (driver.py).

    Attributes:
        config: of its group.
        owned: ends it, and no other group, by a mistake.
        failed: done once it has stopped by itself.
    """

    config: RaftConfig
    owned: Owned
    failed: asyncio.Future[NodeFailed]

    async def stop(self) -> None:
        """Stop taking part and close the storage; idempotent."""
        ...


class HostParts:
    """Shared by the groups of one host; made and used on its event loop."""

    def __init__(
        self,
        config: RaftConfig,
        clock: Clock,
        closed: Callable[[str], None],
        *,
        quiescence: bool,
    ) -> None:
        """`closed`: told of each group that has closed its files. `quiescence`: beat to other
        hosts, and tell groups of them, so that they may fall silent (R30).
        """
        self._quiescence = quiescence
        self._config, self._now = config, clock.now
        self._owned = Owned(self._died)
        self._closed = closed
        self.port: PeerPort = PeerPort(
            config, self._owned, shared=True, greeting_max=greeting_max()
        )
        self.links = HostLinks(config, self.port, seeded_jitter(config.seed), self._owned, clock)
        self._threads: dict[str, DiskThreads] = {}
        self._loop_watch = LoopWatch(
            config.node_id, config.disk_stall_ms / 1000, LOOK_SECONDS, self._now
        )
        self._timer: asyncio.TimerHandle | None = None
        self._guests: dict[str, Guest] = {}
        self._is_closed = False
        #: Deadlines of quiet groups.
        self.alarms = Alarms(LOOK_SECONDS)
        #: Of the groups that look for a leader, when one of the other hosts has ended.
        self.candidacies = Candidacies(self._owned, config.election_timeout_max_ms / 1000)
        #: In which the groups apply committed entries.
        self.turns = Turns(self._owned)

    async def start(self) -> None:
        """Listen, and start the threads. Raises OSError when the address is taken."""
        await self.port.open()
        for name, count in THREADS.items():
            thread = f"dledger-{self._config.node_id}-{name}"
            self._threads[name] = DiskThreads(thread, count, self._owned)
        self._loop_watch.start()
        self._come_round()
        self.links.tell_clocks()
        if self._quiescence:
            self.links.beats.start()

    async def leave(self) -> None:
        """Accept no more, and close the carriers of others: they go on without this host."""
        await self.port.close()
        self.links.refuse()

    async def end_guests(self) -> list[BaseException]:
        """Stop the replicas that still run: of logs and nodes made by the user (`Host.share`).

        Their owners are told by NodeFailed. Returns the errors of their ends.
        """
        guests = list(self._guests.values())
        ended = await asyncio.gather(*(one.stop() for one in guests), return_exceptions=True)
        for guest in guests:
            if not guest.failed.done():
                guest.failed.set_result(
                    NodeFailed(
                        f"the host of the group {guest.config.group} was closed, and its replica "
                        "here with it; end logs and nodes that share a host before the host"
                    )
                )
        return [error for error in ended if error is not None]

    async def close(self) -> None:
        """Close the connections and end the threads; `leave` and the groups' ends came before."""
        self._is_closed = True
        await self.links.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._loop_watch.stop()
        stops = [threads.stop for threads in self._threads.values()]
        await asyncio.gather(*(asyncio.to_thread(stop, STOP_SECONDS_MAX) for stop in stops))

    def join(self, guest: Guest, told: Told) -> None:
        """A group runs here: tell it which hosts are watched, if it may fall silent."""
        self._guests[guest.config.group] = guest
        if self._quiescence:
            self.links.beats.join(guest.config.group, guest.owned, told)

    def closed(self, guest: Guest) -> None:
        """Forget a group that has ended, with its files closed.

        One that never joined leaves all as it is: its group may run here already.
        """
        group = guest.config.group
        if self._guests.get(group) is not guest:
            return
        del self._guests[group]
        self.links.beats.leave(group)
        self._closed(group)

    def disk_queue(
        self, name: str, owned: Owned, done: Done, now: Callable[[], float]
    ) -> SharedDiskQueue:
        """A replica's queue "log", "hard" or "files". Raises NodeFailed after `close`."""
        if self._is_closed:
            raise NodeFailed("this host was closed; start the log before, on one that runs")
        return self._threads[name].queue(owned, done, now)

    def _come_round(self) -> None:
        now = self._now()
        self._loop_watch.came_round(now)
        self.alarms.ring(now)
        self._timer = self._owned.call_later(LOOK_SECONDS, self._come_round)

    def _died(self, error: BaseException) -> None:
        """A mistake in a shared part: no group here can go on."""
        _log.critical("%s: its host %s", self._config.node_id, ENDED, exc_info=error)
        for side in self.port.sides():
            side.owned.died(error)
