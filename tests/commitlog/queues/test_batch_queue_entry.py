"""Entries of batch consume queues (docs/spec/store.md 3.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.queues.batch_queue_entry import (
    ENTRY_SIZE,
    BatchQueueEntry,
    pack_batch_entry,
    unpack_batch_entries,
    unpack_batch_entry,
)

from ..strategies import int32, int64, random_search

entries = st.builds(
    BatchQueueEntry, int64, int32, int64, int64, int64, st.integers(-32_768, 32_767), int32, int32
)


@random_search
@given(st.lists(entries, max_size=4))
def test_round_trip(some: list[BatchQueueEntry]) -> None:
    data = b"".join(map(pack_batch_entry, some))
    assert list(unpack_batch_entries(data)) == some
    assert [unpack_batch_entry(data, at) for at in range(0, len(data), ENTRY_SIZE)] == some


@pytest.mark.parametrize(
    ("entry", "written"),
    [
        (BatchQueueEntry(0, 1, 0, 0, 0, 1), True),
        (BatchQueueEntry(-1, 1, 0, 0, 0, 1), False),
        (BatchQueueEntry(0, 0, 0, 0, 0, 1), False),
        (BatchQueueEntry(0, 1, 0, 0, -1, 1), False),
        (BatchQueueEntry(0, 1, 0, 0, 0, 0), False),
    ],
)
def test_what_counts_as_written(entry: BatchQueueEntry, written: bool) -> None:
    assert entry.is_written is written
