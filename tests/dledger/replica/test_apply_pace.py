"""How far a turn applies: so many entries, so many bytes, and no more than the machine takes."""

from __future__ import annotations

import pytest

from commitlog.errors import StoreDamaged
from dledger.core.types import NO_INDEX, Index, NodeId, Term
from dledger.replica import apply_pace
from dledger.replica.apply_pace import ApplyPace
from dledger.replica.ports import Proposal
from dledger.testing.memory import MemoryLog

from .test_replica import Net


def turns(log: MemoryLog, commit: int) -> list[range]:
    """The entries of each turn until all are applied."""
    pace, applied, found = ApplyPace(log), NO_INDEX, []
    while applied < commit:
        last = pace.through(applied, Index(commit), None)
        assert last > applied, "each turn goes on"
        assert pace.is_behind is (last < commit)
        assert not pace.is_behind or pace.through(last, Index(commit), None) == last, (
            "its turn comes"
        )
        pace.is_behind = False
        found.append(range(applied + 1, last + 1))
        applied = last
    return found


@pytest.mark.parametrize("size", [10, 700, 900, 5000])
def test_a_turn_has_so_many_bytes_but_for_one_large_entry(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_pace, "BYTES_AT_ONCE", 2000)
    log = MemoryLog()
    log.append([bytes(size)] * 30, Term(1))
    for entries in turns(log, 29):
        begin = log.position_of(Index(entries.start))
        assert log.position_of(Index(entries.stop)) - begin <= 2000 or len(entries) == 1
        more = Index(min(entries.stop + 1, 30))
        assert entries.stop == 30 or log.position_of(more) - begin > 2000, "as many as may be"


def test_a_damaged_place_holds_up_no_entry_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_pace, "BYTES_AT_ONCE", 2000)

    class Damaged(MemoryLog):
        def position_of(self, index: Index) -> int:
            if index == 20:
                raise StoreDamaged("rotten", path="", position=0)
            return super().position_of(index)

    log = Damaged()
    log.append([bytes(10)] * 20, Term(1))
    log.append([bytes(10)], Term(1))
    assert ApplyPace(log).through(Index(17), Index(19), None) == 18


def test_what_a_machine_leaves_comes_in_the_next_turns_once_and_in_order() -> None:
    net = Net()
    host = net.elect()
    seen: list[int] = []

    def one_each(first: Index, last: Index) -> Index:
        seen.append(first)
        return first

    host.apply = one_each  # type: ignore[method-assign]
    ended: list[int] = []
    proposal = Proposal([b"x" * 64] * 5, lambda made, error: ended.append(made.last))
    host.replica.propose(proposal, net.now)
    net.deliver()
    first = proposal.first
    assert seen == [first]
    assert not ended
    for count in range(2, 6):
        assert host.replica.pace.is_behind
        host.replica.timer(net.now)
        assert len(seen) == count - 1, "its shell says when it goes on"
        host.replica.go_on(net.now)
        assert seen == list(range(first, first + count))
        assert host.replica.applied == first + count - 1
    assert ended == [first + 4]
    assert not host.replica.pace.is_behind
    assert host.replica.node.leader == NodeId("n0")
