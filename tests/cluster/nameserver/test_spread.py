"""Id-0 addresses of several broker names lie on different nodes, also while one node leads them."""

from __future__ import annotations

from cluster.nameserver.registry import Registry
from cluster.protocol.headers import RegisterBrokerRequest
from cluster.protocol.topics import Registration, TopicConfig

TOPICS = Registration({"T": TopicConfig("T", 4, 4)}, 1)


def register(
    registry: Registry, name: str, host: str, broker_id: int, term: int, living: str | None = None
) -> None:
    """`living`: hosts of the followers that a leader hears."""
    port = {"a": 10911, "b": 10921}[name]
    heard = None if living is None else living.replace(" ", ",")
    request = RegisterBrokerRequest(
        name, f"{host}:{port}", "c", broker_id, term=term, node_id=host, living_nodes=heard
    )
    registry.register(request, TOPICS, 0.0)


def doors(registry: Registry, *, stock: bool = True) -> dict[str, dict[int, str]]:
    route = registry.route("T", 0.0, stock=stock)
    assert route is not None
    return {
        broker.broker_name: {
            broker_id: address.partition(":")[0] for broker_id, address in broker.addresses.items()
        }
        for broker in route.brokers
    }


def three_nodes(leader_a: str, leader_b: str, term: int = 1) -> Registry:
    registry = Registry()
    for name, leader in (("a", leader_a), ("b", leader_b)):
        for number, host in enumerate(("n0", "n1", "n2")):
            register(registry, name, host, 0 if host == leader else number + 1, term)
    return registry


def test_leaders_on_different_nodes_stay_under_id_0() -> None:
    registry = three_nodes("n0", "n1")
    assert doors(registry) == doors(registry, stock=False)
    assert [door[0] for door in doors(registry).values()] == ["n0", "n1"]


def test_one_node_that_leads_both_is_the_door_of_one() -> None:
    registry = three_nodes("n1", "n1")
    assert doors(registry)["a"] == {0: "n1", 1: "n0", 3: "n2"}
    assert doors(registry)["b"] == {0: "n0", 1: "n1", 3: "n2"}, "they change places"
    assert [door[0] for door in doors(registry, stock=False).values()] == ["n1", "n1"]


def test_a_node_that_died_is_nobodys_door() -> None:
    """n0 led a; n1, which leads b, was elected. n0's lease lasts on, but its term is over."""
    registry = three_nodes("n0", "n1")
    register(registry, "a", "n1", 0, 2)
    register(registry, "a", "n2", 3, 2)
    assert [door[0] for door in doors(registry).values()] == ["n1", "n2"]
    register(registry, "a", "n0", 1, 2)
    assert [door[0] for door in doors(registry).values()] == ["n1", "n0"], "it is back"


def test_a_follower_that_died_without_an_election_is_nobodys_door() -> None:
    """n0 followed in both names, so nobody was elected; its lease lasts on."""
    registry = three_nodes("n1", "n1")
    register(registry, "a", "n1", 0, 1, living="n2")
    register(registry, "b", "n1", 0, 1, living="n2")
    assert [door[0] for door in doors(registry).values()] == ["n1", "n2"]
    register(registry, "b", "n1", 0, 1, living="n0 n2")
    assert [door[0] for door in doors(registry).values()] == ["n1", "n2"], "one name misses it"
    register(registry, "a", "n1", 0, 1, living="n0 n2")
    assert [door[0] for door in doors(registry).values()] == ["n1", "n0"], "it is back"


def test_stock_brokers_keep_their_addresses() -> None:
    """They tell no term and pass nothing on."""
    registry = three_nodes("n1", "n1", term=-1)
    assert doors(registry) == doors(registry, stock=False)


def test_one_broker_name_and_one_node() -> None:
    registry = Registry()
    register(registry, "a", "n0", 0, 1)
    register(registry, "b", "n0", 0, 1)
    assert [door[0] for door in doors(registry).values()] == ["n0", "n0"]
