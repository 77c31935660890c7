"""Judges the health of a replica's disk by the times of its syncs; see core/disk.py (L5).

    a sync under way for `stall_seconds`    STALLED, until the sync ends
    the shell found no space                FULL, LOW: see `full`, `no_state`, `stuck`, `low`
    either, less than `trust_seconds` ago   RECOVERING
    else                                    GOOD

Pure: the shell passes the time. The thread that syncs writes `SyncTimes`, the event loop's thread
reads it without a lock: each field is one plain store, and a missed sample does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dledger.core.events import DiskChecked
from dledger.core.types import DiskHealth

#: Between two looks; a sync under way is looked at again when it would become a stall, too.
LOOK_SECONDS = 0.5
#: After so long without the end of a sync the average is forgotten.
_AVERAGE_SECONDS_MAX = 5.0
#: Weight of the newest look in the average of sync times: a burst of one second is not slowness.
_NEWEST = 0.2
_NEVER = float("-inf")


@dataclass(slots=True)
class SyncTimes:
    """State of one thread of disk work, and how long its syncs took so far, in seconds."""

    #: Kind and begin of the work under way.
    kind: str = ""
    began_at: float | None = None
    count: int = 0
    total: float = 0.0
    longest: float = 0.0

    def begin(self, kind: str, now: float) -> None:
        """Note that work of this kind begins at `now`, in seconds of the caller's clock."""
        self.kind, self.began_at = kind, now

    def under_way_since(self) -> float | None:
        """When the work under way began; None without work."""
        return self.began_at

    def end(self, now: float) -> None:
        """Count the work under way, which ended at `now`. AssertionError without work."""
        assert self.began_at is not None
        took = max(0.0, now - self.began_at)  # two threads' readings of a clock may be out of order
        self.began_at = None
        self.count += 1
        self.total += took
        if took > self.longest:
            self.longest = took


class DiskWatch:
    """One replica's disk.

    `log`: the thread whose syncs are averaged; `others`: further threads whose syncs must not hang.
    The thread that makes log files in advance does not count: to fill one with zeros takes seconds.
    """

    def __init__(
        self,
        log: SyncTimes,
        others: Iterable[SyncTimes],
        stall_seconds: float,
        trust_seconds: float,
    ) -> None:
        self._log, self._threads = log, (log, *others)
        self.stall_seconds, self._trust_seconds = stall_seconds, trust_seconds
        self._failed_at = _NEVER  # when a look last found the disk stalled, full or low
        self._counted, self._summed = 0, 0.0
        self._average, self._averaged_at = 0.0, _NEVER
        #: Set by the shell: why there is no space for another file of the log, "" when there is.
        self.full = ""
        #: Set by the shell: why the state that the leader sends cannot be kept, "" when it can.
        self.no_state = ""
        #: Set by the service: why it cannot apply what is committed, "" when it can.
        self.stuck = ""
        #: Set by the service: why it refuses producers, "" when it does not.
        self.low = ""

    def look(self, now: float) -> DiskChecked:
        """The verdict, as of now."""
        stalled = self._stalled(now)
        self._measure(now)
        for health, detail in (
            (DiskHealth.STALLED, stalled),
            (DiskHealth.FULL, self.full or self.no_state or self.stuck),
            (DiskHealth.LOW, self.low),
        ):
            if detail:
                self._failed_at = now
                return DiskChecked(health, detail, self._average)
        if now - self._failed_at < self._trust_seconds:
            detail = (
                f"it works again, and is trusted after {self._trust_seconds:g} s without trouble"
            )
            return DiskChecked(DiskHealth.RECOVERING, detail, self._average)
        return DiskChecked(DiskHealth.GOOD, "", self._average)

    def is_idle(self, found: DiskChecked) -> bool:
        """True if the next look will find the same as `found`, unless work begins."""
        is_calm = found.health is DiskHealth.GOOD and not found.sync_seconds
        return is_calm and all(times.under_way_since() is None for times in self._threads)

    def next_look(self, now: float) -> float:
        """When to look again: soon, or when work under way would be a stall."""
        began = [times.under_way_since() for times in self._threads]
        stall = min((at for at in began if at is not None), default=now) + self.stall_seconds
        return min(now + LOOK_SECONDS, stall) if stall > now else now + LOOK_SECONDS

    def _stalled(self, now: float) -> str:
        """A sentence about a sync that hangs, "" for none; notes one that has hung meanwhile."""
        found = ""
        for times in self._threads:
            longest, times.longest = times.longest, 0.0
            began = times.under_way_since()  # the thread may end it at any time
            waited = 0.0 if began is None else now - began
            if waited >= self.stall_seconds:
                found = f"a {times.kind} sync has not come back for {waited:.1f} s"
            elif longest >= self.stall_seconds:
                self._failed_at = now
        return found

    def _measure(self, now: float) -> None:
        """The average over the looks in which a sync ended."""
        count, total = self._log.count, self._log.total
        if count > self._counted:
            newest = (total - self._summed) / (count - self._counted)
            before = self._average or newest
            self._average = before + _NEWEST * (newest - before)
            self._counted, self._summed, self._averaged_at = count, total, now
        elif now - self._averaged_at > _AVERAGE_SECONDS_MAX:
            self._average = 0.0
