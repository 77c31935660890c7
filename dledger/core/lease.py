"""Reads by a lease, without a round of heartbeats (dissertation 6.4.1), if clocks drift little.

    leader    round 7 sent at t0 ──┐                          ┌─► served at once until
    voter                          ▼ received, kept D ─────┐  │   t0 + promise × drift_factor
                                   └─ reply: round 7, promise ┘

A voter that answers a heartbeat promises to vote for no other node, itself included, for a time D.
It keeps the promise over broken connections and in later terms. A restart forgets promises, so a
node that starts gives no vote for D either. A leader that has promises of a majority of the current
configuration is the only leader until they end. It counts them from when it *sent* the round, and
shortens them by `drift_factor`: its clock may lose `clock_drift_max` while a voter's gains as much.
Voters do vote earlier for a successor that the leader itself appoints. So a leader that appoints
one has no lease for the rest of its term, as its message may reach the successor at any time.

Clocks that jump: a leader's clock that jumps ahead ends its lease early. If it runs back, the
leader drops its lease and all rounds that it sent before. A voter under a promise reads its clock
twice in each `clock_step_max`. If more has passed between two reads, the process slept or the clock
jumped; the voter cannot tell which, so it counts none of that time. It tells the leader less than D
by one `clock_step_max`, the largest jump that it would not notice.

Promises are durations on the voter's clock, so settings of nodes may differ. A voter with leases
off promises 0 s, so without a majority of other promises the leader asks a majority for each read.
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
    """Give no vote for a whole lease from now on; also called at a start, which forgot promises."""
    state.promised_until = max(state.promised_until, state.now + state.config.lease)


def promised(state: State, progress: Progress, reply: HeartbeatReply) -> None:
    """As leader, note a voter's promise; it counts from when this leader sent the round."""
    sent_at = state.lease.sent_at.get(reply.round)
    if sent_at is None:
        return
    until = sent_at + reply.promise * state.config.drift_factor
    progress.promised_until = max(progress.promised_until, until)


def holds(state: State) -> bool:
    """Does a majority of the current configuration still keep a promise to this leader?"""
    if state.lease.given_up or state.commit < state.noop_index:
        return False
    until: dict[NodeId, float] = {peer: p.promised_until for peer, p in state.progress.items()}
    until[state.me] = float("inf")  # a leader gives no vote in its own term
    return state.now < agreed(until, state.quorum)


def jumped_ahead(state: State, step: float) -> None:
    """The clock moved by more than it may between two reads: do not count that for a promise."""
    if state.has_promised():
        state.promised_until += step
        state.election_deadline += step


def ran_back(state: State) -> None:
    """Drop all measured promises: the clock ran back, so their ends are not known any more."""
    state.lease.sent_at.clear()
    for progress in state.progress.values():
        progress.promised_until = _NEVER
