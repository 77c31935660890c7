"""Consumer groups that clients name for the first time: their settings and their retry topic."""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.apply import AppliedState
from cluster.core.topics import RETRY_PREFIX


def ensure_group(
    state: AppliedState,
    writer: StateWriter,
    group: str,
    done: Callable[[Exception | None], None],
) -> None:
    """Create a group's settings and retry topic where they are missing (leader only).

    `done(None)` is called when the log has them and every reader here sees them.
    """
    needs_topic = state.topics.get(RETRY_PREFIX + group) is None
    writer.create_group(group, retry_topic=needs_topic, done=done)
