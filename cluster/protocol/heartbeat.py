"""Body of a client's heartbeat (code 34) and of the member list (38); docs/spec/remoting.md 2.4.

    {"clientID":"192.0.2.2@c1","producerDataSet":[{"groupName":"PG"}],
     "consumerDataSet":[{"groupName":"CG","consumeType":"CONSUME_PASSIVELY",
       "messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","unitMode":false,
       "subscriptionDataSet":[{"topic":"T","subString":"TagA || TagB","tagsSet":["TagA","TagB"],
         "codeSet":[2598919,2598920],"subVersion":1,"expressionType":"TAG",
         "classFilterMode":false}]}]}

Read tolerantly: C++ writes the enums as numbers, subVersion as text and leaves out tags, codes and
the expression type; `producerDataSet` may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.errors import RemoteProtocolError
from cluster.protocol.json_body import dump, load, read_answer
from commitlog.records.java import string_hash

CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
"""Enum names by ordinal, which is what C++ sends."""

ALL_TAGS = "*"
#: Per heartbeat; a client has a handful of each. Stock brokers have no limit.
SUBSCRIPTIONS_COUNT_MAX = 1_000
TAGS_COUNT_MAX = 4_000
GROUPS_COUNT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Subscription:
    """A group's filter on one topic. `codes`: Java hashes of `tags`; without both it takes all."""

    topic: str
    expression: str = ALL_TAGS
    expression_type: str = "TAG"
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    version: int = 0

    @staticmethod
    def of_tags(topic: str, expression: str, version: int) -> Subscription:
        """From a tag expression: "*", "" or names joined by "||"."""
        names = frozenset(name for part in expression.split("||") if (name := part.strip()))
        if not names or ALL_TAGS in names:
            return Subscription(topic, ALL_TAGS, version=version)
        codes = frozenset(string_hash(name) for name in names)
        return Subscription(topic, expression, "TAG", names, codes, version)

    @staticmethod
    def of_sql(topic: str, condition: str, version: int) -> Subscription:
        """From a condition on properties, which brokers evaluate."""
        return Subscription(topic, condition, "SQL92", version=version)

    def wants(self, tags: str | None) -> bool:
        """The exact check that a consumer repeats, since the broker only compares hashes."""
        return not self.tags or tags in self.tags

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean."""
        return {
            "classFilterMode": False,
            "codeSet": sorted(self.codes),
            "expressionType": self.expression_type,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> Subscription:
        """Inverse of `to_json`; fields that a client leaves out are taken from the expression."""
        topic, expression = str(bean["topic"]), str(bean.get("subString") or ALL_TAGS)
        version = int(bean.get("subVersion") or 0)
        expression_type = str(bean.get("expressionType") or "TAG")
        if expression_type != "TAG":
            return Subscription(topic, expression, expression_type, version=version)
        return Subscription.of_tags(topic, expression, version)


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group of a client."""

    group: str
    subscriptions: tuple[Subscription, ...]
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"
    unit_mode: bool = False

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean."""
        return {
            "consumeFromWhere": self.consume_from,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.message_model,
            "subscriptionDataSet": [item.to_json() for item in self.subscriptions],
            "unitMode": self.unit_mode,
        }

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> ConsumerData:
        """Inverse of `to_json`."""
        items = bean.get("subscriptionDataSet") or ()
        return ConsumerData(
            str(bean["groupName"]),
            tuple(Subscription.from_json(item) for item in items),
            _enum(bean.get("consumeType", 1), CONSUME_TYPES),
            _enum(bean.get("messageModel", 1), MESSAGE_MODELS),
            _enum(bean.get("consumeFromWhere", 0), CONSUME_FROM),
            bool(bean.get("unitMode", False)),
        )


@dataclass(frozen=True, slots=True)
class HeartbeatData:
    """Everything a client is: its id, the groups it produces for and those it consumes in."""

    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerData, ...] = ()


def encode_heartbeat(heartbeat: HeartbeatData) -> bytes:
    """The body of a heartbeat."""
    return dump(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [consumer.to_json() for consumer in heartbeat.consumers],
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": group} for group in heartbeat.producer_groups],
            "withoutSub": False,
        }
    )


def decode_heartbeat(body: bytes) -> HeartbeatData:
    """Read a heartbeat of any client.

    Raises:
        RemoteProtocolError: it is no heartbeat, or names too many subscriptions.
    """
    bean = load(body, "a heartbeat")
    if not isinstance(bean, dict):
        raise RemoteProtocolError("the body of a heartbeat is no JSON object")
    try:
        _check_counts(bean)
        consumers = tuple(
            ConsumerData.from_json(item) for item in bean.get("consumerDataSet") or ()
        )
        producers = tuple(str(item["groupName"]) for item in bean.get("producerDataSet") or ())
        client_id = str(bean["clientID"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteProtocolError(f"the body of a heartbeat lacks something: {error!r}") from error
    return HeartbeatData(client_id, producers, consumers)


def _check_counts(bean: dict[str, Any]) -> None:
    """Bound the work that reading the lists of a heartbeat makes, before it is done."""
    consumers = bean.get("consumerDataSet") or ()
    rows = [row for item in consumers for row in item.get("subscriptionDataSet") or ()]
    counts = (
        (len(consumers) + len(bean.get("producerDataSet") or ()), GROUPS_COUNT_MAX, "groups"),
        (len(rows), SUBSCRIPTIONS_COUNT_MAX, "subscriptions"),
        (sum(str(row.get("subString")).count("||") for row in rows), TAGS_COUNT_MAX, "tags"),
    )
    for count, limit, what in counts:
        if count > limit:
            raise RemoteProtocolError(
                f"a heartbeat names {count} {what}, the limit is {limit}; use several clients"
            )


def encode_consumer_list(client_ids: Sequence[str]) -> bytes:
    """Body of the answer to 38."""
    return dump({"consumerIdList": list(client_ids)})


def decode_consumer_list(body: bytes) -> list[str]:
    """Client ids from the answer to 38.

    Raises:
        RemoteProtocolError: it has another shape.
    """
    try:
        return [str(item) for item in read_answer(body, "a member list")["consumerIdList"]]
    except (KeyError, TypeError) as error:
        raise RemoteProtocolError(f"the member list lacks something: {error!r}") from error


def _enum(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, int):
        if not 0 <= value < len(names):
            raise ValueError(f"{value} is none of {', '.join(names)}")
        return names[value]
    return str(value)
