"""The index of policies decides as a look at each of them does, and looks at few."""

from __future__ import annotations

import gc
import ipaddress
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from cluster.core.access.permission import Permission
from cluster.core.access.policies import Policy, Resource, read_policy
from cluster.core.access.policy_index import Policies

ALL_IPV4 = ipaddress.IPv6Network("::ffff:0:0/96")

HOSTS = (
    *("", "nothing", "10.0.0.7", "::ffff:10.0.0.7", "::ffff:a00:7", "10.0.0.7%eth0", "11.1.1.1"),
    *("128.0.0.1", "::1", "fe80::1", "fe80::1%eth0", "2001:db8::7", "::a00:7"),
)
NETWORKS = (
    *("0.0.0.0/0", "0.0.0.0/1", "10.0.0.0/8", "10.0.0.7", "::/0", "::/1", "::/64", "::1"),
    *("::ffff:0:0/96", "::ffff:0:0/95", "::ffff:10.0.0.0/104", "fe80::/10", "2001:db8::/32"),
    "fe80::1%eth0",
)


def name(random: Random) -> str:
    return "".join(random.choices("ab", k=random.randrange(4)))


def host(random: Random) -> str:
    if random.random() < 0.8:
        return random.choice(HOSTS)
    bits = random.choice((32, 128))
    kind = ipaddress.IPv4Address if bits == 32 else ipaddress.IPv6Address
    return str(kind(random.getrandbits(bits)))


def network(random: Random) -> str:
    if random.random() < 0.7:
        return random.choice(NETWORKS)
    near = random.choice(HOSTS[2:])
    at = ipaddress.ip_address(near.partition("%")[0])
    return f"{at}/{random.randrange(at.max_prefixlen + 1)}"


def policy(random: Random) -> Policy:
    kind = random.choice(("Topic", "Topic", "Group", "*"))
    named = name(random)
    end = random.choice(("*", "" if named else "*"))
    actions = (["Sub"],) if kind == "Group" else (["Pub"], ["Sub"], ["Pub", "Sub"])
    return read_policy(
        {
            "resource": kind if kind == "*" else f"{kind}:{named}{end}",
            "actions": random.choice(actions),
            "decision": random.choice(("Allow", "Deny")),
            "type": random.choice(("Custom", "Default")),
            "sourceIps": [network(random) for _ in range(random.choice((0, 0, 1, 1, 2, 3)))],
        }
    )


def scan(
    policies: list[Policy],
    resource: Resource,
    name: str,
    wanted: Permission,
    host: str,
    *,
    by_name: bool,
) -> bool | None:
    """Each policy is looked at, and the most exact one that fits decides: the rule itself."""
    for is_default in (False, True):
        fitting = [
            policy
            for policy in policies
            if policy.is_default is is_default
            and policy.resource in (resource, Resource.ANY)
            and wanted in policy.actions
            and (name.startswith(policy.name) if policy.is_prefix else name == policy.name)
            and is_from(policy, host)
            and not (by_name and policy.is_prefix and policy.allow)
        ]
        if fitting:
            return max(fitting, key=exactness).allow
    return None


def is_from(policy: Policy, host: str) -> bool:
    if not policy.sources:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return not policy.allow
    return any(
        spelling in network
        for network in policy.sources
        for spelling in spellings(address, denies=not policy.allow)
    ) or (not policy.allow and any(network.prefixlen == 0 for network in policy.sources))


def spellings(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, *, denies: bool
) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    mapped = address if address.version == 4 else address.ipv4_mapped
    if mapped is None:
        yield address
        return
    yield mapped
    if denies:
        yield ipaddress.IPv6Address(f"::ffff:{mapped}")


def exactness(policy: Policy) -> tuple[bool, bool, int, bool]:
    return (
        policy.resource is not Resource.ANY,
        not policy.is_prefix,
        len(policy.name),
        not policy.allow,
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_index_decides_as_a_look_at_each_policy(seed: int) -> None:
    """And each answer is seen, with and without what addresses say."""
    random, answers = Random(seed), Counter[bool | None]()
    for _ in range(200):
        policies = [policy(random) for _ in range(random.randrange(13))]
        index = Policies(policies)
        for _ in range(8):
            resource = random.choice((Resource.TOPIC, Resource.GROUP))
            asked = resource, name(random), random.choice([*Permission]), host(random)
            by_name = random.random() < 0.3
            found = index.decide(*asked, by_name=by_name)
            assert found == scan(policies, *asked, by_name=by_name), (policies, asked)
            answers[found] += 1
    assert min(answers[one] for one in (True, False, None)) > 100


def test_a_decision_costs_no_more_where_there_are_more_policies() -> None:
    """In calls of functions: as many for 1,000 policies with addresses as for 10."""
    assert calls(policies_of(1000)) == calls(policies_of(10))


def policies_of(count: int) -> Policies:
    return Policies(
        read_policy(
            {
                "resource": ("Topic:*", f"Topic:t{at:04}", f"Topic:p{at:04}*")[at % 3],
                "actions": ["Sub"],
                "sourceIps": [f"10.{at // 250}.{at % 250}.0/24"],
                "decision": "Allow",
            }
        )
        for at in range(count)
    )


def calls(policies: Policies) -> int:
    def decide() -> bool | None:
        return policies.decide(Resource.TOPIC, "orders", Permission.SUB, "10.0.9.1")

    assert decide() is True
    count = 0

    def called(*_: object) -> None:
        nonlocal count
        count += 1

    gc.disable()  # Hypothesis has functions that it calls
    sys.setprofile(called)
    try:
        decide()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
