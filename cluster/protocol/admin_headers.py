"""Fields of administrators' requests (docs/spec/remoting.md 2.8 and Annex A); see fields.py.

A field without a default is required, as in the tables there.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.protocol.fields import named

# --- groups -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConsumerGroupRequest:
    """203 and 343: a consumer group's name is all they need."""

    group: str = named("consumerGroup")


@dataclass(frozen=True, slots=True)
class ProducerGroupRequest:
    """204."""

    producer_group: str


@dataclass(frozen=True, slots=True)
class GroupConfigRequest:
    """352."""

    group: str


@dataclass(frozen=True, slots=True)
class DeleteGroupRequest:
    """207. `clean_offset`: forget the group's offsets, too."""

    group_name: str
    clean_offset: bool = False


@dataclass(frozen=True, slots=True)
class GroupForbiddenRequest:
    """353. `readable` None only asks."""

    group: str
    topic: str
    readable: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupForbiddenResponse:
    """Response to 353."""

    group: str
    topic: str
    readable: bool


@dataclass(frozen=True, slots=True)
class GroupTopicRequest:
    """303 and 345."""

    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class ConsumeStatsRequest:
    """208. `topic_list`: names joined with ";"."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerConsumeStatsRequest:
    """317."""

    is_order: bool


# --- offsets ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResetOffsetRequest:
    """222, and 220 to clients. `timestamp` in ms, -1: the end of each queue."""

    topic: str
    group: str
    timestamp: int
    is_force: bool
    queue_id: int = -1
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class CloneOffsetRequest:
    """314."""

    src_group: str
    dest_group: str
    topic: str
    offline: bool = False


@dataclass(frozen=True, slots=True)
class CorrectionOffsetRequest:
    """308. `filter_groups`: names joined with ","."""

    topic: str
    compare_group: str | None = None
    filter_groups: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerStatusRequest:
    """223 and, without `client_addr`, 221 to clients."""

    topic: str
    group: str
    client_addr: str | None = None


# --- what clients are asked ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningInfoRequest:
    """307."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True)
class ConsumeDirectlyRequest:
    """309: let one consumer take one message, independently of its offsets."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


# --- topics, queues, statistics -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicPageRequest:
    """21."""

    topic_seq: int = 0
    data_version: str | None = None
    max_topic_num: int | None = None


@dataclass(frozen=True, slots=True)
class GroupPageRequest:
    """201."""

    group_seq: int = 0
    data_version: str | None = None
    max_group_num: int | None = None


@dataclass(frozen=True, slots=True)
class QueryQueueRequest:
    """321: entries of a consume queue, as they stand on disk."""

    topic: str
    queue_id: int
    index: int
    count: int
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class StatsDataRequest:
    """315."""

    stats_name: str
    stats_key: str


# --- name server --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BrokerNameRequest:
    """205 and 327."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class WipedResponse:
    """Response to 205."""

    wipe_topic_count: int


@dataclass(frozen=True, slots=True)
class AddedResponse:
    """Response to 327."""

    add_topic_count: int


@dataclass(frozen=True, slots=True)
class ClusterTopicsRequest:
    """224."""

    cluster: str


@dataclass(frozen=True, slots=True)
class DataVersionResponse:
    """Response to 322."""

    changed: bool
