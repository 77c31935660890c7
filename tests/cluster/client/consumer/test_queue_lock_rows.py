"""How many queues one request locks."""

from __future__ import annotations

from cluster.client.consumer.queue_locks import _by_broker
from cluster.protocol.json_body import ROWS_COUNT_MAX, MessageQueue


def test_no_request_names_more_queues_than_a_broker_takes() -> None:
    queues = [MessageQueue("orders", name, n) for name in ("a", "b") for n in range(2_500)]
    parts = _by_broker(queues)
    assert [(name, len(own)) for name, own in parts] == [
        (name, count) for name in ("a", "b") for count in (ROWS_COUNT_MAX, ROWS_COUNT_MAX, 500)
    ]
    assert [queue for _, own in parts for queue in own] == queues
