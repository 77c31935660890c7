"""Patterns of client addresses, as plain_acl.yml writes them.

*                   everybody                  10.0.0.1-9      a range in one place
10.0.0.*  10.0.*    everything below           10.0.{1,2}.7    some
10.0.0.7  ::1       one address
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

Matcher = Callable[[str], bool]


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
            found = frozenset(int(number) for number in part[1:-1].split(","))
        elif "-" in part:
            first, last = (int(number) for number in part.split("-"))
            found = frozenset(range(first, last + 1))
        else:
            found = frozenset({int(part)})
    except ValueError:
        raise ValueError(f"{part!r} in the address pattern {pattern!r} is no number") from None
    if not found or min(found) < 0 or max(found) > 255:
        raise ValueError(f"{part!r} in the address pattern {pattern!r} is not within 0 to 255")
    return found


def _fits(host: str, choices: list[range | frozenset[int]]) -> bool:
    places = host.split(".")
    return len(places) == 4 and all(
        place.isascii() and place.isdigit() and int(place) in choice
        for place, choice in zip(places, choices, strict=True)
    )


def _same(host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return ipaddress.ip_address(host) == address
    except ValueError:
        return False
