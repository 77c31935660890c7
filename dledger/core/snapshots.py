"""Snapshots: a follower that needs deleted entries gets the state they led to (paper 7).

    leader    next ≤ anchor ─► offer ─► one chunk at a time, each asked for by the answer before
                            ─► the follower's log ends at the anchor ─► byte ranges from there on
    follower  has the anchor ─► says so, nothing changes: what is good here stays
              else ─► keeps each chunk on disk ─► whole and checked ─► its log restarts empty behind
                      the anchor, with the state machine at the anchor's state

A snapshot is the state at the very end of what was deleted, so it and the log fit without a gap or
an overlap, and everything behind it comes as bytes of the log, like everything else.

A follower whose log has the anchor may need the state all the same: an entry is damaged that all
others have deleted, or the state at its own anchor is lost. It asks, also while it is sent byte
ranges, and what it has behind the anchor stays: its log loses its beginning, as if it had deleted
that itself.

Only committed entries are ever deleted, so an anchor is committed: a follower with a log from it on
may report it as matched and flushed, under any leader (R4), and a log that lacks it holds no
committed entry behind it.
"""

from __future__ import annotations

from dledger.core import membership, replication, transfer
from dledger.core.configuration import Configuration
from dledger.core.effects import InstallSnapshot, ReceiveSnapshot, TakeState
from dledger.core.events import PrefixDropped, SnapshotReceived, StateNeeded
from dledger.core.messages import AppendReply, SnapshotChunk, SnapshotReply
from dledger.core.state import State
from dledger.core.types import NO_ENTRY, NO_INDEX, EntryId, Index, NodeId, Role


def needed(state: State, event: StateNeeded) -> None:
    """An entry or a state is lost here for good: ask the leader for one; as leader, hand over."""
    state.unreadable = event.first
    if event.first < 0:
        return
    if state.role is Role.LEADER:
        transfer.hand_to(state, event.holder)
    elif state.role is Role.FOLLOWER and state.leader is not None:
        state.send(state.leader, SnapshotReply(state.me, state.term, NO_INDEX, 0))


def chunk_received(state: State, message: SnapshotChunk) -> None:
    """Keep the chunk, or reply that the log has the anchor already."""
    if message.term < state.term:
        _reply(state, message.sender, message.anchor.index, success=False)
        return
    replication.follow(state, message.sender, message.term)
    if _has(state, message.anchor):
        _matched(state, message.anchor.index)
    else:
        state.out.append(ReceiveSnapshot(message))


def received(state: State, event: SnapshotReceived) -> None:
    """So much of it is on disk, or all of it, checked: then install it."""
    if state.role is not Role.FOLLOWER or state.leader is None:
        return
    anchor = event.anchor
    if _has(state, anchor):
        _matched(state, anchor.index)
    elif not event.whole:
        reply = SnapshotReply(state.me, state.term, anchor.index, event.offset)
        state.send(state.leader, reply)
    elif state.log.term_at(anchor.index) == anchor.term:
        if anchor == state.log.anchor or anchor.index < min(state.commit + 1, state.log.last.index):
            state.out.append(TakeState(anchor))  # else it is asked for again
    else:
        state.out.append(InstallSnapshot(anchor, event.configuration))
        state.log.restart(anchor)
        state.flushed = anchor.index
        state.commit_to(anchor.index)
        membership.taken_over(state, event.configuration)
        state.matched = NO_INDEX
        _matched(state, anchor.index)


def _has(state: State, anchor: EntryId) -> bool:
    """Is the entry here, and all before it of use? Or was it, before it was deleted here, too?"""
    if 0 <= state.unreadable <= anchor.index:
        return False
    if state.log.term_at(anchor.index) == anchor.term:
        return True
    if anchor.index > state.commit:
        return False
    if anchor.index >= state.log.first:
        raise replication.SafetyViolation(
            f"{state.me} committed another entry than {anchor}, which its leader has deleted"
        )
    return True


def _matched(state: State, index: Index) -> None:
    state.matched = max(state.matched, index)
    assert state.leader is not None
    _reply(state, state.leader, NO_INDEX, success=True)


def _reply(state: State, to: NodeId, previous: Index, *, success: bool) -> None:
    flushed = Index(min(state.flushed, state.matched))
    state.send(
        to,
        AppendReply(state.me, state.term, success, previous, state.matched, flushed, NO_ENTRY),
    )


# -- every node ------------------------------------------------------------------------------------


def dropped(state: State, event: PrefixDropped) -> None:
    """Entries up to the anchor are gone here; the group as they left it is where it begins."""
    assert event.anchor.index <= state.commit, "only what is decided is deleted"
    state.log.drop_through(event.anchor)
    state.initial = configuration_at(state, event.anchor.index)
    state.configurations[:] = [e for e in state.configurations if e.index > event.anchor.index]


def configuration_at(state: State, index: Index) -> Configuration:
    """The group as the entries up to `index` have it."""
    found = state.initial
    for entry in state.configurations:
        if entry.index <= index:
            assert entry.configuration is not None
            found = entry.configuration
    return found
