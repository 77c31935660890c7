"""Handing leadership over on purpose (dissertation 3.10), asked for or to the preferred node.

The leader refuses new proposals, lets the target catch up, waits until what it was sent before is
committed, tells the target to stand at once, and takes its word back after one election timeout if
nothing came of it.
"""

from __future__ import annotations

from dledger.core.effects import TransferDone
from dledger.core.events import TransferRequested
from dledger.core.messages import TimeoutNow
from dledger.core.state import State, Transfer
from dledger.core.types import DiskHealth, NodeId, Reason, Role, Term


def requested(state: State, event: TransferRequested) -> None:
    """Begin, or refuse with a reason."""
    to, transfer_id = event.to, event.transfer_id
    reason = refusal(state, to)
    target = to if to is not None else _best(state)
    if reason is None and target is None:
        reason = Reason.FALL_BEHIND_TOO_MUCH
    if reason is not None or target is None:
        state.out.append(TransferDone(transfer_id, ok=False, reason=reason))
        return
    if target == state.me:
        state.out.append(TransferDone(transfer_id, ok=True, reason=None))
        return
    _begin(state, target, transfer_id)


def refusal(state: State, to: NodeId | None) -> Reason | None:
    """Why leadership cannot be handed to `to` now, None when it can."""
    if state.role is not Role.LEADER:
        return Reason.NOT_LEADER
    if state.transfer is not None:
        return Reason.LEADER_TRANSFERRING
    if to is None or to == state.me:
        return None
    progress = state.progress.get(to)
    if progress is None or to not in state.voters:
        return Reason.UNKNOWN_MEMBER
    if progress.disk_health is not DiskHealth.GOOD:
        return Reason.UNHEALTHY_DISK
    lag = state.log.last.index - progress.matched
    silent = state.now - progress.heard_at >= state.config.election_timeout_min
    if lag > state.config.transfer_lag_max or silent:
        return Reason.FALL_BEHIND_TOO_MUCH
    return None


def _best(state: State) -> NodeId | None:
    able = [
        (progress.flushed, peer)
        for peer, progress in state.progress.items()
        if refusal(state, peer) is None
    ]
    return max(able)[1] if able else None


def _begin(state: State, to: NodeId, transfer_id: int | None) -> None:
    deadline = state.now + state.config.election_timeout_max
    state.transfer = Transfer(to, transfer_id, deadline)
    progressed(state, to)


def progressed(state: State, peer: NodeId) -> None:
    """Tell the target to stand, once it has the whole log and all proposals are committed."""
    plan = state.transfer
    if plan is None or plan.to != peer or plan.told:
        return
    progress = state.progress.get(peer)
    if progress is not None and progress.flushed == state.log.last.index and _is_quiet(state):
        plan.told = True
        state.lease.given_up = True  # its promise is what an appointed one may break (lease.py)
        state.send(peer, TimeoutNow(state.me, state.term))


def _is_quiet(state: State) -> bool:
    """True if every entry of the log is committed.

    If leadership moved earlier, clients of uncommitted entries would get "unknown" and send again.
    A leader that resigns because of its own disk or damage does not wait.
    """
    ill = state.disk.health is not DiskHealth.GOOD or state.damaged >= 0
    return ill or state.commit == state.log.last.index


def resign(state: State) -> None:
    """Let the best voter take over from a removed leader (dissertation 4.2.2), or from one with an
    unhealthy disk.
    """
    best = None if state.transfer is not None else _best(state)
    if best is not None:
        _begin(state, best, None)


def hand_to(state: State, to: NodeId | None) -> None:
    """Let `to` take over, if it can: it has entries lost here. None: the best voter."""
    if to is None:
        resign(state)
    elif state.transfer is None and refusal(state, to) is None:
        _begin(state, to, None)


def has_resigned(state: State) -> bool:
    """True if a leader that must go can stop: no transfer is under way, or its time is over."""
    removed = state.me not in state.voters and state.configuration_index <= state.commit
    stalled = state.disk.health is DiskHealth.STALLED and _is_one_healthy(state)
    if not removed and not stalled and state.damaged < 0:
        return False
    return state.transfer is None or state.now >= state.transfer.deadline


def _is_one_healthy(state: State) -> bool:
    """True if another voter answers and has a healthy disk, however far behind it is."""
    silence_max = state.config.election_timeout_min
    return any(
        progress.disk_health is DiskHealth.GOOD and state.now - progress.heard_at < silence_max
        for peer, progress in state.progress.items()
        if peer in state.voters
    )


def may_stand(state: State, sender: NodeId, term: Term) -> bool:
    """Only this term's leader may appoint, and only a healthy follower."""
    healthy = state.role is Role.FOLLOWER and state.disk.health is DiskHealth.GOOD
    healthy = healthy and not state.disk.may_not_lead
    return healthy and state.damaged < 0 and term == state.term and state.leader == sender


def tick(state: State) -> None:
    """Give up a transfer after its deadline; look whether the preferred node could lead."""
    plan = state.transfer
    if plan is not None and state.now >= plan.deadline:
        state.transfer = None
        if plan.transfer_id is not None:
            done = TransferDone(plan.transfer_id, ok=False, reason=Reason.TIMEOUT)
            state.out.append(done)
    if state.transfer is None:
        _consider_preferred(state)


def _consider_preferred(state: State) -> None:
    preferred = state.config.preferred
    if preferred is None or preferred == state.me:
        return
    progress = state.progress.get(preferred)
    if progress is None:  # not a member at the moment
        return
    # As for a transfer that was asked for: under load no follower ever has everything, and need
    # not, because proposals wait until it has.
    if refusal(state, preferred) is not None or state.commit < state.noop_index:
        progress.healthy_since = None
        return
    if progress.healthy_since is None:
        progress.healthy_since = state.now
    elif state.now - progress.healthy_since >= state.config.preferred_wait:
        progress.healthy_since = None
        _begin(state, preferred, None)


def leadership_ended(state: State) -> None:
    """Answer the transfer request with success: this node leads no more."""
    plan = state.transfer
    if plan is not None and plan.transfer_id is not None:
        state.out.append(TransferDone(plan.transfer_id, ok=True, reason=None))
