"""The way of a group when a host, or a connection to one, is lost or comes back (R30, L1).

A leader that is gone is replaced soon. Many groups lose theirs in one moment when a host dies: they
begin within a spread of seconds, else every election waits for all others and none is in time.
"""

from __future__ import annotations

from dledger.core import election, leading, quiet
from dledger.core.events import ElectionHeld, HostsWatched, PeerConnected, PeerDisconnected
from dledger.core.quorum import has_majority
from dledger.core.state import State
from dledger.core.types import Role


def watched(state: State, event: HostsWatched) -> None:
    """A host went silent, or is heard again: wake the groups that this concerns."""
    before, state.watched = state.watched or frozenset(), event.peers
    if state.role is Role.LEADER:
        came = event.peers - before
        enough = has_majority({state.me, *event.peers}, state.quorum)
        if state.quiet and (not enough or not came.isdisjoint(state.progress)):
            quiet.wake(state)
    elif state.role is Role.FOLLOWER and state.leader in before - event.peers:
        if state.quiet:  # it lives perhaps, and its host has not noticed
            quiet.tell(state)
        state.quiet = False
        election.leader_disconnected(state, event.spread)


def held(state: State, event: ElectionHeld) -> None:
    """Put off an election that is due, without an end; or begin one that was put off.

    Whatever sets the deadline anew meanwhile, such as a leader's message or a vote for another
    candidate, ends the wait.
    """
    if event.held and state.now >= state.election_deadline and state.role is not Role.LEADER:
        state.election_deadline = float("inf")
    elif not event.held and state.election_deadline == float("inf"):
        state.election_deadline = state.now


def disconnected(state: State, event: PeerDisconnected) -> None:
    """Look for a leader soon, if its connection broke; probe a follower again.

    Once only, where its host was lost: the connections of all groups end with that.
    """
    if event.bulk and state.role is Role.LEADER:
        leading.disconnected(state, event.peer)
    if event.control and state.role is Role.FOLLOWER and event.peer == state.leader:
        is_known = state.watched is not None and event.peer not in state.watched
        if not (is_known and state.heard_leader_at == float("-inf")):
            election.leader_disconnected(state)


def connected(state: State, event: PeerConnected) -> None:
    """A leader speaks to a member that comes back and is on no watched host, before it is silent.

    A learner would never ask for its leader, and of a host that is not watched no beat tells. One
    that comes while the leader falls silent has missed the last heartbeat: calm begins anew.
    """
    is_watched = state.watched is not None and event.peer in state.watched
    if is_watched or state.role is not Role.LEADER or event.peer not in state.progress:
        return
    if state.quiet:
        quiet.wake(state)
    else:
        quiet.put_off(state)
