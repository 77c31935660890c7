"""Body of a route answer (code 105) and of the cluster overview (106); docs/spec/remoting.md 4.1.

    {"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.2:10911"},"brokerName":"broker-a",
                     "cluster":"DefaultCluster","enableActingMaster":false}],
     "filterServerTable":{},
     "queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,
                    "writeQueueNums":4}]}                                (without line breaks)

Requesters older than version 401 get the addresses' keys without quotes and no
`enableActingMaster` unless it is true. `leaderTerm` is ours and goes to our own clients only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import RemoteProtocolError
from cluster.protocol.codes import VERSION_OWN, VERSION_STANDARD_JSON
from cluster.protocol.json_body import MessageQueue, dump, read_answer

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4

_DIGITS = re.compile(r"(\d+)")

LEADER_ID = 0
"""The broker id under which clients look for the leader."""


@dataclass(frozen=True, slots=True)
class QueueData:
    """The number of queues of a topic on one broker name, and the rights on them."""

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    perm: int = PERM_READ | PERM_WRITE
    topic_sys_flag: int = 0

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean, keys in alphabetical order."""
        return {
            "brokerName": self.broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queue_count,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_count,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> QueueData:
        """Inverse of `to_json`."""
        return QueueData(
            str(bean["brokerName"]),
            int(bean["readQueueNums"]),
            int(bean["writeQueueNums"]),
            int(bean.get("perm", PERM_READ | PERM_WRITE)),
            int(bean.get("topicSysFlag") or 0),
        )


@dataclass(frozen=True, slots=True)
class BrokerData:
    """Addresses of one broker name by broker id; id 0 leads. `term` is -1 when it is not told."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]
    enable_acting_master: bool = False
    term: int = -1

    @property
    def leader(self) -> str | None:
        """The address under id 0."""
        return self.addresses.get(LEADER_ID)

    @property
    def nodes(self) -> list[str]:
        """The address of each node once, by host and port as numbers: 10.0.0.9 before 10.0.0.10."""
        return sorted(set(self.addresses.values()), key=_as_numbers)

    def to_json(self, requester_version: int = VERSION_STANDARD_JSON) -> dict[str, Any]:
        """RocketMQ's bean for a requester of that version, keys in alphabetical order."""
        bean: dict[str, Any] = {
            "brokerAddrs": {str(key): self.addresses[key] for key in sorted(self.addresses)},
            "brokerName": self.broker_name,
            "cluster": self.cluster,
        }
        if self.enable_acting_master or requester_version >= VERSION_STANDARD_JSON:
            bean["enableActingMaster"] = self.enable_acting_master
        if requester_version >= VERSION_OWN:
            bean["leaderTerm"] = self.term
        return bean

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> BrokerData:
        """Inverse of `to_json`."""
        return BrokerData(
            str(bean["brokerName"]),
            str(bean.get("cluster") or ""),
            {int(key): str(value) for key, value in bean["brokerAddrs"].items()},
            bool(bean.get("enableActingMaster", False)),
            int(bean.get("leaderTerm", -1)),
        )


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic's queues are. `order_topic_conf`: "broker-a:4;broker-b:4" or None."""

    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]
    order_topic_conf: str | None = None

    def write_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that a producer may use: writable, of a broker with an id-0 address; sorted."""
        reachable = {broker.broker_name for broker in self.brokers if broker.leader}
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.queues
            if data.perm & PERM_WRITE and data.broker_name in reachable
            for queue_id in range(data.write_queue_count)
        )

    def read_queues(self, topic: str) -> list[MessageQueue]:
        """Queues that consumers share; sorted as rebalancing needs it."""
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.queues
            if data.perm & PERM_READ
            for queue_id in range(data.read_queue_count)
        )


def encode_route(route: TopicRoute, requester_version: int, *, standard: bool = False) -> bytes:
    """The body for a requester of that version; `standard`: it asked for standard JSON."""
    bean: dict[str, Any] = {
        "brokerDatas": [broker.to_json(requester_version) for broker in route.brokers],
        "filterServerTable": {},
    }
    if route.order_topic_conf is not None:
        bean["orderTopicConf"] = route.order_topic_conf
    bean["queueDatas"] = [queue.to_json() for queue in route.queues]
    body = dump(bean)
    if standard or requester_version >= VERSION_STANDARD_JSON:
        return body
    return unquote_ids(body, route.brokers)


def unquote_ids(body: bytes, brokers: Iterable[BrokerData]) -> bytes:
    """Write the keys of the `brokerAddrs` maps as bare numbers, as stock servers do."""
    for broker in brokers:
        quoted = dump({str(key): broker.addresses[key] for key in sorted(broker.addresses)})
        pairs = [b"%d:%b" % (key, dump(broker.addresses[key])) for key in sorted(broker.addresses)]
        bare = b"{" + b",".join(pairs) + b"}"
        body = body.replace(b'"brokerAddrs":' + quoted, b'"brokerAddrs":' + bare)
    return body


def decode_route(body: bytes) -> TopicRoute:
    """Read a route body in either form.

    Raises:
        RemoteProtocolError: it is no route.
    """
    bean = read_answer(body, "a route")
    try:
        return TopicRoute(
            tuple(BrokerData.from_json(item) for item in bean["brokerDatas"]),
            tuple(QueueData.from_json(item) for item in bean["queueDatas"]),
            bean.get("orderTopicConf"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteProtocolError(f"the body of a route lacks something: {error!r}") from error


def encode_cluster_info(brokers: Iterable[BrokerData], requester_version: int) -> bytes:
    """Body of 106. Keys of addresses are always bare numbers, except for our own clients."""
    table = {broker.broker_name: broker for broker in brokers}
    clusters: dict[str, list[str]] = {}
    for name, broker in table.items():
        clusters.setdefault(broker.cluster, []).append(name)
    beans = {name: broker.to_json(requester_version) for name, broker in table.items()}
    body = dump({"brokerAddrTable": beans, "clusterAddrTable": clusters})
    return body if requester_version >= VERSION_OWN else unquote_ids(body, table.values())


def decode_cluster_info(body: bytes) -> dict[str, BrokerData]:
    """Broker name → its data, from a body of 106.

    Raises:
        RemoteProtocolError: it has another shape.
    """
    bean = read_answer(body, "a cluster overview")
    try:
        return {name: BrokerData.from_json(item) for name, item in bean["brokerAddrTable"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteProtocolError(f"the cluster overview lacks something: {error!r}") from error


def _as_numbers(address: str) -> list[tuple[int, str]]:
    """A key for sorting, with each run of digits as a number."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(address)]
