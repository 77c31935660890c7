"""Which addresses the members of a local cluster take.

Every node has an address of its own in 127/8, all nodes the same ports: links can then be told
apart by address, and no two nodes ever want the same port. Ports stay below 32768, where the
operating system starts to lend them to outgoing connections.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from dataclasses import replace

from cluster.local.profile import BROKER, NAMESERVER, Member
from commitlog.address import split_address

NAMESERVER_PORT = 9876
CLIENT_PORT = 10911
PEER_PORT = 20911
NAMESERVER_PEER_PORT = 19876
ADMIN_PORT = 8080
RELAY_STEP = 4  # from a client port to its node's relay port
RELAYS_FROM = 3  # nodes of a group: in a smaller one no node is left that could serve the clients
GROUP_STEP = 10  # between the ports of one group and the next on the same host
GROUPS_MAX = 8  # broker-a … broker-h; each is a log of its own on the same disk
NAMESERVERS_MAX = 5  # they agree by majority; two may fail, and brokers talk to each of them
NODES_MAX = 9  # the quorum of more only gets slower; one digit keeps names aligned


def default_hosts(nodes: int, nameservers: int = 1) -> list[str]:
    """The name servers' hosts, then one per node: 127.0.0.1, (127.0.0.2,) 127.0.0.11, ..."""
    first = [f"127.0.0.{1 + number}" for number in range(nameservers)]
    return [*first, *(f"127.0.0.{11 + number}" for number in range(nodes))]


def scratch_hosts(nodes: int) -> list[str]:
    """Hosts of a cluster that exists for a while beside others: a free block of 127/8.

    Raises OSError when none is found in 50 tries.
    """
    for _ in range(50):
        block = f"127.{random.randrange(2, 250)}.{random.randrange(1, 250)}"
        hosts = [f"{block}.{1 + number}" for number in range(nodes + 1)]
        found = plan(nodes, hosts)
        if all(can_bind(place) for member in found for place in member.listens().values()):
            return hosts
    raise OSError(
        "no free block of addresses in 127.0.0.0/8 was found in 50 tries; this needs a machine "
        "that answers at all of them, as Linux does"
    )


def plan(
    nodes: int, hosts: Sequence[str] = (), *, groups: int = 1, nameservers: int = 1
) -> tuple[Member, ...]:
    """Members of a cluster of `nodes` brokers; `hosts` begins with the name servers'.

    Each node holds a replica of every one of `groups` groups.
    """
    assert 1 <= nameservers <= NAMESERVERS_MAX, nameservers
    assert 1 <= groups <= GROUPS_MAX, groups
    assert 1 <= nodes <= NODES_MAX, nodes
    hosts = hosts or default_hosts(nodes, nameservers)
    assert len(hosts) == nodes + nameservers, "one host for each name server and for each node"
    members = [
        Member(
            f"ns{number or ''}",
            NAMESERVER,
            client=f"{host}:{NAMESERVER_PORT}",
            peer=f"{host}:{NAMESERVER_PEER_PORT}" if nameservers > 1 else "",
        )
        for number, host in enumerate(hosts[:nameservers])
    ]
    for group in range(groups):
        step = group * GROUP_STEP
        name = group_name(group) if group else ""
        for number, host in enumerate(hosts[nameservers:]):
            members.append(
                Member(
                    f"n{number}.{name}" if group else f"n{number}",
                    BROKER,
                    client=f"{host}:{CLIENT_PORT + step}",
                    peer=f"{host}:{PEER_PORT + step}",
                    admin=f"{host}:{ADMIN_PORT + step}",
                    group=name,
                    node=f"n{number}" if group else "",
                    relay=f"{host}:{CLIENT_PORT + step + RELAY_STEP}"
                    if nodes >= RELAYS_FROM
                    else "",
                )
            )
    return tuple(members)


def with_relay_port(members: Sequence[Member], port: int) -> tuple[Member, ...]:
    """The same with their relays on that port, further groups' GROUP_STEP above; 0: without any."""
    groups = list(dict.fromkeys(member.group for member in members if member.kind == BROKER))

    def relay(member: Member) -> str:
        if member.kind != BROKER or not port:
            return ""
        return f"{member.host}:{port + GROUP_STEP * groups.index(member.group)}"

    return tuple(replace(member, relay=relay(member)) for member in members)


def next_host(members: Sequence[Member]) -> str:
    """An address for one more node: the first free one behind those of the others."""
    taken = {member.host for member in members}
    block, _, last = max(
        (member.host for member in members if member.kind == BROKER),
        key=lambda host: int(host.rpartition(".")[2]),
    ).rpartition(".")
    free = (f"{block}.{number}" for number in range(int(last) + 1, 255))
    return next(host for host in free if host not in taken)


def broker(name: str, host: str, *, relays: bool = False) -> Member:
    """One more node of the first group, at an address of its own. `relays`: the others have any."""
    return Member(
        name,
        BROKER,
        client=f"{host}:{CLIENT_PORT}",
        peer=f"{host}:{PEER_PORT}",
        admin=f"{host}:{ADMIN_PORT}",
        relay=f"{host}:{CLIENT_PORT + RELAY_STEP}" if relays else "",
    )


def group_name(number: int) -> str:
    """Broker name of a group: broker-a, broker-b, …"""
    return f"broker-{chr(ord('a') + number)}"


def with_any_ports(members: Sequence[Member]) -> tuple[Member, ...]:
    """The same members on ports that are free at the moment."""
    chosen: list[Member] = []
    taken: set[str] = set()

    def draw(host: str) -> str:
        while (address := f"{host}:{free_port(host)}") in taken:
            pass  # drawn before, and not bound yet
        taken.add(address)
        return address

    for member in members:
        changes = {purpose: draw(member.host) for purpose in member.listens()}
        chosen.append(replace(member, **changes))  # type: ignore[arg-type]
    return tuple(chosen)


def free_port(host: str) -> int:
    """A port between 10000 and 32767 that can be bound now. Raises OSError when none is found."""
    for _ in range(200):
        port = random.randrange(10_000, 32_768)
        if can_bind(f"{host}:{port}"):
            return port
    raise OSError(f"no free port was found on {host} in 200 tries")


def can_bind(address: str) -> bool:
    """True if "host:port" is free; binds with SO_REUSEADDR, as the servers do."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(split_address(address))
            # Linux refuses the second of two listeners, not the second bind, with SO_REUSEADDR.
            probe.listen(1)
        except OSError:
            return False
        return True
