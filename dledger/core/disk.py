"""Behaviour of a node with an unhealthy disk (requirement L5), and of its leader towards it.

    own disk           stands           votes  leads                    takes proposals
    GOOD               yes              yes    yes                      yes
    RECOVERING, SLOW   after the others yes    yes                      yes
    LOW                after the others yes    until another can        yes
    FULL               after the others yes    until another can        those that free space
    STALLED            no               no     until another can        until another can

A leader that must go hands over: proposals are refused at once, what is under way is decided by
the others, and the best voter with a healthy disk is told to stand when it has everything. From a
STALLED disk it goes after one election timeout whether that worked or not. While no voter with a
healthy disk is heard there is nobody to hand over to: it stays, and nothing that a majority does
not have on disk is committed all the same.

A leader whose disk is SLOW compares: followers report what a sync takes them. So one that is not
faster elsewhere moves nothing, and the move is made once: who left stands back while it is slow
and for a while after (hysteresis).
"""

from __future__ import annotations

from dataclasses import replace

from dledger.core import election, leading, transfer
from dledger.core.events import DiskChecked
from dledger.core.messages import DiskReport
from dledger.core.state import State
from dledger.core.types import DiskHealth, NodeId, Role

_GOOD, _STALLED = DiskHealth.GOOD, DiskHealth.STALLED
_MUST_GO = (DiskHealth.LOW, DiskHealth.FULL, _STALLED)


def checked(state: State, event: DiskChecked) -> None:
    """The shell has looked at our disk."""
    is_leader = state.role is Role.LEADER
    slower = is_leader and _is_slower_than_others(state, event.sync_seconds)
    if event.health is _GOOD and _is_still_slow(state, event.sync_seconds):
        event = replace(
            event, health=DiskHealth.SLOW, detail="its syncs took much longer than others'"
        )
    was, state.disk = state.disk.health, event
    if event.health is not was:
        state.standing_delay = 0.0 if event.health is _GOOD else state.config.unhealthy_wait
        if not is_leader:
            state.reset_election_deadline()
    if is_leader:
        if slower or event.health in _MUST_GO:
            transfer.resign(state)
    elif state.role is not Role.FOLLOWER and event.health is _STALLED:
        election.become_follower(state, state.term, None)
    elif state.leader is not None and not state.quiet:
        tell(state, state.leader)


def tell(state: State, leader: NodeId) -> None:
    """Report how our disk does."""
    disk = state.disk
    state.send(leader, DiskReport(state.me, state.term, disk.health, disk.sync_seconds))


def reported(state: State, report: DiskReport) -> None:
    """A follower of this term says how its disk does."""
    progress = state.progress.get(report.sender)
    if progress is not None and report.term == state.term:
        progress.disk_health, progress.sync_seconds = report.health, report.sync_seconds
        leading.find_full(state)


def _is_still_slow(state: State, sync_seconds: float) -> bool:
    """After it handed over for that; every slow sync begins the wait again."""
    slow = state.slow_disk
    if state.now < slow.until and sync_seconds > slow.limit:
        slow.until = state.now + state.config.slow_sync_trust
    return state.now < slow.until


def _is_slower_than_others(state: State, sync_seconds: float) -> bool:
    """For as long as `slow_sync_wait`; then we are slow, and the count begins again."""
    config, slow = state.config, state.slow_disk
    others = [
        progress.sync_seconds
        for peer, progress in state.progress.items()
        if progress.sync_seconds and transfer.refusal(state, peer) is None
    ]
    limit = max(config.slow_sync_min, config.slow_sync_factor * min(others, default=float("inf")))
    if sync_seconds <= limit:
        state.slow_since = None
        return False
    if state.slow_since is None:
        state.slow_since = state.now
    if state.now - state.slow_since < config.slow_sync_wait:
        return False
    state.slow_since = None
    slow.limit, slow.until = limit, state.now + config.slow_sync_trust
    return True
