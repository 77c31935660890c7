"""How many more members may fail now, and which are not counted on (for status output only).

counted on    this leader, and each voter that is alive to it, is not far behind, has what it
              acknowledged, and whose disk takes the log
now           of those counted on, how many more there are than a majority needs; below 0:
              nothing is decided at the moment
of which      the newest configuration, and while that is not committed the one before it, too:
              a new leader may have either, so the smaller number is true
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dledger.core import membership
from dledger.core.configuration import Configuration, Standing
from dledger.core.leading import is_alive
from dledger.core.progress import Mode, Progress
from dledger.core.quorum import majority
from dledger.core.state import State
from dledger.core.types import DiskHealth, NodeId

_TAKES_NO_LOG = (DiskHealth.FULL, DiskHealth.STALLED)
LACKS_SETTLED = "lacks entries that it had on its disk: check that disk and replace the node"


class Margin(NamedTuple):
    """How many failures a group survives, as its leader sees it.

    Attributes:
        majority: how many decide, in the newest configuration.
        may_fail: how many may fail when all voters are well.
        may_fail_now: how many more may fail; below 0, so many are missing.
        uncounted: voters that are not counted on, and why: "does not answer".
    """

    majority: int
    may_fail: int
    may_fail_now: int
    uncounted: Mapping[NodeId, str]


def deciding(state: State) -> tuple[Configuration, ...]:
    """The configurations that may have to give a majority, the newest first."""
    if state.configuration_index <= state.commit:
        return (state.configuration,)
    return state.configuration, membership.before_last(state)


def troubles(state: State) -> dict[NodeId, str]:
    """Members that this leader does not count on, each with the reason.

    A removed member gets no messages any more, so its state is not known. A quiet one whose host is
    watched need not answer (quiet.py).
    """
    may_be_silent = state.watched or () if state.quiet else ()
    found = {
        peer: why
        for peer, p in state.progress.items()
        if peer not in may_be_silent and (why := _trouble(state, p))
    }
    named = {name for group in deciding(state) for name in group.names}
    found |= dict.fromkeys(named - set(state.progress) - {state.me}, "is being removed")
    if state.disk.health in _TAKES_NO_LOG:
        found[state.me] = _disk(state.disk.health)
    return found


def _trouble(state: State, progress: Progress) -> str:
    if not is_alive(state, progress):
        silent = state.now - progress.heard_at >= state.config.election_timeout_min
        return "does not answer" if silent else "answers and gets no further"
    if progress.lacks_settled:
        return LACKS_SETTLED
    if progress.disk_health in _TAKES_NO_LOG:
        return _disk(progress.disk_health)
    behind = state.log.last.index - progress.flushed
    if progress.mode is Mode.SNAPSHOT:
        return "is being sent the whole state"
    return f"is {behind} entries behind" if behind > state.config.transfer_lag_max else ""


def _disk(health: DiskHealth) -> str:
    return f"its disk is {health.name.lower()}"


def margin(configurations: Sequence[Configuration], trouble: Mapping[NodeId, str]) -> Margin:
    """The margin of a group, by the configurations that may decide, the newest first."""
    newest = configurations[0]
    uncounted: dict[NodeId, str] = {}
    for configuration in configurations:
        for member in configuration.members:
            if member.standing is Standing.RETURNING:
                uncounted[member.node_id] = "has not got the log back yet"
            elif member.standing is Standing.VOTER and member.node_id in trouble:
                uncounted.setdefault(member.node_id, trouble[member.node_id])
    needed = majority(newest.quorum)
    return Margin(
        needed,
        len(newest.quorum) - needed,
        min(_spare(configuration, trouble) for configuration in configurations),
        uncounted,
    )


def _spare(configuration: Configuration, trouble: Mapping[NodeId, str]) -> int:
    counted = sum(voter not in trouble for voter in configuration.voters)
    return counted - majority(configuration.quorum)
