"""Schedules for rules that seeds reach too rarely; `chaos.mutants` names them as killers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from chaos.sim.disk import SimDisk
from chaos.sim.storage import FOLDER, format_storage, open_storage
from chaos.sim.swarm import LogOptions
from commitlog.records.record import CHAINED, HEADER, HEADER_SIZE, MAGIC_ENTRY, chain
from dledger.core.config import CoreConfig
from dledger.core.effects import Send
from dledger.core.events import HardStatePersisted, MessageReceived, TimerFired
from dledger.core.messages import AppendEntries, AppendReply, VoteReply, VoteRequest
from dledger.core.node import RaftNode
from dledger.core.types import EntryId, HardState, Index, NodeId, Role, Term, TermRun
from dledger.errors import RangeRejected

A, B, C = NodeId("n0"), NodeId("n1"), NodeId("n2")


def node(term: int, runs: list[TermRun]) -> RaftNode:
    """n0 of three nodes, in `term`, with everything on disk."""
    last = runs[-1].last if runs else Index(-1)
    return RaftNode(
        CoreConfig(A, (A, B, C)),
        HardState(Term(term), None, 1),
        runs,
        last,
        0.0,
        lambda: 0.0,
    )


def stand(raft: RaftNode, now: float) -> None:
    """Let `raft` win its pre-vote and ask for real votes, its own one on disk."""
    raft.handle(TimerFired(), now)
    term = Term(raft.term + 1)
    reply = VoteReply(B, term, term, granted=True, pre=True)
    raft.handle(MessageReceived(reply), now)
    assert raft.role is Role.CANDIDATE
    assert raft.term == term
    raft.handle(HardStatePersisted(raft.term), now)


def test_a_vote_of_an_earlier_candidacy_does_not_count() -> None:
    """Granted in term 1, delivered in term 2: counting it would need no majority of term 2."""
    raft = node(0, [])
    stand(raft, 1.0)
    stand(raft, 2.0)
    late = VoteReply(C, Term(1), Term(1), granted=True, pre=False)
    raft.handle(MessageReceived(late), 2.1)
    assert raft.role is Role.CANDIDATE
    timely = VoteReply(C, Term(2), Term(2), granted=True, pre=False)
    raft.handle(MessageReceived(timely), 2.2)
    assert raft.role is Role.LEADER


@pytest.mark.parametrize("pre", [True, False])
def test_a_longer_log_of_an_older_term_gets_no_vote(pre: bool) -> None:
    """Paper 5.4.1: the later term wins, however long the other log is."""
    raft = node(3, [TermRun(Term(3), Index(5))])
    request = VoteRequest(B, Term(4), EntryId(Term(2), Index(90)), pre)
    effects = raft.handle(MessageReceived(request), 10.0)
    replies = [e.message for e in effects if isinstance(e, Send)]
    assert [isinstance(reply, VoteReply) and reply.granted for reply in replies] == [False]
    newer = VoteRequest(C, Term(5), EntryId(Term(4), Index(0)), pre)
    effects = raft.handle(MessageReceived(newer), 11.0)
    replies = [e.message for e in effects if isinstance(e, Send)]
    assert [isinstance(reply, VoteReply) and reply.granted for reply in replies] == [True]


def test_what_follows_an_entry_of_another_term_is_refused() -> None:
    """S1: entry 5 is there, of term 3; the leader's is of term 2, and 6 would stand on it."""
    raft = node(3, [TermRun(Term(3), Index(5))])
    behind = AppendEntries(
        B, Term(4), EntryId(Term(2), Index(5)), Index(6), Index(5), (TermRun(Term(4), Index(6)),)
    )
    effects = raft.handle(MessageReceived(behind), 1.0)
    replies = [effect.message for effect in effects if isinstance(effect, Send)]
    assert [isinstance(reply, AppendReply) and reply.success for reply in replies] == [False]


OPTIONS = LogOptions(4096, 64, 1 << 20, 4096, 4, 0.1, 0.3, 0.6)


def test_a_range_for_another_position_is_not_written() -> None:
    """S10: a first record that claims position 4096 where ours begins at 0."""
    disk = SimDisk(Random(1))
    format_storage(disk, 1)
    log = open_storage(disk, OPTIONS, lambda: 0.0).log
    other = SimDisk(Random(1))
    format_storage(other, 2)
    sender = open_storage(other, OPTIONS, lambda: 0.0).log
    sender.append([bytes(16)], Term(1))
    found = sender.read_range(Index(0), Index(0), 1 << 20)
    data = bytearray(b"".join(found.parts))
    head = CHAINED.pack(MAGIC_ENTRY, len(data), 0, 1, 4096, 0)
    body_crc = HEADER.unpack_from(data)[7]
    HEADER.pack_into(
        data,
        0,
        MAGIC_ENTRY,
        len(data),
        0,
        1,
        4096,
        0,
        chain(0, head, body_crc),
        body_crc,
        len(data) - HEADER_SIZE,
    )
    forged = replace(found, position=4096, parts=(memoryview(data),))
    with pytest.raises(RangeRejected, match="position"):
        log.append_range(forged, Index(0))
    assert log.last.index == -1
    assert disk.read(Path(FOLDER / "data" / f"{0:020d}")) == bytes(4096)
