"""Damage on a running replica: found, kept apart from, and undone with the help of peers (R2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commitlog.errors import StoreDamaged
from dledger.core import events as ev
from dledger.core.messages import RangeReply, RangeRequest
from dledger.core.types import EntryId, Index, NodeId, Role, Term, TermRun
from dledger.errors import RangeRejected
from dledger.log.file_log import FileLog
from dledger.repair.repair import RepairStatus
from dledger.repair.scrubber import Scrubber
from dledger.replica.ports import Proposal
from dledger.replica.replica import Replica
from tests.dledger.file_group import EAGER, FOLDER, INDEX_FILE_SIZE, LAZY, FileGroup, FileHost


def follower(group: FileGroup) -> FileHost:
    return next(host for host in group.hosts.values() if host is not group.leader)


def repair_of(replica: Replica) -> RepairStatus:
    assert replica.repair is not None
    return replica.repair.status()


def log_of(host: FileHost) -> FileLog:
    assert host.storage is not None
    return host.storage.log


def test_a_follower_finds_rot_by_itself_and_mends_it_from_a_peer() -> None:
    """Every kind of byte: body, index, chain checksum; the files are as they were, slots too."""
    group = FileGroup()
    leader = group.elect()
    group.fill(12)
    victim = follower(group)
    before = group.files(victim.name)
    for index, at in ((0, 20), (3, 60), (4, 15), (9, 40)):
        group.rot(victim.name, index, at)
    victim.disk.flip(FOLDER / "index" / f"{0:020}", 5 * 32 + 9)
    assert group.files(victim.name) != before
    group.run(3.0)
    assert group.files(victim.name) == before
    status = repair_of(victim.replica)
    assert status.damaged == ()
    assert status.found >= 3
    assert status.restored_entries >= 4
    assert status.passes > 0
    assert group.leader is leader


def test_a_whole_index_file_of_zeros_is_made_again_by_the_scrubber() -> None:
    group = FileGroup()
    group.elect()
    group.fill(INDEX_FILE_SIZE // 32 + 4)
    victim = follower(group)
    before = group.files(victim.name)
    name = f"index/{0:020}"
    path = FOLDER / name
    for place, byte in enumerate(before[name]):
        if byte:
            victim.disk.flip(path, place, byte)
    assert name not in group.files(victim.name)
    group.run(3.0)
    assert group.files(victim.name) == before


def test_a_damaged_leader_hands_over_and_its_log_is_mended() -> None:
    """It does not lead or stand while it is damaged; nothing that was acknowledged is lost."""
    group = FileGroup()
    old = group.elect()
    group.fill(8)
    before = group.files(old.name)
    group.cut = {name for name in group.hosts if name != old.name}  # no peer can help
    group.rot(old.name, 3)
    group.run(3.0)
    assert old.replica.node.role is not Role.LEADER
    assert [damage.first for damage in repair_of(old.replica).damaged] == [3]
    assert old.replica.status().flushed == 2  # nothing from there on is acknowledged
    group.cut = set()
    group.run(3.0)
    group.fill(2)
    group.run(1.0)
    mended = group.files(old.name)
    assert repair_of(old.replica).damaged == ()
    assert {name: mended[name] for name in ("data/" + f"{0:020}",)} == {
        "data/" + f"{0:020}": before["data/" + f"{0:020}"]
    }
    assert old.replica.status().flushed == group.leader.replica.status().flushed


def test_a_damaged_leader_hands_over_while_all_are_well() -> None:
    group = FileGroup(mend=LAZY)
    old = group.elect()
    group.fill(6)
    old.replica.hear(ev.DamageNoted(Index(3)))
    group.run(1.5)
    assert group.leader is not old
    group.fill(1)


def test_what_was_put_back_survives_a_power_cut() -> None:
    group = FileGroup()
    group.elect()
    group.fill(8)
    victim = follower(group)
    before = group.files(victim.name)
    group.rot(victim.name, 3)
    group.run(2.0)
    victim.disk.crash(keep=0.0)
    data = f"data/{0:020}"
    assert group.files(victim.name)[data] == before[data]


def test_what_a_read_meets_is_mended_without_a_scrubber() -> None:
    """On read: the damaged entry is refused, and there again a moment later."""
    group = FileGroup(mend=LAZY)
    group.elect()
    group.fill(8)
    victim = follower(group)
    wanted = bytes(log_of(victim).entry(Index(5)).body)
    victim.storage, log = victim.storage, log_of(victim)
    log.reader.recent.clear()
    group.rot(victim.name, 5)
    with pytest.raises(StoreDamaged, match="body of record 5"):
        log.entry(Index(5))
    group.run(1.0)
    assert bytes(log.entry(Index(5)).body) == wanted


def test_a_leader_that_meets_damage_while_it_sends_hands_over_and_sends_none_of_it() -> None:
    """On send: a follower that was away gets the entries from the next leader."""
    group = FileGroup(mend=LAZY)
    old = group.elect()
    behind = follower(group)
    group.cut = {behind.name}
    group.fill(8)
    group.rot(old.name, 5)
    group.cut = set()
    group.run(4.0)
    assert behind.replica.applied == old.replica.applied == group.leader.replica.applied
    assert behind.applied[5] == group.leader.applied[5]
    assert repair_of(old.replica).damaged == ()
    assert old.replica.failure is None


def test_a_damaged_node_votes_by_the_end_of_its_log_and_does_not_stand() -> None:
    """R1, R2: were 95 taken for the end, C could lead without 95 to 100."""
    group = FileGroup(mend=LAZY)
    leader = group.elect()
    behind = follower(group)
    damaged = next(h for h in group.hosts.values() if h not in (leader, behind))
    group.cut = {behind.name}
    group.fill(6)
    leader.kill()
    group.cut = set()
    damaged.replica.hear(ev.DamageNoted(Index(1)))
    for _ in range(20):
        group.run(0.5)
        assert damaged.replica.node.role is Role.FOLLOWER
        assert behind.replica.node.role is not Role.LEADER
    damaged.replica.hear(ev.DamageNoted(Index(-1)))
    group.run(3.0)
    assert group.leader is damaged


def test_what_is_damaged_is_not_acknowledged_and_is_when_it_is_mended() -> None:
    """R2: with the other follower away nothing is committed by a node that is damaged."""
    group = FileGroup(mend=LAZY)
    leader = group.elect()
    damaged = follower(group)
    group.fill(4)
    group.cut = {h.name for h in group.hosts.values() if h not in (leader, damaged)}
    damaged.replica.hear(ev.DamageNoted(Index(2)))
    outcome: list[object] = []
    leader.replica.propose(Proposal([b"b" * 99], lambda _, error: outcome.append(error)), group.now)
    group.run(0.6)
    assert outcome == []
    damaged.replica.hear(ev.DamageNoted(Index(-1)))
    damaged.replica.hear(ev.EntriesFlushed(log_of(damaged).flushed))
    group.run(0.4)
    assert outcome == [None]


@pytest.mark.parametrize("whole", [0, 1])
def test_damage_on_a_majority_is_mended_by_the_one_that_has_it_or_refused(whole: int) -> None:
    """The same entry on two or on all: the last whole copy serves; without one it is refused."""
    group = FileGroup()
    group.elect()
    group.fill(8)
    names = sorted(group.hosts)
    before = group.files(names[0])
    for name in names[whole:]:
        group.rot(name, 3)
    group.run(6.0)
    if whole:
        assert all(group.files(name) == before for name in names)
        return
    group.fill(3)  # a leader there is, and the rest of the log is served
    for host in group.hosts.values():
        status = repair_of(host.replica)
        assert [damage.first for damage in status.refused] == [3]
        with pytest.raises(StoreDamaged):
            log_of(host).entry(Index(3))
        assert bytes(log_of(host).entry(Index(2)).body).startswith(b"message 1 ")
    name = names[1]
    group.rot(name, 3)  # one copy comes back, of a backup
    group.run(25.0)
    assert [group.files(n)["data/" + f"{0:020}"] for n in names] == [
        before["data/" + f"{0:020}"]
    ] * 3


def test_a_single_node_refuses_what_is_damaged_and_serves_the_rest() -> None:
    group = FileGroup(1)
    group.elect()
    group.fill(6)
    group.rot("n0", 3)
    group.run(3.0)
    group.fill(2)
    assert [damage.first for damage in repair_of(group["n0"].replica).refused] == [3]


def test_what_is_in_memory_is_put_back_from_there() -> None:
    group = FileGroup(1, cache_size_max=1 << 20)
    group.elect()
    group.fill(6)
    before = group.files("n0")
    group.rot("n0", 3)
    group.run(2.0)
    assert group.files("n0") == before


def test_applying_waits_for_what_is_damaged() -> None:
    """A state machine never sees a gap: it goes on when the entry is there again."""
    group = FileGroup(mend=LAZY)
    group.elect()
    group.fill(8)
    victim = follower(group)
    wanted = dict(victim.applied)
    path, offset = group.place(victim.name, 4)
    victim.stop()
    victim.disk.flip(path, offset + 70)
    victim.boot()
    group.cut = {name for name in group.hosts if name not in (victim.name, group.leader.name)}
    held = max(victim.applied, default=-1)
    assert held < 4
    group.run(3.0)
    assert victim.applied == wanted | victim.applied
    assert victim.replica.failure is None


def test_damage_that_a_start_finds_is_told_to_the_rules_first() -> None:
    """The record that the flush mark names: its node knows its end, and acknowledges less."""
    group = FileGroup(mend=LAZY)
    group.elect()
    group.fill(6)
    victim = follower(group)
    last = log_of(victim).last
    path, offset = group.place(victim.name, last.index)
    victim.stop()
    victim.disk.flip(path, offset + 70)
    group.cut = {victim.name}
    victim.boot()
    assert log_of(victim).last == last
    assert victim.replica.status().flushed == last.index - 1
    group.run(3.0)
    assert victim.replica.node.role is Role.FOLLOWER
    group.cut = set()
    group.run(3.0)
    assert repair_of(victim.replica).damaged == ()
    assert victim.replica.status().flushed >= last.index


def test_only_the_same_entries_are_put_back() -> None:
    """Other terms, another place, what is not there: refused, nothing is written."""
    group = FileGroup(mend=LAZY)
    leader = group.elect()
    group.fill(8)
    log, source = log_of(follower(group)), log_of(leader)
    scrubber = Scrubber(log)
    good = source.read_range(Index(3), Index(5), 1 << 20)
    runs = log.pointers.runs
    log.pointers.runs = [TermRun(Term(0), Index(3)), *runs]
    with pytest.raises(RangeRejected, match="terms"):
        scrubber.begin_restore(good)
    log.pointers.runs = runs
    moved = type(good)(
        good.prev,
        good.prev_chain_crc,
        good.last,
        good.runs,
        good.position,
        good.size - 1,
        good.parts,
    )
    with pytest.raises(RangeRejected):
        scrubber.begin_restore(moved)
    flushed = log.pointers.flushed
    log.pointers.flushed = replace(flushed, index=Index(4))
    with pytest.raises(RangeRejected, match="not on disk"):
        scrubber.begin_restore(good)
    log.pointers.flushed = flushed


def test_damage_that_is_not_committed_is_mended_when_the_group_needs_just_this_replica() -> None:
    """Two of three are there, and one of them is damaged above all that is known as committed."""
    group = FileGroup()
    leader = group.elect()
    group.fill(4)
    victim, absent = (host for host in group.hosts.values() if host is not leader)
    absent.stop()
    leader.replica.propose(Proposal([b"x" * 150], lambda _, error: None), group.now)
    while leader.work:
        leader.work.pop(0).task.run()
    leader.kill()  # its message is on the way; nobody hears the answer
    group.run(0.2)
    last = log_of(victim).last
    path, offset = group.place(victim.name, last.index)
    victim.stop()
    victim.disk.flip(path, offset + 70)
    leader.boot()
    victim.boot()
    assert [damage.first for damage in repair_of(victim.replica).damaged] == [last.index]
    assert max(leader.replica.node.commit, victim.replica.node.commit) < last.index
    group.run(4.0)
    assert repair_of(victim.replica).damaged == ()
    assert group.leader is leader, "who is damaged does not stand"
    assert leader.replica.node.commit > last.index
    assert leader.applied[last.index] == b"x" * 150


def test_what_is_truncated_meanwhile_is_not_written_over() -> None:
    """The range is on its way to the disk when another leader's entries take its place."""
    group = FileGroup(mend=LAZY)
    leader = group.elect()
    group.fill(8)
    storage = follower(group).storage
    assert storage is not None
    log = storage.log
    log.pointers.committed = Index(4)
    scrubber = Scrubber(log)
    task = scrubber.begin_restore(log_of(leader).read_range(Index(3), Index(8), 1 << 20))
    assert task is not None
    log.truncate_after(Index(5))
    log.append([b"y" * 150], Term(9))
    name = follower(group).name
    before = group.files(name)
    task.run()
    scrubber.finish_restore(task)
    assert group.files(name) == before
    assert scrubber.restored_entries == 0
    assert bytes(log.entry(Index(6)).body) == b"y" * 150


@pytest.mark.parametrize("asked", [False, True])
def test_an_answer_to_another_question_is_not_taken_in(asked: bool) -> None:
    group = FileGroup(mend=LAZY)
    group.elect()
    group.fill(6)
    victim = follower(group)
    if asked:
        group.rot(victim.name, 5)
        group.cut = {victim.name}
        with pytest.raises(StoreDamaged):
            log_of(victim).read_range(Index(5), Index(5), 1 << 20)
        group.run(0.2)
        assert [damage.first for damage in repair_of(victim.replica).damaged] == [5]
    before = group.files(victim.name)
    found = log_of(group.leader).read_range(Index(2), Index(4), 1 << 20)
    reply = RangeReply(
        group.leader.name,
        99,
        found.prev,
        found.last,
        found.runs,
        found.position,
        found.prev_chain_crc,
        found.size,
        found.parts,
    )
    victim.replica.receive(reply, group.now)
    assert victim.work == []
    assert group.files(victim.name) == before


def test_a_peer_answers_with_nothing_what_it_has_not() -> None:
    """Another entry before it, behind its end, damaged here as well: the next one is asked."""
    group = FileGroup(mend=LAZY)
    group.elect()
    group.fill(6)
    asked = follower(group)
    group.rot(asked.name, 4)
    sent: list[RangeReply] = []
    asked.send = lambda _, message: sent.append(message)  # type: ignore[assignment,method-assign,arg-type]
    asked.replica._ports.send = asked.send  # type: ignore[method-assign]
    last = log_of(asked).last
    for prev in (
        EntryId(Term(77), Index(2)),
        EntryId(last.term, Index(500)),
        log_of(asked).id_of(Index(3)),
    ):
        request = RangeRequest(NodeId("n9"), 1, prev, Index(prev.index + 1), 1 << 20)
        sender = next(name for name in group.hosts if name != asked.name)
        request = RangeRequest(sender, 1, prev, Index(prev.index + 1), 1 << 20)
        asked.replica.receive(request, group.now)
        assert (sent[-1].last, sent[-1].size) == (prev.index, 0)
    request = RangeRequest(sender, 2, log_of(asked).id_of(Index(1)), Index(2), 1 << 20)
    asked.replica.receive(request, group.now)
    assert (sent[-1].last, sent[-1].size > 0) == (2, True)


def test_scrubbing_keeps_to_its_rate_and_can_be_asked_for() -> None:
    group = FileGroup(
        mend=type(EAGER)(bytes_per_second=400, piece_bytes=200, first_after=0.0, pause=0.1)
    )
    group.elect()
    group.fill(10)
    host = follower(group)
    group.run(2.0)
    read = repair_of(host.replica).scrubbed_bytes
    group.run(4.0)
    assert 800 < repair_of(host.replica).scrubbed_bytes - read < 2400
    idle = FileGroup(mend=LAZY)
    idle.elect()
    idle.fill(4)
    host = follower(idle)
    assert repair_of(host.replica).passes == 0
    assert host.replica.repair is not None
    host.replica.repair.scrub_now(idle.now)
    idle.run(1.0)
    assert repair_of(host.replica).passes == 1
