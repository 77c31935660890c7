"""The public suite against the memory store and the file stores, on a virtual and a real disk."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from dledger.core.types import HardState
from dledger.durable.hard_state import HardStateFile
from dledger.log.port import HardStateStore, LogStore
from dledger.testing.conformance import HardStateConformance, LogStoreConformance
from dledger.testing.memory import MemoryHardState, MemoryLog
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, IDENTITY, make


class TestMemoryLog(LogStoreConformance):
    def make_log(self, file_size: int) -> LogStore:
        return MemoryLog(file_size=file_size)


class TestMemoryHardState(HardStateConformance):
    def make_hard_state(self, state: HardState) -> HardStateStore:
        return MemoryHardState(state)


class TestFileLog(LogStoreConformance):
    def make_log(self, file_size: int) -> LogStore:
        return make(CrashDisk(), identity=replace(IDENTITY, data_file_size=file_size)).log


class TestFileLogWithoutCache(LogStoreConformance):
    """Every read goes to the disk and is verified."""

    def make_log(self, file_size: int) -> LogStore:
        identity = replace(IDENTITY, data_file_size=file_size)
        return make(CrashDisk(), identity=identity, cache_size_max=0).log


class TestFileLogOnTheSystem(LogStoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.number = itertools.count()
        with contextlib.ExitStack() as self.open_logs:
            yield

    def make_log(self, file_size: int) -> LogStore:
        identity = replace(IDENTITY, data_file_size=file_size)
        log = make(OS_FILES, self.folder / str(next(self.number)), identity).log
        self.open_logs.callback(log.close)
        return log

    # Each needs dozens of logs and says nothing about the system's files that others do not say.
    test_no_flipped_bit_gets_in = None
    test_ranges_in_a_row_are_contiguous_and_make_an_equal_log = None
    test_entries_that_are_here_already_are_skipped = None
    test_after_a_truncation_the_log_is_as_if_it_had_never_been_longer = None


class TestHardStateFile(HardStateConformance):
    def make_hard_state(self, state: HardState) -> HardStateStore:
        disk = CrashDisk()
        return HardStateFile.create(disk, FOLDER, state, staging=FOLDER / "staging")
