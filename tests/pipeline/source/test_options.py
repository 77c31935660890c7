"""Every option: its spelling, default and value; what is wrong is named. No broker, no Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.options import OptionError
from pipeline.source.client_options import client_config
from pipeline.source.option_values import EARLIEST, LATEST
from pipeline.source.options import OPTION_NAMES, Place, SourceOptions, source_options

BASE = {"bootstrap.servers": "127.0.0.1:9876", "subscribe": "orders"}
ALONE = {"bootstrap.servers": "127.0.0.1:9876"}
SQL = {"subExpression": "n > 3"}


def _read(given: dict[str, str], *, streaming: bool = False) -> SourceOptions:
    return source_options({**BASE, **given}, streaming=streaming)


#: option → (a value, field, what it becomes, what else is given)
GOOD: dict[str, tuple[str, str, Any, dict[str, str]]] = {
    "maxOffsetsPerTrigger": ("500", "offsets_per_trigger_max", 500, {}),
    "maxBytesPerTrigger": ("64m", "bytes_per_trigger_max", 64 << 20, {}),
    "minOffsetsPerTrigger": ("10", "offsets_per_trigger_min", 10, {}),
    "maxTriggerDelay": ("30s", "trigger_delay_ms_max", 30_000, {}),
    "minPartitions": ("3", "partitions_min", 3, {}),
    "maxPartitions": ("9", "partitions_max", 9, {}),
    "bytesPerPartition": ("128MB", "partition_bytes", 128 << 20, {}),
    "recordsPerPartition": ("500", "partition_records", 500, {}),
    "failOnDataLoss": ("FALSE", "fail_on_data_loss", False, {}),
    "schemaStyle": ("Kafka", "kafka_style", True, {}),
    "includeHeaders": ("true", "include_headers", True, {}),
    "columns": ("topic, offset", "columns", ("topic", "offset"), {}),
    "subExpression": ("a || b", "expression", "a || b", {}),
    "expressionType": ("sql92", "expression_type", "SQL92", SQL),
    "filterPushdown": ("true", "filter_pushdown", True, {}),
    "groupId": ("watchers", "group", "watchers", {}),
    "commitOffsetsToGroup": ("true", "commit_to_group", True, {"groupId": "watchers"}),
    "readFrom": ("follower", "read_from", "follower", {}),
    "consistency": ("committed", "read_from", "leader", {}),
    "fetch": ("pull", "fetch", "pull", {}),
    "fetchBytes": ("1m", "fetch_bytes", 1 << 20, {}),
    "fetchTimeoutMs": ("2500", "fetch_timeout_ms", 2500, {}),
    "numRetries": ("0", "retries_max", 0, {}),
    "retryIntervalMs": ("250", "retry_interval_ms", 250, {}),
    "verifyCrc": ("false", "verify_crc", False, {}),
    "startingOffsetsByTimestampStrategy": ("latest", "no_time", "latest", {}),
    "startingOffsets": ('{"orders": {"0": 7}}', "start", Place(-2, {"orders": {"0": 7}}), {}),
    "endingOffsets": (
        '{"orders": {"a/0": -1}}',
        "end",
        Place(LATEST, {"orders": {"a/0": LATEST}}),
        {},
    ),
    "startingTimestamp": ("17", "start", Place(EARLIEST, time_ms=17), {}),
    "endingTimestamp": ("17", "end", Place(LATEST, time_ms=17), {}),
    "startingOffsetsByTimestamp": (
        '{"orders": {"0": 5}}',
        "start",
        Place(EARLIEST, times_ms={"orders": {"0": 5}}),
        {},
    ),
    "endingOffsetsByTimestamp": (
        '{"orders": {"0": 5}}',
        "end",
        Place(LATEST, times_ms={"orders": {"0": 5}}),
        {},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_an_option_is_read_in_any_case(name: str) -> None:
    text, field, value, more = GOOD[name]
    assert getattr(_read({name: text, **more}), field) == value
    assert getattr(_read({name.lower(): text, **more}), field) == value


def test_every_documented_option_has_a_contract() -> None:
    where = {"bootstrap.servers", "subscribe", "subscribePattern", "assign"}
    assert {*GOOD, *where} == set(OPTION_NAMES)


@pytest.mark.parametrize("name", ["bootstrap.servers", "servers", "nameServer", "NAMESERVER"])
def test_the_servers_have_aliases(name: str) -> None:
    assert source_options({name: "h:1;h:2", "subscribe": "t"}, streaming=False).servers == "h:1;h:2"


def test_kafkas_name_for_records_of_a_task() -> None:
    assert _read({"maxRecordsPerPartition": "7"}).partition_records == 7


def test_three_ways_to_say_what_is_read() -> None:
    assert _read({}).topics == ("orders",)
    by_list = source_options({**ALONE, "subscribe": "a, b"}, streaming=False)
    assert by_list.topics == ("a", "b")
    by_pattern = source_options({**ALONE, "subscribePattern": "ord.*"}, streaming=False)
    assert by_pattern.pattern == "ord.*"
    assigned = source_options({**ALONE, "assign": '{"t": [0, "b/1"]}'}, streaming=False)
    assert assigned.assign == {"t": ("0", "b/1")}


def test_defaults_are_kafkas() -> None:
    batch, stream = _read({}), _read({}, streaming=True)
    assert (batch.start, batch.end) == (Place(EARLIEST), Place(LATEST))
    assert stream.start == Place(LATEST)
    assert _read({"startingOffsets": "Earliest"}, streaming=True).start == Place(EARLIEST)
    assert batch.fail_on_data_loss
    assert batch.verify_crc
    assert not batch.include_headers


def test_of_several_starts_the_global_time_counts_then_times_then_offsets() -> None:
    offsets, times = {"startingOffsets": "earliest"}, '{"orders": {"0": 5}}'
    both = {**offsets, "startingOffsetsByTimestamp": times}
    assert _read(both).start.times_ms == {"orders": {"0": 5}}
    assert _read({**both, "startingTimestamp": "9"}).start.time_ms == 9


BAD: list[tuple[dict[str, str], str]] = [
    ({"colour": "red"}, "unknown option 'colour'"),
    ({"subscribePattern": "x.*"}, "2 of subscribe, subscribePattern and assign"),
    ({"assign": '{"t": [0]}', "subscribePattern": "x"}, "3 of subscribe"),
    ({"servers": "other:1"}, "bootstrap.servers is given twice"),
    ({"subscribe": " , "}, "one name at least"),
    ({"subscribe": "a,a"}, "names one twice"),
    ({"startingOffsets": "latest"}, "nothing would be read"),
    ({"startingOffsets": '{"orders": {"0": -1}}'}, "nothing would be read"),
    ({"startingOffsets": "soon"}, "earliest, latest or JSON"),
    ({"startingOffsets": "{"}, "no JSON"),
    ({"startingOffsets": "{}"}, "write it like"),
    ({"startingOffsets": '{"t": 5}'}, "needs its queues"),
    ({"startingOffsets": '{"t": {"0": -3}}'}, "-2 for earliest"),
    ({"startingOffsets": '{"t": {"0": true}}'}, "whole number"),
    ({"startingOffsets": '{"t": {"00": 1}}'}, "'00' is no queue"),
    ({"startingOffsets": '{"t": {"/0": 1}}'}, "'/0' is no queue"),
    ({"endingOffsets": "earliest"}, "nothing would be read"),
    ({"endingOffsets": '{"orders": {"0": -2}}'}, "nothing would be read"),
    ({"startingTimestamp": "-1"}, "give 0 at least"),
    ({"startingTimestamp": "today"}, "whole number"),
    ({"startingOffsetsByTimestamp": '{"t": {"0": -2}}'}, "negative"),
    ({"startingOffsetsByTimestampStrategy": "never"}, "error or latest"),
    ({"maxOffsetsPerTrigger": "0"}, "give 1 at least"),
    ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "above maxOffsetsPerTrigger"),
    ({"maxBytesPerTrigger": "0m"}, "one byte at least"),
    ({"maxBytesPerTrigger": "5 parsecs"}, "a size like"),
    ({"maxTriggerDelay": "soon"}, "a duration like"),
    ({"minPartitions": "4", "maxPartitions": "3"}, "minPartitions 4 is above maxPartitions 3"),
    ({"bytesPerPartition": "-1"}, "a size like"),
    ({"recordsPerPartition": "0"}, "give 1 at least"),
    ({"recordsPerPartition": "9", "maxPartitions": "2"}, "give one of the two"),
    ({"failOnDataLoss": "maybe"}, "true or false"),
    ({"schemaStyle": "pulsar"}, "dledger or kafka"),
    ({"columns": "topic,bodie"}, "no column 'bodie'"),
    ({"columns": "queue", "schemaStyle": "kafka"}, "no column 'queue' with schemaStyle=kafka"),
    ({"columns": "topic", "includeHeaders": "true"}, "does not name headers"),
    ({"expressionType": "SQL92"}, "subExpression is missing"),
    ({"expressionType": "XPATH", "subExpression": "a"}, "TAG or SQL92"),
    ({"subExpression": " "}, "is empty"),
    ({"fetch": "raw", "expressionType": "SQL92", **SQL}, "use fetch=auto"),
    ({"fetch": "push"}, "auto or raw or pull"),
    ({"fetchBytes": "1g"}, "must be 8388608 at most"),
    ({"readFrom": "nobody"}, "leader or follower or any"),
    ({"consistency": "eventual"}, "give committed"),
    ({"commitOffsetsToGroup": "true"}, "groupId is missing"),
    ({"client.colour": "red"}, "unknown option 'client.colour'"),
    ({"client.requestTimeout": "long"}, "give one of type float"),
    ({"client.stallTimeout": "9"}, "is not below request_timeout"),
    ({"numRetries": "many"}, "whole number"),
    ({"client.accessKey": "a"}, "give both access_key and secret_key"),
    ({"client.accessKey": "a", "client.secretKey": ""}, "is empty; give both"),
    ({"client.accountFile": "/no/such"}, "account file /no/such cannot be read"),
    ({"client.tls": "false", "client.tls.authority": "x"}, "client.tls is false"),
    ({"client.tls.certificate": "x"}, "belong together"),
    ({"client.tls": "perhaps"}, "give one of type bool"),
]


@pytest.mark.parametrize(("given", "what"), BAD, ids=[" ".join(given) for given, _ in BAD])
def test_a_wrong_option_is_named(given: dict[str, str], what: str) -> None:
    with pytest.raises(OptionError, match=what):
        _read(given)


def test_what_is_read_and_from_whom_must_be_said() -> None:
    with pytest.raises(OptionError, match=r"bootstrap\.servers is missing"):
        source_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(OptionError, match="0 of subscribe"):
        source_options(ALONE, streaming=False)
    with pytest.raises(OptionError, match="no regular expression"):
        source_options({**ALONE, "subscribePattern": "("}, streaming=False)
    for text, what in (('{"t": []}', "a list"), ('{"t": [0, 0]}', "twice"), ("[]", "like")):
        with pytest.raises(OptionError, match=what):
            source_options({**ALONE, "assign": text}, streaming=False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    text = '{"orders": {"0": 5}}' if name != "endingTimestamp" else "5"
    with pytest.raises(OptionError, match=f"{name} has no meaning in a stream"):
        _read({name: text}, streaming=True)


def test_limits_of_a_micro_batch_are_ignored_aloud_by_a_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _read({"maxOffsetsPerTrigger": "5"})
    assert "maxOffsetsPerTrigger has no meaning in a batch read" in caplog.text


def test_client_settings_pass_through() -> None:
    given = {"client.requestTimeout": "9", "client.source_host": "127.0.0.9"}
    config = client_config(_read(given).client)
    assert (config.request_timeout, config.source_host) == (9.0, "127.0.0.9")


def test_accounts_and_tls(tmp_path: Path) -> None:
    given = {"client.accessKey": "orders", "client.secretKey": "hidden", "client.TLS": "true"}
    found = _read(given)
    config = client_config(found.client)
    assert config.account is not None
    assert (config.account.access_key, config.account.secret_key) == ("orders", "hidden")
    assert config.tls is not None
    assert "hidden" not in repr(found)
    file = tmp_path / "tools.yml"
    file.write_text("accessKey: master\nsecretKey: also\n")
    more = {"client.accountFile": str(file), "client.tls.checkHost": "false"}
    config = client_config(_read(more).client)
    assert config.account is not None
    assert config.account.access_key == "master"
    assert config.tls is not None
    assert not config.tls.check_host
    assert client_config(_read({"client.tls": "false"}).client).tls is None


def test_columns_of_both_styles() -> None:
    assert _read({}).schema().names[:6] == [
        *("key", "value", "topic", "queue", "offset", "timestamp")
    ]
    assert _read({"includeHeaders": "true"}).schema().names[-1] == "headers"
    kafka = _read({"schemaStyle": "kafka", "includeHeaders": "true"}).schema()
    assert kafka.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    ]
    assert _read({"columns": "offset,headers"}).schema().names == ["offset", "headers"]


def test_options_travel_to_workers() -> None:
    found = _read({"startingOffsets": '{"orders": {"0": 7}}', "client.requestTimeout": "9"})
    assert pickle.loads(pickle.dumps(found)) == found
