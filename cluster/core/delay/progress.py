"""How far the delay levels are, as RocketMQ's tools and files show it."""

from __future__ import annotations

from cluster.core.apply import AppliedState
from commitlog.records.names import SCHEDULE_TOPIC


def delay_progress(state: AppliedState) -> dict[int, tuple[int, int]]:
    """Delay level → first queue offset that is not delivered, queue end; of levels in use."""
    ends = state.queue_ends(SCHEDULE_TOPIC, state.delayed.levels.level_max)
    waiting = state.delayed.first_offsets()
    return {level: (waiting.get(level, end), end) for level, end in enumerate(ends, 1) if end}
