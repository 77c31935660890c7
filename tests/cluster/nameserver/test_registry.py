"""Leases, terms and the address under id 0 (docs/spec/remoting.md 4.7, 8)."""

from __future__ import annotations

import pytest

from cluster.errors import QueueFull
from cluster.nameserver.registry import (
    FORGET_SECONDS,
    LEASE_SECONDS,
    MEMBERS_COUNT_MAX,
    Registry,
    StaleRegistration,
)
from cluster.protocol.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from cluster.protocol.topics import Registration, TopicConfig

TOPICS = Registration({"T": TopicConfig("T", 4, 4)}, 1)


def register(
    registry: Registry,
    address: str,
    broker_id: int,
    term: int,
    now: float = 0.0,
    topics: Registration = TOPICS,
    leader: str | None = None,
) -> str:
    request = RegisterBrokerRequest("b", address, "c", broker_id, term=term, leader_addr=leader)
    return registry.register(request, topics, now)


def addresses(registry: Registry, now: float = 0.0) -> dict[int, str]:
    route = registry.route("T", now)
    assert route is not None
    return dict(route.brokers[0].addresses)


def test_a_leader_and_its_followers() -> None:
    registry = Registry()
    assert registry.is_empty
    assert register(registry, "n0:1", 0, 1) == "n0:1"
    assert register(registry, "n1:1", 2, 1) == "n0:1"
    register(registry, "n2:1", 3, 1)
    assert addresses(registry) == {0: "n0:1", 2: "n1:1", 3: "n2:1"}
    route = registry.route("T", 0.0, "b:4")
    assert route is not None
    assert (route.order_topic_conf, route.queues[0].write_queue_count) == ("b:4", 4)
    assert registry.route("unknown", 0.0) is None
    assert registry.topics() == ["T"]
    assert [broker.broker_name for broker in registry.brokers(0.0)] == ["b"]


def test_a_stale_leader_never_wins() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    register(registry, "n1:1", 0, 2)
    with pytest.raises(StaleRegistration, match="leads it in term 2"):
        register(registry, "n0:1", 0, 1)
    assert addresses(registry)[0] == "n1:1"
    assert "n0:1" in addresses(registry).values(), "it is still there as a follower"


def test_one_leader_per_term() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 5)
    with pytest.raises(StaleRegistration):
        register(registry, "n1:1", 0, 5)
    assert register(registry, "n0:1", 0, 5) == "n0:1", "its own lease may be renewed"


def test_a_leader_without_a_term_never_beats_one_with() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 0)
    with pytest.raises(StaleRegistration):
        register(registry, "old:1", 0, -1)
    stock = Registry()
    register(stock, "a:1", 0, -1)
    register(stock, "b:1", 0, -1)
    assert addresses(stock)[0] == "b:1", "among stock brokers the last one wins"


def test_followers_bring_news_of_the_leader() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    register(registry, "n1:1", 2, 3, leader="n2:1")
    assert addresses(registry)[0] == "n2:1"
    register(registry, "n0:1", 1, 2, leader="n0:1")
    assert addresses(registry)[0] == "n2:1", "older news"


def test_id_0_stays_during_an_election() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1, now=0.0)
    register(registry, "n1:1", 2, 1, now=0.0)
    later = LEASE_SECONDS + 1
    register(registry, "n1:1", 2, 1, now=later)
    registry.expire(later)
    assert addresses(registry, later) == {0: "n0:1", 2: "n1:1"}


def test_silent_followers_leave_routes() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    register(registry, "n1:1", 2, 1)
    later = LEASE_SECONDS + 1
    register(registry, "n0:1", 0, 1, now=later)
    assert addresses(registry, later) == {0: "n0:1"}
    registry.expire(later)
    assert addresses(registry, 0.0) == {0: "n0:1"}


def test_the_broker_chooses_its_lease() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    request = RegisterBrokerRequest("b", "n1:1", "c", 2, heartbeat_timeout_millis=10_000, term=1)
    registry.register(request, TOPICS, 0.0)
    assert addresses(registry, 9.9) == {0: "n0:1", 2: "n1:1"}
    assert addresses(registry, 10.1) == {0: "n0:1"}


def test_long_silence_forgets_a_broker_name() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    registry.expire(FORGET_SECONDS - 1)
    assert registry.route("T", FORGET_SECONDS) is not None
    registry.expire(FORGET_SECONDS)
    assert registry.is_empty


def test_a_late_unregister_removes_nothing_newer() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    register(registry, "n1:1", 2, 1)
    register(registry, "n1:1", 0, 2)
    registry.unregister(UnregisterBrokerRequest("b", "n1:1", "c", 2, term=1), 0.0)
    assert addresses(registry) == {0: "n1:1", 1: "n0:1"}
    registry.unregister(UnregisterBrokerRequest("b", "n1:1", "c", 0, term=2), 0.0)
    assert addresses(registry)[0] == "n1:1", "others live, so id 0 stays until a new leader"
    registry.unregister(UnregisterBrokerRequest("b", "n0:1", "c", 1, term=1), 0.0)
    assert registry.is_empty, "the last one takes the name with it"


def test_equal_broker_ids_do_not_hide_each_other() -> None:
    registry = Registry()
    register(registry, "n0:1", 0, 1)
    register(registry, "n1:1", 1, 1)
    register(registry, "n2:1", 1, 1)
    assert addresses(registry) == {0: "n0:1", 1: "n1:1", 2: "n2:1"}


def test_older_topics_never_replace_newer_ones() -> None:
    registry = Registry()
    newer = Registration({"T": TopicConfig("T"), "U": TopicConfig("U")}, 7)
    register(registry, "n0:1", 0, 1, topics=newer)
    register(registry, "n1:1", 2, 1, topics=TOPICS)
    assert registry.topics() == ["T", "U"]
    register(registry, "n1:1", 2, 1, topics=Registration({"V": TopicConfig("V")}, 8))
    assert registry.topics() == ["V"]


def test_addresses_per_name_are_bounded() -> None:
    registry = Registry()
    for number in range(MEMBERS_COUNT_MAX):
        register(registry, f"n{number}:1", number, 1)
    with pytest.raises(QueueFull, match="addresses"):
        register(registry, "one-more:1", 99, 1)
