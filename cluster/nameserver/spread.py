"""Broker names of one topic get their id-0 addresses on different nodes, where that is possible.

    broker-a {0: n1, 2: n2}   broker-b {0: n1, 3: n2}   ->   broker-b {0: n2, 3: n1}

A stock producer knows id-0 addresses only and asks for routes every 30 s. If one node leads two
names at that moment (a leader died and its neighbour was elected), the node's death would take both
names from it, though the rest of the cluster serves them. Any replica passes requests on to its
leader, so the address under id 0 need not be the leader's (docs/spec/remoting.md 4.7, consequence
2). A node is told by the host of its address.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from cluster.protocol.route import LEADER_ID, BrokerData
from commitlog.address import host_of


def spread_doors(brokers: Sequence[BrokerData], able: Set[str]) -> list[BrokerData]:
    """The same brokers; if two names have leaders on one node, one gets a replica's address.

    Args:
        brokers: in the order in which they choose.
        able: addresses that may stand in: live replicas that pass requests on.
    """
    leaders = {host_of(broker.leader) for broker in brokers if broker.leader}
    taken: set[str] = set()
    spread = []
    for broker in brokers:
        if broker.leader is not None and host_of(broker.leader) in taken:
            broker = _with_other_door(broker, able, taken | leaders)
        if broker.leader is not None:
            taken.add(host_of(broker.leader))
        spread.append(broker)
    return spread


def _with_other_door(broker: BrokerData, able: Set[str], avoided: Set[str]) -> BrokerData:
    """Id 0 and the id of the first replica that is elsewhere change places."""
    for broker_id, address in sorted(broker.addresses.items()):
        if address in able and host_of(address) not in avoided:
            addresses = dict(broker.addresses)
            addresses[LEADER_ID], addresses[broker_id] = address, addresses[LEADER_ID]
            return replace(broker, addresses=addresses)
    return broker
