"""The topic and the queue that a request names: they exist, and may be read."""

from __future__ import annotations

from cluster.core.topics import PERM_READ, TopicConfig, TopicTable
from cluster.errors import InvalidRequest, TopicNotFound, Unauthorized


def find_topic(topics: TopicTable, name: str) -> TopicConfig:
    """Raises TopicNotFound."""
    found = topics.get(name)
    if found is None:
        raise TopicNotFound(f"the topic {name[:200]} does not exist; create it first")
    return found


def find_readable(topics: TopicTable, name: str) -> TopicConfig:
    """Raises TopicNotFound or Unauthorized."""
    found = find_topic(topics, name)
    if not found.perm & PERM_READ:
        raise Unauthorized(
            f"the topic {name} is not readable, its perm is {found.perm}; set perm 6 (mqadmin "
            "updateTopicPerm)"
        )
    return found


def check_queue_id(topic: TopicConfig, queue_id: int) -> None:
    """Raises InvalidRequest."""
    if not 0 <= queue_id < topic.queues:
        raise InvalidRequest(
            f"queue id {queue_id} is out of range: the topic {topic.name} has {topic.queues} queues"
        )


def check_queue(topics: TopicTable, name: str, queue_id: int) -> TopicConfig:
    """The topic of a queue. Raises TopicNotFound or InvalidRequest."""
    config = find_topic(topics, name)
    check_queue_id(config, queue_id)
    return config
