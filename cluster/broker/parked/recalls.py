"""A timer message is taken back before it is due (370; remoting.md 2.2).

    handle ─► topic, unique key ─► key index ─► the parked record, if it waits ─► outcome "recalled"

Whoever comes first wins, the recall or the delivery: both are outcomes of one parked record.
"""

from __future__ import annotations

from cluster.broker.serving.requests import Call
from cluster.core.parked.folds import real_place
from cluster.errors import IllegalOperation, InvalidRequest, RequestNotSupported
from cluster.protocol.headers import decode, encode
from cluster.protocol.recall_headers import RecallRequest, RecallResponse, read_recall_handle
from commitlog.message_fast import scan_record
from commitlog.names import TIMER_TOPIC
from dledger.errors import DledgerError

KEY_HITS_MAX = 64  # a unique key has one message; others share its hash, or were made to


def recall(call: Call) -> None:
    """370: answered when the log has it. 604 when it is delivered, recalled or unknown."""
    request = decode(RecallRequest, call.frame.ext)
    topic, broker_name, _, key = read_recall_handle(request.recall_handle)
    if topic != request.topic:
        raise InvalidRequest(f"the handle is of the topic {topic}, the request of {request.topic}")
    if broker_name != call.services.config.broker_name:
        raise InvalidRequest(f"the handle is of the broker {broker_name}; ask that one")
    call.when_current(lambda: _take_back(call, topic, key))


def _take_back(call: Call, topic: str, key: str) -> None:
    outcomes = call.services.parked.outcomes
    position = _find(call, topic.encode(), key)
    if position is None or not outcomes.settling.begin(position):
        raise IllegalOperation(
            f"the message {key} of {topic} does not wait any more: it was delivered or recalled"
        )

    def told(positions: list[int], error: DledgerError | None) -> None:
        if error is None:
            call.answer(0, encode(RecallResponse(key)))
        else:
            call.refuse(error)

    outcomes.begin(told).note(position, "recalled", "a client asked for it")


def _find(call: Call, topic: bytes, key: str) -> int | None:
    """The waiting timer message of `topic` with that unique key."""
    services = call.services
    index = services.derived.index
    if index is None:
        raise RequestNotSupported("the key index is off on this broker, so no message is found")
    for position in index.query(TIMER_TOPIC, key, KEY_HITS_MAX):
        if position in services.state.delayed:
            record = scan_record(services.reader.record(position))
            if record.unique_key == key.encode() and real_place(record).topic == topic:
                return position
    return None
