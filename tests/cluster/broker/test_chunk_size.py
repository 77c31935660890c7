"""How many entries a chunk may have whose messages may be the first ones of topics."""

from __future__ import annotations

from cluster.broker.kernel.apply.chunk_size import (
    MAYBE_NEW_ENTRIES_MAX,
    SLOW_ENTRIES_MAX,
    NewTopics,
)


def test_topics_that_stay_empty_do_not_keep_chunks_small() -> None:
    new = NewTopics()
    assert new.slow_entries_max(topics=20, known=1) == MAYBE_NEW_ENTRIES_MAX
    new.took(topics=20, known=5)
    assert new.slow_entries_max(topics=20, known=5) == MAYBE_NEW_ENTRIES_MAX
    new.took(topics=20, known=5)
    assert new.slow_entries_max(topics=20, known=5) == SLOW_ENTRIES_MAX
    assert new.slow_entries_max(topics=40, known=5) == MAYBE_NEW_ENTRIES_MAX
