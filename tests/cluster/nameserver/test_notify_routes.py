"""Which names, queues and addresses retry topics have (cluster/nameserver/notify_routes.py)."""

from __future__ import annotations

from functools import partial

import pytest

from cluster.nameserver.notify_routes import QUEUES_MAX, QUEUES_MIN
from cluster.nameserver.registry import Registry
from cluster.protocol.codes import understands_notify_routes
from cluster.protocol.route import PERM_READ, TopicRoute
from cluster.protocol.topics import Registration, TopicConfig

from . import test_relays

RETRY = "%RETRY%g"
TOPICS = Registration(
    {
        **test_relays.TOPICS.topics,
        RETRY: TopicConfig(RETRY, 1, 1),
        "%RETRY%wide": TopicConfig("%RETRY%wide", 3, 3),
    },
    1,
)
register = partial(test_relays.register, topics=TOPICS)


def three(name: str = "b", registry: Registry | None = None) -> Registry:
    registry = test_relays.three(name, TOPICS, registry)
    register(registry, "n0", 0, living="n1 n2", name=name, notified_groups="")
    return registry


def routed(registry: Registry, topic: str = RETRY, notify: bool = True) -> TopicRoute:
    route = registry.route(topic, 0.0, stock=True, relays=True, notify=notify)
    assert route is not None
    return route


def empty_queues(registry: Registry, topic: str = RETRY) -> dict[str, int]:
    queues = routed(registry, topic).queues
    return {one.broker_name: one.read_queue_count for one in queues if "~" in one.broker_name}


def addresses(registry: Registry) -> dict[str, set[str]]:
    return {one.broker_name: set(one.addresses.values()) for one in routed(registry).brokers}


def shares(queues: int, members: int) -> list[range]:
    """AllocateMessageQueueAveragely: contiguous ranges, the first ones longer."""
    size, longer = divmod(queues, members)
    sizes = [size + (number < longer) for number in range(members)]
    return [range(sum(sizes[:number]), sum(sizes[: number + 1])) for number in range(members)]


def test_a_retry_topic_has_a_readable_name_of_followers_without_id_0() -> None:
    route = routed(three())
    assert addresses(three()) == {"b": {"n0:1", "n1:1", "n2:1"}, "~2@b": {"n1:2", "n2:2"}}
    (name, *others) = [one for one in route.brokers if one.broker_name == "~2@b"]
    assert name.leader is None
    assert others == [name] * 14, "asked for members fifteen times of sixteen"
    (queues,) = [one for one in route.queues if one.broker_name == "~2@b"]
    assert (queues.perm, queues.read_queue_count, queues.write_queue_count) == (
        PERM_READ,
        QUEUES_MIN,
        0,
    )
    assert {queue.broker_name for queue in route.write_queues(RETRY)} == {"b"}


@pytest.mark.parametrize("topic", ["T", "%DLQ%g", "ordered"])
def test_other_topics_have_none(topic: str) -> None:
    assert routed(three(), topic) == routed(three(), topic, notify=False)


def test_none_without_a_follower_that_passes_on_or_when_it_is_off() -> None:
    alone = Registry()
    register(alone, "n0", 0, notified_groups="")
    dead = Registry()
    register(dead, "n0", 0, living="", notified_groups="")
    register(dead, "n1", 2)
    for registry in (alone, dead):
        assert [one.broker_name for one in routed(registry).brokers] == ["b"]
    assert [one.broker_name for one in routed(three(), notify=False).brokers] == ["b"]
    ours = three().route(RETRY, 0.0, notify=True)
    assert ours is not None
    assert [one.broker_name for one in ours.brokers] == ["b"]


@pytest.mark.parametrize(("group", "real", "most"), [("g", 1, 40), ("wide", 3, 18)])
def test_every_member_has_a_queue_behind_the_real_ones(group: str, real: int, most: int) -> None:
    for members in range(1, most):
        registry = three()
        register(registry, "n0", 0, living="n1 n2", notified_groups=f"f:9,{group}:{members}")
        count = empty_queues(registry, f"%RETRY%{group}")["~2@b"]
        found = shares(real + count, members)
        assert all(share.stop > real and len(share) for share in found), members


def test_with_several_broker_names_too() -> None:
    for members in range(1, 8):
        registry = three("b", registry=three("a"))
        for name in "ab":
            told = f"g:{members}"
            register(registry, "n0", 0, living="n1 n2", name=name, notified_groups=told)
        found = empty_queues(registry)
        assert list(found) == ["~2@a", "~2@b"]
        assert all(share.stop > 2 for share in shares(2 + sum(found.values()), members)), members


def test_a_group_that_cannot_use_it_has_none_and_a_large_one_is_bounded() -> None:
    registry = three()
    register(registry, "n0", 0, living="n1 n2", notified_groups="g:0")
    assert empty_queues(registry) == {}
    register(registry, "n0", 0, living="n1 n2", notified_groups="g:5000")
    assert empty_queues(registry) == {"~2@b": QUEUES_MAX}
    register(registry, "n0", 0, living="n1 n2", notified_groups="nonsense,,g:x")
    assert empty_queues(registry) == {"~2@b": QUEUES_MIN}


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (("g:0", ""), {}),
        (("g:0", "g:4"), {}),
        (("", "g:0"), {}),
        (("*:0", "g:2"), {}),
        (("g:2", ""), {"~2@a": 4, "~2@b": 4}),
        (("g:32", "g:2"), {"~2@a": 32, "~2@b": 32}),
    ],
)
def test_of_leaders_that_disagree_one_that_wants_none_decides(
    told: tuple[str, str], wanted: dict[str, int]
) -> None:
    """It sees the locks, or a member of another language, of which the others do not know."""
    registry = three("b", registry=three("a"))
    for name, groups in zip("ab", told, strict=True):
        register(registry, "n0", 0, living="n1 n2", name=name, notified_groups=groups)
    assert empty_queues(registry) == wanted


def test_a_leader_that_told_no_members_has_none() -> None:
    """Which groups have locks or other clients is not known then."""
    registry = three()
    register(registry, "n0", 0, living="n1 n2")
    assert empty_queues(registry) == {}
    told = three("b", registry=three("a"))
    register(told, "n0", 0, living="n1 n2", name="a")
    assert empty_queues(told) == {}, "of one broker name"


@pytest.mark.parametrize("old", ["n0", "n1", "n2"])
def test_a_node_of_an_earlier_release_keeps_it_out(old: str) -> None:
    """Its relay port passes pulls and commits on to the real retry queue."""
    registry = three()
    for node, broker_id in (("n0", 0), ("n1", 2), ("n2", 3)):
        more = {} if broker_id else {"living": "n1 n2", "notified_groups": ""}
        register(registry, node, broker_id, serves=node != old, **more)
    assert empty_queues(registry) == {}
    assert [one.broker_name for one in routed(registry, "T").brokers] == ["b", "~1@b"]
    register(registry, old, 3, serves=True)
    if old != "n0":
        assert empty_queues(registry) == {"~2@b": QUEUES_MIN}


def test_a_dead_leader_keeps_it_and_an_unknown_one_has_none() -> None:
    registry = three()
    registry.expire(100.0)
    for node, broker_id in (("n1", 2), ("n2", 3)):
        register(registry, node, broker_id, now=100.0)
    registry.expire(130.0)
    route = registry.route(RETRY, 130.0, stock=True, notify=True)
    assert route is not None
    assert "~2@b" in {one.broker_name for one in route.brokers}, "it is known as it was"
    register(registry, "n1", 2, 2, now=130.0, leader_addr="n9:1")
    route = registry.route(RETRY, 130.0, stock=True, notify=True)
    assert route is not None
    assert {one.broker_name for one in route.brokers} == {"b"}


def test_groups_that_found_no_room_have_none() -> None:
    registry = three()
    register(registry, "n0", 0, living="n1 n2", notified_groups="*:0,g:1")
    assert empty_queues(registry) == {"~2@b": QUEUES_MIN}
    assert empty_queues(registry, "%RETRY%wide") == {}


@pytest.mark.parametrize("count", ["²", "٣", "9" * 5000, "-1", "1e3", ""])
def test_a_count_that_is_no_short_number_is_passed_over(count: str) -> None:
    """It raised when id 0 was changed already."""
    registry = three()
    register(registry, "n0", 0, living="n1 n2", notified_groups=f"g:{count},wide:0")
    assert empty_queues(registry) == {"~2@b": QUEUES_MIN}
    assert empty_queues(registry, "%RETRY%wide") == {}


def test_after_an_election_the_other_follower_is_left() -> None:
    registry = three()
    register(registry, "n1", 0, 2, living="n2", notified_groups="")
    register(registry, "n2", 3, 2)
    found = addresses(registry)
    assert found["~2@b"] == {"n2:2"}
    assert found["b"] >= {"n1:1", "n2:1"}


def test_groups_begin_at_different_followers() -> None:
    first = set()
    for number in range(20):
        topic = f"%RETRY%g{number}"
        registry = Registry()
        for node, broker_id in (("n0", 0), ("n1", 2), ("n2", 3)):
            topics = Registration({topic: TopicConfig(topic, 1, 1)}, 1)
            more = {} if broker_id else {"living": "n1 n2", "notified_groups": ""}
            register(registry, node, broker_id, topics=topics, **more)
        brokers = routed(registry, topic).brokers
        first.add(next(one.addresses[1] for one in brokers if one.broker_name == "~2@b"))
    assert first == {"n1:2", "n2:2"}


def test_only_java_clients_that_can_use_it_see_it() -> None:
    assert understands_notify_routes("JAVA", 409)
    assert understands_notify_routes("JAVA", 479)
    for language, version in (("JAVA", 121), ("GO", 317), ("CPP", 63), ("PYTHON", 31001)):
        assert not understands_notify_routes(language, version)
    assert not understands_notify_routes("JAVA", 31001)
