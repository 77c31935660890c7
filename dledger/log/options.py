"""Settings of a log. The sizes are part of its files and can never change later."""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.errors import StoreConfigError
from commitlog.records.record import BLANK_SIZE, HEADER_SIZE
from dledger.core.types import Index
from dledger.log.check import ALL_ZERO_CRCS, SLOT
from dledger.log.tail_cache import CACHE_SIZE_MAX

DATA_FILE_SIZE = 1 << 30  # RocketMQ's mappedFileSizeCommitLog
FIRST_INDEX = Index(0)
INDEX_FILE_SIZE = 32 * 5 * 1024 * 1024  # DLedger's, 5,242,880 slots


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a log is laid out and written.

    Attributes:
        data_file_size: bytes of one data file; the largest record is 8 bytes less. Fixed at format.
        index_file_size: bytes of one index file, a multiple of 32. Fixed at format.
        first_position: address of the first record ever, a multiple of `data_file_size`; not 0 in
            a log that continues a plain CommitLog (docs/spec/raft_log.md 2, upgrade).
        first_index: index of that record; not 0 in a log imported without its beginning.
        upgrade_index: entries below it were imported and may have no checksums
            (docs/spec/raft_log.md 1.3).
        fill_crc: False writes no checksums, as Java does, and checks none: for export and tests.
        prewrite_zeros: write new files full of zeros: syncs get cheaper (no block is written for
            the first time), making a file gets dearer.
        repairable: the log's owner repairs it while it runs, so damage at or below the flush mark
            does not stop it from opening (`damage.py`).
        refilled: there are peers to fill them, so data files that were deleted are made again
            (`gone.py`); a node alone touches nothing and does not start.
        forgets: the node promises nothing until its group has taken it in again (R6), so a flush
            mark that was lost is found again in the files (`lost_files.py`).
        cache_size_max: bytes of fresh entries kept in memory, eight times as many while they are
            not applied; less means that a follower that lags a little is served from disk, with
            every record verified again.
    """

    data_file_size: int = DATA_FILE_SIZE
    index_file_size: int = INDEX_FILE_SIZE
    first_position: int = 0
    first_index: Index = FIRST_INDEX
    upgrade_index: Index = FIRST_INDEX
    fill_crc: bool = True
    prewrite_zeros: bool = False
    repairable: bool = False
    refilled: bool = False
    forgets: bool = False
    cache_size_max: int = CACHE_SIZE_MAX

    def validate(self) -> None:
        """Raises StoreConfigError."""
        smallest = HEADER_SIZE + BLANK_SIZE
        if self.data_file_size < smallest:
            raise StoreConfigError(
                f"data_file_size is {self.data_file_size} and must be {smallest} at least"
            )
        if self.index_file_size < SLOT.size or self.index_file_size % SLOT.size:
            raise StoreConfigError(
                f"index_file_size is {self.index_file_size} and must be a multiple of {SLOT.size}"
            )
        if self.first_position < 0 or self.first_position % self.data_file_size:
            raise StoreConfigError(
                f"first_position is {self.first_position} and must be a multiple of "
                f"data_file_size, which is {self.data_file_size}"
            )

    @property
    def zero_below(self) -> int:
        """Records below this index may have two zero checksums."""
        return self.upgrade_index if self.fill_crc else ALL_ZERO_CRCS
