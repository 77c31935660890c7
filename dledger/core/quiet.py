"""Silence of a group without traffic, where the hosts of its members watch each other (R30).

    leader, calm for `quiet_after` ── heartbeat, quiet ──► follower with the same log, all of it
            │                                              committed and on disk: quiet
    all that are heard are quiet: quiet, too ◄── quiet ────┘

    anything new ──► awake: heartbeats and election timers again, as if the leader spoke just now

Calm: everything is committed and on every disk that is heard, and nothing is asked of the group. A
quiet leader has no heartbeats, a quiet follower no election timer. Instead of their silence that of
a whole host is noticed: `HostsWatched` then wakes each group that it concerns (replica/beats.py).
Who is not watched counts as one that is down; so a group with a host that is down falls silent,
too, and wakes when that is back.

No rule of safety knows of this. Terms, votes and commits go by messages as ever; a read is served
when a round that began after it was answered; and nothing that lasts for a time is prolonged: a
group with lease reads is never quiet. A message that is lost costs time only: a quiet leader asks
again every `quiet_check`, and a follower that is not asked stands.
"""

from __future__ import annotations

from dledger.core import events as ev
from dledger.core import membership
from dledger.core import messages as msg
from dledger.core.progress import Mode
from dledger.core.quorum import has_majority
from dledger.core.state import State
from dledger.core.types import NO_INDEX, DiskHealth, NodeId, Role

#: After so many missed questions of its leader a quiet follower looks for another one.
QUIET_CHECKS_MISSED = 2.5
#: A quiet leader asks up to so much of its wait earlier: those that fell silent together ask apart.
QUIET_CHECK_SPREAD = 0.2
#: A quiet group's own work ends with these, of which others need not hear; or hosts.py judges them.
_NO_NEWS = (
    ev.EntriesFlushed,
    ev.HardStatePersisted,
    ev.AppendSent,
    ev.HostsWatched,
    ev.PeerConnected,
    ev.ElectionHeld,
)


# -- falling silent --------------------------------------------------------------------------------


def tick(state: State) -> None:
    """Before each heartbeat: does it ask for silence?"""
    if state.watched is None:
        return
    picture = _picture(state) if _is_calm(state) else None
    if picture is None or picture != state.calm:
        state.calm, state.calm_since, state.asked_quiet = picture, state.now, 0
    elif not state.asked_quiet and state.now - state.calm_since >= state.config.quiet_after:
        state.asked_quiet = state.round + 1


def settle(state: State) -> None:
    """A leader that asked for silence: have all that are heard fallen silent?"""
    if not state.asked_quiet or not _is_calm(state) or state.calm != _picture(state):
        return
    if all(
        progress.quiet_round >= state.asked_quiet
        for peer, progress in state.progress.items()
        if _is_watched(state, peer)
    ):
        state.quiet = True
        spread = 1 - QUIET_CHECK_SPREAD * state.jitter()
        state.heartbeat_deadline = state.now + state.config.quiet_check * spread


def answered(state: State, reply: msg.HeartbeatReply) -> None:
    """A follower has answered a heartbeat, or woken again."""
    progress = state.progress[reply.sender]
    if not reply.quiet:
        progress.quiet_round = 0
    elif state.asked_quiet:
        progress.quiet_round = max(progress.quiet_round, reply.round)
        settle(state)


def asked(state: State, message: msg.Heartbeat) -> bool:
    """As a follower: fall silent if this node has the same log as the leader; True: it did."""
    state.quiet = (
        message.quiet
        and _is_watched(state, message.sender)
        and _has_all(state, message)
        and not (state.config.lease_reads or state.has_promised() or state.asked_reads)
        and membership.may_promise(state)
        and state.disk.health is DiskHealth.GOOD
    )
    if state.quiet:
        patience = state.config.quiet_check * (QUIET_CHECKS_MISSED + state.jitter())
        state.election_deadline = state.now + patience
    return state.quiet


def put_off(state: State) -> None:
    """As a leader that speaks: ask for silence no more until all has been calm once again."""
    state.calm, state.asked_quiet = None, 0


def _has_all(state: State, message: msg.Heartbeat) -> bool:
    """The leader has committed its whole log; is the same on this disk?"""
    last = state.log.last.index
    return last == message.commit == state.commit == state.matched and _is_on_disk(state)


def _is_on_disk(state: State) -> bool:
    whole = state.damaged == NO_INDEX and state.unreadable == NO_INDEX
    return whole and state.flushed == state.log.last.index


def _is_calm(state: State) -> bool:
    """Have all the whole log, and is no work under way?"""
    last = state.log.last.index
    busy = state.reads or state.transfer or state.change or state.leaving
    ill = state.full_voters or state.disk.health is not DiskHealth.GOOD or state.disk.may_not_lead
    elsewhere = state.config.preferred not in (None, state.me)
    if busy or ill or elsewhere or state.config.lease_reads or state.me not in state.voters:
        return False
    if not state.noop_index <= state.commit == last or not _is_on_disk(state):
        return False
    silent = {peer for peer in state.progress if not _is_watched(state, peer)}
    for peer, progress in state.progress.items():
        heard = state.now - progress.heard_at < state.config.election_timeout_min
        if peer in silent:
            if heard:  # its own timer runs
                return False
            continue
        settled = progress.mode is Mode.REPLICATE and progress.flushed == last
        if not (heard and settled and progress.disk_health is DiskHealth.GOOD):
            return False
    return has_majority({state.me, *state.progress} - silent, state.quorum)


def _picture(state: State) -> tuple[int, ...]:
    """Numbers that differ after any request to a leader."""
    return (state.log.last.index, state.reads_by_index, state.configuration_index)


def _is_watched(state: State, peer: NodeId) -> bool:
    return state.watched is not None and peer in state.watched


# -- waking ----------------------------------------------------------------------------------------


def stir(state: State, event: ev.Event) -> None:
    """Before a quiet node handles `event`: wake it, unless that is no news."""
    if isinstance(event, _NO_NEWS):
        return
    if isinstance(event, ev.TimerFired):
        _timer_fired(state)
    elif isinstance(event, ev.PeerDisconnected):
        _peer_disconnected(state, event)
    elif isinstance(event, ev.MessageReceived):
        if not _is_echo(state, event.message):
            wake(state)
    elif not (isinstance(event, ev.DiskChecked) and event.health is state.disk.health):
        wake(state)


def wake(state: State) -> None:
    """Go on as if leader and followers had been heard just now: they had not to speak meanwhile.

    A follower tells its leader, whose heartbeats it counts on from now on: also where a message of
    the leader woke it, which may be an old one.
    """
    state.quiet = False
    if state.role is Role.LEADER:
        state.calm = None
        state.quorum_at = state.heartbeat_deadline = state.now
        for peer, progress in state.progress.items():
            if _is_watched(state, peer):
                progress.heard_at = progress.progress_at = state.now
        return
    state.heard_leader_at = state.now
    state.reset_election_deadline()
    tell(state)


def tell(state: State) -> None:
    """As a follower: say to the leader that this node is not quiet, and counts on heartbeats."""
    if state.leader is not None:
        here = min(state.flushed, state.matched) if membership.may_promise(state) else NO_INDEX
        state.send(state.leader, msg.HeartbeatReply(state.me, state.term, 0, state.matched, here))


def _timer_fired(state: State) -> None:
    """A leader asks whether all are quiet still, in one round; a follower was not asked."""
    if state.role is not Role.LEADER:
        state.quiet = state.now < state.election_deadline
    elif state.now >= state.heartbeat_deadline:
        calm = state.calm
        wake(state)
        state.calm, state.asked_quiet = calm, 0


def _peer_disconnected(state: State, event: ev.PeerDisconnected) -> None:
    """A group's own connection ended: its node may have stopped, on a host that goes on.

    That of a host which is gone is no news: who is concerned was told by `HostsWatched`.
    """
    if state.role is Role.LEADER and _is_watched(state, event.peer):
        wake(state)
    elif event.control and event.peer == state.leader:
        state.quiet = False  # the handler of the event sets the election timer


def _is_echo(state: State, message: msg.Message) -> bool:
    """The leader's heartbeat, which has a rule of its own; or an answer to an earlier one."""
    if state.role is not Role.LEADER:
        return isinstance(message, msg.Heartbeat) and message.sender == state.leader
    known = state.progress.get(message.sender)
    match message:
        case msg.HeartbeatReply():
            return message.quiet and message.term == state.term
        case msg.DiskReport():
            return known is not None and message.health is known.disk_health
        case msg.AppendReply():
            return known is not None and message.flushed == known.flushed
        case _:
            return False
