"""The home of a query: the broker name that keeps its mark and its decisions, found or chosen once.

    mark         offset of the query's group at its home: the latest batch (cluster_store.py)
    home marks   offsets of two more groups at every broker of the staging topic: which is the home

A query without a mark may be new; or its home is away, or it had another staging topic, and a
batch of it is in the topics in part. Other rows under the same numbers would be lost or doubled,
in whichever queues and partitions they are. So before the first decision every broker of the
cluster is asked for which topics it keeps marks of the query, and each broker of the staging topic
is told the home; a broker that does not answer ends the query, which may be started again. Brokers
keep offsets without end, so a query never leaves its first staging topic, nor its home.

Two drivers at once: one home mark keeps the largest number that it was told, the other one the
smallest. Each driver tells first and asks then, so the later one sees both numbers and goes no
further; the same holds for two staging topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, TypeVar
from zlib import crc32

from cluster.errors import InvalidRequest, NotConnected, OutcomeUnknown, TopicNotFound
from pipeline.sink.options import MARKS

HOMES = f"{MARKS}HOME_", f"{MARKS}OTHER_HOME_"
_NUMBERS_MAX = 1 << 62
T = TypeVar("T")


class Brokers(NamedTuple):
    """Broker names: `all` of the cluster, those that have the staging topic (`staging`), and those
    where it can be written (`writable`); each sorted."""

    all: list[str]
    staging: list[str]
    writable: list[str]


class Kept(Protocol):
    """Offsets of groups in queue 0 of the staging topic. Methods raise ClusterError, NotConnected
    for a broker that does not answer.
    """

    async def brokers(self) -> Brokers:
        """As the name servers show them now."""
        ...

    async def topics(self, group: str, broker: str) -> list[str]:
        """Topics in which the broker keeps an offset of the group."""
        ...

    async def get(self, group: str, broker: str) -> int | None:
        """The group's offset."""
        ...

    async def keep(self, group: str, broker: str, value: int) -> int:
        """Let the offset grow to `value`; the offset that the broker has logged."""
        ...


async def each(*works: Coroutine[Any, Any, T]) -> list[T]:
    """The results of works that go on at the same time; when one fails, the others are ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def find_home(kept: Kept, query: str, topic: str) -> str:
    """The home of the query, which has the staging topic `topic`.

    Raises InvalidRequest for a query that had another staging topic, NotConnected when its home or
    another broker that may know of it is away, OutcomeUnknown when brokers know different homes.
    """
    brokers = await kept.brokers()
    if not brokers.writable:
        raise TopicNotFound(f"no queue of {topic} can be written to now; start the query again")
    names = brokers.staging
    marks = await each(*(kept.get(MARKS + query, name) for name in names))
    known = {name: mark for name, mark in zip(names, marks, strict=True) if mark is not None}
    told = await _told(kept, query, names)
    if known:
        home = max(known, key=lambda name: known[name])
        await _tell(kept, query, home, [name for name in names if None in told[name]])
        return home
    home = _chosen(query, brokers, told)
    await _refuse_elsewhere(kept, query, topic, brokers.all)
    await _tell(kept, query, home, names)
    await _refuse_elsewhere(kept, query, topic, brokers.all)
    if _chosen(query, brokers, await _told(kept, query, names)) != home:
        raise _different_homes(query)
    return home


def _chosen(query: str, brokers: Brokers, told: dict[str, list[int | None]]) -> str:
    """The home that brokers were told, or one by the query's id."""
    numbers = {number for pair in told.values() for number in pair if number is not None}
    if not numbers:
        return brokers.writable[crc32(query.encode()) % len(brokers.writable)]
    if len(numbers) > 1:
        raise _different_homes(query)
    for name in brokers.writable:
        if _number_of(name) in numbers:
            return name
    raise NotConnected(
        f"the broker that keeps the mark of query {query} is away or takes no writes, and a batch "
        "may be published in part; start the query again when it is back"
    )


async def _told(kept: Kept, query: str, names: Iterable[str]) -> dict[str, list[int | None]]:
    """Broker → the largest and the smallest number of a home that it was told."""

    async def pair(name: str) -> list[int | None]:
        most, least = await each(*(kept.get(group + query, name) for group in HOMES))
        return [most, None if least is None else _NUMBERS_MAX - least]

    names = list(names)
    return dict(zip(names, await each(*map(pair, names)), strict=True))


async def _tell(kept: Kept, query: str, home: str, names: Iterable[str]) -> None:
    number = _number_of(home)
    values = dict(zip(HOMES, (number, _NUMBERS_MAX - number), strict=True))
    await each(
        *(
            kept.keep(group + query, name, value)
            for name in names
            for group, value in values.items()
        )
    )


async def _refuse_elsewhere(kept: Kept, query: str, topic: str, names: Iterable[str]) -> None:
    """Raises InvalidRequest if a broker keeps marks of the query in another staging topic."""
    groups = MARKS + query, HOMES[0] + query
    found = await each(*(kept.topics(group, name) for name in names for group in groups))
    if others := sorted({other for topics in found for other in topics} - {topic}):
        raise InvalidRequest(
            f"query {query} keeps its mark in the topic {others[0]}, and {topic} does not tell "
            "which rows of a batch are published; give "
            f'option("stagingTopic", "{others[0]}"), or start with a new checkpoint (a batch '
            "write: with a new txnAppId)"
        )


def _different_homes(query: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"brokers were told different homes of the mark of query {query}: two drivers began it at "
        "the same time, or one was killed at its start and a broker was away at the next; nothing "
        "of it is published: let one driver start it with a new checkpoint"
    )


def _number_of(name: str) -> int:
    """A number for a broker name, from 1 on."""
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest(), "big") + 1
