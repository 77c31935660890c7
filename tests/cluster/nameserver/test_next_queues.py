"""A Go client's list of queues (next_queues.py), and its sends in virtual time."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from cluster.nameserver.registry import Registry
from cluster.protocol.rest_queues import rest_queue
from cluster.protocol.route import PERM_WRITE, TopicRoute
from cluster.protocol.topics import Registration, TopicConfig

from .go_world import GoWorld, go_list
from .test_relays import register, routed, three

COUNTS = (1, 2, 3, 4, 5, 8, 16)
ATTEMPTS = 4


def topic_of(count: int, name: str = "T") -> Registration:
    return Registration({name: TopicConfig(name, count, count, 6)}, 1)


def groups(names: str, count: int) -> Registry:
    registry = Registry()
    for name in names:
        three(name, topic_of(count), registry)
    return registry


def go_route(registry: Registry, topic: str = "T") -> TopicRoute:
    route = registry.route(topic, 0.0, stock=True, relays=True, tries_next=True)
    assert route is not None
    return route


def real_name(name: str) -> str:
    return name.rpartition("@")[2]


def nodes_in_turn(route: TopicRoute) -> list[str]:
    """The node of each queue of the list."""
    at = {broker.broker_name: str(broker.leader).partition(":")[0] for broker in route.brokers}
    return [at[name] for name, _ in go_list(route)]


def longest_run(nodes: list[str]) -> int:
    return max(len(list(same)) for _, same in groupby(nodes + nodes))


@pytest.mark.parametrize("tries_next", [False, True])
@pytest.mark.parametrize("serves_rest", [False, True])
def test_a_name_that_is_emptied_gets_no_message(tries_next: bool, serves_rest: bool) -> None:
    """None of its queues may be written to; consumers read what it has."""
    emptied = Registration({"T": TopicConfig("T", 4, 0, 6)}, 1)
    registry = three("c", emptied, three("b", topic_of(4)))
    if not serves_rest:
        register(registry, "n2", 3, name="b", topics=topic_of(4), serves_rest=False)
    route = registry.route("T", 0.0, stock=True, relays=True, tries_next=tries_next)
    assert route is not None
    written = {row.broker_name for row in route.queues if row.write_queue_count}
    assert {real_name(name) for name in written} == {"b"}
    assert len(written) == (3 if tries_next and serves_rest else 2), "b has its relays"
    assert [queue.broker_name for queue in route.read_queues("T")].count("c") == 4
    if tries_next:
        assert {real_name(name) for name, _ in go_list(route)} == {"b"}


@pytest.mark.parametrize("names", ["b", "bc"])
@pytest.mark.parametrize("count", COUNTS)
def test_each_queue_gets_the_same_share(names: str, count: int) -> None:
    route = go_route(groups(names, count))
    reached = Counter(
        (real_name(name), rest_queue(queue, count) if name.startswith("~") else queue)
        for name, queue in go_list(route)
    )
    assert set(reached) == {(name, number) for name in names for number in range(count)}
    assert len(set(reached.values())) == 1, reached
    assert route.read_queues("T") == routed(groups(names, count)).read_queues("T")


@pytest.mark.parametrize("names", ["b", "bc"])
@pytest.mark.parametrize("count", COUNTS)
def test_no_attempts_in_a_row_meet_one_node_only(names: str, count: int) -> None:
    """With more than four queues a relay's row is longer; the leader's never is."""
    nodes = nodes_in_turn(go_route(groups(names, count)))
    if count <= 4:
        assert longest_run(nodes) < ATTEMPTS
    led = ["n0" if node == "n0" else str(place) for place, node in enumerate(nodes)]
    assert longest_run(led) <= (1 if count <= 4 else 2)


@pytest.mark.parametrize("count", [3, 4, 8, 16])
def test_three_nodes_are_used_and_the_leader_least(count: int) -> None:
    """Goroutines share the list; it is the leader that stays in it for up to 30 s when it dies."""
    shares = Counter(nodes_in_turn(go_route(groups("b", count))))
    assert shares["n1"] == shares["n2"] >= shares["n0"] > 0


def test_the_list_stays_whatever_nodes_come_and_go() -> None:
    """A selector reaches the same queue; only addresses change."""
    registry = groups("b", 4)
    before = go_list(go_route(registry))
    register(registry, "n0", 0, living="n2", topics=topic_of(4))
    assert go_list(go_route(registry)) == before, "one follower only"
    assert longest_run(nodes_in_turn(go_route(registry))) < ATTEMPTS
    addresses = {broker.broker_name: broker.leader for broker in go_route(registry).brokers}
    assert addresses == {"b": "n0:1", "~1@b": "n2:2", "~3@b": "n2:2"}
    register(registry, "n0", 0, living="", topics=topic_of(4))
    assert go_list(go_route(registry)) == before, "none"
    register(registry, "n1", 0, term=2, living="n2", topics=topic_of(4))
    register(registry, "n2", 3, term=2, topics=topic_of(4))
    assert go_list(go_route(registry)) == before, "another leader"
    assert "n0" not in nodes_in_turn(go_route(registry)), "it is dead"


def test_five_nodes_have_two_relays_that_are_two_followers() -> None:
    registry = Registry()
    register(registry, "n0", 0, living="n1 n2 n3 n4", topics=topic_of(4))
    for number in range(1, 5):
        register(registry, f"n{number}", number + 1, topics=topic_of(4))
    assert len(set(nodes_in_turn(go_route(registry)))) == 3
    register(registry, "n0", 0, living="n3 n4", topics=topic_of(4))
    assert set(nodes_in_turn(go_route(registry))) == {"n0", "n3", "n4"}


def test_a_relay_is_not_beside_the_leader_of_the_next_name_on_its_node() -> None:
    """In the list the second relay of a name is beside the next name's leader."""
    registry = groups("bc", 4)
    register(registry, "n1", 0, term=2, living="n0 n2", name="c", topics=topic_of(4))
    register(registry, "n0", 2, term=2, name="c", topics=topic_of(4))
    register(registry, "n2", 3, term=2, name="c", topics=topic_of(4))
    assert longest_run(nodes_in_turn(go_route(registry))) < ATTEMPTS


def test_a_topic_that_a_go_client_creates_is_cut_to_the_same_list() -> None:
    """It reads TBW102's rows, each cut to four where more can be read (route.go)."""
    route = go_route(three())
    before = go_list(go_route(groups("b", 4)))
    cut = [row for row in go_route(three(), "TBW102").queues if row.read_queue_count <= 4]
    assert [(row.broker_name, row.write_queue_count) for row in cut] == [
        (row.broker_name, row.write_queue_count) for row in route.queues
    ]
    assert go_list(go_route(three(), "TBW102")) == before


def test_while_a_node_is_of_an_earlier_release_a_relays_queue_is_the_topics_own() -> None:
    for leads in (True, False):
        registry = groups("b", 4)
        node, number, living = ("n0", 0, "n1 n2") if leads else ("n2", 3, None)
        register(registry, node, number, living=living, topics=topic_of(4), serves_rest=False)
        shown = [(row.broker_name, row.write_queue_count) for row in go_route(registry).queues]
        assert shown == [("b", 2), ("~1@b", 4)]
        register(registry, node, number, living=living, topics=topic_of(4))
        assert len(go_route(registry).queues) > 2


@pytest.mark.parametrize("topic", ["ordered", "read-only", "%RETRY%g", "%DLQ%g"])
def test_topics_without_relays(topic: str) -> None:
    assert [row.broker_name for row in go_route(three(), topic).queues] == ["b"]


def test_other_clients_see_no_second_relay() -> None:
    assert [(row.broker_name, row.perm) for row in routed(three()).queues] == [
        ("b", 6),
        ("~1@b", PERM_WRITE),
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_restarts_in_turn_fail_no_send_of_one_loop(count: int) -> None:
    asked = 0
    for seed in range(40):
        world = GoWorld(seed, 3, 1, relays=True, queues=count)
        world.restart_in_turn(1)
        judge(world)
        assert world.failed == [], f"seed {seed}"
        asked += world.asked
    assert asked > 10_000


def test_restarts_in_turn_fail_few_sends_of_sixteen_loops() -> None:
    """They share the list, so that all attempts of one may meet the node that is down."""
    failed = asked = 0
    for seed in range(10):
        world = GoWorld(seed, 3, 1, relays=True, queues=4)
        world.restart_in_turn(16)
        judge(world)
        failed, asked = failed + len(world.failed), asked + world.asked
    assert failed * 1_000 < asked, f"{failed} of {asked}"


def judge(world: GoWorld) -> None:
    assert set(world.acked) <= {message for _, message in world.groups[0].stored}, "lost"
    assert len(world.acked) + len(world.failed) == world.asked, "no answer"


def test_restarts_in_turn_fail_sends_when_a_relay_is_one_long_row() -> None:
    """The world can tell: as routes are while a node is of an earlier release."""
    failed = 0
    for seed in range(40):
        world = GoWorld(seed, 3, 1, relays=True, queues=8, serves_rest=False)
        world.restart_in_turn(1)
        failed += len(world.failed)
    assert failed > 10
