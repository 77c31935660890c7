"""Options of the sink: each has a test; what is wrong is said before anything runs."""

from __future__ import annotations

import pytest

from pipeline.options import OptionError
from pipeline.sink.options import STAGING, check_columns, sink_options

SERVERS = {"bootstrap.servers": "127.0.0.1:9876"}


@pytest.mark.parametrize("name", ["bootstrap.servers", "servers", "nameServer"])
def test_servers_have_three_names(name: str) -> None:
    assert sink_options({name: "127.0.0.1:9876;127.0.0.2:9876"}).servers.count(":") == 2


def test_defaults() -> None:
    found = sink_options(SERVERS)
    assert found.is_exactly_once
    assert (found.topic, found.seconds_max) == ("", 120.0)
    assert (found.staging, found.app, found.version) == (STAGING, "", -1)
    assert not found.take_over


def test_every_option_is_taken() -> None:
    more = {"topic": "t", "delivery": "Exactly-Once", "deliveryTimeoutMs": "1500"}
    more |= {"stagingTopic": "s", "txnAppId": "nightly", "txnVersion": "17", "takeOver": "True"}
    own = {"checkpointLocation": "/c", "queryName": "q", "path": "p", "client.requestTimeout": "9"}
    found = sink_options({**SERVERS, **more, **own})
    assert (found.topic, found.is_exactly_once, found.seconds_max) == ("t", True, 1.5)
    assert (found.staging, found.app, found.version) == ("s", "nightly", 17)
    assert found.take_over
    assert found.client.request_timeout == 9.0
    assert not sink_options({**SERVERS, "delivery": "At-Least-Once"}).is_exactly_once


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "bootstrap.servers"),
        ({"servers": "nonsense"}, "host:port"),
        ({**SERVERS, "servers": "127.0.0.1:1"}, "given twice"),
        ({**SERVERS, "colour": "red"}, "unknown option 'colour' for writing dledger; use one of"),
        ({**SERVERS, "delivery": "at-most-once"}, "exactly-once"),
        ({**SERVERS, "deliveryTimeoutMs": "soon"}, "milliseconds"),
        ({**SERVERS, "takeOver": "account-a"}, "true or false"),
        ({**SERVERS, "txnAppId": "nightly"}, "go together"),
        ({**SERVERS, "txnVersion": "1"}, "go together"),
        ({**SERVERS, "txnAppId": "nightly", "txnVersion": "1.5"}, "a whole number"),
        ({**SERVERS, "txnAppId": "nightly", "txnVersion": "9" * 10}, "from 0 to 2147483647"),
        ({**SERVERS, "txnAppId": "", "txnVersion": "1"}, "txnAppId is empty; give a name"),
        ({**SERVERS, "stagingTopic": ""}, "stagingTopic is empty"),
        ({**SERVERS, "topic": "a", "stagingTopic": "a"}, "topic and stagingTopic are both a"),
        ({**SERVERS, "topic": STAGING}, "name another topic"),
        (
            {**SERVERS, "txnAppId": "a", "txnVersion": "1", "delivery": "at-least-once"},
            "make a write exactly once, and delivery is at-least-once",
        ),
        ({**SERVERS, "client.colour": "red"}, "client.colour"),
        ({**SERVERS, "client.requestTimeout": "soon"}, "client.request"),
        ({**SERVERS, "client.requestTimeout": "0.1"}, "stall_timeout"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        sink_options(given)


def test_an_identity_is_that_of_an_app_in_a_topic() -> None:
    """As Delta's: foreachBatch writes one batch to two tables under the same two options."""

    def identity(**more: str) -> str:
        return sink_options({**SERVERS, "txnAppId": "nightly", "txnVersion": "1", **more}).identity

    different = {identity(topic="a"), identity(topic="b"), identity(), identity(txnAppId="other")}
    assert len(different) == 4
    assert identity(topic="a", txnVersion="2", deliveryTimeoutMs="9") == identity(topic="a")
    assert {len(each) for each in different} == {32}
    assert sink_options({**SERVERS, "topic": "a"}).identity == ""


TEXT = {"value": "string"}


@pytest.mark.parametrize(
    ("types", "topic", "said"),
    [
        ({"key": "string"}, "t", "no column value"),
        (TEXT, "", "no topic"),
        ({**TEXT, "colour": "string"}, "t", "column 'colour' cannot be written.*extraColumns"),
        ({**TEXT, "partition": "int"}, "t", "column 'partition'"),
        ({"value": "int"}, "t", "value is of type int; cast it to string or binary"),
        ({**TEXT, "queue": "string"}, "t", "queue is of type string; cast it to int"),
        ({**TEXT, "headers": "map<string,string>"}, "t", "headers is of type map"),
        ({**TEXT, "topic": "int"}, "", "topic is of type int"),
        ({**TEXT, "key": "array<string>"}, "t", "key is of type array<string>; use to_json"),
        ({**TEXT, "key": "struct<a:int>"}, "t", r"to_json\(key\)"),
    ],
)
def test_frames_that_cannot_be_written(types: dict[str, str], topic: str, said: str) -> None:
    options = sink_options({**SERVERS, "topic": topic})
    with pytest.raises(OptionError, match=said):
        check_columns(types, options)
    check_columns({**TEXT, "topic": "string"}, options)


def test_columns_of_kafkas_connector_are_taken_and_others_ignored_or_refused() -> None:
    """`schemaStyle` names the columns, `extraColumns` says what happens with others."""
    read = {**TEXT, "key": "binary", "topic": "string", "partition": "int"}
    more = {**read, "offset": "bigint", "timestamp": "timestamp", "timestampType": "int"}
    kafka = {**SERVERS, "schemaStyle": "kafka"}
    check_columns(more, sink_options(kafka))
    with pytest.raises(OptionError, match="column 'offset' cannot be written"):
        check_columns(more, sink_options({**kafka, "extraColumns": "refuse"}))
    with pytest.raises(OptionError, match="partition is of type string"):
        check_columns({**read, "partition": "string"}, sink_options(kafka))
    check_columns(more, sink_options({**SERVERS, "extraColumns": "ignore"}))
    for wrong in ({"schemaStyle": "pulsar"}, {"extraColumns": "keep"}, {"createTopic": "8"}):
        with pytest.raises(OptionError, match="give "):
            sink_options({**SERVERS, **wrong})


def test_a_misspelt_option_is_named_with_the_likeliest() -> None:
    with pytest.raises(OptionError, match=r"'deliverry'.*did you mean delivery"):
        sink_options({**SERVERS, "deliverry": "exactly-once"})
