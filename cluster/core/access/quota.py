"""How much an account may send, and how many connections it may have. Pure.

maxMessages: 1000     a second, of its sends; a batch counts its messages
maxBytes: 1048576     a second, of the bodies of its sends
maxConnections: 10    at one node, from the first signed request of each on

A bucket holds the allowance of one second. A send is taken while there is one in it, whatever its
size, and what it takes too much is made up for by the time that follows, so a message that is
larger than the allowance of a second goes through, too. A send pays when it is taken into the log:
what is refused takes nothing, and what waits for a leader pays once. What waits for its topic has
paid meanwhile, since it holds memory; it is given back before the send is taken again, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

QUOTA_MAX: Final = 1 << 40
NAMED_MAX: Final = 50
"""Accounts that have a series of their own."""
OTHERS: Final = ""
CLOSED_KEPT: Final = 16
"""Closed connections of an account that are not looked for yet, beside as many as are open."""
FIELDS: Final = ("maxMessages", "maxBytes", "maxConnections")


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of an account; None for no limit."""

    messages: int | None = None
    bytes: int | None = None
    connections: int | None = None


def read_quota(row: Mapping[str, Any]) -> Quota | None:
    """None where the row has none. Raises ValueError, naming the field."""
    found = [_number(row.get(name), name) for name in FIELDS]
    return None if found == [None, None, None] else Quota(*found)


def quota_fields(quota: Quota | None) -> dict[str, int | None]:
    """As a row has them."""
    if quota is None:
        return dict.fromkeys(FIELDS)
    return dict(zip(FIELDS, (quota.messages, quota.bytes, quota.connections), strict=True))


def _number(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 < value <= QUOTA_MAX:
        raise ValueError(f"{name} is {value!r:.40}, a whole number from 1 to {QUOTA_MAX} is wanted")
    return value


class QuotaExceeded(Exception):
    """The account sends more, or has more connections, than its quota says."""


class Connection(Protocol):
    """`closed`: it does not count any more."""

    closed: bool


class _Bucket:
    __slots__ = ("at", "left", "per_second")

    def __init__(self, per_second: int, now: float) -> None:
        self.per_second, self.left, self.at = per_second, float(per_second), now

    def fill(self, now: float) -> float:
        """Fill it up to `now`, and return its content."""
        if now > self.at:
            grown = self.left + (now - self.at) * self.per_second
            self.left, self.at = min(float(self.per_second), grown), now
        return self.left


class _Use:
    """The use of one account's quota. Made anew when the quota changes."""

    __slots__ = ("buckets", "connections", "look_at", "quota")

    def __init__(self, quota: Quota, now: float, connections: set[Connection]) -> None:
        self.quota, self.connections = quota, connections
        self.look_at = CLOSED_KEPT
        self.buckets = tuple(
            None if most is None else _Bucket(most, now) for most in (quota.messages, quota.bytes)
        )


class Quotas:
    """Use by the accounts of one node. Each has its own: one never waits for another.

    Attributes:
        refused: access key → requests that were refused for its quota, of the first NAMED_MAX that
            had one refused; all others are together under OTHERS.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: seconds of a clock that never goes back."""
        self._now = now
        self._uses: dict[str, _Use] = {}
        self.refused: dict[str, int] = {}

    def check_send(self, key: str, quota: Quota) -> None:
        """Raises QuotaExceeded while a bucket is empty; counts no send."""
        now, buckets = self._now(), self._use(key, quota).buckets
        for bucket, what in zip(buckets, ("messages", "bytes"), strict=True):
            if bucket is not None and bucket.fill(now) < 1:
                self._refuse(key, f"{bucket.per_second} {what} a second are its quota")

    def count_send(self, key: str, quota: Quota, messages: int, size: int) -> None:
        """Count a send with so many messages and bytes, which was checked before."""
        for bucket, amount in zip(self._use(key, quota).buckets, (messages, size), strict=True):
            if bucket is not None:
                bucket.left -= amount

    def give_back(self, key: str, quota: Quota, messages: int, size: int) -> None:
        """Undo `count_send` of a send that was not taken."""
        for bucket, amount in zip(self._use(key, quota).buckets, (messages, size), strict=True):
            if bucket is not None:
                bucket.left = min(float(bucket.per_second), bucket.left + amount)

    def take_connection(self, key: str, quota: Quota, connection: Connection) -> None:
        """Count a connection, once. Raises QuotaExceeded; it is not counted then."""
        if quota.connections is None:
            return
        use = self._use(key, quota)
        open_ = use.connections
        if connection in open_:
            return
        if len(open_) >= min(use.look_at, quota.connections):
            open_.difference_update([one for one in open_ if one.closed])
            use.look_at = 2 * len(open_) + CLOSED_KEPT
        if len(open_) >= quota.connections:
            self._refuse(key, f"{quota.connections} connections to a node are its quota")
        open_.add(connection)

    def keep(self, keys: Callable[[str], bool]) -> None:
        """Forget accounts that have no quota any more."""
        for key in [key for key in self._uses if not keys(key)]:
            del self._uses[key]

    def _use(self, key: str, quota: Quota) -> _Use:
        found = self._uses.get(key)
        if found is None or found.quota != quota:
            found = _Use(quota, self._now(), set() if found is None else found.connections)
            self._uses[key] = found
        return found

    def _refuse(self, key: str, why: str) -> None:
        name = key if key in self.refused or len(self.refused) < NAMED_MAX else OTHERS
        self.refused[name] = self.refused.get(name, 0) + 1
        raise QuotaExceeded(f"the account {key[:255]!r} is slowed down, {why}; pause, then retry")
