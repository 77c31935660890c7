"""The mark that a record of a higher feature level needs in front of it (R28)."""

from __future__ import annotations

from cluster.broker.kernel.ports import LogPort
from cluster.core.apply import AppliedState
from cluster.core.internal_topics import LevelRaised
from cluster.errors import ServiceNotAvailable

SILENT_SECONDS = 5.0
"""A member that was not heard for so long is away, and may come back as an older version."""


def level_mark(log: LogPort, state: AppliedState, level: int, what: str) -> LevelRaised | None:
    """The mark; None: it is there. Raises ServiceNotAvailable while a member may be older.

    `what`: the records that need it, as the beginning of the sentence.
    """
    if state.level.value >= level:
        return None
    levels = log.driver.roster.levels()
    now = log.driver.now() if levels else 0.0
    heard = {peer.node_id for peer in log.status().peers if now - peer.heard_at < SILENT_SECONDS}
    older = sorted(name for name, at in levels.items() if at < level or name not in heard)
    if older:
        raise ServiceNotAvailable(
            f"{what} need every member at feature level {level}, and {', '.join(older)} did not "
            "say so; upgrade and start it, or remove it from the group, then ask again"
        )
    return LevelRaised(level)
