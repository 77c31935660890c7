"""Patterns of client addresses, as plain_acl.yml writes them.

*                   everybody                  10.0.0.1-9      a range in one place
10.0.0.*  10.0.*    everything below           10.0.{1,2}.7    some
10.0.0.7  ::1       one address

Networks of policies (policy_index.py) hold an IPv4 address also where it is written into IPv6
(::ffff:10.0.0.7), as a listener of both kinds tells it. Patterns give rights without a signature,
so they take it as it is written only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence

Matcher = Callable[[str], bool]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
"""IPv4 within IPv6."""

_NUMBER = re.compile("[0-9]{1,3}")


def address_of(host: str) -> Address | None:
    """The address of a host (without port); IPv4 within IPv6 is IPv4. None: it is none."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def network_of(text: str) -> Network:
    """The network; one within ::ffff:0:0/96 is IPv4's. Raises ValueError."""
    network = ipaddress.ip_network(text, strict=False)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(MAPPED):
        low = network.network_address.ipv4_mapped
        return ipaddress.IPv4Network((str(low), network.prefixlen - MAPPED.prefixlen))
    return network


def matcher(pattern: str) -> Matcher:
    """A function that tells whether a host (without port) fits. Raises ValueError."""
    pattern = pattern.strip()
    if pattern in ("*", "*.*.*.*"):
        return lambda host: True
    if ":" in pattern:
        address = ipaddress.ip_address(pattern)
        return lambda host: _same(host, address)
    parts = _split(pattern)
    if len(parts) > 4 or (len(parts) < 4 and parts[-1] != "*"):
        raise ValueError(
            f"{pattern!r} is no pattern of addresses; write 10.0.0.1, 10.0.0.*, 10.0.0.1-9 or "
            "10.0.{1,2}.7"
        )
    choices = [_choices(part, pattern) for part in parts]
    choices += [range(256)] * (4 - len(choices))
    return lambda host: _fits(host, choices)


def _split(pattern: str) -> list[str]:
    """Places between dots; no dot is inside braces."""
    return pattern.split(".")


def _choices(part: str, pattern: str) -> range | frozenset[int]:
    """The numbers that one place may be."""
    try:
        if part == "*":
            return range(256)
        if part.startswith("{") and part.endswith("}"):
            return frozenset(_number(number.strip()) for number in part[1:-1].split(","))
        if "-" in part:
            first, last = (_number(number.strip()) for number in part.split("-"))
            if first > last:
                raise ValueError("it goes down")
            return range(first, last + 1)
        return frozenset({_number(part.strip())})
    except ValueError:
        raise ValueError(
            f"{part[:40]!r} in the address pattern {pattern[:80]!r} is not within 0 to 255"
        ) from None


def _number(text: str) -> int:
    """The number of one place of an address; checked first, as the text may come from any client.

    Raises ValueError.
    """
    if not _NUMBER.fullmatch(text) or int(text) > 255:
        raise ValueError("it is not within 0 to 255")
    return int(text)


def _fits(host: str, choices: Sequence[range | frozenset[int]]) -> bool:
    places = host.split(".")
    return len(places) == 4 and all(
        _NUMBER.fullmatch(place) and int(place) in choice
        for place, choice in zip(places, choices, strict=True)
    )


def _same(host: str, address: Address) -> bool:
    try:
        return ipaddress.ip_address(host) == address
    except ValueError:
        return False
