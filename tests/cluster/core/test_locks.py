"""Orderly locks: one owner at a time, also across leaderships (R23)."""

from __future__ import annotations

import pytest

import cluster.core.locks as locks_module
from cluster.core.locks import LEASE_SECONDS, NOBODY, LockLeases, LockTable, TooManyLocks

Q0, Q1 = ("T", 0), ("T", 1)


class Leader:
    """A table and a leadership's leases; changes are logged at once."""

    def __init__(self, table: LockTable, now: float) -> None:
        self.table, self.leases = table, LockLeases(table)
        self.leases.begin(now)

    def lock(self, client: str, now: float, *queues: tuple[str, int]) -> set[tuple[str, int]]:
        locked = self.leases.judge("g", client, queues, now)
        self.leases.proposed("g", locked, now)
        self.table.replay("g", locked.change)
        self.leases.settled("g", locked.change, now)
        return {queue for queue in queues if self.table.owner("g", queue) == client}


def test_the_first_has_it_until_its_lease_ends() -> None:
    leader = Leader(LockTable(), 0.0)
    assert leader.lock("a", 1.0, Q0, Q1) == {Q0, Q1}
    assert leader.lock("b", 2.0, Q0) == set()
    assert leader.lock("a", 30.0, Q0) == {Q0}, "renewed"
    assert leader.lock("b", 1.0 + LEASE_SECONDS, Q0, Q1) == {Q1}, "the other was not renewed"
    assert leader.lock("b", 30.0 + LEASE_SECONDS, Q0) == {Q0}


def test_a_renewal_is_not_logged() -> None:
    leader = Leader(LockTable(), 0.0)
    leader.lock("a", 1.0, Q0)
    assert leader.leases.judge("g", "a", [Q0], 2.0) == ([Q0], {})


def test_a_new_leader_gives_every_owner_a_full_lease() -> None:
    table = LockTable()
    Leader(table, 0.0).lock("a", 1.0, Q0)
    after = Leader(table, 1_000.0)
    assert after.lock("b", 1_000.0 + LEASE_SECONDS - 0.1, Q0) == set()
    assert after.lock("b", 1_000.0 + LEASE_SECONDS, Q0) == {Q0}


def test_nobody_else_gets_a_queue_whose_owner_is_being_logged() -> None:
    table = LockTable()
    leases = LockLeases(table)
    first = leases.judge("g", "a", [Q0], 0.0)
    assert leases.judge("g", "b", [Q0], 0.0).change == {Q0: "b"}, "a judgement holds nobody off"
    leases.proposed("g", first, 0.0)
    assert leases.judge("g", "b", [Q0], 0.0) == ([], {})
    assert leases.unlock("g", "b", [Q0]) == ([], {})
    leases.settled("g", first.change, 0.0)  # it was not logged: the table still says nobody
    assert leases.judge("g", "b", [Q0], 0.0).change == {Q0: "b"}


def test_only_the_owner_unlocks() -> None:
    leader = Leader(LockTable(), 0.0)
    leader.lock("a", 0.0, Q0)
    assert leader.leases.unlock("g", "b", [Q0]) == ([], {})
    freed = leader.leases.unlock("g", "a", [Q0, Q1])
    assert freed == ([], {Q0: NOBODY})
    leader.leases.proposed("g", freed, 1.0)
    leader.table.replay("g", freed.change)
    leader.leases.settled("g", freed.change, 1.0)
    assert leader.lock("b", 1.0, Q0) == {Q0}


def test_the_table_is_restored_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    table = LockTable()
    table.replay("g", {Q0: "a", Q1: "b"})
    table.replay("h", {Q0: "c"})
    again = LockTable()
    again.restore(table.rows())
    assert (again.rows(), again.count) == (table.rows(), 3)
    monkeypatch.setattr(locks_module, "LOCKS_MAX", 3)
    with pytest.raises(TooManyLocks):
        LockLeases(again).judge("g", "a", [("T", 2)], 0.0)
    again.replay_deletion("g")
    assert again.count == 1
