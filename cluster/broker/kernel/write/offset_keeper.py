"""Consumer offsets of a leader: commits in, at most one record per group and second out (R25)."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.internal_topics import OffsetsCommitted
from cluster.core.offsets import WAITERS_MAX, OffsetCommits, OffsetTable
from cluster.core.transactions.halves import CHECK_GROUP
from cluster.errors import InvalidRequest, QueueFull, Unauthorized
from commitlog.records.names import HALF_TOPIC
from dledger.errors import OutcomeUnknown, Transferring

Done = Callable[[Exception | None], None]
_TOO_MANY = "too many offset commits wait; pause, then retry"


class OffsetKeeper:
    """Drives `OffsetCommits` with a clock, a timer and the log."""

    def __init__(
        self,
        table: OffsetTable,
        writer: StateWriter,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], object],
        call_soon: Callable[[Callable[[], None]], object],
        record_size_max: int,
        bound: Callable[[Done], Done] = lambda done: done,
    ) -> None:
        """`bound`: see `Owned.bound`."""
        self._commits = OffsetCommits(table, record_size_max=record_size_max)
        self._writer, self._now = writer, now
        self._call_at, self._call_soon, self._bound = call_at, call_soon, bound
        self._timer_at = float("inf")
        self._soon = False
        self._leadership = 0

    def commit(
        self, group: str, topic: str, queue: int, offset: int, done: Done | None = None
    ) -> None:
        """Remember an offset; `done(None)` when the log has it.

        Raises QueueFull, and Unauthorized for the offset that says which transactions wait no
        longer: only a store of RocketMQ that is taken over has it.
        """
        if group == CHECK_GROUP and topic == HALF_TOPIC:
            raise Unauthorized(
                f"offsets of {CHECK_GROUP} in {HALF_TOPIC} end transactions that wait; name "
                "another group"
            )
        kept = None
        if done is not None:
            if self._commits.waiters >= WAITERS_MAX:
                raise QueueFull(_TOO_MANY)
            kept = self._bound(done)
        if self._commits.commit(group, topic, queue, offset, kept):
            self._arm()
        elif done is not None:
            done(None)

    def newest(self, group: str, topic: str, queue: int) -> int | None:
        """The offset last wished for here, else the one in the log; None: there is none yet."""
        return self._commits.newest(group, topic, queue)

    def flushed(self, group: str, done: Done) -> bool:
        """Log the group's outstanding commits now; `done(None)` when readers see them.

        False: none is outstanding, and `done` is not called. Raises QueueFull.
        """
        if not self._commits.is_outstanding(group):
            return False
        if self._commits.waiters >= WAITERS_MAX:
            raise QueueFull(_TOO_MANY)
        self._commits.flush(group, self._bound(done))
        self._arm()
        return True

    def flush(self, group: str) -> None:
        """The group's last member left: do not wait for the second."""
        if self._commits.flush(group):
            self._arm()

    def flush_all(self, done: Done) -> None:
        """Shutdown or transfer: log everything now; `done(None)` when the log has all of it.

        A group's record may be on its way: what it wished for since then goes behind it.
        """
        left = 1
        failure: Exception | None = None

        def logged(error: Exception | None) -> None:
            nonlocal left, failure
            left, failure = left - 1, failure or error
            if not left:
                done(failure)

        for group in self._commits.outstanding():
            left += 1
            if not self._commits.flush(group, logged):
                logged(None)
        self._write_due()
        logged(None)

    def drop(self) -> None:
        """Leadership ended."""
        self._leadership += 1
        for done in self._commits.drop():
            done(OutcomeUnknown("leadership ended before the offset was logged; commit it again"))

    def _arm(self) -> None:
        due = self._commits.deadline()
        if due is None:
            return
        if due <= self._now():
            if not self._soon:
                self._soon = True
                self._call_soon(self._write_due)
        elif due < self._timer_at:
            self._timer_at = due
            self._call_at(due, self._write_due)

    def _write_due(self) -> None:
        self._soon = False
        self._timer_at = float("inf")
        for change in self._commits.take_due(self._now()):
            self._write(change)
        self._arm()

    def _write(self, change: OffsetsCommitted) -> None:
        group, leadership = change.group, self._leadership

        def settled(error: Exception | None) -> None:
            if leadership != self._leadership:
                return  # who waited was told when that leadership ended
            if isinstance(error, Transferring):  # this node may lead on
                self._commits.refused(group)
                self._call_soon(self._arm)
                return
            for done in self._commits.settled(group, ok=error is None):
                done(error)
            self._call_soon(self._arm)

        try:
            self._writer.write(change, settled)
        except (QueueFull, InvalidRequest) as refused:
            settled(refused)
