"""Options of `format("dledger")` when it reads: names, aliases, defaults, contradictions.

Spark hands names over in lower case, so they are case-insensitive. What nobody knows, or what
contradicts something else, is refused before anything runs: a misspelt option would silently read
something else. Names, defaults and the meaning of -2 and -1 are those of Kafka's connector where it
has them (docs/spec/pipeline.md 3.2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from commitlog.queues.tag_filter import ALL
from pipeline.kafka.options import SAME, translate
from pipeline.options import OptionError, unknown_option
from pipeline.source import option_values as value
from pipeline.source.columns import columns_of
from pipeline.source.option_values import EARLIEST, LATEST, QueueNumbers

FETCH_BYTES_MAX = 8 << 20  # of one answer: half of the largest frame
_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where reading starts or ends.

    `everywhere`: EARLIEST or LATEST for all queues; else `offsets` (with the same two numbers
    allowed) or `times_ms` of single queues, or one `time_ms` for all (-1: not given).
    """

    everywhere: int
    offsets: QueueNumbers | None = None
    times_ms: QueueNumbers | None = None
    time_ms: int = -1


FROM_EARLIEST, TO_LATEST = Place(EARLIEST), Place(LATEST)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read.

    Attributes:
        servers: name servers, "host:port" joined by ";" or ",".
        topics, pattern, assign: exactly one of them is given; assign: topic → queue names.
        start, end: where to begin and (batch) to stop.
        no_time: what a time behind the last message means: "error" or "latest".
        offsets_per_trigger_max, bytes_per_trigger_max: limits of one micro-batch; 0: none. Bytes
            are estimated from the first records of each topic.
        offsets_per_trigger_min, trigger_delay_ms_max: wait for so many, but no longer than that.
        partitions_min, partitions_max: bounds of the number of tasks; 0: none.
        partition_bytes: log bytes of one task, about; small queues share a task.
        partition_records: messages of one task at most, or one of each queue; 0: any number.
        fail_on_data_loss: messages that are gone end the query; else they are skipped, and said.
        kafka_style, include_headers, columns: see columns.py.
        expression, expression_type: a filter that the broker applies, TAG or SQL92.
        filter_pushdown: comparisons with topic, queue, offset, timestamp narrow what is read.
        group, commit_to_group: where streams leave their positions, for monitoring only.
        read_from: leader, follower or any replica; nothing above `committed` is read anywhere.
        fetch: "raw" log ranges, "pull" requests, or "auto": raw where it is allowed and pays; in
            tasks the way that their driver chose, see ways.py.
        fetch_bytes, fetch_timeout_ms, retries_max, retry_interval_ms: of single requests.
        verify_crc: check the checksum of every record.
        client: settings of the connection, `client.*`.
    """

    servers: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assign: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    start: Place = FROM_EARLIEST
    end: Place = TO_LATEST
    no_time: str = "error"
    offsets_per_trigger_max: int = 0
    bytes_per_trigger_max: int = 0
    offsets_per_trigger_min: int = 0
    trigger_delay_ms_max: int = 15 * 60_000
    partitions_min: int = 0
    partitions_max: int = 0
    partition_bytes: int = 64 << 20
    partition_records: int = 0
    fail_on_data_loss: bool = True
    kafka_style: bool = False
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    expression: str = ALL
    expression_type: str = "TAG"
    filter_pushdown: bool = False
    group: str = ""
    commit_to_group: bool = False
    read_from: str = "leader"
    fetch: str = "auto"
    fetch_bytes: int = 4 << 20
    fetch_timeout_ms: int = 10_000
    retries_max: int = 70
    retry_interval_ms: int = 1_000
    verify_crc: bool = True
    client: Mapping[str, str] = field(default_factory=dict, repr=False)  # secrets are in it
    given: Mapping[str, str] = field(default_factory=dict)

    def schema(self) -> pa.Schema:
        """The columns that a read gives. Raises OptionError."""
        return columns_of(self.columns, kafka=self.kafka_style, headers=self.include_headers)


_Reader = Callable[[str, str], Any]


def _at_least(least: int) -> _Reader:
    return lambda name, text: value.number(name, text, least=least)


def _word(*choices: str) -> _Reader:
    return lambda name, text: value.one_of(name, text, *choices)


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"{name} is empty; give it a value or leave it out")
    return text.strip()


#: name as documented → (field, reader)
_NAMES: dict[str, tuple[str, _Reader]] = {
    "bootstrap.servers": ("servers", _text),
    "subscribe": ("topics", value.names),
    "subscribePattern": ("pattern", value.pattern),
    "assign": ("assign", value.queue_lists),
    "startingOffsetsByTimestampStrategy": ("no_time", _word("error", "latest")),
    "maxOffsetsPerTrigger": ("offsets_per_trigger_max", _at_least(1)),
    "maxBytesPerTrigger": ("bytes_per_trigger_max", value.size),
    "minOffsetsPerTrigger": ("offsets_per_trigger_min", _at_least(1)),
    "maxTriggerDelay": ("trigger_delay_ms_max", value.duration_ms),
    "minPartitions": ("partitions_min", _at_least(1)),
    "maxPartitions": ("partitions_max", _at_least(1)),
    "bytesPerPartition": ("partition_bytes", value.size),
    "recordsPerPartition": ("partition_records", _at_least(1)),
    "failOnDataLoss": ("fail_on_data_loss", value.flag),
    "schemaStyle": ("kafka_style", _word("dledger", "kafka")),
    "includeHeaders": ("include_headers", value.flag),
    "columns": ("columns", value.names),
    "subExpression": ("expression", _text),
    "expressionType": ("expression_type", _word("TAG", "SQL92")),
    "filterPushdown": ("filter_pushdown", value.flag),
    "groupId": ("group", _text),
    "commitOffsetsToGroup": ("commit_to_group", value.flag),
    "readFrom": ("read_from", _word("leader", "follower", "any")),
    "consistency": ("", _word("committed")),
    "fetch": ("fetch", _word("auto", "raw", "pull")),
    "fetchBytes": ("fetch_bytes", value.size),
    "fetchTimeoutMs": ("fetch_timeout_ms", _at_least(1)),
    "numRetries": ("retries_max", _at_least(0)),
    "retryIntervalMs": ("retry_interval_ms", _at_least(0)),
    "verifyCrc": ("verify_crc", value.flag),
}
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_ALIASES = {
    "servers": "bootstrap.servers",
    "nameserver": "bootstrap.servers",
    "group": "groupId",
    **SAME,
    "maxrecordsperpartition": "recordsPerPartition",
}
_KNOWN = {name.lower(): name for name in (*_NAMES, *_STARTS, *_ENDS)}
OPTION_NAMES = tuple(sorted(_KNOWN.values(), key=str.lower))


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Raises OptionError."""
    ported = translate(given, writing=False)
    for sentence in ported.warnings:
        _log.warning("%s", sentence)
    named, client = _by_name(ported.options)
    values: dict[str, Any] = {
        _NAMES[name][0]: _NAMES[name][1](name, text)
        for name, text in named.items()
        if name in _NAMES
    }
    values.pop("", None)
    values["kafka_style"] = values.get("kafka_style") == "kafka"
    values["client"], values["given"] = _client(client), named
    values["start"] = _start(named, streaming=streaming)
    values["end"] = _end(named, streaming=streaming)
    if not values.get("servers"):
        raise OptionError('bootstrap.servers is missing; name the name servers: "host:9876"')
    found = SourceOptions(**values)
    _check(found)
    if not streaming:
        for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger"):
            if name in named:
                _log.warning("%s has no meaning in a batch read and is ignored", name)
    return found


def _client(given: Mapping[str, str]) -> Mapping[str, str]:
    """Checks the `client.*` options. Without any it does not import the client, which is big,
    because Spark starts a Python for every look at a data source.
    """
    if not given:
        return given
    from pipeline.source.client_options import client_options

    return client_options(given)


def _by_name(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options under their documented names, and those for the client."""
    named: dict[str, str] = {}
    client: dict[str, str] = {}
    for key, text in given.items():
        if key.lower().startswith("client."):
            client[key] = text
            continue
        name = _ALIASES.get(key.lower()) or _KNOWN.get(key.lower())
        if name is None:
            raise unknown_option(key, (*OPTION_NAMES, "client.*"), "reading dledger")
        if named.get(name, text) != text:
            raise OptionError(f"{name} is given twice, as {named[name]!r} and as {text!r}")
        named[name] = text
    return named, client


def _start(named: Mapping[str, str], *, streaming: bool) -> Place:
    """The start of a read. The first option of `_STARTS` that is given counts, as with Kafka's."""
    default = LATEST if streaming else EARLIEST
    found = _place(named, _STARTS, default)
    latest = found.everywhere == LATEST and "startingOffsets" in named and found.time_ms < 0
    latest = latest or _says(found, LATEST)
    if latest and not streaming and not found.times_ms:
        raise OptionError(
            "startingOffsets of a batch read is latest (-1): nothing would be read; use earliest, "
            "an offset, or readStream"
        )
    return found


def _end(named: Mapping[str, str], *, streaming: bool) -> Place:
    found = _place(named, _ENDS, LATEST)
    if streaming:
        for name in _ENDS:
            if name in named:
                raise OptionError(
                    f"{name} has no meaning in a stream, which has no end; read a batch, or use "
                    "the trigger availableNow"
                )
    if found.everywhere == EARLIEST or _says(found, EARLIEST):
        raise OptionError(
            "endingOffsets is earliest (-2): nothing would be read; use latest or an offset"
        )
    return found


def _says(place: Place, number: int) -> bool:
    """Is it said of any single queue?"""
    return any(number in queues.values() for queues in (place.offsets or {}).values())


def _place(named: Mapping[str, str], options: tuple[str, str, str], default: int) -> Place:
    by_time, by_times, by_offsets = options
    if by_time in named:
        return Place(default, time_ms=value.number(by_time, named[by_time]))
    if by_times in named:
        times = value.queue_numbers(by_times, named[by_times])
        for topic, queues in times.items():
            if min(queues.values()) < 0:
                raise OptionError(f"{by_times}: a time of {topic} is negative; give milliseconds")
        return Place(default, times_ms=times)
    text = named.get(by_offsets, "")
    words = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if text.strip().lower() in words:
        return Place(words[text.strip().lower()])
    if not text.lstrip().startswith("{"):
        raise OptionError(f"{by_offsets} is {text!r}; give earliest, latest or JSON")
    return Place(default, offsets=value.queue_numbers(by_offsets, text))


def _check(found: SourceOptions) -> None:
    """Raises OptionError for options that contradict each other."""
    ways = [bool(found.topics), bool(found.pattern), bool(found.assign)]
    if sum(ways) != 1:
        raise OptionError(
            f"{sum(ways)} of subscribe, subscribePattern and assign are given; give exactly one"
        )
    if found.partitions_max and found.partitions_min > found.partitions_max:
        raise OptionError(
            f"minPartitions {found.partitions_min} is above maxPartitions {found.partitions_max}"
        )
    if found.partitions_max and found.partition_records:
        raise OptionError(
            "recordsPerPartition asks for as many tasks as it takes, and maxPartitions for few; "
            "give one of the two"
        )
    most, least = found.offsets_per_trigger_max, found.offsets_per_trigger_min
    if most and least > most:
        raise OptionError(f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}")
    if found.commit_to_group and not found.group:
        raise OptionError("commitOffsetsToGroup is true and groupId is missing; name the group")
    if found.expression_type == "SQL92" and found.expression == ALL:
        raise OptionError("expressionType is SQL92 and subExpression is missing; give it")
    if found.fetch == "raw" and found.expression_type == "SQL92":
        raise OptionError(
            "fetch is raw and expressionType is SQL92: only the broker evaluates it, when messages "
            "are pulled; use fetch=auto"
        )
    if found.fetch_bytes > FETCH_BYTES_MAX:
        raise OptionError(f"fetchBytes {found.fetch_bytes} must be {FETCH_BYTES_MAX} at most")
    found.schema()
