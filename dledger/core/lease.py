"""Reads by a lease instead of a round (dissertation 6.4.1), where clocks keep within a bound.

    leader    round 7 sent at t0 ──┐                          ┌─► served at once until
    voter                          ▼ received, kept D ─────┐  │   t0 + promise × drift_factor
                                   └─ reply: round 7, promise ┘

A voter that answers a heartbeat promises to vote for nobody else, itself included, for a while. It
keeps that whatever comes: over broken connections, in a later term, and, as a restart forgets it,
a node that starts waits as long. Who was promised to by a majority of the group in force leads
alone until the promises end, counted from when the round was *sent* and on a clock that may lose
`clock_drift_max` while voters' gain as much. Only a successor that the leader itself appoints is
voted for earlier; so a leader that has appointed one has no lease any more in its term, because
what tells the successor may arrive at any time.

Clocks that jump: a leader's that jumps ahead ends its lease early; one that runs back ends it, too,
with all that was sent before. A voter that keeps a promise looks at its clock twice in
`clock_step_max`; when more has passed, it slept, or the clock jumped: it cannot know how much of
that was time, and counts none of it. It tells the leader less than it keeps, by one jump that is
too small to be noticed.

Promises are durations on the voter's clock, so settings of nodes may differ; who has leases off
promises nothing, is not counted, and the leader asks a majority as ever.
"""

from __future__ import annotations

from dledger.core.messages import HeartbeatReply
from dledger.core.progress import Progress
from dledger.core.quorum import agreed
from dledger.core.state import State
from dledger.core.types import NodeId

_NEVER = float("-inf")


def promise(state: State) -> float:
    """Renew the promise with the leader's heartbeat; return the seconds to tell the leader."""
    keep(state)
    return state.config.promise


def keep(state: State) -> None:
    """Give no vote for a whole lease from now on; a start does it, too, as it knows no promise."""
    state.promised_until = max(state.promised_until, state.now + state.config.lease)


def promised(state: State, progress: Progress, reply: HeartbeatReply) -> None:
    """A leader hears a promise; it counts from when the question was sent."""
    sent_at = state.lease.sent_at.get(reply.round)
    if sent_at is None:
        return
    until = sent_at + reply.promise * state.config.drift_factor
    progress.promised_until = max(progress.promised_until, until)


def holds(state: State) -> bool:
    """Has a majority of the group in force promised to this leader, beyond now?"""
    if state.lease.given_up or state.commit < state.noop_index:
        return False
    until: dict[NodeId, float] = {peer: p.promised_until for peer, p in state.progress.items()}
    until[state.me] = float("inf")  # who leads has voted for nobody since
    return state.now < agreed(until, state.quorum)


def jumped_ahead(state: State, step: float) -> None:
    """More has passed than there may be between two looks: none of it counts for a promise."""
    if state.has_promised():
        state.promised_until += step
        state.election_deadline += step


def ran_back(state: State) -> None:
    """Drop all measured promises: the clock ran back, so their ends are not known any more."""
    state.lease.sent_at.clear()
    for progress in state.progress.values():
        progress.promised_until = _NEVER
