"""Wrong twins of `dledger.core` that keep state beyond its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dledger.core.configuration import Configuration
    from dledger.core.membership import _take_effect
    from dledger.core.progress import Progress
    from dledger.core.span import Span, fresh
    from dledger.core.state import _FIELDS, State
    from dledger.core.types import Index, NodeId


def end_but_for_progress(self: State, span: Span) -> None:
    """Ends a span, and keeps the `Progress` of each peer after a leadership (S5)."""
    for one in _FIELDS[span]:
        if one.name != "progress":
            setattr(self, one.name, fresh(one))


def end_but_for_appointed(self: State, span: Span) -> None:
    """Ends a span, and keeps that a leader asked this node to stand (transfer)."""
    for one in _FIELDS[span]:
        if one.name != "appointed":
            setattr(self, one.name, fresh(one))


def end_but_for_matched(self: State, span: Span) -> None:
    """Ends a span, and keeps how far the log equals that of an earlier term's leader (R4)."""
    for one in _FIELDS[span]:
        if one.name != "matched":
            setattr(self, one.name, fresh(one))


def end_but_for_slow_since(self: State, span: Span) -> None:
    """Ends a span, and keeps since when the leader's own syncs were too slow (L5)."""
    for one in _FIELDS[span]:
        if one.name != "slow_since":
            setattr(self, one.name, fresh(one))


def views_of_an_earlier_leadership(state: State) -> dict[NodeId, Progress]:
    """Gives a new leadership each peer's `Progress` of an earlier one, if it is there (S5)."""
    following = Index(state.log.last.index + 1)
    return {
        peer: state.progress.get(peer) or Progress(following, state.now, state.now)
        for peer in state.peers
    }


def taken_over_beside_what_was(state: State, configuration: Configuration) -> None:
    """Takes a snapshot's configuration, and keeps those of entries that it replaced (R20)."""
    state.initial = configuration
    _take_effect(state)


def may_vote_if_named(state: State) -> bool:
    """Refuses to vote as soon as an entry removes the node, committed or not (S11)."""
    return state.configuration.member(state.me) is not None
