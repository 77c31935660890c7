"""Names of pop consumption: its log topic, and the retry topics of a group.

Source: docs/spec/store.md 7.6.

    rmq_sys_REVIVE_LOG_<cluster>     what was taken and what is acknowledged; 8 queues
    %RETRY%<group>_<topic>           V1: what nobody acknowledged in time comes back here
    %RETRY%<group>+<topic>           V2: '+' is no character of topics, so clients cannot make one

A marker says in handles and headers which of a topic's three a message was in: 0, 1 (V1), 2 (V2).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cluster.core.topics import RETRY_PREFIX
from commitlog.records.names import retry_readings

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_FIELD: Final = REVIVE_PREFIX.encode()
REVIVE_QUEUES: Final = 8  # RocketMQ's reviveQueueNum
ORDER_QUEUE: Final = 999
"""What stands for a revive queue in handles of ordered pops."""

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"


def revive_topic(cluster_name: str) -> str:
    """The topic of the records of pops."""
    return REVIVE_PREFIX + cluster_name


def retry_topic(topic: str, group: str, *, v2: bool) -> str:
    """Where messages of `topic` come back to `group`."""
    return f"{RETRY_PREFIX}{group}{'+' if v2 else '_'}{topic}"


def retry_topics_of(topic: str, groups: Collection[str], topics: Collection[str]) -> list[str]:
    """The retry topics of `topic`, one or two for each of `groups` that popped from it; sorted.

    One of the first kind that another topic of `topics` may have is left out (`retry_readings`).
    """
    if topic.startswith(RETRY_PREFIX):
        return []
    known = frozenset(groups)
    found = []
    for group in known:
        name, other = (retry_topic(topic, group, v2=v2) for v2 in (True, False))
        if name in topics:
            found.append(name)
        if other in topics:
            read_as = {owner for _, owner in retry_readings(other, known, topics)}
            found += [other] if read_as <= {topic} else []
    return sorted(found)


def marker_of(topic: str) -> str:
    """NORMAL, RETRY_V1 or RETRY_V2."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, marker: str) -> str:
    """The topic that a marker means. Raises ValueError for another marker."""
    if marker == NORMAL or topic.startswith(RETRY_PREFIX):
        return topic
    if marker not in (RETRY_V1, RETRY_V2):
        raise ValueError(f"the marker {marker[:10]!r} is none of 0, 1, 2")
    return retry_topic(topic, group, v2=marker == RETRY_V2)


def popped_from(topic: str, group: str) -> str:
    """The topic of a message that `group` popped, also when a client names its retry topic."""
    own = RETRY_PREFIX + group
    if topic.startswith((own + "_", own + "+")):
        return topic[len(own) + 1 :]
    return topic
