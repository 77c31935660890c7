"""The topics that hold the broker's own state, and what their records say.

Each record is an ordinary message of queue 0 of one of these topics, with a JSON body and no
properties, so RocketMQ's tools and plain readers can show it. Bodies have sorted keys and no
whitespace: one change has one byte form.

    rmq_sys_dledger_topics   {"put":[TopicConfig, ...]}      or {"delete":["name", ...]};
                             {"create":[TopicConfig, ...]} only where there is none; with
                             "gone":{"topic":{"queue":end}} those queues hold nothing any more
    rmq_sys_dledger_groups   {"put":[SubscriptionGroup, ...]} or {"delete":["name", ...]};
                             with "cleanOffset":true the deleted groups' offsets go, too;
                             {"forbid":{"group":{"topic":bits}}} (0 lifts a ban)
    rmq_sys_dledger_offsets  {"group":"g","offsets":{"topic":{"queue":next offset}}}
    rmq_sys_dledger_locks    {"group":"g","owners":[["topic",queue,"client id, empty: free"]]}
    rmq_sys_dledger_modes    {"consumerGroup":"g","mode":"POP","popShareQueueNum":n,"topic":"t"}
    rmq_sys_dledger_checks   {"checks":{"address of a half message":times its producer was asked}}
    rmq_sys_dledger_delays   {"offsets":{"level":next queue offset},"timersMs":time}: an imported
                             store has delivered what lies before
    rmq_sys_dledger_trims    {"position":p}: the log's files below that address are deleted (R16)

A crash leaves a record whole or not at all (the log's entries are); a body that does not parse is
therefore a defect or another version's record, and stops the replica (`StateRecordError`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.core.request_modes import RequestMode
from cluster.core.topics import TopicConfig

TOPICS_TOPIC = "rmq_sys_dledger_topics"
GROUPS_TOPIC = "rmq_sys_dledger_groups"
OFFSETS_TOPIC = "rmq_sys_dledger_offsets"
LOCKS_TOPIC = "rmq_sys_dledger_locks"
MODES_TOPIC = "rmq_sys_dledger_modes"
CHECKS_TOPIC = "rmq_sys_dledger_checks"
DELAYS_TOPIC = "rmq_sys_dledger_delays"
TRIMS_TOPIC = "rmq_sys_dledger_trims"
STATE_TOPICS = frozenset(
    {
        TOPICS_TOPIC,
        GROUPS_TOPIC,
        OFFSETS_TOPIC,
        LOCKS_TOPIC,
        MODES_TOPIC,
        CHECKS_TOPIC,
        DELAYS_TOPIC,
        TRIMS_TOPIC,
    }
)


class StateRecordError(Exception):
    """A committed record of an internal topic says nothing this version understands."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(
            f"a record of the internal topic {topic} cannot be understood: {detail}; "
            "run the version that wrote it, or a newer one"
        )


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """What each does: cluster.core.topic_changes."""

    put: tuple[TopicConfig, ...] = ()
    delete: tuple[str, ...] = ()
    create: tuple[TopicConfig, ...] = ()
    gone: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupsChanged:
    """`forbid`: group → topic → bits; bit 0 bans the group from pulling the topic (353)."""

    put: tuple[Mapping[str, Any], ...] = ()
    delete: tuple[str, ...] = ()
    clean_offset: bool = False
    forbid: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """Next offsets to read, by topic and queue id, of one consumer group."""

    group: str
    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class LocksChanged:
    """Who owns queues of a group for orderly consumption from now on; "" frees one."""

    group: str
    owners: Mapping[tuple[str, int], str]


@dataclass(frozen=True, slots=True)
class RequestModeChanged:
    """A group pulls or pops a topic from now on (401)."""

    row: RequestMode


@dataclass(frozen=True, slots=True)
class HalvesChecked:
    """How often the producers of half messages were asked, this time included (store.md 7.3)."""

    checks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class DelaysPassed:
    """What another broker has delivered: by delay level, everything below that queue offset; of
    timers, everything whose time on the wheel is before `timers_ms`."""

    offsets: Mapping[int, int]
    timers_ms: int = 0


@dataclass(frozen=True, slots=True)
class LogTrimmed:
    """Every replica deletes its log files below `position`, where one begins, when it can."""

    position: int


StateChange = (
    TopicsChanged
    | GroupsChanged
    | OffsetsCommitted
    | LocksChanged
    | RequestModeChanged
    | HalvesChecked
    | DelaysPassed
    | LogTrimmed
)


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A message to be logged: queue 0 of `topic`, no properties."""

    topic: str
    body: bytes


def encode_change(change: StateChange) -> StateRecord:
    if isinstance(change, TopicsChanged):
        return StateRecord(TOPICS_TOPIC, _dump(_topics_value(change)))
    if isinstance(change, GroupsChanged):
        value = _put_or_delete([dict(row) for row in change.put], change.delete)
        if change.clean_offset:
            value["cleanOffset"] = True
        if change.forbid:
            value["forbid"] = {group: dict(topics) for group, topics in change.forbid.items()}
        return StateRecord(GROUPS_TOPIC, _dump(value))
    if isinstance(change, LocksChanged):
        owners = [[*queue, client] for queue, client in sorted(change.owners.items())]
        return StateRecord(LOCKS_TOPIC, _dump({"group": change.group, "owners": owners}))
    if isinstance(change, RequestModeChanged):
        return StateRecord(MODES_TOPIC, _dump(change.row.to_json()))
    if isinstance(change, HalvesChecked):
        checks = {str(position): count for position, count in change.checks.items()}
        return StateRecord(CHECKS_TOPIC, _dump({"checks": checks}))
    if isinstance(change, DelaysPassed):
        levels = {str(level): offset for level, offset in change.offsets.items()}
        return StateRecord(DELAYS_TOPIC, _dump({"offsets": levels, "timersMs": change.timers_ms}))
    if isinstance(change, LogTrimmed):
        return StateRecord(TRIMS_TOPIC, _dump({"position": change.position}))
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
            return _decode_topics(value)
        if topic == GROUPS_TOPIC:
            return _decode_groups(value)
        if topic == LOCKS_TOPIC:
            rows = {(str(name), int(queue)): str(c) for name, queue, c in value["owners"]}
            return LocksChanged(str(value["group"]), rows)
        if topic == MODES_TOPIC:
            return RequestModeChanged(RequestMode.from_json(value))
        if topic == CHECKS_TOPIC:
            return HalvesChecked({int(at): int(count) for at, count in value["checks"].items()})
        if topic == DELAYS_TOPIC:
            levels = {int(level): int(offset) for level, offset in value["offsets"].items()}
            return DelaysPassed(levels, int(value["timersMs"]))
        if topic == TRIMS_TOPIC:
            return LogTrimmed(int(value["position"]))
        if topic == OFFSETS_TOPIC:
            offsets = {
                name: {int(queue): int(offset) for queue, offset in queues.items()}
                for name, queues in value["offsets"].items()
            }
            return OffsetsCommitted(str(value["group"]), offsets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateRecordError(topic, repr(error)) from error
    raise StateRecordError(topic, "no such internal topic")


def _topics_value(change: TopicsChanged) -> dict[str, Any]:
    value = _put_or_delete([row.to_json() for row in change.put], change.delete)
    if change.create:
        value["create"] = [row.to_json() for row in change.create]
    if change.gone:
        value["gone"] = {
            topic: {str(queue): end for queue, end in queues.items()}
            for topic, queues in change.gone.items()
        }
    return value


def _decode_topics(value: Mapping[str, Any]) -> TopicsChanged:
    return TopicsChanged(
        tuple(TopicConfig.from_json(row) for row in value.get("put", ())),
        tuple(value.get("delete", ())),
        tuple(TopicConfig.from_json(row) for row in value.get("create", ())),
        {
            str(topic): {int(queue): int(end) for queue, end in queues.items()}
            for topic, queues in value.get("gone", {}).items()
        },
    )


def _decode_groups(value: Mapping[str, Any]) -> GroupsChanged:
    return GroupsChanged(
        tuple(value.get("put", ())),
        tuple(value.get("delete", ())),
        bool(value.get("cleanOffset", False)),
        {
            str(group): {str(topic): int(bits) for topic, bits in topics.items()}
            for group, topics in value.get("forbid", {}).items()
        },
    )


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
