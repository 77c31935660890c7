"""A local cluster on a machine that has one loopback address: the same members, ports apart.

Linux answers at every address of 127/8. Elsewhere (macOS, the BSDs) 127.0.0.2 and so on do not
exist until an administrator makes them; then all members share 127.0.0.1, each on ports of its own:

    ns, ns1, …    9876, 9877, …                       their own peers 19876, 19877, …
    n0, n1, …     10911, 11011, …  20911, 21011, …    HTTP 8080, 8180, …   (groups: steps of 10)

What needs an address for every node (faults on one link, by the chaos tools) does not run there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

from cluster.local import plan
from cluster.local.profile import BROKER, Member
from commitlog.address import port_of

HOST = "127.0.0.1"
NODE_STEP = 100  # more than the groups of one node take

HasHost = Callable[[str], bool]


def has_host(host: str) -> bool:
    """Whether this machine has the address: can a socket be bound to it?"""
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
        return True


def fitted(members: Sequence[Member], has: HasHost) -> tuple[tuple[Member, ...], str]:
    """The members as this machine can have them, and a sentence when that is not as planned.

    `has`: whether the machine has an address.
    """
    missing = next((member.host for member in members if not has(member.host)), "")
    if not missing:
        return tuple(members), ""
    return tuple(on_one_address(members)), (
        f"this machine has no address {missing}, as Linux has, so all members share {HOST} and "
        "differ by their ports"
    )


def on_one_address(members: Sequence[Member]) -> list[Member]:
    """Every member at HOST: name servers one port apart, nodes NODE_STEP."""
    brokers = list(dict.fromkeys(m.process for m in members if m.kind == BROKER))
    nameservers = [m.name for m in members if m.kind != BROKER]
    return [
        _moved(
            member,
            NODE_STEP * brokers.index(member.process)
            if member.kind == BROKER
            else nameservers.index(member.name),
        )
        for member in members
    ]


def next_broker(name: str, members: Sequence[Member]) -> Member:
    """One more node of the first group: at a new address, or where all share one on new ports."""
    brokers = [member for member in members if member.kind == BROKER]
    relays = any(member.relay for member in brokers)
    if len(brokers) < 2 or len({member.host for member in brokers}) > 1:
        return plan.broker(name, plan.next_host(members), relays=relays)
    host = brokers[0].host
    last = max(port_of(member.client) for member in brokers)
    added = plan.broker(name, host, relays=relays)
    return _moved(added, last - plan.CLIENT_PORT + NODE_STEP, host)


def _moved(member: Member, step: int, host: str = HOST) -> Member:
    """The member at another host, all its ports by `step` higher."""
    changes = {purpose: f"{host}:{port_of(at) + step}" for purpose, at in member.listens().items()}
    return replace(member, **changes)  # type: ignore[arg-type]
