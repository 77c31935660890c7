"""The offset that a group stores, compared with a list of all offsets handed out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.client.consumer.offset_stores import AckTracker

pytestmark = pytest.mark.virtual_time

random_search = settings(deadline=None, max_examples=60)  # other tests share the machine


@random_search
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_the_position_is_the_first_open_message(steps: list[int], data: st.DataObject) -> None:
    """Against the obvious version: a list of all offsets handed out."""
    acks, offset = AckTracker(3), 3
    handed: list[int] = []
    done: set[int] = set()
    for step in steps:
        offset += step - 1
        acks.skipped_to(offset) if data.draw(st.booleans()) else None
        acks.handed_out(offset)
        handed.append(offset)
        offset += 1
        for one in data.draw(st.lists(st.sampled_from(handed), max_size=3)):
            acks.acked(one)
            done.add(one)
        still_open = [one for one in handed if one not in done]
        assert acks.position == (still_open[0] if still_open else offset)
