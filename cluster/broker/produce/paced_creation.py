"""Creations of topics begin in small groups: a burst of them is spread over seconds.

    begin(config, done) ─► while few come: create(config, done) at once
                        └► else with the next group, in the order in which they came

Each creation costs every replica a record, folders, files and an entry of each index. A client may
send to two hundred new topics at once: begun together they hold up every other client's sends until
all of that is done. In groups they take two seconds and a part of the machine, and the sends that
wait for them are answered all the same. Creations that come one by one, but often, share what a
group costs: a sync of the log on each replica, a chunk to be derived, new targets for each client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster.broker.kernel.write.own_records import Done
from cluster.core.rate import Rate
from cluster.core.topics import TopicConfig
from cluster.errors import ClusterError
from dledger.errors import NotLeader
from dledger.runtime.owned import Owned

#: Creations that begin at once: so many after a quiet time, and a second in the long run.
AT_ONCE_MAX, AT_ONCE_PER_SECOND = 10, 2.0
#: The others: so many together, every so many seconds.
GROUP_MAX, GROUP_SECONDS = 20, 0.2


class PacedCreation:
    """Used on a leader; creations that wait end with the leadership."""

    def __init__(self, create: Callable[[TopicConfig, Done], None], owned: Owned) -> None:
        """`create` logs it, or joins the creation that is on its way; it may raise ClusterError."""
        self._create, self._now = create, owned.time
        self._call_later, self._bound = owned.call_later, owned.bound
        self._at_once = Rate(AT_ONCE_PER_SECOND, AT_ONCE_MAX)
        self._waiting: dict[str, tuple[TopicConfig, list[Done]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def is_waiting(self, topic: str) -> bool:
        """Is a creation of the topic to begin later?"""
        return topic in self._waiting

    def begin(self, config: TopicConfig, done: Done) -> None:
        """Create a topic when it is its turn; one that waits already is created once.

        Raises what `create` raises.
        """
        if config.name in self._waiting:
            self._waiting[config.name][1].append(self._bound(done))
        elif not self._waiting and self._at_once.take(self._now()):
            self._create(config, done)
        else:
            self._waiting[config.name] = config, [self._bound(done)]
            if self._timer is None:
                self._timer = self._call_later(GROUP_SECONDS, self._begin_group)

    def leadership_ended(self) -> None:
        """No waiting creation was logged: the next leader makes the topics."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting, self._timer = self._waiting, {}, None
        for _, all_done in waiting.values():
            for done in all_done:
                done(NotLeader(None))

    def _begin_group(self) -> None:
        self._timer = None
        for name in list(self._waiting)[:GROUP_MAX]:
            config, all_done = self._waiting.pop(name)
            for done in all_done:
                try:
                    self._create(config, done)
                except ClusterError as error:
                    done(error)
        if self._waiting:
            self._timer = self._call_later(GROUP_SECONDS, self._begin_group)
