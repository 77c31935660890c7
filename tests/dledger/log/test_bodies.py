"""`LogStore.bodies`: the same entries as `entries` gives, without headers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dledger.core.types import Index, Term
from dledger.log.port import LogStore
from dledger.testing.memory import MemoryLog

from .crash_files import CrashDisk
from .stores import IDENTITY, make

TERMS = (1, 1, 2, 2, 3)


def in_files(cache_size_max: int) -> LogStore:
    identity = replace(IDENTITY, data_file_size=1024)
    return make(CrashDisk(), identity=identity, cache_size_max=cache_size_max).log


@pytest.mark.parametrize(
    "log",
    [MemoryLog(file_size=1024), in_files(1 << 20), in_files(0)],
    ids=["memory", "cached", "cold"],
)
def test_bodies_are_those_of_the_entries_in_every_range(log: LogStore) -> None:
    """Two entries a file, so that most ranges cross files and the blanks between them."""
    for number, term in enumerate(TERMS):
        log.append([bytes([65 + number]) * 400], Term(term))
    for first in range(5):
        for last in range(first, 5):
            found = list(log.bodies(Index(first), Index(last)))
            assert [(index, term) for index, term, _ in found] == [
                (index, TERMS[index]) for index in range(first, last + 1)
            ]
            assert [body for _, _, body in found] == [
                entry.body for entry in log.entries(Index(first), Index(last))
            ]
    assert not list(log.bodies(Index(3), Index(2)))
    with pytest.raises(IndexError):
        list(log.bodies(Index(0), Index(5)))
