"""Faults of clients: consumers that disagree, lag or share ids, wrong secrets, full tables."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from chaos.alerts.place import Place
from chaos.live.load import POLL_SECONDS
from cluster.client import Account, Client, ClientConfig, ConsumerConfig, Decision, ProducerConfig
from cluster.core.delay.delayed import WAITING_MAX as DELAYED_MAX
from cluster.core.transactions.halves import WAITING_MAX as HALVES_MAX
from cluster.errors import ClusterError
from cluster.settings.conf_alerts import NEARLY_FULL

ADMIN = Account("admin-of-the-scene", "drawn-for-this-scene")
ACCOUNTS = f"""accounts:
- accessKey: {ADMIN.access_key}
  secretKey: {ADMIN.secret_key}
  admin: true
"""
WRONG_SECONDS = 0.1
BEHIND_SECONDS = 920
BEHIND_MS = BEHIND_SECONDS * 1000
DELAY_SECONDS = 7200
AT_ONCE = 1024
TRIES = 20


@contextlib.asynccontextmanager
async def members_disagree(place: Place) -> AsyncIterator[str]:
    """Two members of one group subscribe by different tags."""
    async with place.client() as one, place.client() as other:
        await one.admin().create_topic("shared", 2)
        async with _reading(one, "shared", "torn", "a"), _reading(other, "shared", "torn", "b"):
            yield "two members of a group subscribe by different tags"


@contextlib.asynccontextmanager
async def ids_shared(place: Place) -> AsyncIterator[str]:
    """Two clients call themselves the same."""
    async with place.client() as one, place.client() as other:
        other.instance.client_id = one.instance.client_id
        await one.admin().create_topic("shared", 2)
        async with _reading(one, "shared", "twins", "*"), _reading(other, "shared", "twins", "*"):
            yield "two clients with one client id"


@contextlib.asynccontextmanager
async def _reading(client: Client, topic: str, group: str, tags: str) -> AsyncIterator[None]:
    async def read() -> None:
        async with client.consumer(topic, group=group, config=ConsumerConfig(tags=tags)) as mine:
            async for _ in mine:
                pass

    task = asyncio.ensure_future(read())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def wrong_secret(place: Place) -> AsyncIterator[str]:
    """A program that signs with a wrong secret goes on and on."""
    wrong = ClientConfig(account=Account(ADMIN.access_key, "mistyped"))

    async def insist(client: Client) -> None:
        while True:  # until it is cancelled
            with contextlib.suppress(ClusterError):
                await client.admin().create_topic("refused", 1)
            await asyncio.sleep(WRONG_SECONDS)

    async with place.client(wrong) as client:
        task = asyncio.ensure_future(insist(client))
        try:
            yield "a client signs with a wrong secret, ten times a second"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def consumer_behind(place: Place) -> AsyncIterator[str]:
    """A group has read one message and no other for a quarter of an hour.

    When the rules' minutes are shorter, all nodes' wall clocks jump instead of the wait.
    """
    async with place.client() as client:
        await client.admin().create_topic("behind", 1)
        async with client.producer() as producer, client.consumer("behind", group="slow") as slow:
            await producer.send("behind", b"read")
            async for _ in slow:
                break
            await asyncio.sleep(2.0)  # the position is told to the broker
        async with client.producer() as producer:
            for _ in range(3):
                await producer.send("behind", b"left")
        if place.faster == 1:
            await asyncio.sleep(BEHIND_SECONDS)
            yield f"a group has not read for {BEHIND_SECONDS} s"
            said = False
        else:
            for node in place.nodes:
                await place.ask(node, clock={"wall_ms": BEHIND_MS})
            yield f"a group has not read, and all clocks are {BEHIND_SECONDS} s further"
            said = True
        async with client.consumer("behind", group="slow") as slow:
            for _ in range(3):
                slow.ack(await anext(aiter(slow)))
            await asyncio.sleep(2.0)
        if said:
            for node in place.nodes:
                await place.ask(node, clock={"wall_ms": 0})


@contextlib.asynccontextmanager
async def tables_nearly_full(place: Place) -> AsyncIterator[str]:
    """Delayed messages and open transactions up to four fifths of the limits of a node."""
    delayed, halves = (int(most * NEARLY_FULL) + 1000 for most in (DELAYED_MAX, HALVES_MAX))

    async def check(_: object) -> Decision:
        return Decision.UNKNOWN

    config = ProducerConfig(in_flight_max=AT_ONCE)
    async with place.client() as client:
        await client.admin().create_topic("waiting", 4)
        async with client.producer(config=config) as producer:
            await _many(delayed, lambda: producer.send_delayed("waiting", b"", delay=DELAY_SECONDS))
        async with client.transaction_producer("undecided", check) as deciding:
            await _many(halves, lambda: deciding.begin("waiting", b""))
            yield f"{delayed} delayed messages, {halves} open transactions"


async def _many(count: int, send: Callable[[], Awaitable[object]]) -> None:
    """So many calls of `send`, many at once; one that failed is made again."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:  # all workers share it
            for _ in range(TRIES):
                try:
                    await send()
                    break
                except ClusterError:
                    await asyncio.sleep(POLL_SECONDS)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
