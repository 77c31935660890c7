"""Queues locked for orderly consumption (41, 42): owners from the log, leases on the leader (R23).

    judge(group, client, queues) ─► owned already: to be renewed ─► held
                                 ├► free, or its lease ended    ─► LocksChanged to be logged ─► held
                                 └► another client's            ─► not held
    record applied ─► LockTable: (group, topic, queue) ─► client

Only a change of owner is logged; renewals stay in memory. A new leader gives every owner that it
knows a full lease on its own clock. So an owner notices the loss of its lock before another client
gets it: a client takes its lock for lost after 30 s without a renewal, and a lease lasts 60 s.

Times are seconds of any monotonic clock. Each replica derives the table from the log; only the
leader has leases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

LEASE_SECONDS = 60.0  # RocketMQ's; the client's own limit is half of it (docs/spec/remoting.md 4.4)
LOCKS_MAX = 1_000_000  # of all groups; each costs about 200 bytes

Queue = tuple[str, int]
"""Topic and queue id."""

NOBODY = ""


class TooManyLocks(Exception):
    """LOCKS_MAX queues are locked already."""


class LockTable:
    """Owners of queues, as the log has them."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Queue, str]] = {}
        self.count = 0

    def owner(self, group: str, queue: Queue) -> str:
        """The owner's client id; an empty one for a free queue."""
        return self._rows.get(group, {}).get(queue, NOBODY)

    def replay(self, group: str, owners: Mapping[Queue, str]) -> None:
        """Set new owners of some queues; an empty id frees one."""
        rows = self._rows.setdefault(group, {})
        self.count -= len(rows)
        for queue, client in owners.items():
            if client == NOBODY:
                rows.pop(queue, None)
            else:
                rows[queue] = client
        self.count += len(rows)
        if not rows:
            del self._rows[group]

    def replay_deletion(self, group: str) -> None:
        """Free all queues that the group has locked."""
        self.count -= len(self._rows.pop(group, ()))

    def owned(self, group: str) -> Mapping[Queue, str]:
        """All locked queues of one group."""
        return self._rows.get(group, {})

    def rows(self) -> list[tuple[str, list[tuple[str, int, str]]]]:
        """Everything, for a checkpoint; sorted."""
        return [
            (group, sorted((*queue, client) for queue, client in rows.items()))
            for group, rows in sorted(self._rows.items())
        ]

    def restore(self, rows: Iterable[tuple[str, Iterable[tuple[str, int, str]]]]) -> None:
        """Replace all owners by those of a checkpoint, in the form of `rows`."""
        self._rows, self.count = {}, 0
        for group, owners in rows:
            self.replay(str(group), {(str(t), int(q)): str(client) for t, q, client in owners})


class Locked(NamedTuple):
    """Decision about one request: queues that the client holds, and owners to log for others."""

    held: list[Queue]
    change: dict[Queue, str]


class LockLeases:
    """The leases of owners, at the leader.

    Call `begin` when a leadership begins, `proposed` with each decision that is carried out, and
    `settled` when its change was applied.
    """

    def __init__(self, table: LockTable) -> None:
        self._table = table
        self._until: dict[tuple[str, Queue], float] = {}
        self._pending: dict[tuple[str, Queue], str] = {}
        self._begun_at = 0.0

    def begin(self, now: float) -> None:
        """Give every known owner a full lease from `now` on."""
        self.drop()
        self._begun_at = now

    def drop(self) -> None:
        """Forget all leases, because leadership ended."""
        self._until.clear()
        self._pending.clear()

    def judge(self, group: str, client: str, queues: Iterable[Queue], now: float) -> Locked:
        """The queues that `client` may lock; leases stay as they are. Raises TooManyLocks."""
        held: list[Queue] = []
        change: dict[Queue, str] = {}
        for queue in dict.fromkeys(queues):
            if (group, queue) in self._pending:
                continue
            owner = self._table.owner(group, queue)
            if owner == client:
                held.append(queue)
            elif owner == NOBODY or self._lease_until(group, queue) <= now:
                change[queue] = client
        new = sum(self._table.owner(group, queue) == NOBODY for queue in change)
        if self._table.count + len(self._pending) + new > LOCKS_MAX:
            raise TooManyLocks(f"{LOCKS_MAX} queues are locked already; unlock some")
        return Locked(held, change)

    def proposed(self, group: str, decision: Locked, now: float) -> None:
        """Renew the client's leases; let no other client have queues with an owner on its way."""
        for queue in decision.held:
            self._until[group, queue] = now + LEASE_SECONDS
        self._pending.update(((group, queue), to) for queue, to in decision.change.items())

    def is_locked(self, group: str, now: float) -> bool:
        """True if a client holds a queue of the group: then the group consumes in order."""
        return any(self._lease_until(group, queue) > now for queue in self._table.owned(group))

    def unlock(self, group: str, client: str, queues: Iterable[Queue]) -> Locked:
        """The owners to log: none for queues that `client` holds, others stay locked."""
        change = {
            queue: NOBODY
            for queue in queues
            if (group, queue) not in self._pending and self._table.owner(group, queue) == client
        }
        return Locked([], change)

    def settled(self, group: str, change: Mapping[Queue, str], now: float) -> None:
        """End a change that was applied or could not be logged; the table tells which."""
        for queue, client in change.items():
            if self._pending.pop((group, queue), None) is None:
                continue  # of an earlier leadership
            self._until.pop((group, queue), None)
            if client != NOBODY and self._table.owner(group, queue) == client:
                self._until[group, queue] = now + LEASE_SECONDS

    def _lease_until(self, group: str, queue: Queue) -> float:
        return self._until.get((group, queue), self._begun_at + LEASE_SECONDS)
