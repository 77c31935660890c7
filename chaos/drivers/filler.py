"""Large messages of another topic, so that the log passes into its next files."""

from __future__ import annotations

import asyncio

from cluster.client import Client
from cluster.errors import ClusterError

TOPIC = "filler"
BODY_BYTES = 32 << 10
BODIES = 40  # more than a log file of 1 MiB
SEND_SECONDS_MAX = 10.0


async def fill(client: Client) -> None:
    """Sends bodies until log files are full. Errors are ignored, because the crash that this
    prepares may interrupt it."""
    try:
        async with asyncio.timeout(SEND_SECONDS_MAX), client.producer() as producer:
            await client.admin().create_topic(TOPIC, 1)
            sends = (producer.send(TOPIC, bytes(BODY_BYTES)) for _ in range(BODIES))
            await asyncio.gather(*sends)
    except (ClusterError, TimeoutError):
        await asyncio.sleep(1.0)
