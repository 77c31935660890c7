"""Bodies about topics: configurations, lists, statistics, and registrations (103).

TopicConfig      {"attributes":{},"order":false,"perm":6,"readQueueNums":4,
                  "topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,
                  "writeQueueNums":4}
registration     {"topicConfigSerializeWrapper":{"topicConfigTable":{"T":TopicConfig},
                  "dataVersion":{"stateVersion":0,"timestamp":ms,"counter":n}},
                  "filterServerList":[]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cluster.errors import RemoteProtocolError
from cluster.protocol.json_body import (
    MessageQueue,
    dump,
    dump_queue_map,
    load_queue_map,
    read_answer,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic on one broker name."""

    topic: str
    read_queue_count: int = 4
    write_queue_count: int = 4
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean, keys in alphabetical order."""
        return {
            "attributes": {},
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_count,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_count,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> TopicConfig:
        """Inverse of `to_json`."""
        return TopicConfig(
            str(bean["topicName"]),
            int(bean.get("readQueueNums", 16)),
            int(bean.get("writeQueueNums", 16)),
            int(bean.get("perm", 6)),
            str(bean.get("topicFilterType") or "SINGLE_TAG"),
            int(bean.get("topicSysFlag") or 0),
            bool(bean.get("order", False)),
        )


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's registration of its topics. `data_version` grows with each change."""

    topics: Mapping[str, TopicConfig]
    data_version: int = 0
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """First and next queue offset of one queue, and when it was last written (ms)."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int = 0


def encode_registration(registration: Registration) -> bytes:
    """Body of 103, not compressed."""
    return dump(
        {
            "filterServerList": [],
            "topicConfigSerializeWrapper": {
                "dataVersion": {
                    "counter": registration.data_version,
                    "stateVersion": 0,
                    "timestamp": registration.timestamp_ms,
                },
                "topicConfigTable": {
                    name: config.to_json() for name, config in registration.topics.items()
                },
            },
        }
    )


def decode_registration(body: bytes) -> Registration:
    """Read a body of 103 that is not compressed. Raises RemoteProtocolError."""
    return _read(body, "a registration", _registration)


def _registration(bean: Mapping[str, Any]) -> Registration:
    wrapper = bean.get("topicConfigSerializeWrapper") or {}
    version = wrapper.get("dataVersion") or {}
    table = wrapper.get("topicConfigTable") or {}
    return Registration(
        {name: TopicConfig.from_json(item) for name, item in table.items()},
        int(version.get("counter") or 0),
        int(version.get("timestamp") or 0),
    )


def decode_topic_config(body: bytes) -> TopicConfig:
    """Read the answer to 351. Raises RemoteProtocolError."""
    return _read(body, "a topic's settings", TopicConfig.from_json)


def encode_topic_list(topics: Iterable[str]) -> bytes:
    """Body of the answers to 206, 224 and 304."""
    return dump({"topicList": list(topics)})


def decode_topic_list(body: bytes) -> list[str]:
    """Read the answer to 206, 224 or 304. Raises RemoteProtocolError."""
    return _read(body, "a list of topics", lambda bean: [str(name) for name in bean["topicList"]])


def encode_topic_stats(bounds: Mapping[MessageQueue, QueueBounds], put_tps: float = 0.0) -> bytes:
    """Body of the answer to 202."""
    rows = (
        (
            queue,
            {
                "lastUpdateTimestamp": row.last_update_timestamp,
                "maxOffset": row.max_offset,
                "minOffset": row.min_offset,
            },
        )
        for queue, row in bounds.items()
    )
    return b'{"offsetTable":' + dump_queue_map(rows) + b',"topicPutTps":' + dump(put_tps) + b"}"


def decode_topic_stats(body: bytes) -> dict[MessageQueue, QueueBounds]:
    """Read the answer to 202. Raises RemoteProtocolError."""
    table = load_queue_map(body, "offsetTable")
    try:
        return {
            queue: QueueBounds(
                int(row["minOffset"]), int(row["maxOffset"]), int(row["lastUpdateTimestamp"])
            )
            for queue, row in table.items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteProtocolError(f"statistics of a topic lack something: {error!r}") from error


def decode_put_rate(body: bytes) -> float:
    """Messages per second, from the answer to 202; 0.0 where a broker does not tell."""
    _, _, rest = body.rpartition(b'"topicPutTps":')
    try:
        return float(rest.partition(b",")[0].rstrip(b"} \n") or 0.0)
    except ValueError as error:
        raise RemoteProtocolError(f"the rate of a topic is no number: {error}") from error


def _read(body: bytes, what: str, build: Callable[[Any], T]) -> T:
    bean = read_answer(body, what)
    try:
        return build(bean)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteProtocolError(f"the body of {what} lacks something: {error!r}") from error
