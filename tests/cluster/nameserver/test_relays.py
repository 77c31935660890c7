"""Which names, queues and addresses a route with relays has (cluster/nameserver/relays.py)."""

from __future__ import annotations

import itertools

import pytest

from cluster.nameserver.registry import Registry
from cluster.protocol.headers import RegisterBrokerRequest
from cluster.protocol.route import PERM_READ, PERM_WRITE, TopicRoute
from cluster.protocol.topics import Registration, TopicConfig

TOPICS = Registration(
    {
        name: TopicConfig(name, 8, queues, perm, order=name == "ordered")
        for name, queues, perm in (
            ("T", 4, 6),
            ("TBW102", 8, 7),
            ("ordered", 4, 6),
            ("read-only", 4, PERM_READ),
            ("%RETRY%g", 1, 6),
            ("%DLQ%g", 1, 6),
        )
    },
    1,
)


def register(
    registry: Registry,
    node: str,
    broker_id: int,
    term: int = 1,
    living: str | None = None,
    name: str = "b",
    topics: Registration = TOPICS,
    now: float = 0.0,
    serves: bool = True,
    serves_rest: bool = True,
    **more: str,
) -> None:
    request = RegisterBrokerRequest(
        name,
        f"{node}:1",
        "c",
        broker_id,
        term=term,
        relay_addr=f"{node}:2",
        node_id=node,
        serves_notify=serves or None,
        serves_rest=serves_rest or None,
        living_nodes=None if living is None else living.replace(" ", ","),
        **more,  # type: ignore[arg-type]
    )
    registry.register(request, topics, now)


def three(
    name: str = "b", topics: Registration = TOPICS, registry: Registry | None = None
) -> Registry:
    registry = registry or Registry()
    register(registry, "n0", 0, living="n1 n2", name=name, topics=topics)
    register(registry, "n1", 2, name=name, topics=topics)
    register(registry, "n2", 3, name=name, topics=topics)
    return registry


def routed(registry: Registry, topic: str = "T", order: str | None = None) -> TopicRoute:
    route = registry.route(topic, 0.0, order, stock=True, relays=True)
    assert route is not None
    return route


def id_0(registry: Registry, topic: str = "T") -> dict[str, str | None]:
    return {broker.broker_name: broker.leader for broker in routed(registry, topic).brokers}


def test_a_living_follower_is_the_relay() -> None:
    assert id_0(three()) == {"b": "n0:1", "~1@b": "n1:2"}
    queues = {data.broker_name: data for data in routed(three()).queues}
    assert (queues["b"].write_queue_count, queues["~1@b"].write_queue_count) == (4, 1)
    assert queues["~1@b"].perm == PERM_WRITE
    assert [queue.broker_name for queue in routed(three()).read_queues("T")] == ["b"] * 8


def test_a_producer_that_creates_its_topic_takes_the_queues_of_each_name() -> None:
    """It takes the lesser of its own number and the *readable* queues; the inherit bit stays."""
    real, relay = routed(three(), "TBW102").queues
    assert (real.read_queue_count, real.write_queue_count, real.perm) == (8, 8, 7)
    assert (relay.read_queue_count, relay.write_queue_count, relay.perm) == (1, 1, 3)


def test_a_follower_that_the_leader_does_not_hear_is_no_relay() -> None:
    """n1's lease lasts on; the leader told that it is gone."""
    registry = three()
    register(registry, "n0", 0, living="n2")
    assert id_0(registry)["~1@b"] == "n2:2"
    register(registry, "n0", 0, living="")
    assert id_0(registry)["~1@b"] == "n0:2", "nobody but the leader lives; the name stays"
    register(registry, "n0", 0, living="n1 n2")
    assert id_0(registry)["~1@b"] == "n1:2"


def test_after_an_election_nothing_leads_to_the_dead_leader() -> None:
    registry = three()
    register(registry, "n2", 3, term=2, leader_addr="n1:1")
    assert id_0(registry) == {"b": "n1:1", "~1@b": "n2:2"}, "by a follower's word"
    register(registry, "n1", 0, term=2, living="n2")
    assert id_0(registry) == {"b": "n1:1", "~1@b": "n2:2"}
    register(registry, "n0", 1, term=2, leader_addr="n1:1")
    assert id_0(registry)["~1@b"] == "n2:2", "n0 is back, and the leader has not told that yet"


def test_a_leader_is_no_relay_of_itself_before_its_followers_have_registered() -> None:
    """A client that looks in that moment has this route for 30 s: the leader may die meanwhile."""
    registry = three()
    register(registry, "n1", 0, term=2, living="n0 n2")
    assert id_0(registry) == {"b": "n1:1", "~1@b": "n2:2"}, "not n0, which led and is dead"
    register(registry, "n1", 0, term=2, living="n0")
    assert id_0(registry)["~1@b"] == "n1:2", "n2 is not heard, and n0 is most likely dead"
    register(registry, "n0", 2, term=2, leader_addr="n1:1")
    assert id_0(registry)["~1@b"] == "n0:2"


def test_until_somebody_leads_the_old_addresses_stay() -> None:
    registry = three()
    before = id_0(registry)
    register(registry, "n1", 2)
    registry.expire(1.0)
    assert id_0(registry) == before


@pytest.mark.parametrize("topic", ["ordered", "read-only", "%RETRY%g", "%DLQ%g"])
def test_topics_without_relays(topic: str) -> None:
    assert list(id_0(three(), topic)) == ["b"]


def test_a_topic_with_an_order_configuration_has_none() -> None:
    assert [one.broker_name for one in routed(three(), order="b:4").brokers] == ["b"]


def test_our_own_clients_see_none_and_neither_does_a_server_without_the_setting() -> None:
    for stock, relays in ((False, True), (True, False)):
        route = three().route("T", 0.0, stock=stock, relays=relays)
        assert route is not None
        assert [one.broker_name for one in route.brokers] == ["b"]


def test_one_name_without_a_relay_keeps_them_out_of_the_topic() -> None:
    """Else a selector's queue would depend on which of the names has one."""
    registry = three("a")
    registry.register(RegisterBrokerRequest("b", "n9:1", "c", 0, term=1), TOPICS, 0.0)
    assert list(id_0(registry)) == ["a", "b"]


def test_one_node_without_a_relay_keeps_them_out_whoever_leads() -> None:
    """Else they would come and go with the leader, and a selector's queues with them."""
    registry = three()
    request = RegisterBrokerRequest("b", "n3:1", "c", 4, term=1, node_id="n3")
    registry.register(request, TOPICS, 0.0)
    assert list(id_0(registry)) == ["b"]
    register(registry, "n1", 0, term=2, living="n2 n3")
    assert list(id_0(registry)) == ["b"]


def test_a_broker_name_that_sorts_behind_relays_keeps_them_out() -> None:
    assert list(id_0(three("~z"))) == ["~z"]


def test_two_names_have_their_doors_on_as_many_nodes_as_there_are() -> None:
    registry = three("b", registry=three("a"))
    register(registry, "n1", 0, term=2, living="n0 n2", name="b")
    register(registry, "n0", 1, term=2, name="b")
    register(registry, "n2", 3, term=2, name="b")
    assert id_0(registry) == {"a": "n0:1", "b": "n1:1", "~1@a": "n2:2", "~1@b": "n0:2"}


def test_one_address_in_front_of_all_nodes() -> None:
    registry = Registry()
    register(registry, "n0", 0, living="n1", advertised_relay="lb:9")
    register(registry, "n1", 2, advertised_relay="lb:9")
    assert [dict(one.addresses) for one in routed(registry).brokers] == [{0: "lb:9"}]
    register(registry, "n1", 0, term=2, living="", advertised_relay="lb:9")
    assert id_0(registry) == {"b": "lb:9"}
    assert dict(registry.brokers(0.0, stock=True)[0].addresses) == {0: "lb:9"}
    assert registry.brokers(0.0)[0].leader == "n1:1", "our own clients know the nodes"


def test_a_selector_reaches_the_same_queue_whatever_nodes_come_and_go() -> None:
    """It takes hash modulo the number of queues, of the list sorted as the client sorts it."""
    few = Registration({"T": TopicConfig("T", 3, 3)}, 1)
    living = ["n0 n1 n2", "n0 n1", "n1", "n2", ""]
    wanted = [("a", number) for number in range(4)] + [("b", number) for number in range(3)]
    wanted += [("~1@a", 0), ("~1@b", 0)]
    for leaders in itertools.product(("n0", "n1", "n2"), repeat=2):
        for heard in itertools.product(living, repeat=2):
            registry = three("b", few, three("a"))
            for name, leader, alive in zip("ab", leaders, heard, strict=True):
                topics = TOPICS if name == "a" else few
                register(registry, leader, 0, term=2, living=alive, name=name, topics=topics)
            chosen = routed(registry).write_queues("T")
            assert [(queue.broker_name, queue.queue_id) for queue in chosen] == wanted


def test_the_first_node_that_registers_brings_the_relay_with_the_topic() -> None:
    """So a name server that has just started shows no other list of queues than the rest."""
    alone = Registry()
    register(alone, "n0", 0)
    assert id_0(alone) == {"b": "n0:1", "~1@b": "n0:2"}
    follower = Registry()
    register(follower, "n1", 2, leader_addr="n0:1")
    assert id_0(follower) == {"b": "n0:1", "~1@b": "n1:2"}
    register(follower, "n2", 3, term=2, leader_addr="n1:1")
    assert id_0(follower) == {"b": "n1:1", "~1@b": "n2:2"}
