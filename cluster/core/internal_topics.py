"""The topics that hold the broker's own state, and the content of their records.

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
    rmq_sys_dledger_producers  {"owner":"access key","producer":"id"}: whose a producer id is from
                             here on; "": of senders without an account
    rmq_sys_dledger_accounts  {"put":[row, ...],"delete":["access key", ...]}: accounts, with their
                             secrets, in plain_acl.yml's shape; of feature level 1
    rmq_sys_dledger_settings  settings of each node (live_settings.py); of feature level 2
    rmq_sys_dledger_levels   {"level":n}: kinds of feature level n may follow (feature_level.py)

A crash leaves a record whole or not at all (the log's entries are). A body that does not parse, or
holds what no table can, is a defect's or another version's. `checked_record` refuses it before it
is appended; one that is in the log nevertheless is passed over by every replica, and complained of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.core.access.account_rows import check_logged
from cluster.core.feature_level import LEVEL_MAX
from cluster.core.live_settings import SETTINGS_TOPIC, SettingsChanged, decode_settings
from cluster.core.record_json import (
    UNREADABLE,
    listed,
    queue_id,
    refuse_constant,
    text_of,
    texts,
    whole,
    why,
)
from cluster.core.request_modes import RequestMode
from cluster.core.topics import ACCOUNTS_TOPIC, AUDIT_TOPICS, TopicConfig
from commitlog.records.places import QUEUE_ID_MAX

TOPICS_TOPIC = "rmq_sys_dledger_topics"
GROUPS_TOPIC = "rmq_sys_dledger_groups"
OFFSETS_TOPIC = "rmq_sys_dledger_offsets"
LOCKS_TOPIC = "rmq_sys_dledger_locks"
MODES_TOPIC = "rmq_sys_dledger_modes"
CHECKS_TOPIC = "rmq_sys_dledger_checks"
DELAYS_TOPIC = "rmq_sys_dledger_delays"
TRIMS_TOPIC = "rmq_sys_dledger_trims"
PRODUCERS_TOPIC = "rmq_sys_dledger_producers"
LEVELS_TOPIC = "rmq_sys_dledger_levels"
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
        PRODUCERS_TOPIC,
        LEVELS_TOPIC,
        ACCOUNTS_TOPIC,
        SETTINGS_TOPIC,
    }
)
OWN_TOPICS = STATE_TOPICS | AUDIT_TOPICS
"""Topics that no client makes, changes, deletes, or sends to."""


class StateRecordError(Exception):
    """A record of an internal topic that this version does not understand."""

    def __init__(self, topic: str, detail: str) -> None:
        self.detail = detail[:200]
        super().__init__(
            f"a record of the internal topic {topic} cannot be understood: {self.detail}; "
            "run the version that wrote it, or a newer one"
        )


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """A change of topics; cluster.core.topic_changes explains each field."""

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
    """New owners of queues of a group, for orderly consumption; "" frees a queue."""

    group: str
    owners: Mapping[tuple[str, int], str]


@dataclass(frozen=True, slots=True)
class RequestModeChanged:
    """A group pulls or pops a topic from now on (401)."""

    row: RequestMode


@dataclass(frozen=True, slots=True)
class HalvesChecked:
    """How often the producers of half messages were asked, this time included.

    Source: docs/spec/store.md 7.3.
    """

    checks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class DelaysPassed:
    """Deliveries of another broker: by delay level, all below that queue offset; of timers, all
    with a time on the wheel before `timers_ms`.
    """

    offsets: Mapping[int, int]
    timers_ms: int = 0


@dataclass(frozen=True, slots=True)
class LogTrimmed:
    """Every replica deletes its log files below `position`, where one begins, when it can."""

    position: int


@dataclass(frozen=True, slots=True)
class ProducerOwned:
    """Messages numbered by this producer id (`__PID`) come from that account only, "": from
    senders without one."""

    producer: str
    owner: str


@dataclass(frozen=True, slots=True)
class LevelRaised:
    """Records behind it may be of kinds up to this feature level."""

    level: int


@dataclass(frozen=True, slots=True)
class AccountsChanged:
    """Rows of accounts by their access keys, secrets included; not shown by `repr`."""

    put: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    delete: tuple[str, ...] = ()


StateChange = (
    TopicsChanged
    | GroupsChanged
    | OffsetsCommitted
    | LocksChanged
    | RequestModeChanged
    | HalvesChecked
    | DelaysPassed
    | LogTrimmed
    | ProducerOwned
    | LevelRaised
    | AccountsChanged
    | SettingsChanged
)


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A message to be logged: queue 0 of `topic`, no properties."""

    topic: str
    body: bytes


def encode_change(change: StateChange) -> StateRecord:
    """The record of a change. It is not checked: `checked_record` is the safe way."""
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
    if isinstance(change, ProducerOwned):
        value = {"owner": change.owner, "producer": change.producer}
        return StateRecord(PRODUCERS_TOPIC, _dump(value))
    if isinstance(change, AccountsChanged):
        rows = [dict(row) for row in change.put]
        return StateRecord(ACCOUNTS_TOPIC, _dump(_put_or_delete(rows, change.delete)))
    if isinstance(change, SettingsChanged):
        return StateRecord(SETTINGS_TOPIC, _dump(change.to_json()))
    if isinstance(change, LevelRaised):
        return StateRecord(LEVELS_TOPIC, _dump({"level": change.level}))
    offsets = {
        topic: {str(queue): offset for queue, offset in queues.items()}
        for topic, queues in change.offsets.items()
    }
    return StateRecord(OFFSETS_TOPIC, _dump({"group": change.group, "offsets": offsets}))


def checked_record(change: StateChange) -> StateRecord:
    """The record of a change, which every replica can apply. Raises StateRecordError."""
    try:
        record = encode_change(change)
    except UNREADABLE as error:
        raise StateRecordError(type(change).__name__, why(error)) from error
    decode_change(record.topic, record.body)
    return record


def decode_change(topic: str, body: bytes) -> StateChange:
    """Inverse of `encode_change`; every table accepts the result. Raises StateRecordError."""
    decode = _DECODERS.get(topic)
    if decode is None:
        raise StateRecordError(topic, "no such internal topic")
    try:
        value = json.loads(body, parse_constant=refuse_constant)
        if b"\\u" in body:  # ours escape control characters, and nothing else
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
        return decode(value)
    except UNREADABLE as error:
        raise StateRecordError(topic, why(error)) from error


def _decode_topics(value: Mapping[str, Any]) -> TopicsChanged:
    put, create = (_topic_rows(value.get(name, ())) for name in ("put", "create"))
    gone = {
        text_of(topic): {queue_id(queue): whole(end, 0) for queue, end in queues.items()}
        for topic, queues in value.get("gone", {}).items()
    }
    return TopicsChanged(put, texts(value.get("delete", ())), create, gone)


def _topic_rows(value: Any) -> tuple[TopicConfig, ...]:
    rows = tuple(map(TopicConfig.from_json, listed(value)))
    for row in rows:
        for number in (row.read_queues, row.write_queues):
            whole(number, 0, QUEUE_ID_MAX + 1)
        for number in (row.perm, row.sys_flag):
            whole(number, -(1 << 31), (1 << 31) - 1)
    return rows


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


def _decode_groups(value: Mapping[str, Any]) -> GroupsChanged:
    put = tuple(listed(value.get("put", ())))
    for bean in put:
        if not isinstance(bean, dict):
            raise TypeError(f"a {type(bean).__name__} is no group")
        text_of(bean["groupName"])
    return GroupsChanged(
        put,
        texts(value.get("delete", ())),
        bool(value.get("cleanOffset", False)),
        {
            group: {topic: whole(bits) for topic, bits in topics.items()}
            for group, topics in value.get("forbid", {}).items()
        },
    )


def _decode_offsets(value: Mapping[str, Any]) -> OffsetsCommitted:
    offsets = {
        name: {queue_id(queue): whole(offset) for queue, offset in queues.items()}
        for name, queues in value["offsets"].items()
    }
    return OffsetsCommitted(text_of(value["group"]), offsets)


def _decode_locks(value: Mapping[str, Any]) -> LocksChanged:
    rows = listed(value["owners"])
    owners = {(text_of(name), queue_id(queue)): text_of(client) for name, queue, client in rows}
    return LocksChanged(text_of(value["group"]), owners)


def _decode_mode(value: Mapping[str, Any]) -> RequestModeChanged:
    row = RequestMode.from_json(value)
    whole(row.share, -(1 << 31), (1 << 31) - 1)
    return RequestModeChanged(row)


def _decode_checks(value: Mapping[str, Any]) -> HalvesChecked:
    return HalvesChecked({whole(at): whole(count) for at, count in value["checks"].items()})


def _decode_delays(value: Mapping[str, Any]) -> DelaysPassed:
    levels = {whole(level): whole(offset) for level, offset in value["offsets"].items()}
    return DelaysPassed(levels, whole(value["timersMs"]))


def _decode_trim(value: Mapping[str, Any]) -> LogTrimmed:
    return LogTrimmed(whole(value["position"], 0))


def _decode_producer(value: Mapping[str, Any]) -> ProducerOwned:
    return ProducerOwned(text_of(value["producer"]), text_of(value["owner"]))


def _decode_accounts(value: Mapping[str, Any]) -> AccountsChanged:
    put = tuple(listed(value.get("put", ())))
    for row in put:
        check_logged(row)
    return AccountsChanged(put, texts(value.get("delete", ())))


_DECODERS: Mapping[str, Callable[[Any], StateChange]] = {
    TOPICS_TOPIC: _decode_topics,
    GROUPS_TOPIC: _decode_groups,
    OFFSETS_TOPIC: _decode_offsets,
    LOCKS_TOPIC: _decode_locks,
    MODES_TOPIC: _decode_mode,
    CHECKS_TOPIC: _decode_checks,
    DELAYS_TOPIC: _decode_delays,
    TRIMS_TOPIC: _decode_trim,
    PRODUCERS_TOPIC: _decode_producer,
    ACCOUNTS_TOPIC: _decode_accounts,
    SETTINGS_TOPIC: decode_settings,
    LEVELS_TOPIC: lambda value: LevelRaised(whole(value["level"], 0, LEVEL_MAX)),
}
assert _DECODERS.keys() == STATE_TOPICS


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
