"""Where a machine has 127.0.0.1 only, members differ by their ports."""

from __future__ import annotations

from cluster.local import one_address, plan
from cluster.local.profile import BROKER


def only_the_first(host: str) -> bool:
    return host == "127.0.0.1"


def test_linux_has_every_loopback_address_and_not_every_address() -> None:
    assert one_address.has_host("127.9.8.7")
    assert not one_address.has_host("192.0.2.1"), "a documentation address is nobody's"


def test_members_stay_as_planned_where_their_addresses_exist() -> None:
    planned = plan.plan(3)
    assert one_address.fitted(planned, lambda _: True) == (planned, "")


def test_on_one_address_no_port_is_taken_twice() -> None:
    planned = plan.plan(plan.NODES_MAX, groups=plan.GROUPS_MAX, nameservers=plan.NAMESERVERS_MAX)
    members, sentence = one_address.fitted(planned, only_the_first)
    assert "no address 127.0.0.2" in sentence
    ports = [address for member in members for address in member.listens().values()]
    assert len(ports) == len(set(ports))
    assert all(only_the_first(address.rpartition(":")[0]) for address in ports)
    assert all(1024 < int(address.rpartition(":")[2]) < 32_768 for address in ports)
    assert [member.name for member in members] == [member.name for member in planned]


def test_one_more_node_finds_its_place_on_either_kind_of_machine() -> None:
    several = plan.plan(3)
    assert one_address.next_broker("n3", several).client == "127.0.0.14:10911"
    shared = one_address.on_one_address(several)
    added = one_address.next_broker("n3", shared)
    taken = {a for member in shared for a in member.listens().values()}
    assert not taken & set(added.listens().values())
    assert {member.host for member in (*shared, added)} == {"127.0.0.1"}
    assert added.kind == BROKER
