"""A timer message is taken back before it is due (370; docs/spec/remoting.md 2.2).

    handle ─► topic, unique key ─► key index ─► deferred record, if it waits ─► outcome "recalled"

The first one counts, recall or delivery: both are outcomes of one deferred record.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster.broker.delay.decisions import Recalled
from cluster.broker.delay.ports import DelayPorts
from cluster.broker.kernel.net.decisions import WhenCurrent
from cluster.core.access.needs import Needs, to_publish
from cluster.core.delay.folds import real_place
from cluster.errors import IllegalOperation, InvalidRequest, RequestNotSupported
from cluster.protocol.frames import Frame
from cluster.protocol.headers import decode
from cluster.protocol.recall_headers import RecallRequest, read_recall_handle
from commitlog.records.message_fast import scan_record
from commitlog.records.names import TIMER_TOPIC

KEY_HITS_MAX = 64  # a unique key has one message; others share its hash, or were made to


class Recall(NamedTuple):
    """370, its handle read."""

    topic: str
    broker_name: str
    key: str


def read_recall(frame: Frame) -> Recall:
    """The request of a frame. Raises InvalidRequest for an unreadable handle, or one of another
    topic.
    """
    request = decode(RecallRequest, frame.ext)
    topic, broker_name, _, key = read_recall_handle(request.recall_handle)
    if topic != request.topic:
        raise InvalidRequest(f"the handle is of the topic {topic}, the request of {request.topic}")
    return Recall(topic, broker_name, key)


def needs_of_recall(request: Recall) -> Needs:
    """The right to publish to the topic."""
    return to_publish(request.topic)


def recall(ports: DelayPorts, request: Recall) -> WhenCurrent[DelayPorts]:
    """370: answered when the log has it. 604 when it is delivered, recalled or unknown."""
    if request.broker_name != ports.config.broker_name:
        raise InvalidRequest(f"the handle is of the broker {request.broker_name}; ask that one")
    return WhenCurrent(lambda: _take_back(ports, request.topic, request.key))


def _take_back(ports: DelayPorts, topic: str, key: str) -> Recalled:
    position = _find(ports, topic.encode(), key)
    if position is None or position in ports.outcomes.settling:
        raise IllegalOperation(
            f"the message {key} of {topic} does not wait any more; look for it in "
            "the topic, it was delivered or recalled"
        )
    return Recalled(position, key)


def _find(ports: DelayPorts, topic: bytes, key: str) -> int | None:
    """The waiting timer message of `topic` with that unique key."""
    index = ports.derived.index
    if index is None:
        raise RequestNotSupported(
            "the key index is off on this broker, so no message is found; set broker.index_enabled"
        )
    for position in index.query(TIMER_TOPIC, key, KEY_HITS_MAX):
        if position in ports.state.delayed:
            record = scan_record(ports.reader.record(position))
            if record.unique_key == key.encode() and real_place(record).topic == topic:
                return position
    return None
