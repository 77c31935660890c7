"""Traces one message by its stored records, so that no client has to send trace data.

    RMQ_SYS_TRANS_HALF_TOPIC    it waits for its outcome ─┐
    SCHEDULE_TOPIC_XXXX, timer  it waits for its time ────┴─► its topic ─► each group: is it read?
                                                          %RETRY%group ─► %DLQ%group ◄┘

Every copy of a message keeps its id (UNIQ_KEY), so the key index finds all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.client.admin.group_admin import GroupAdmin
from cluster.client.admin.stored_messages import with_key
from cluster.client.admin.waiting_messages import waiting_page
from cluster.client.message import ReceivedMessage
from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.errors import InvalidRequest, NotFound, RequestNotSupported, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import TopicRequest, encode
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.waiting_headers import DELAYED as DELAYED_KIND
from cluster.protocol.waiting_headers import TRANSACTIONS
from commitlog.records import property_names as names
from commitlog.records.names import (
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from commitlog.records.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

HALF, GIVEN_UP, DELAYED, STORED, READ, WAITS, RETRY, DEAD = KINDS = (
    "half",
    "given-up",
    "delayed",
    "stored",
    "read",
    "waits",
    "retry",
    "dead",
)
_DEFERRED = {HALF_TOPIC: HALF, SCHEDULE_TOPIC: DELAYED, TIMER_TOPIC: DELAYED}

#: Text by the result of `_waits`; None: the broker does not tell.
_DETAIL_OF_HALF: Mapping[bool | None, str] = {
    True: "without an outcome yet",
    False: "has its outcome",
    None: "",
}
_DETAIL_OF_DELAYED: Mapping[bool | None, str] = {
    True: ", still waits",
    False: ", was delivered or recalled",
    None: "",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        kind: one of KINDS; `read` and `waits` say how far a group is, and have no time.
        at_ms: when the record was stored, in ms since 1970; None: the log does not say when.
        offset: the record's queue offset.
        group: the consumer group of the step, or the producer group of a half message.
        detail: more about the step, as the end of a sentence.
    """

    kind: str
    at_ms: int | None
    queue: MessageQueue
    offset: int
    group: str | None
    detail: str

    def row(self) -> dict[str, Any]:
        """The step as an object, as commands and the API show it."""
        return {
            "kind": self.kind,
            "at_ms": self.at_ms,
            "topic": self.queue.topic,
            "broker": self.queue.broker_name,
            "queue": self.queue.queue_id,
            "offset": self.offset,
            "group": self.group,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Trace:
    """The steps of one message, in the order of the log."""

    topic: str
    message_id: str
    steps: Sequence[Step]


async def trace(instance: ClientInstance, topic: str, key: str) -> Trace:
    """The steps of the topic's message with this id, or of its only message with this key.

    Raises:
        NotFound: there is no such message, or retention removed it.
        InvalidRequest: several messages have the key.
        ClusterError: a broker refused or could not be reached.
    """
    stored = await with_key(instance, topic, key)
    deferred = [message for name in _DEFERRED for message in await with_key(instance, name, key)]
    meant = [*stored, *(message for message in deferred if _sent_to(message) == topic)]
    message_id = _the_one(topic, key, meant)
    if message_id != key:
        stored = [one for one in stored if one.message_id == message_id]
        deferred = [m for name in _DEFERRED for m in await with_key(instance, name, message_id)]
    deferred = [message for message in deferred if _sent_to(message) == topic]
    given_up = [
        one
        for one in await with_key(instance, CHECK_MAX_TIME_TOPIC, message_id)
        if one.properties.get(names.REAL_TOPIC) == topic
    ]
    steps = [await _deferred_step(instance, message) for message in deferred]
    steps += map(_given_up_step, given_up)
    groups = await _groups_of(instance, topic, stored, deferred)
    nexts = {group: await _nexts(instance, group) for group in groups}
    for message in stored:
        steps.append(_stored_step(message))
        steps += [_read_step(group, nexts[group], message) for group in groups]
    for group in groups:
        for again in await with_key(instance, RETRY_PREFIX + group, message_id):
            steps.append(_step(RETRY, again, group, f"attempt {again.attempt}"))
            steps.append(_read_step(group, nexts[group], again))
        for dead in await with_key(instance, DLQ_PREFIX + group, message_id):
            steps.append(_step(DEAD, dead, group, f"given up after attempt {dead.reconsume_times}"))
    return Trace(topic, message_id, _in_order(steps))


def _sent_to(message: ReceivedMessage) -> str:
    """The topic to which the user sent the message of a deferred record."""
    real = message.properties.get(names.REAL_TOPIC, "")
    return message.properties.get(names.RETRY_TOPIC, real) if _group_of(message) else real


def _group_of(message: ReceivedMessage) -> str | None:
    """The consumer group to which a deferred record will be delivered again; None if it is new."""
    real = message.properties.get(names.REAL_TOPIC, "")
    return real.removeprefix(RETRY_PREFIX) if real.startswith(RETRY_PREFIX) else None


def _the_one(topic: str, key: str, found: Iterable[ReceivedMessage]) -> str:
    ids = sorted({message.message_id for message in found} - {""})
    if key in ids:
        return key
    if not ids:
        raise NotFound(f"no message of {topic} has the id or key {key}; see whether it expired")
    if len(ids) > 1:
        raise InvalidRequest(
            f"{len(ids)} messages of {topic} have the key {key}; give an id: {', '.join(ids[:5])}"
        )
    return ids[0]


async def _groups_of(
    instance: ClientInstance,
    topic: str,
    stored: Iterable[ReceivedMessage],
    deferred: Iterable[ReceivedMessage],
) -> list[str]:
    """Groups that have read the topic, and groups that gave the message back to be retried."""
    found = {group for message in deferred if (group := _group_of(message)) is not None}
    for broker in sorted({message.queue.broker_name for message in stored}):
        answer = await ask_leader(
            instance,
            broker,
            topic,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            encode(TopicRequest(topic)),
        )
        found.update(orjson.loads(answer.body).get("groupList", ()))
    return sorted(found)


async def _nexts(instance: ClientInstance, group: str) -> Mapping[MessageQueue, int]:
    return {row.queue: row.next for row in await GroupAdmin(instance).lag(group)}


def _step(kind: str, message: ReceivedMessage, group: str | None, detail: str) -> Step:
    return Step(
        kind, message.store_timestamp_ms, message.queue, message.queue_offset, group, detail
    )


async def _deferred_step(instance: ClientInstance, message: ReceivedMessage) -> Step:
    said = message.properties
    if message.queue.topic == HALF_TOPIC:
        is_open = await _waits(instance, message, TRANSACTIONS)
        detail = _DETAIL_OF_HALF[is_open]
        return _step(HALF, message, said.get(names.PRODUCER_GROUP), detail)
    waits = await _waits(instance, message, DELAYED_KIND)
    how = _DETAIL_OF_DELAYED[waits]
    for name in (names.DELAY, names.TIMER_DELAY_SECONDS, names.TIMER_DELAY_MS,
                 names.TIMER_DELIVER_MS):  # fmt: skip
        if name in said:
            return _step(DELAYED, message, _group_of(message), f"{name} {said[name]}{how}")
    return _step(DELAYED, message, _group_of(message), how.removeprefix(", "))


async def _waits(instance: ClientInstance, message: ReceivedMessage, kind: str) -> bool | None:
    """True if the message still waits; None from a stock broker, or without the rights to ask."""
    try:
        page = await waiting_page(
            instance, message.queue.broker_name, kind, message.position, count=1
        )
    except (RequestNotSupported, Unauthorized):
        return None
    return bool(page.rows) and page.rows[0]["position"] == message.position


def _given_up_step(message: ReceivedMessage) -> Step:
    group = message.properties.get(names.PRODUCER_GROUP)
    return _step(GIVEN_UP, message, group, "no producer told its outcome")


def _stored_step(message: ReceivedMessage) -> Step:
    is_commit = message.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
    return _step(STORED, message, None, "committed transaction" if is_commit else "")


def _read_step(group: str, nexts: Mapping[MessageQueue, int], message: ReceivedMessage) -> Step:
    """READ if the group's offset is beyond the message, else WAITS."""
    offset = nexts.get(message.queue)
    if offset is None:
        return Step(WAITS, None, message.queue, message.queue_offset, group, "has no offset here")
    kind = READ if offset > message.queue_offset else WAITS
    detail = f"goes on at {offset}"
    return Step(kind, None, message.queue, message.queue_offset, group, detail)


def _in_order(steps: Iterable[Step]) -> list[Step]:
    """Steps by time; steps of groups, which have no time, follow the record that they are about."""
    stored = {(s.queue, s.offset): s.at_ms for s in steps if s.at_ms is not None}
    return sorted(
        steps, key=lambda s: (stored[s.queue, s.offset], s.queue, s.offset, s.at_ms is None)
    )
