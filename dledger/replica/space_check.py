"""SpaceCheck asks, before records get an index, whether the disk has space for them (L5).

    a follower   asks before it gives a range to the Raft core; without space it drops the range,
                 and the leader sends it again, as after any loss (L3)
    a leader     asks before it gives a proposal to the core; without space it refuses the proposal,
                 and its caller knows that it was not written
    a candidate  asks before an election: the no-op that opens a leadership must fit

The replica writes and promises nothing before the check says yes, so on a full disk no acknowledged
entry is lost. When the check says no, it starts disk work that makes space; from that work the
shell learns that the disk is full, and tries again. Until the work succeeds, or for a second, the
check goes on saying no without asking the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from commitlog.files.system import is_out_of_space
from commitlog.records.record import HEADER_SIZE
from dledger.core.messages import AppendEntries
from dledger.core.types import Index
from dledger.log.port import LogStore, VerifiedRange, WantedSpace
from dledger.replica.disk_work import DiskWork

#: After a no the check asks the disk again at the earliest after this time; the shell tries its
#: own work again about as often.
AGAIN_SECONDS = 1.0
#: Bytes and slots that are kept free for small entries that must always fit: a new leader's no-op,
#: a change of the configuration, and the entry that lets nodes delete old files of the log.
SPARE_BYTES, SPARE_SLOTS = 64 << 10, 64


class SpaceCheck:
    """The check of one replica. `why`: the system's error text after a no, "" after a yes."""

    def __init__(self, log: LogStore, disk: DiskWork, failed: Callable[[str], None]) -> None:
        """`failed` is called with any other error of the disk and ends the replica (D5)."""
        self._log, self._disk, self._failed = log, disk, failed
        self._spare = min(SPARE_BYTES, log.body_size_max // 8)
        self._again_at = float("-inf")
        self.why = ""

    def lacks_for_range(self, message: AppendEntries, verified: VerifiedRange, now: float) -> bool:
        """Is there no space for a range that follows an entry of this log?"""
        following = Index(message.prev.index + 1)
        end = verified.end + self._spare
        return self._lacks(end, following, Index(message.last + SPARE_SLOTS), now)

    def lacks_for_bodies(
        self, count: int, size: int, largest: int, now: float, *, uses_spare: bool = False
    ) -> bool:
        """Is there no space for so many records of `size` bytes together? Raises OSError.

        The sum includes the unused ends of files, as a record never crosses two files.
        `uses_spare`: asks the disk even soon after a no, and may use the spare bytes and slots.
        """
        spare, slots = (0, 0) if uses_spare else (self._spare, SPARE_SLOTS)
        if uses_spare:
            self._again_at = float("-inf")
        record = largest + HEADER_SIZE
        ends = min(count, 1 + size // max(1, self._log.body_size_max - largest))
        end = self._log.end_position + size + ends * record + spare
        last = self._log.last.index
        return self._lacks(end, Index(last + 1), Index(last + count + slots), now)

    def lacks_for_leadership(self, body_size: int, now: float) -> bool:
        """Is there no space for one entry, the spare included? Asks the disk in any case."""
        self._again_at = float("-inf")
        end, last = self._log.end_position + 2 * (body_size + HEADER_SIZE), self._log.last.index
        return self._lacks(end, Index(last + 1), Index(last + 1), now)

    def ended_well(self) -> None:
        """Work that makes space has succeeded: let the next check ask the disk."""
        self._again_at = float("-inf")

    def _lacks(self, end: int, first: Index, last: Index, now: float) -> bool:
        if self.why and now < self._again_at:
            return True
        wanted = WantedSpace(self._log.end_position, end, first, last)
        try:
            self._log.space.make(wanted)
        except OSError as error:
            if not is_out_of_space(error):
                self._failed(str(error))
                return False
            self.why, self._again_at = str(error), now + AGAIN_SECONDS
            self._disk.make_space(wanted)
            return True
        self.why = ""
        return False
