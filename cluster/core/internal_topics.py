"""The topics that hold the broker's own state, and what their records say.

Each record is an ordinary message of queue 0 of one of these topics, with a JSON body and no
properties, so RocketMQ's tools and plain readers can show it. Bodies have sorted keys and no
whitespace: one change has one byte form.

    rmq_sys_dledger_topics   {"put":[TopicConfig, ...]}      or {"delete":["name", ...]}
    rmq_sys_dledger_groups   {"put":[SubscriptionGroup, ...]} or {"delete":["name", ...]}
    rmq_sys_dledger_offsets  {"group":"g","offsets":{"topic":{"queue":next offset}}}

A crash leaves a record whole or not at all (the log's entries are); a body that does not parse is
therefore a defect or another version's record, and stops the replica (`StateRecordError`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.core.topics import TopicConfig

TOPICS_TOPIC = "rmq_sys_dledger_topics"
GROUPS_TOPIC = "rmq_sys_dledger_groups"
OFFSETS_TOPIC = "rmq_sys_dledger_offsets"
STATE_TOPICS = frozenset({TOPICS_TOPIC, GROUPS_TOPIC, OFFSETS_TOPIC})


class StateRecordError(Exception):
    """A committed record of an internal topic says nothing this version understands."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(
            f"a record of the internal topic {topic} cannot be understood: {detail}; "
            "run the version that wrote it, or a newer one"
        )


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    put: tuple[TopicConfig, ...] = ()
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupsChanged:
    put: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """Next offsets to read, by topic and queue id, of one consumer group."""

    group: str
    offsets: Mapping[str, Mapping[int, int]]


StateChange = TopicsChanged | GroupsChanged | OffsetsCommitted


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A message to be logged: queue 0 of `topic`, no properties."""

    topic: str
    body: bytes


def encode_change(change: StateChange) -> StateRecord:
    if isinstance(change, TopicsChanged):
        value = _put_or_delete([row.to_json() for row in change.put], change.delete)
        return StateRecord(TOPICS_TOPIC, _dump(value))
    if isinstance(change, GroupsChanged):
        value = _put_or_delete([dict(row) for row in change.put], change.delete)
        return StateRecord(GROUPS_TOPIC, _dump(value))
    offsets = {
        topic: {str(queue): offset for queue, offset in queues.items()}
        for topic, queues in change.offsets.items()
    }
    return StateRecord(OFFSETS_TOPIC, _dump({"group": change.group, "offsets": offsets}))


def decode_change(topic: str, body: bytes) -> StateChange:
    """Inverse of `encode_change`. Raises StateRecordError."""
    try:
        value = json.loads(body)
        if topic == TOPICS_TOPIC:
            put = tuple(TopicConfig.from_json(row) for row in value.get("put", ()))
            return TopicsChanged(put, tuple(value.get("delete", ())))
        if topic == GROUPS_TOPIC:
            return GroupsChanged(tuple(value.get("put", ())), tuple(value.get("delete", ())))
        if topic == OFFSETS_TOPIC:
            offsets = {
                name: {int(queue): int(offset) for queue, offset in queues.items()}
                for name, queues in value["offsets"].items()
            }
            return OffsetsCommitted(str(value["group"]), offsets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateRecordError(topic, repr(error)) from error
    raise StateRecordError(topic, "no such internal topic")


def _put_or_delete(put: list[Any], delete: Iterable[str]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    if put:
        value["put"] = put
    if delete:
        value["delete"] = list(delete)
    return value


def _dump(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()
