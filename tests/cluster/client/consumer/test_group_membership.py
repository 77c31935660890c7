"""The shares of a group's members: contiguous, equal, and the same for each member."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.client.consumer.group_membership import assign
from cluster.protocol.json_body import MessageQueue

pytestmark = pytest.mark.virtual_time

random_search = settings(deadline=None, max_examples=60)  # other tests share the machine


@random_search
@given(st.integers(0, 40), st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=9))
def test_every_queue_has_one_reader_and_shares_are_equal(count: int, members: set[str]) -> None:
    queues = [MessageQueue("T", "b", number) for number in range(count)]
    shares = [assign(reversed(queues), sorted(members), member) for member in members]
    assert sorted(queue for share in shares for queue in share) == queues
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    for share in shares:
        assert share == queues[queues.index(share[0]) :][: len(share)] if share else True


def test_assignment_of_the_specification() -> None:
    queues = [MessageQueue("T", "b", number) for number in range(7)]
    assert [queue.queue_id for queue in assign(queues, ["b", "c", "a"], "a")] == [0, 1, 2]
    assert [queue.queue_id for queue in assign(queues, ["b", "c", "a"], "c")] == [5, 6]
    assert assign(queues, ["b"], "stranger") == []
