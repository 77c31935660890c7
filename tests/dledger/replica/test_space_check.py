"""L5: what a full disk has no space for is refused before it has an index; no node ends."""

from __future__ import annotations

import errno

import pytest

from dledger.core.types import Role
from dledger.errors import DiskFull, DledgerError
from dledger.replica.ports import Proposal
from tests.dledger.file_group import FOLDER, FileGroup, FileHost

BODY = b"b" * 150  # four or five entries make a file


def propose(group: FileGroup, host: FileHost) -> list[DledgerError | None]:
    outcome: list[DledgerError | None] = []
    host.replica.propose(Proposal([BODY], lambda _, error: outcome.append(error)), group.now)
    group.run(0.1)
    return outcome


def fill_up(group: FileGroup, host: FileHost) -> int:
    """Propose until there is no space; how many were acknowledged."""
    count = 0

    def until_refused() -> None:
        nonlocal count
        while count < 20:
            assert propose(group, host) == [None]
            count += 1

    with pytest.raises(DiskFull, match="no space left") as refusal:
        until_refused()
    assert refusal.value.retriable
    return count


def no_space() -> None:
    raise OSError(errno.ENOSPC, "no space left")


@pytest.fixture
def group() -> FileGroup:
    return FileGroup()


def test_a_follower_without_space_takes_no_range_and_goes_on_by_itself(group: FileGroup) -> None:
    leader = group.elect()
    group.fill(3)
    full, other = (host for host in group.hosts.values() if host is not leader)
    full.disk.new_files_max = 0
    group.fill(20)
    assert full.replica.failure is None
    assert full.replica.log.last < leader.replica.log.last
    assert other.applied == leader.applied
    assert group.leader is leader
    full.disk.new_files_max = None
    group.run(3.0)
    assert full.applied == leader.applied
    assert group.files(full.name) == group.files(leader.name)


def test_what_a_follower_had_space_for_is_acknowledged_and_survives(group: FileGroup) -> None:
    leader = group.elect()
    full = next(host for host in group.hosts.values() if host is not leader)
    full.disk.new_files_max = 0
    group.fill(20)
    last = full.replica.log.last
    assert full.replica.node.status().flushed == last.index
    full.kill()
    full.boot()
    assert full.replica.log.last == last


def test_a_range_that_replaces_entries_finds_the_space_that_these_had(
    group: FileGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check counts their files as space, so the truncation must not give them back.

    Others of the same disk take what is free, at once.
    """
    former = group.elect()
    group.fill(3)
    group.cut.add(former.name)
    for _ in range(10):  # for itself alone
        former.replica.propose(Proposal([BODY], lambda *_: None), group.now)
    data_files = former.disk.list(FOLDER / "data")
    group.run(3.0)
    group.fill(8)
    monkeypatch.setattr(former.disk, "_find_room", no_space)
    group.cut.clear()
    group.run(3.0)
    assert former.replica.failure is None
    assert former.applied == group.leader.applied
    assert group.files(former.name) == group.files(group.leader.name)
    assert former.disk.list(FOLDER / "data") == data_files
    former.kill()
    former.boot()
    group.run(1.0)
    assert group.files(former.name) == group.files(group.leader.name)


def test_a_leader_without_space_refuses_for_certain_and_serves_reads(group: FileGroup) -> None:
    leader = group.elect()
    leader.disk.new_files_max = 0
    fill_up(group, leader)
    last = leader.replica.log.last
    ready: list[object] = []
    leader.replica.read_index(ready.append, group.now)
    group.run(0.5)
    assert ready == [None]
    assert leader.replica.log.last == last
    leader.disk.new_files_max = None
    group.run(1.5)
    assert propose(group, group.leader) == [None]


def test_where_no_disk_has_space_no_node_ends_and_all_go_on(group: FileGroup) -> None:
    leader = group.elect()
    for host in group.hosts.values():
        host.disk.new_files_max = 0
    fill_up(group, leader)
    group.run(5.0)
    assert [host.replica.failure for host in group.hosts.values()] == [None] * 3
    for host in group.hosts.values():
        host.disk.new_files_max = None
    group.run(3.0)
    assert propose(group, group.leader) == [None]
    group.run(1.0)
    assert len({tuple(host.applied) for host in group.hosts.values()}) == 1


def test_a_node_leads_only_where_the_first_entry_of_a_leadership_finds_space() -> None:
    """Each start of a group of one appends such an entry, until nothing is left for another."""
    group = FileGroup(1)
    (host,) = group.hosts.values()
    group.elect()
    host.disk.new_files_max = 0
    fill_up(group, host)
    for _ in range(10):
        host.kill()
        host.boot()
        group.run(2.0)
        assert host.replica.failure is None
    assert host.replica.node.role is not Role.LEADER
    assert host.replica.node.disk.may_not_lead
    host.disk.new_files_max = None
    group.run(3.0)
    assert propose(group, host) == [None]


@pytest.mark.parametrize("whose", ["leader", "follower"])
def test_another_error_than_a_full_disk_ends_the_node(
    group: FileGroup, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5."""
    leader = group.elect()
    follower = next(host for host in group.hosts.values() if host is not leader)
    victim = leader if whose == "leader" else follower

    def broken(*_args: object, **_named: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(victim.disk, "create", broken)
    for _ in range(8):
        if victim.replica.failure is None:
            outcome: list[DledgerError | None] = []
            proposal = Proposal([BODY], lambda _, error, out=outcome: out.append(error))
            try:
                leader.replica.propose(proposal, group.now)
            except DledgerError:
                assert victim is leader
            group.run(0.1)
    assert "the disk is broken" in str(victim.replica.failure)
