"""Deletes old log files: the leader decides which and when, in a log entry for all replicas (R16).

every replica has the same files     the entry names the address where the log begins then
which may go                         RocketMQ's rules: age, hour, how full the disk is
which may not                        the last one; what delayed and half messages still wait
                                     for; for a while, what a live follower has not got yet
each replica deletes                 when its own state at that address is on disk
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.apply.log_beginning import LogBeginning
from cluster.core.internal_topics import LogTrimmed
from cluster.errors import ClusterError
from commitlog.config import StoreConfig
from commitlog.files.system import FileSystem
from commitlog.records.record import HEADER_SIZE
from commitlog.recovery.retention import LogFile, disk_level, files_to_drop
from dledger.core.types import Index

#: Writes again what outlives the files of [first, position), and calls some turns later. False:
#: that is still going on for an earlier decision; ask again.
KeepEntries = Callable[[int, int, Callable[[], None]], bool]

#: A follower that was not heard for longer is not waited for: it comes back by snapshot.
LIVE_SECONDS_MAX = 10.0


class Retention:
    """Used on the event loop's thread; `look` now and then."""

    def __init__(
        self,
        ports: AdminPorts,
        beginning: LogBeginning,
        files: FileSystem,
        *,
        keep: KeepEntries,
        hour: Callable[[], int] = lambda: time.localtime().tm_hour,
    ) -> None:
        self._ports, self.beginning, self._files = ports, beginning, files
        self._hour = hour
        self._asked = 0
        self._keep = keep
        self._waiting_since: float | None = None

    def leadership_ended(self) -> None:
        """Forget decisions that are not applied: those in the log hold, others are made again.
        Followers get new time.
        """
        self._asked, self._waiting_since = 0, None

    def look(self) -> None:
        """Decide, while this node leads; then delete the decided files that may go already."""
        if self._ports.leadership.leads:
            self._decide()
        self._delete()

    def _decide(self) -> None:
        position = self._spare_followers(self._spare_deferred(self._expired()))
        start = self._ports.state.log_start
        if position <= max(self._asked, start):
            return
        # Below `_asked` entries were written again for a decision that is not applied yet.
        first = max(self.beginning.log.first_position, start, self._asked)
        self._keep(first, position, lambda: self._let_go(position))

    def _let_go(self, position: int) -> None:
        """The decision, behind the audit entries that stood below the address."""

        def done(error: Exception | None) -> None:
            if error is not None:
                self._asked = 0

        self._asked = position  # `done` may be called before the writer returns
        try:
            self._ports.writer.write_to_free_space(LogTrimmed(position), done)
        except ClusterError:
            self._asked = 0  # there is more to do than that; the next look decides again

    def _expired(self) -> int:
        """Where the log begins when all files have gone that may, by age and disk."""
        log, config = self.beginning.log, self._ports.live.now
        rules = StoreConfig(reserved_hours=config.reserved_hours, delete_hours=config.delete_hours)
        first = max(log.first_position, self._ports.state.log_start)  # below it they go already
        starts = range(first, log.end_position, log.file_size)
        dropped = files_to_drop(
            [LogFile(start, self._files.modified_at(log.path_of(start))) for start in starts],
            disk_level(self._files.usage(config.root), rules),
            rules,
            now_s=self._ports.now_ms() / 1000,
            hour=self._hour(),
        )
        return dropped[-1].start + log.file_size if dropped else 0

    def _spare_deferred(self, position: int) -> int:
        """Lower `position` so that no file goes that the state has not read to its end, or that
        still has a deferred message.
        """
        state = self._ports.state
        position = min(position, self._begin_of_file(state.position))
        waiting = state.deferred.first_waiting()
        if waiting is None:
            return position
        return min(position, self._begin_of_file(waiting - HEADER_SIZE))

    def _spare_followers(self, position: int) -> int:
        """Lower `position` for a follower that lags, for some time; after that it gets a snapshot
        and the remaining log.
        """
        missing = self._first_missing()
        if missing is None or missing >= position:
            self._waiting_since = None
            return position
        now = self._ports.now()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since >= self._ports.live.now.follower_grace_seconds:
            return position
        return self._begin_of_file(missing)

    def _first_missing(self) -> int | None:
        """Lowest address that a live follower has not got on disk."""
        log, driver = self.beginning.log, self._ports.log.driver
        found = [
            log.position_of(Index(max(peer.flushed + 1, log.first_index)))
            for peer in self._ports.log.status().peers
            if driver.now() - peer.heard_at < LIVE_SECONDS_MAX
        ]
        return min(found, default=None)

    def _begin_of_file(self, position: int) -> int:
        return position - position % self.beginning.log.file_size

    def _delete(self) -> None:
        """Up to the last state on disk that the decision covers; a replica may lack one."""
        log_start = self._ports.state.log_start
        places = [p for p in self.beginning.folder.positions() if p <= log_start]
        if places and places[-1] > self.beginning.log.first_position:
            self._ports.log.driver.trim(places[-1])
