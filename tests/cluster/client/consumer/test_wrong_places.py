"""Levels and offsets that are none: refused at once, and the consumer goes on."""

from __future__ import annotations

from typing import Any

import pytest

import cluster
from cluster.client.config import ClientConfig, ConsumerConfig
from cluster.errors import InvalidRequest

from ..stub_cluster import StubGroup

pytestmark = pytest.mark.virtual_time

QUICK = ClientConfig(stall_timeout=0.1, request_timeout=0.5, replica_fallback=0.3)


@pytest.mark.parametrize("offset", [-1, 2.5, "3", None])
@pytest.mark.parametrize("level", [-2, 19, 60])
async def test_refused_and_the_next_message_comes(
    offset: Any, level: int, group: StubGroup
) -> None:
    async with cluster.connect(group.nameserver.address, QUICK) as client:
        async with client.producer() as producer:
            for body in (b"0", b"1"):
                await producer.send("T", body, key="k")
        config = ConsumerConfig(manual_ack=True)
        async with client.consumer("T", group="G", config=config) as consumer:
            first = await consumer.receive(4.0)
            assert first is not None
            with pytest.raises(InvalidRequest, match="which is a level and no time; give 0, -1"):
                await consumer.nack(first, delay_level=level)
            with pytest.raises(InvalidRequest, match="cannot go to"):
                consumer.seek(first.queue, offset)
            consumer.ack(first)
            following = await consumer.receive(4.0)
            assert following is not None
            assert following.body == b"1"
