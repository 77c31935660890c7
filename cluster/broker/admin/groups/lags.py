"""Group lag for monitors: messages that wait for each group and topic, and since when the oldest.

Looked at when a monitor asks, by the leader only, which alone knows what was committed just now.
Many groups are many queues: they are looked at in slices, other work of the loop between them, and
reads of the log, which a store time takes, are made for the rows that are shown only.

    all pairs (group, topic)  ── messages that wait ──►  the PAIRS_MAX that have most
                                                         └── store time of the oldest ──► seconds
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator

from cluster.broker.admin.groups.waiting import waiting, waiting_ms
from cluster.broker.admin.ports import AdminPorts
from cluster.core.group_lag import GroupLag, Lags
from cluster.core.pop.records import Place
from commitlog.errors import StoreDamaged

#: Series of a metric; a monitor keeps each for days. Those with fewest messages are left out.
PAIRS_MAX = 500
#: Looked at in one go; a thousand take about a millisecond, and clients wait for so long.
QUEUES_A_TURN = 500
#: Seconds of one go's reads: each may be one of a disk.
READS_A_TURN = 20
#: Of all groups together. Beyond it pairs are left out unseen, and counted.
QUEUES_MAX = 200_000
#: Two monitors that ask at once are told the same.
FRESH_SECONDS = 1.0


class GroupLags:
    """`await look()` before `lags` is read; on the event loop's thread."""

    def __init__(self, ports: AdminPorts) -> None:
        self.ports = ports
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self._found = Lags()

    @property
    def lags(self) -> Lags:
        """As of the last look; empty on a node that does not lead."""
        return self._found if self.ports.leadership.leads else Lags()

    async def look(self) -> None:
        """Bring `lags` up to date, unless that was done within the last second."""
        ports = self.ports
        async with self._looking:
            if not ports.leadership.leads:
                self._found, self._looked_at = Lags(), float("-inf")
                return
            if ports.now() - self._looked_at < FRESH_SECONDS:
                return
            counted, left_out = await self._count()
            most = heapq.nlargest(PAIRS_MAX, counted)
            rows = await self._rows(most)
            self._found = Lags(rows, left_out + len(counted) - len(most))
            self._looked_at = ports.now()

    async def _count(self) -> tuple[list[tuple[int, str, str]], int]:
        """(messages, group, topic) of all pairs that were looked at; how many were not."""
        counted: list[tuple[int, str, str]] = []
        turn = total = left_out = 0
        for group, topic in self._pairs():
            queues = self._queues(topic)
            if total + queues > QUEUES_MAX:
                left_out += 1
                continue
            total, turn = total + queues, turn + queues
            waits = (self._waiting(group, topic, queue_id) for queue_id in range(queues))
            counted.append((sum(end - first for first, end in waits), group, topic))
            if turn >= QUEUES_A_TURN:
                turn = 0
                await asyncio.sleep(0)
        return counted, left_out

    async def _rows(self, most: list[tuple[int, str, str]]) -> tuple[GroupLag, ...]:
        rows, reads, turn = [], 0, 0
        for messages, group, topic in most:
            oldest = 0
            for queue_id in range(self._queues(topic) if messages else 0):
                oldest = max(oldest, self._waiting_ms(group, topic, queue_id))
                reads += 1
                if reads % READS_A_TURN == 0:
                    await asyncio.sleep(0)
            in_flight = self._in_flight(group, topic)
            rows.append(GroupLag(group, topic, messages, oldest / 1000, in_flight))
            turn += self._queues(topic)
            if turn >= QUEUES_A_TURN:
                turn = 0
                await asyncio.sleep(0)
        return tuple(rows)

    def _in_flight(self, group: str, topic: str) -> int:
        held = self.ports.state.pop.held
        if not len(held):
            return 0
        return sum(
            held.unacked(Place(group, topic, queue_id)) for queue_id in range(self._queues(topic))
        )

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Groups and the topics they have committed in, as they are now: both may change later."""
        state = self.ports.state
        pairs = [(group, topic) for group, topics in state.offsets.groups() for topic in topics]
        return ((group, topic) for group, topic in pairs if state.topics.get(topic) is not None)

    def _queues(self, topic: str) -> int:
        config = self.ports.state.topics.get(topic)
        return 0 if config is None else config.read_queues

    def _waiting(self, group: str, topic: str, queue_id: int) -> tuple[int, int]:
        at = self.ports.offsets.newest(group, topic, queue_id)
        return waiting(self.ports, topic, queue_id, at)

    def _waiting_ms(self, group: str, topic: str, queue_id: int) -> int:
        """0 for a message that cannot be read: the scrub reports damage, a monitor does not."""
        at = self.ports.offsets.newest(group, topic, queue_id)
        try:
            return waiting_ms(self.ports, topic, queue_id, at)
        except StoreDamaged:
            return 0
