"""Fewer queues never hide a message, a creation changes nothing; equal however it is batched."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cluster.core.apply import AppliedState
from cluster.core.internal_topics import TopicsChanged
from cluster.core.topics import TopicConfig
from dledger.core.types import Index

from .test_apply import change, entries, message, state


def applied(*bodies: bytes) -> AppliedState:
    found = state()
    found.apply(entries(list(bodies)), Index(0))
    return found


def queues(found: AppliedState) -> tuple[int, int]:
    row = found.topics.get("T")
    assert row is not None
    return row.read_queues, row.write_queues


def put(read: int, write: int, gone: dict[int, int] | None = None) -> bytes:
    row = TopicConfig("T", read, write)
    return change(TopicsChanged(put=(row,), gone={"T": gone} if gone else {}))


def create(number: int) -> bytes:
    return change(TopicsChanged(create=(TopicConfig("T", number, number),)))


def test_creation_of_a_topic_that_exists_changes_nothing() -> None:
    found = applied(create(8), create(4), create(12))
    assert queues(found) == (8, 8)
    assert found.topics.version.counter == 1


def test_queues_with_messages_stay_readable() -> None:
    assert queues(applied(create(8), message(queue=5), put(4, 4))) == (6, 4)


def test_empty_queues_are_let_go() -> None:
    assert queues(applied(create(8), message(queue=3), put(4, 4))) == (4, 4)


def test_queues_that_retention_emptied_are_let_go() -> None:
    sent = [message(queue=5, offset=0), message(queue=5, offset=1)]
    assert queues(applied(create(8), *sent, put(4, 4, {5: 2}))) == (4, 4)


def test_a_message_after_the_leader_looked_keeps_its_queue_readable() -> None:
    sent = [message(queue=5, offset=0), message(queue=5, offset=1)]
    assert queues(applied(create(8), *sent, put(4, 4, {5: 1}))) == (6, 4)


def test_a_message_that_was_on_its_way_makes_its_queue_readable_again() -> None:
    found = applied(create(8), put(4, 4), message(queue=6))
    assert queues(found) == (7, 4)


def test_such_a_message_is_announced() -> None:
    found = state()
    changes = found.apply(entries([create(2), message(queue=6)]), Index(0))
    assert changes[-1] == TopicsChanged(put=(TopicConfig("T", 7, 2),))


def test_a_topic_made_anew_after_its_deletion_has_the_queues_it_asks_for() -> None:
    deleted = change(TopicsChanged(delete=("T",)))
    assert queues(applied(create(8), message(queue=5), deleted, create(4))) == (4, 4)


def test_built_in_topics_keep_their_queues() -> None:
    found = applied(message("SELF_TEST_TOPIC", queue=3))
    row = found.topics.get("SELF_TEST_TOPIC")
    assert row is not None
    assert row.read_queues == 1


STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 6)),
    st.tuples(st.just("put"), st.integers(1, 6)),
    st.tuples(st.just("create"), st.integers(1, 6)),
    st.tuples(st.just("gone"), st.integers(1, 6)),
    st.tuples(st.just("delete"), st.just(0)),
)


@given(st.lists(STEPS, max_size=30), st.lists(st.integers(1, 7), max_size=30))
def test_batching_does_not_change_the_topics(steps: list[tuple[str, int]], cuts: list[int]) -> None:
    ends: dict[int, int] = {}
    bodies = []
    for kind, number in steps:
        if kind == "send":
            bodies.append(message(queue=number, offset=ends.get(number, 0)))
            ends[number] = ends.get(number, 0) + 1
        elif kind == "delete":
            bodies.append(change(TopicsChanged(delete=("T",))))
        elif kind == "create":
            bodies.append(create(number))
        else:
            bodies.append(put(number, number, dict(ends) if kind == "gone" else None))
    one, many = state(), state()
    for index, body in enumerate(bodies):
        one.apply(entries([body], index), Index(index))
    at = 0
    for size in [*cuts, len(bodies)]:
        if at < len(bodies):
            many.apply(entries(bodies[at : at + size], at), Index(at))
            at += len(bodies[at : at + size])
    assert json.loads(one.to_checkpoint()) == json.loads(many.to_checkpoint())
