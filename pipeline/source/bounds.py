"""The bounds of a read: topics, their queues, first and next offsets, positions of times.

One question per topic and broker name (202) tells the bounds of all queues, as the leader that
proved to lead sees them: nothing above `committed` is ever an end (R18).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from cluster.errors import TopicNotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import (
    OffsetResponse,
    SearchOffsetRequest,
    TopicRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import PERM_READ
from cluster.protocol.topics import QueueBounds, decode_topic_stats
from commitlog.advice import Advised
from pipeline.options import OptionError
from pipeline.source.offsets import by_name
from pipeline.source.option_values import EARLIEST, LATEST
from pipeline.source.options import Place, SourceOptions
from pipeline.source.remote import Remote

T = TypeVar("T")
Bounds = Mapping[MessageQueue, QueueBounds]

#: A pattern means users' topics: not the store's, nor those that groups own.
_NOT_BY_PATTERN = re.compile(
    r"rmq_sys_.*|RMQ_SYS_.*|%.*|TBW102|SELF_TEST_TOPIC|BenchmarkTest|OFFSET_MOVED_EVENT"
    r"|SCHEDULE_TOPIC_XXXX|TRANS_CHECK_MAX_TIME_TOPIC|DefaultCluster.*"
)
ASKED_AT_ONCE_MAX = 64  # requests on their way; a topic may have thousands of queues
_log = logging.getLogger(__name__)


class DataLoss(Advised):
    """Messages that were to be read are gone."""

    advice = "set failOnDataLoss to false to go on without them"


def lost(options: SourceOptions, what: str) -> None:
    """Raises DataLoss, or logs it when the user said that gaps are all right."""
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{what}; messages are lost to this query. Set failOnDataLoss to false to go on "
            "without them"
        )
    _log.warning("%s; read goes on without them (failOnDataLoss=false)", what)


def bounds(remote: Remote, options: SourceOptions) -> dict[MessageQueue, QueueBounds]:
    """Every queue that is wanted, with its bounds. Raises SourceError, TopicNotFound."""
    return remote.run(_bounds(remote, options))


async def _bounds(remote: Remote, options: SourceOptions) -> dict[MessageQueue, QueueBounds]:
    topics = await _topics(remote, options)
    found: dict[MessageQueue, QueueBounds] = {}
    for part in await _together(_of_topic(remote, options, topic) for topic in topics):
        found |= part
    return _assigned(found, options) if options.assign else found


async def _topics(remote: Remote, options: SourceOptions) -> list[str]:
    if not options.pattern:
        return sorted(options.topics or options.assign)
    everything = await remote.repeated(lambda _: remote.client.admin().list_topics())
    wanted = re.compile(options.pattern)
    return sorted(
        name
        for name in everything
        if wanted.fullmatch(name) and not _NOT_BY_PATTERN.fullmatch(name)
    )


async def _of_topic(
    remote: Remote, options: SourceOptions, topic: str
) -> dict[MessageQueue, QueueBounds]:
    try:
        route = await remote.route(topic)
        request = encode(TopicRequest(topic))
        code = RequestCode.GET_TOPIC_STATS_INFO
        answers = await _together(
            remote.ask(data.broker_name, topic, code, request, leader=True)
            for data in route.queues
            if data.perm & PERM_READ and data.read_queue_count
        )
        found = {
            queue: row
            for answer in answers
            for queue, row in decode_topic_stats(answer.body).items()
        }
        if found.keys() - route.read_queues(topic):  # queues that are new, or not to be read
            route = await remote.route(topic, fresh=True)
    except TopicNotFound:
        if options.pattern:  # deleted since it was listed
            return {}
        if options.fail_on_data_loss:
            raise TopicNotFound(
                f"the topic {topic} does not exist; create it, or set failOnDataLoss to false to "
                "go on without it"
            ) from None
        _log.warning("the topic %s does not exist; nothing of it is read", topic)
        return {}
    readable = set(route.read_queues(topic))
    return {queue: row for queue, row in found.items() if queue in readable}


def _assigned(
    found: dict[MessageQueue, QueueBounds], options: SourceOptions
) -> dict[MessageQueue, QueueBounds]:
    kept: dict[MessageQueue, QueueBounds] = {}
    for topic, names in options.assign.items():
        for name in names:
            queue = by_name(found, topic, name, "assign")
            if queue is not None:
                kept[queue] = found[queue]
            elif any(other.topic == topic for other in found):
                raise OptionError(f"assign: the topic {topic} has no queue {name}")
    return kept


def places(
    remote: Remote, options: SourceOptions, place: Place, known: Bounds, *, is_end: bool
) -> dict[MessageQueue, int]:
    """The offset at a place, for every queue of `known`; between its bounds.

    Raises OptionError for a queue that is not said or does not exist, DataLoss for an offset that
    is no longer there.
    """
    if place.time_ms >= 0:
        times = dict.fromkeys(known, place.time_ms)
        return _at_times(remote, options, times, known, is_end=is_end)
    option = "endingOffsets" if is_end else "startingOffsets"
    if place.times_ms:
        named = _named(place.times_ms, known, f"{option}ByTimestamp")
        return _at_times(remote, options, named, known, is_end=is_end)
    if not place.offsets:
        return {
            queue: row.min_offset if place.everywhere == EARLIEST else row.max_offset
            for queue, row in known.items()
        }
    numbers = _named(place.offsets, known, option)
    return {queue: _at(options, queue, numbers[queue], row) for queue, row in known.items()}


def _at(options: SourceOptions, queue: MessageQueue, offset: int, row: QueueBounds) -> int:
    if offset == LATEST:
        return row.max_offset
    if offset == EARLIEST:
        return row.min_offset
    if not row.min_offset <= offset <= row.max_offset:
        lost(
            options,
            f"offset {offset} of {said(queue)} was asked for and it has {row.min_offset} to "
            f"{row.max_offset}",
        )
    return min(max(offset, row.min_offset), row.max_offset)


def _named(
    numbers: Mapping[str, Mapping[str, int]], known: Bounds, option: str
) -> dict[MessageQueue, int]:
    """A number for each queue. Every queue must be named, as with Kafka's connector."""
    found: dict[MessageQueue, int] = {}
    for topic, queues in numbers.items():
        for name, number in queues.items():
            queue = by_name(known, topic, name, option)
            if queue is None:
                raise OptionError(f"{option} names queue {name} of {topic}, which is not read here")
            found[queue] = number
    for queue in known:
        if queue not in found:
            raise OptionError(
                f"{option} does not name {said(queue)}; name every queue, with -2 for earliest "
                "and -1 for latest"
            )
    return found


def _at_times(
    remote: Remote,
    options: SourceOptions,
    times: Mapping[MessageQueue, int],
    known: Bounds,
    *,
    is_end: bool,
) -> dict[MessageQueue, int]:
    """The first message at or after a time; behind the last one as `no_time` says."""
    found = by_time(remote, times)
    for queue, offset in found.items():
        row = known[queue]
        found[queue] = min(max(offset, row.min_offset), row.max_offset)
        if not is_end and found[queue] == row.max_offset and options.no_time == "error":
            raise OptionError(
                f"no message of {said(queue)} was stored at or after {times[queue]}; choose an "
                "earlier time, or set startingOffsetsByTimestampStrategy to latest"
            )
    return found


def by_time(remote: Remote, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Queue → offset of the first message stored at or after a time in ms, else its next offset."""

    async def one(queue: MessageQueue, time_ms: int) -> int:
        ext = encode(
            SearchOffsetRequest(queue.topic, queue.queue_id, time_ms, bname=queue.broker_name)
        )
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        answer = await remote.ask(queue.broker_name, queue.topic, code, ext, leader=True)
        return decode(OffsetResponse, answer.ext).offset

    async def work() -> list[int]:
        return await _together(one(queue, time_ms) for queue, time_ms in times.items())

    return dict(zip(times, remote.run(work()), strict=True))


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them, some at once; the first failure is raised when all have ended."""
    limiter = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def one(item: Coroutine[Any, Any, T]) -> T:
        async with limiter:
            return await item

    results = await asyncio.gather(*map(one, work), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def said(queue: MessageQueue) -> str:
    """For error texts."""
    return f"queue {queue.broker_name}/{queue.queue_id} of {queue.topic}"
