"""Changes of the group, one entry each (dissertation ch. 4; safety rule R20).

    effective       when appended, on the leader and on every follower; rolled back by truncation
    one at a time   refused while an earlier one is not committed, and before an entry of the
                    leader's own term is (dissertation 4.1 and its erratum)
    caught up       a round is what was in the log when it began; one that took less than an
                    election timeout shows that the member keeps pace (4.2.1)
    leader removed  leads until the entry is committed, counts itself no more, appoints a voter
                    and steps down (4.2.2)
    removed node    is sent the entry once it is committed, so that it knows, and goes quiet
    incarnations    each entry pins those that its leader has met: a new member has met no peer,
                    and could take a formatting that lost its disk for the right one (R6)

Who may act without being a voter, because a change that is not committed may still be undone:

    stand   one whom only an entry not known to be committed has removed
    vote    every member, and the same one; a node that no configuration names does not
"""

from __future__ import annotations

from collections.abc import Mapping

from dledger.core.configuration import (
    INITIAL,
    Change,
    ChangeKind,
    Configuration,
    ConfigurationEntry,
    Standing,
    changed,
)
from dledger.core.effects import AppendConfiguration, ConfigurationChanged, MembershipDone
from dledger.core.events import MembershipRequested
from dledger.core.progress import Progress
from dledger.core.quorum import has_majority
from dledger.core.state import PendingChange, State
from dledger.core.types import Index, NodeId, Reason, Role

#: A removed node that does not answer is not sent the news for longer than this many of the
#: longest election timeouts.
LEAVING_TIMEOUTS_MAX = 10


# -- what is in effect -----------------------------------------------------------------------------


def appended(state: State, entry: ConfigurationEntry) -> None:
    """A configuration was appended: it counts from now on."""
    assert entry.index > state.configuration_index
    assert entry.configuration is not None, "its body was read before the core heard of it"
    state.configurations.append(entry)
    _take_effect(state)


def truncated(state: State, index: Index) -> None:
    """Entries above `index` are gone: the configuration before them takes effect again."""
    while state.configurations and state.configurations[-1].index > index:
        state.configurations.pop()
    _take_effect(state)


def taken_over(state: State, configuration: Configuration) -> None:
    """A snapshot brought the group as its entries have left it; those that were here are gone."""
    state.initial = configuration
    state.configurations.clear()
    _take_effect(state)


def _take_effect(state: State) -> None:
    state.adopt()
    state.out.append(ConfigurationChanged(state.configuration, state.configuration_index))


def before_last(state: State) -> Configuration:
    """The configuration that was in effect before the present one."""
    if len(state.configurations) > 1:
        earlier = state.configurations[-2].configuration
        assert earlier is not None
        return earlier
    return state.initial


def _is_settled(state: State) -> bool:
    return state.configuration_index <= state.commit


def may_promise(state: State) -> bool:
    """May this node vote, stand, acknowledge, or confirm a leader?

    One that forgot its votes or where its log ended may not, until an entry names its incarnation:
    the group has then stopped to count on what the one before had promised (R6).
    """
    if not state.forgot:
        return True
    member = state.configuration.member(state.me)
    return member is not None and member.incarnation == state.incarnation


def may_stand(state: State) -> bool:
    """May this node ask for votes? A node with a damaged log may not (R2)."""
    if state.damaged >= 0 or not may_promise(state):
        return False
    if state.me in state.voters:
        return True
    return not _is_settled(state) and state.me in before_last(state).voters


def may_vote(state: State) -> bool:
    """True if this node's vote may count: a configuration that may decide names the node."""
    if not may_promise(state):
        return False
    if state.configuration.member(state.me) is not None:
        return True
    return not _is_settled(state) and before_last(state).member(state.me) is not None


# -- the leader ------------------------------------------------------------------------------------


def requested(state: State, event: MembershipRequested) -> bool:
    """Append the changed configuration, or say why not; True when there is one to send."""
    after = _possible(state, event.change, event.incarnations)
    if isinstance(after, Reason):
        state.out.append(MembershipDone(event.change_id, ok=False, reason=after))
        return False
    _begin(state, event.change, after, event.change_id)
    return True


def _possible(
    state: State, change: Change, incarnations: Mapping[NodeId, int] | None
) -> Configuration | Reason:
    """The configuration after `change`, or why it cannot be begun now."""
    if state.role is not Role.LEADER:
        return Reason.DISK_ERROR if state.role is Role.FAILED else Reason.NOT_LEADER
    if state.transfer is not None:
        return Reason.LEADER_TRANSFERRING
    if state.commit < state.noop_index:
        return Reason.LEADER_NOT_READY
    if not _is_settled(state):
        return Reason.CHANGE_IN_PROGRESS
    after = changed(state.configuration, change, incarnations)
    if isinstance(after, Reason):
        return after
    if change.kind is ChangeKind.PROMOTE and not _keeps_pace(state, change.node_id):
        return Reason.FALL_BEHIND_TOO_MUCH
    if change.kind is ChangeKind.READMIT and change.node_id == state.me:
        return Reason.ALREADY_MEMBER
    return after if _can_decide(state, after, change) else Reason.QUORUM_LOST


def _can_decide(state: State, after: Configuration, change: Change) -> bool:
    """Would those that answer be a majority? Else the change would end all changes."""
    silence_max = state.config.election_timeout_max
    alive = {peer for peer, p in state.progress.items() if state.now - p.heard_at < silence_max} | {
        state.me
    }
    if change.kind in (ChangeKind.ADD, ChangeKind.ADD_LEARNER):
        return True
    return has_majority(alive, after.quorum)


def _keeps_pace(state: State, node: NodeId) -> bool:
    progress = state.progress.get(node)
    return progress is not None and progress.keeps_pace


def _begin(state: State, change: Change, after: Configuration, change_id: int | None) -> None:
    index = Index(state.log.last.index + 1)
    state.log.append(state.term, index)
    state.out.append(AppendConfiguration(index, state.term, after))
    state.change = PendingChange(change_id, change.node_id, change.kind is ChangeKind.REMOVE)
    state.leaving.pop(change.node_id, None)
    appended(state, ConfigurationEntry(index, after))
    _follow_members(state, readmitted=change.kind is ChangeKind.READMIT, node=change.node_id)


def _follow_members(state: State, *, readmitted: bool, node: NodeId) -> None:
    """Keep a Progress for each peer that is sent the log; a readmitted node gets a new one (S7)."""
    if readmitted:
        state.progress.pop(node, None)
    following = Index(state.configuration_index)
    state.progress = {
        peer: state.progress.get(peer)
        or Progress.of_new(following, state.now, state.proposed_bytes)
        for peer in state.peers
    }


def committed(state: State) -> None:
    """The change under way is decided."""
    pending, state.change = state.change, None
    assert pending is not None
    if pending.change_id is not None:
        state.out.append(MembershipDone(pending.change_id, ok=True, reason=None))
    if pending.removes and pending.node != state.me:
        wait = LEAVING_TIMEOUTS_MAX * state.config.election_timeout_max
        state.leaving[pending.node] = state.now + wait
        state.adopt()
        _follow_members(state, readmitted=False, node=pending.node)


def tick(state: State) -> None:
    """Called with each heartbeat: measures the learners' pace, promotes those that caught up,
    and stops sending to removed members that know of it."""
    if state.leaving:
        _forget_gone(state)
    for member in state.configuration.members:
        progress = state.progress.get(member.node_id)
        if progress is not None and member.standing is not Standing.VOTER:
            progress.measure_pace(state.log.last.index, state.now, state.config)
            progress.make_way(state.proposed_bytes, state.now)
    _promote(state)


def _forget_gone(state: State) -> None:
    for node, deadline in list(state.leaving.items()):
        progress = state.progress.get(node)
        told = progress is not None and progress.flushed >= state.configuration_index
        if told or state.now >= deadline or progress is None:
            del state.leaving[node]
            state.progress.pop(node, None)
    state.adopt()


def _promote(state: State) -> None:
    for member in state.configuration.members:
        if member.standing in (Standing.JOINING, Standing.RETURNING):
            change = Change(ChangeKind.PROMOTE, member.node_id)
            after = _possible(state, change, None)
            if isinstance(after, Configuration):
                state.progress[member.node_id].take_all()
                _begin(state, change, after, None)
                return


def leadership_began(state: State) -> None:
    """An entry of an earlier leader may still be under way."""
    if state.configuration_index > max(state.commit, INITIAL):
        node = next(iter(_differing(before_last(state), state.configuration)), state.me)
        removes = state.configuration.member(node) is None
        state.change = PendingChange(None, node, removes)


def _differing(one: Configuration, other: Configuration) -> list[NodeId]:
    """Nodes that came, went or have another standing; pinned incarnations are not compared."""
    before, after = ({(m.node_id, m.standing) for m in c.members} for c in (one, other))
    return sorted({node for node, _ in before ^ after})


def leadership_ended(state: State) -> None:
    """Answer the pending change with TERM_CHANGED: its outcome is unknown (S8)."""
    pending = state.change
    if pending is not None and pending.change_id is not None:
        state.out.append(MembershipDone(pending.change_id, ok=False, reason=Reason.TERM_CHANGED))
