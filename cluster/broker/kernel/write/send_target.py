"""Where the sends of one template go: checked once, then used for every message of that kind.

A target holds while this node leads and no topic changes (`SendPath.epoch`); then it is made again.
"""

from __future__ import annotations

from cluster.broker.kernel.write.acknowledging import is_early
from cluster.broker.kernel.write.dedup import NOBODY
from cluster.core.internal_topics import OWN_TOPICS
from cluster.core.numbers import stream_of
from cluster.core.queue_offsets import LeaderQueueOffsets
from cluster.core.topics import (
    FORBIDDEN_TO_CLIENTS,
    PERM_WRITE,
    RETRY_PREFIX,
    SYSTEM_PREFIX,
    TopicConfig,
    topic_name_error,
)
from cluster.errors import InvalidRequest, Unauthorized
from cluster.protocol import rest_queues
from cluster.protocol.frames import KIND_BINARY
from cluster.protocol.send import SendTemplate
from commitlog.records.message_fast import topic_field
from commitlog.records.message_layout import HEAD_SIZE, TOPIC_V1_SIZE_MAX
from commitlog.records.sys_flag import (
    HOSTS_V6,
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
)


class SendTarget:
    """Encoded pieces and the live row of queue offsets. `queue_id` < 0: the broker picks one."""

    __slots__ = (
        "answers_own",
        "fixed_size",
        "flag",
        "is_batch",
        "is_early",
        "is_own",
        "is_special",
        "is_usual",
        "queue_id",
        "reconsume_times",
        "row",
        "sender",
        "streams",
        "sys_flag",
        "topic",
        "topic_name",
        "wanted",
        "write_queues",
    )

    def __init__(
        self, template: SendTemplate, config: TopicConfig, row: list[int], *, is_early: bool
    ) -> None:
        self.topic_name = config.name
        self.topic = topic_field(config.name)
        self.queue_id = template.queue_id
        self.write_queues = config.write_queues
        self.flag = template.flag
        self.sys_flag = template.sys_flag & ~HOSTS_V6
        self.reconsume_times = template.reconsume_times
        self.is_batch = template.is_batch
        self.is_own = template.is_own
        self.answers_own = template.is_own and template.kind == KIND_BINARY
        self.is_early = is_early  # acknowledged when a majority has written it (acknowledging.py)
        self.row = row
        self.fixed_size = HEAD_SIZE + len(self.topic) + 2  # of a record with two IPv4 hosts
        self.wanted = NOBODY  # cursor of the producer that sent here last, one of ours
        self.sender = ""  # who that was: another one's messages are looked at one by one
        assert len(self.topic) <= TOPIC_V1_SIZE_MAX + 1, "names were checked, so records are V1"
        self.streams = [stream_of(config.name, queue) for queue in range(len(row))]
        # Interceptors are asked about every message: halves of transactions, and what a consumer
        # sends to its retry topic because it could not send it back (docs/spec/remoting.md 5).
        self.is_special = bool(template.sys_flag & TRANSACTION_MASK) or config.name.startswith(
            RETRY_PREFIX
        )
        self.is_usual = not (self.is_special or is_early)  # may take the short way


def check_name(template: SendTemplate) -> None:
    """Raises InvalidRequest or Unauthorized for a topic or a kind of send that is never allowed."""
    topic = template.topic
    wrong = topic_name_error(topic)
    if wrong is not None:
        raise InvalidRequest(wrong)
    if topic in FORBIDDEN_TO_CLIENTS or topic in OWN_TOPICS or topic.startswith(SYSTEM_PREFIX):
        raise Unauthorized(f"the topic {topic} is the system's own; send to another one")
    kind = template.sys_flag & TRANSACTION_MASK
    if kind == TRANSACTION_PREPARED and template.is_batch:
        raise InvalidRequest("a batch cannot hold transactions; send them one by one")
    if kind not in (TRANSACTION_NONE, TRANSACTION_PREPARED):
        raise InvalidRequest("only a broker marks messages as committed or rolled back; use 37")


def make_target(
    template: SendTemplate,
    config: TopicConfig,
    offsets: LeaderQueueOffsets,
    durability: str,
    *,
    is_relayed: bool,
) -> SendTarget:
    """`durability`: the node's setting. Raises the errors of `check_target`.

    `is_relayed`: it came through a relay, which has other queues for Go clients (rest_queues.py).
    """
    check_target(template, config)
    row = offsets.row(config.name, config.queues)
    target = SendTarget(template, config, row, is_early=is_early(template, config, durability))
    if is_relayed and template.language == rest_queues.LANGUAGE:
        target.queue_id = rest_queues.rest_queue(target.queue_id, config.write_queues)
    return target


def check_target(template: SendTemplate, config: TopicConfig) -> None:
    """Raises Unauthorized (topic not writable) or InvalidRequest (queue id out of range)."""
    if not config.perm & PERM_WRITE:
        raise Unauthorized(
            f"the topic {config.name} is not writable, its perm is {config.perm}; set perm 6 "
            f"(dledger topic alter {config.name} --perm read-write, or mqadmin updateTopicPerm)"
        )
    if template.queue_id >= config.queues:
        raise InvalidRequest(
            f"queue id {template.queue_id} is out of range: "
            f"the topic {config.name} has {config.queues} queues"
        )
    for number in (template.flag, template.sys_flag, template.reconsume_times):
        if not -(1 << 31) <= number < 1 << 31:
            raise InvalidRequest(f"{number} does not fit its field of 32 bits")
