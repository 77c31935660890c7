"""Is there space on the disk for records that are about to get an index? (L5)

    a follower   before the rules hear of a range: else they do not hear of it, and the leader sends
                 it again, as after any loss (L3)
    a leader     before they hear of a proposal: else it is refused for certain
    a candidate  before they hear that nobody leads: the entry that opens a leadership must fit

Nothing is written, noted or promised before the answer is yes, so a full disk costs nothing that
was acknowledged. A no starts work that makes space, by which the shell sees that the disk is full
and tries again; until that ends well, or for a second, the answer stays no without a look.
"""

from __future__ import annotations

from collections.abc import Callable

from commitlog.files.system import is_out_of_space
from commitlog.records.record import HEADER_SIZE
from dledger.core.messages import AppendEntries
from dledger.core.types import Index
from dledger.log.port import LogStore, VerifiedRange, WantedSpace
from dledger.replica.disk_work import DiskWork

#: Between two looks of its own; the shell's work is tried again about as often.
AGAIN_SECONDS = 1.0
#: Bytes and slots beyond what is asked for: a new leader's first entry, a change of the group, the
#: entry by which the beginning of the log goes.
SPARE_BYTES, SPARE_SLOTS = 64 << 10, 64


class SpaceCheck:
    """The check of one replica. `why`: the system's words when there was no space, else ""."""

    def __init__(self, log: LogStore, disk: DiskWork, failed: Callable[[str], None]) -> None:
        """`failed`: told of every other error of the disk, which ends the replica (D5)."""
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

        What a file has left where a record does not fit any more is counted as well.
        `uses_spare`: looks in any case, and leaves nothing behind them.
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
        """Is there no space for one entry, the spare included? Looks in any case."""
        self._again_at = float("-inf")
        end, last = self._log.end_position + 2 * (body_size + HEADER_SIZE), self._log.last.index
        return self._lacks(end, Index(last + 1), Index(last + 1), now)

    def ended_well(self) -> None:
        """A file was made or blocks were allocated: look again."""
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
