"""Members that disagree and ids that are shared: when it is said, how often, when it is over."""

from __future__ import annotations

from cluster.core.group_watch import WARN_SECONDS, WARNINGS_MAX, GroupWatch
from cluster.protocol.heartbeat import ConsumerData, Subscription


def wants(expression: str, topic: str = "T", version: int = 1, group: str = "G") -> ConsumerData:
    return ConsumerData(group, (Subscription.of_tags(topic, expression, version),))


def test_the_same_wish_is_no_disagreement() -> None:
    watch = GroupWatch()
    for number in range(3):
        watch.subscribed(f"c{number}", wants("a", version=number), 0.0)
    assert watch.disagreeing == []
    assert watch.take_warnings() == []


def test_a_disagreement_is_told_at_once_and_then_now_and_then() -> None:
    watch = GroupWatch()
    watch.subscribed("c1", wants("a"), 0.0)
    watch.subscribed("c2", wants("b"), 1.0)
    assert watch.disagreeing == ["G"]
    (told,) = watch.take_warnings()
    assert "disagree about T: c2 wants 'b', c1 'a'" in told
    watch.subscribed("c1", wants("a"), 30.0)
    assert watch.take_warnings() == []
    watch.subscribed("c1", wants("a"), 1.0 + WARN_SECONDS)
    assert len(watch.take_warnings()) == 1
    watch.subscribed("c1", wants("b"), 70.0)
    assert watch.disagreeing == []
    watch.subscribed("c1", wants("c"), 71.0)
    assert len(watch.take_warnings()) == 1, "a new one, told at once"


def test_other_topics_are_a_disagreement_too() -> None:
    watch = GroupWatch()
    watch.subscribed("c1", wants("*"), 0.0)
    watch.subscribed("c2", wants("*", topic="U"), 0.0)
    (told,) = watch.take_warnings()
    assert "about T: c2 wants nothing of it, c1 '*'" in told


def test_it_is_over_when_the_other_member_leaves() -> None:
    watch = GroupWatch()
    for client, expression in (("c1", "a"), ("c2", "b"), ("c3", "b")):
        watch.subscribed(client, wants(expression), 0.0)
    watch.left("c3", "G")
    assert watch.disagreeing == ["G"]
    watch.left("c1", "G")
    assert watch.disagreeing == []
    watch.left("c2", "G")
    watch.left("c2", "G")
    watch.left("c2", "never there")
    assert watch._groups == {}


def test_warnings_are_bounded_and_expressions_cut() -> None:
    watch = GroupWatch()
    for number in range(2 * WARNINGS_MAX):
        for client in ("c1", "c2"):
            watch.subscribed(client, wants(client + "x" * 10_000, group=f"G{number}"), 0.0)
    told = watch.take_warnings()
    assert len(told) == WARNINGS_MAX
    assert max(map(len, told)) < 500


def test_a_client_that_reconnects_shares_its_id_with_nobody() -> None:
    watch = GroupWatch()
    for now in (0.0, 30.0):
        watch.heard("c", "h:1", "", "old", now)
    for now in (40.0, 70.0, 100.0):  # the old connection is not closed yet
        watch.heard("c", "h:2", "", "new", now)
    assert watch.shared == []


def test_one_client_heard_directly_and_through_followers_is_one() -> None:
    watch = GroupWatch()
    for now in range(0, 120, 30):
        watch.heard("c", "h:1", "", "direct", now)
        watch.heard("c", "h:2", "n1", "through n1", now + 1)
        watch.heard("c", "h:3", "n2", "through n2", now + 2)
    assert watch.shared == []


def test_two_clients_with_one_id() -> None:
    watch = GroupWatch()
    for now in (0.0, 30.0, 60.0):
        watch.heard("c", "h:1", "", "one", now)
        watch.heard("c", "k:2", "", "two", now + 5)
    assert watch.shared == ["c"]
    (told,) = watch.take_warnings()
    assert "client id c is used by several clients at once, h:1 and k:2" in told
    watch.heard("c", "h:1", "", "one", 60.0 + WARN_SECONDS)
    watch.heard("c", "k:2", "", "two", 65.0 + WARN_SECONDS)
    assert watch.take_warnings() == [], "it is said once, while it lasts"
    watch.closed("two")
    assert watch.shared == []
    watch.closed("one")
    watch.closed("never there")
    assert (watch._heard, watch._ids, watch._warned) == ({}, {}, set())
