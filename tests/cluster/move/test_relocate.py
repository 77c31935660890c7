"""Addresses in moved records: their own, and that of the record that an outcome is of (R17)."""

from __future__ import annotations

import pytest

from cluster.move.relocate import Relocation
from commitlog.records.message import Message, decode_message, encode_message

DEFERRED = (
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
    "TRANS_CHECK_MAX_TIME_TOPIC",
)


def moved(relocation: Relocation, message: Message, position: int) -> Message:
    record = bytes(encode_message(message))
    return decode_message(bytes(relocation.move(record, decode_message(record), position)))


@pytest.mark.parametrize("topic", DEFERRED)
def test_an_outcome_names_its_parked_record_where_that_is_now(topic: str) -> None:
    relocation = Relocation()
    parked = moved(relocation, Message(topic, b"p", physical_offset=100), 5_000)
    assert parked.physical_offset == 5_000
    outcome = Message("T", b"x", physical_offset=200, prepared_transaction_offset=100)
    assert moved(relocation, outcome, 6_000).prepared_transaction_offset == 5_000


def test_an_outcome_of_what_is_gone_names_nothing() -> None:
    """Its old address may be that of another record now, which still waits."""
    relocation = Relocation()
    moved(relocation, Message("T", b"x", physical_offset=100), 5_000)
    outcome = Message("T", b"x", physical_offset=200, prepared_transaction_offset=100)
    assert moved(relocation, outcome, 6_000).prepared_transaction_offset == 0
