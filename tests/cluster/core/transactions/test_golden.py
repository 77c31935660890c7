"""A store of the real broker: halves that it committed, rolled back, and left open."""

from __future__ import annotations

from pathlib import Path

from cluster.core.apply import AppliedState
from cluster.core.transactions.halves import Outcome
from commitlog.store.reader import StoreReader
from dledger.core.types import Index

GOLDEN = Path(__file__).parents[3] / "data" / "golden"
BROKER = GOLDEN / "dledger" / "dledger-broker" / "store"
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def test_what_the_real_broker_left_open_is_what_waits() -> None:
    with StoreReader(BROKER) as reader:
        items = list(reader.items())
    messages = [item.message for item in items if item.message is not None]
    state = AppliedState(())
    state.apply(b"".join(item.raw for item in items), Index(0))
    halves = [message for message in messages if message.topic == HALF]
    committed = {m.prepared_transaction_offset for m in messages if m.sys_flag & 0xC == 8}
    ops = b"".join(message.body for message in messages if message.topic == OP)
    done = {int(text) for text in ops.split(b",") if text}
    table = state.halves
    assert (len(halves), len(committed), len(done)) == (8, 4, 6)
    for half in halves:
        waits = table.get(half.physical_offset) is not None
        assert waits == (half.queue_offset not in done)
        if half.physical_offset in committed:
            assert table.recent(half.physical_offset) is Outcome.COMMITTED
        elif not waits:
            assert table.recent(half.physical_offset) is Outcome.ROLLED_BACK
    assert len(table) == 2
