"""The leader's half of snapshots: offers, chunks, resends. The follower's half is `snapshots`.

The two halves are two modules because the leader's rules (`leading`) begin a snapshot, and the
follower's half needs the follower's rules (`replication`), which end a leadership: in one module
they would import each other in a circle.
"""

from __future__ import annotations

from dledger.core.effects import SendSnapshot
from dledger.core.messages import SnapshotReply
from dledger.core.progress import Mode, Progress
from dledger.core.state import State
from dledger.core.types import NodeId


def begin(state: State, peer: NodeId, progress: Progress) -> None:
    """The follower needs entries that are gone."""
    progress.become_snapshot()
    offer(state, peer, progress)


def offer(state: State, peer: NodeId, progress: Progress) -> None:
    """Say which snapshot there is; the answer tells how much of it the follower has."""
    _send(state, peer, progress, 0, 0)


def _send(state: State, peer: NodeId, progress: Progress, offset: int, size_max: int) -> None:
    if progress.mode is Mode.SNAPSHOT:
        progress.probe_at = state.now
    state.out.append(
        SendSnapshot(
            peer, state.term, state.log.anchor, state.initial, offset, size_max, state.hard_sequence
        )
    )


def replied(state: State, reply: SnapshotReply) -> None:
    """A follower of this term has so much of a snapshot on disk."""
    progress = state.progress.get(reply.sender)
    if progress is None:
        return
    progress.heard_at = state.now
    if state.log.anchor.index < 0:
        return  # nothing is gone here
    if reply.anchor != state.log.anchor.index:
        offer(state, reply.sender, progress)  # it asks which one, or more is gone by now
        return
    if progress.mode is Mode.SNAPSHOT and reply.offset > progress.offset:
        progress.offset, progress.progress_at = reply.offset, state.now
    size_max = state.config.snapshot_chunk_bytes_max
    _send(state, reply.sender, progress, reply.offset, size_max)


def tick(state: State, peer: NodeId, progress: Progress) -> None:
    """With each heartbeat: a chunk or its answer may be lost."""
    assert progress.probe_at is not None
    if state.now - progress.probe_at >= state.config.resend_timeout:
        offer(state, peer, progress)
