"""Finds the policy of an account that decides; by look-ups, as each name in a request needs it.

    rank       Custom policies; Default ones if no Custom policy decides
    place      Type:NAME │ the longest Type:PREFIX* │ … │ Type:* │ *        the most exact first
    rule       the policies of one place: those that deny, then those that allow, with all networks

A decision costs a look-up for each length of prefix that the account has, and in a place that fits
one for each length of network, however many policies there are. 1,000 topics of a heartbeat against
300 policies with addresses were 300,000 comparisons of networks before.

How addresses are compared (no client may evade a Deny by the form of its address):

    IPv4 within IPv6      ::ffff:10.0.0.7 is 10.0.0.7, of a client and in a policy
    all addresses         a Deny of 0.0.0.0/0 or ::/0 is for every client, of either kind
    IPv6 around IPv4      a Deny of ::/64, which ::ffff:10.0.0.7 is in, is for IPv4 clients, too
    %eth0                 is ignored: fe80::1 is meant on every interface
    unknown address       every Deny counts, an Allow with networks does not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

from cluster.core.access.addresses import MAPPED, Network, address_of
from cluster.core.access.permission import Permission
from cluster.core.access.policies import Policy, Resource

_IPV4_BITS: Final = 32
_HOSTS_MAX: Final = 4096

_Place = tuple[Resource, str, bool]
"""A policy's resource, its name, and True if the name is a prefix."""
_Address = tuple[int, int]
"""Number of bits of an address, and their value."""


class Policies(Sequence[Policy]):
    """The policies of one account, as its row has them."""

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self._policies = tuple(policies)

    def __getitem__(self, at: Any) -> Any:
        return self._policies[at]

    def __len__(self) -> int:
        return len(self._policies)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policies) and self._policies == other._policies

    def __hash__(self) -> int:
        return hash(self._policies)

    def __repr__(self) -> str:
        return f"Policies({[*self._policies]})"

    def decide(
        self,
        resource: Resource,
        name: str,
        wanted: Permission,
        host: str,
        *,
        by_name: bool = False,
    ) -> bool | None:
        """True: allowed, False: denied, None: no policy fits. `by_name`: prefixes may only deny."""
        address = _address(host)
        for rank in self._ranks:
            for rule, is_prefix in rank.fitting(resource, name):
                found = rule.says(wanted.value, address, may_allow=not (by_name and is_prefix))
                if found is not None:
                    return found
        return None

    @cached_property
    def _ranks(self) -> tuple[_Rank, ...]:
        """Made at the first decision: most accounts that are read never need one."""
        return tuple(
            _Rank(policy for policy in self._policies if policy.is_default is is_default)
            for is_default in (False, True)
        )


class _Rank:
    """The rules of one rank, by place."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._rules: dict[_Place, _Rule] = {}
        lengths: dict[Resource, set[int]] = {}
        for policy in policies:
            place = policy.resource, policy.name, policy.is_prefix
            self._rules.setdefault(place, _Rule()).add(policy)
            if policy.is_prefix:
                lengths.setdefault(policy.resource, set()).add(len(policy.name))
        self._lengths = {one: sorted(found, reverse=True) for one, found in lengths.items()}

    def fitting(self, resource: Resource, name: str) -> Iterator[tuple[_Rule, bool]]:
        """Yield the rules that fit a name, the most exact first; with True for a prefix."""
        if not self._rules:
            return
        rule = self._rules.get((resource, name, False))
        if rule is not None:
            yield rule, False
        for kind in (resource, Resource.ANY):
            for length in self._lengths.get(kind, ()):
                rule = self._rules.get((kind, name[:length], True))
                if rule is not None and length <= len(name):
                    yield rule, True


class _Rule:
    """The policies of one place, taken together."""

    __slots__ = ("_allow", "_deny")

    def __init__(self) -> None:
        self._deny: dict[int, _Networks] = {}
        self._allow: dict[int, _Networks] = {}

    def add(self, policy: Policy) -> None:
        """Add the policy's networks to those of its actions: Pub, Sub, or both."""
        found = self._allow if policy.allow else self._deny
        found.setdefault(policy.actions.value, _Networks()).add(policy)

    def says(self, wanted: int, address: _Address | None, *, may_allow: bool) -> bool | None:
        for actions, networks in self._deny.items():
            if actions & wanted == wanted and (address is None or networks.hold(address)):
                return False
        if may_allow:
            for actions, networks in self._allow.items():
                if actions & wanted == wanted and networks.hold(address):
                    return True
        return None


class _Networks:
    """The networks of policies of one place with the same effect and actions."""

    __slots__ = ("_all", "_starts")

    def __init__(self) -> None:
        self._all = False
        self._starts: dict[tuple[int, int], set[int]] = {}

    def add(self, policy: Policy) -> None:
        self._all |= not policy.sources
        for network in policy.sources:
            self._add(network, denies=not policy.allow)

    def _add(self, network: Network, *, denies: bool) -> None:
        if denies and network.prefixlen == 0:
            self._all = True
            return
        bits, shift = network.max_prefixlen, network.max_prefixlen - network.prefixlen
        start = int(network.network_address) >> shift
        self._starts.setdefault((bits, shift), set()).add(start)
        if denies and bits != _IPV4_BITS and int(MAPPED.network_address) >> shift == start:
            self._starts.setdefault((_IPV4_BITS, _IPV4_BITS), set()).add(0)

    def hold(self, address: _Address | None) -> bool:
        """True if `address` is in a network; None, an unknown one, is only in "all addresses"."""
        if self._all or address is None:
            return self._all
        bits, value = address
        return any(
            value >> shift in starts
            for (of_bits, shift), starts in self._starts.items()
            if of_bits == bits
        )


@lru_cache(maxsize=_HOSTS_MAX)
def _address(host: str) -> _Address | None:
    """The address in `host` as bits and value; None if `host` is not an address."""
    address = address_of(host)
    return None if address is None else (address.max_prefixlen, int(address))
