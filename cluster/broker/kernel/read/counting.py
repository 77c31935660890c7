"""Counts messages in and out: puts by how queues grow, gets by the messages that pulls found.

The leader counts puts, and the node that answers a pull counts its messages; so no message is
counted twice, and a replay after a restart is not counted as traffic.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.core.apply import AppliedState
from cluster.core.statistics import (
    BROKER_GET_NUMS,
    BROKER_PUT_NUMS,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    TOPIC_PUT_NUMS,
    Statistics,
)
from cluster.core.topics import DLQ_PREFIX, SYSTEM_PREFIX


class Counting:
    """Feeds `statistics`; `leads()` says whether puts count here."""

    def __init__(
        self,
        statistics: Statistics,
        state: AppliedState,
        broker_name: str,
        *,
        now: Callable[[], float],
        leads: Callable[[], bool],
    ) -> None:
        self._statistics, self._state, self._broker = statistics, state, broker_name
        self._now, self._leads = now, leads

    def queue_grew(self, topic: str, queue_id: int, max_offset: int) -> None:
        """Called before the state's own queue ends move on."""
        if topic.startswith(SYSTEM_PREFIX) or not self._leads():
            return  # the broker's own records are no traffic
        count = max_offset - self._state.queue_end(topic, queue_id)
        if count > 0:
            now = self._now()
            self._statistics.add(TOPIC_PUT_NUMS, topic, count, now)
            self._statistics.add(BROKER_PUT_NUMS, self._broker, count, now)
            if topic.startswith(DLQ_PREFIX):
                dead, group = self._statistics.dead_letters, topic.removeprefix(DLQ_PREFIX)
                dead[group] = dead.get(group, 0) + count

    def got(self, group: str, topic: str, count: int, size: int) -> None:
        """A pull is answered with messages."""
        key, now = f"{topic}@{group}", self._now()
        self._statistics.add(GROUP_GET_NUMS, key, count, now)
        self._statistics.add(GROUP_GET_SIZE, key, size, now)
        self._statistics.add(BROKER_GET_NUMS, self._broker, count, now)
