"""Damage that nobody undoes any more, because all others have deleted it: a state goes past it."""

from __future__ import annotations

import pytest

from dledger.core import events as ev
from dledger.core.types import Index, Role
from dledger.errors import DledgerError, OutcomeUnknown
from dledger.replica.ports import Proposal
from tests.dledger.file_group import DATA_FILE_SIZE, FOLDER
from tests.dledger.state_group import StateGroup, StateHost

#: All have deleted what is below it.
BEGIN = 3 * DATA_FILE_SIZE
DAMAGED = 3


def a_follower(group: StateGroup) -> StateHost:
    return group.state_host(next(n for n, host in group.hosts.items() if host is not group.leader))


def damaged_where_others_begin_later() -> tuple[StateGroup, StateHost]:
    """The log of a follower that is down has rotted where all others begin by now."""
    group = StateGroup()
    group.elect()
    group.fill(20)
    victim = a_follower(group)
    path, offset = group.place(victim.name, DAMAGED)
    victim.stop()
    victim.disk.flip(path, offset + 60)
    for name, host in group.hosts.items():
        if host is not victim:
            group.trim(name, BEGIN)
    return group, victim


def kept_files(group: StateGroup, name: str) -> dict[str, bytes]:
    """The log's files from where the others begin."""
    return {
        file: content
        for file, content in group.files(name).items()
        if file.startswith("data/") and int(file[5:]) >= BEGIN
    }


def test_a_replica_that_applies_nothing_behind_its_damage_is_given_a_state() -> None:
    """It goes on behind it, and what is good in its log is not sent again (L4)."""
    group, victim = damaged_where_others_begin_later()
    kept = kept_files(group, victim.name)
    assert kept
    victim.boot()
    last = victim.log.last
    ends = []
    for _ in range(100):
        group.run(0.1)
        ends.append(victim.log.last)
    assert victim.taken == [victim.log.anchor.index]
    assert min(ends) == last, "what it has acknowledged stays in its log"
    assert victim.log.first_position == BEGIN
    assert kept_files(group, victim.name).items() >= kept.items()
    assert victim.log.damaged == ()
    assert victim.applied == group.leader.applied
    group.fill(2)
    assert victim.applied == group.leader.applied


def test_what_waits_is_unknown_when_a_state_is_taken_for_damage() -> None:
    """S8: it is applied by a state, and what that is made of was not compared with it."""
    group, victim = damaged_where_others_begin_later()
    victim.boot()
    outcomes: list[DledgerError | None] = []
    for index in (DAMAGED + 1, victim.log.last.index):
        waits = Proposal([b"x"], lambda _, error: outcomes.append(error))
        waits.first = waits.last = Index(index)
        victim.replica._pending.add(waits)
    group.run(10.0)
    assert victim.taken == [victim.log.anchor.index]
    assert victim.replica.applied >= victim.log.last.index
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 2


@pytest.mark.parametrize("at", [3, 6, 46, 60])
def test_the_first_record_behind_a_state_rots_while_no_slot_is_there(at: int) -> None:
    """Where it began and what it continued is in the log's beginning: only it is asked for."""
    group = StateGroup()
    group.elect()
    group.fill(20)
    for name in group.hosts:
        group.trim(name, BEGIN)
    victim = a_follower(group)
    kept, first = kept_files(group, victim.name), victim.log.first_index
    path, offset = group.place(victim.name, first)
    victim.stop()
    victim.disk.flip(path, offset + at)
    for name in victim.disk.list(FOLDER / "index"):
        victim.disk.lose(FOLDER / "index" / name)
    victim.boot()
    assert [(d.first, d.last) for d in victim.log.damaged] == [(first, first)]
    group.run(2.0)
    assert victim.log.damaged == ()
    assert kept_files(group, victim.name) == kept
    assert bytes(victim.log.entry(first).body) == group.leader.applied[first]


def test_what_was_applied_before_it_rotted_goes_as_it_went_elsewhere() -> None:
    """The state machine needs nothing; the log is whole again by beginning where others do."""
    group = StateGroup()
    group.elect()
    group.fill(20)
    victim = a_follower(group)
    for name, host in group.hosts.items():
        if host is not victim:
            group.trim(name, BEGIN)
    wanted = dict(victim.applied)
    group.rot(victim.name, DAMAGED)
    group.run(10.0)
    assert victim.log.first_position == BEGIN
    assert victim.log.damaged == ()
    assert victim.taken == []
    assert victim.applied == wanted


def test_a_leader_that_needs_a_state_hands_over_to_who_has_it_and_is_given_it() -> None:
    """Its log is the longest, so it is elected; what is behind its damage is decided by it."""
    group, victim = damaged_where_others_begin_later()
    holder, behind = (host for host in group.hosts.values() if host is not victim)
    assert isinstance(holder, StateHost)
    behind.kill()
    holder.replica.hear(ev.DamageNoted(Index(holder.log.last.index)))  # it does not stand
    victim.boot()
    group.run(20.0)
    assert victim.replica.failure is None
    assert holder.replica.node.role is not Role.LEADER
    assert group.leader is victim
    holder.replica.hear(ev.DamageNoted(Index(-1)))
    group.run(20.0)
    assert group.leader is holder
    assert victim.taken == [victim.log.anchor.index]
    assert victim.applied == holder.applied


def test_what_is_not_applied_is_not_deleted() -> None:
    """Behind damage on all, states of an earlier life are there, and what led to them is not."""
    group = StateGroup()
    group.elect()
    group.fill(20)
    for name in group.hosts:
        group.rot(name, DAMAGED)
    victim = a_follower(group)
    victim.stop()
    victim.boot()
    group.run(5.0)
    assert victim.replica.applied == DAMAGED - 1
    assert victim.replica.node.commit > victim.log.index_at(BEGIN)
    assert BEGIN in victim.folder.positions()
    assert not victim.replica.trim(BEGIN)


def without_its_state(trimmed_elsewhere: bool) -> tuple[StateGroup, StateHost]:
    """A follower that is down, and the state rotted that its deleted entries had led to."""
    group = StateGroup()
    group.elect()
    group.fill(20)
    victim = a_follower(group)
    for name, host in group.hosts.items():
        if trimmed_elsewhere or host is victim:
            group.trim(name, BEGIN)
    victim.stop()
    victim.disk.flip(FOLDER / "snapshots" / f"{BEGIN:020}", 60)
    return group, victim


def test_a_replica_whose_state_is_lost_starts_without_and_is_sent_it() -> None:
    """Its log stays as it is: what it has acknowledged counts for votes and commits (R15)."""
    group, victim = without_its_state(trimmed_elsewhere=True)
    kept = kept_files(group, victim.name)
    victim.boot()
    assert victim.replica.applied == -1
    last, anchor = victim.log.last, victim.log.anchor
    assert victim.replica.status().flushed == last.index
    group.run(0.1)
    assert not victim.applied, "nothing is applied to a state that is not there"
    group.run(3.0)
    assert victim.taken == [anchor.index]
    assert (victim.log.anchor, victim.log.first_position) == (anchor, BEGIN)
    assert kept_files(group, victim.name).items() >= kept.items()
    group.fill(2)
    assert victim.applied == group.leader.applied
    assert victim.replica.applied == group.leader.replica.applied


def test_a_lost_state_is_waited_for_until_the_leader_begins_there_too() -> None:
    """Its log cannot be joined to an earlier state: what is between the two is gone."""
    group, victim = without_its_state(trimmed_elsewhere=False)
    victim.boot()
    group.run(3.0)
    assert (victim.taken, victim.applied) == ([], {})
    group.trim(group.leader.name, BEGIN + DATA_FILE_SIZE)
    group.run(5.0)
    assert victim.taken == [group.state_host(group.leader.name).log.anchor.index]
    assert victim.applied == group.leader.applied


def test_a_leader_whose_state_is_lost_hands_over() -> None:
    group, victim = without_its_state(trimmed_elsewhere=True)
    others = [host for host in group.hosts.values() if host is not victim]
    for host in others:
        host.replica.hear(ev.DamageNoted(Index(1)))  # they do not stand
    victim.boot()
    group.run(2.0)
    assert group.leader is victim
    for host in others:
        assert host.storage is not None
        host.replica.hear(ev.DamageNoted(Index(-1)))
        host.replica.hear(ev.EntriesFlushed(host.storage.log.flushed))
    group.run(10.0)
    assert group.leader is not victim
    assert victim.applied == group.leader.applied
