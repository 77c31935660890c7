"""Options of Spark's Kafka connector: taken over, ignored with a reason, or refused with one."""

from __future__ import annotations

import logging
from typing import NamedTuple

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.kafka.options import translate
from pipeline.options import OptionError
from pipeline.sink.options import sink_options
from pipeline.source.options import source_options

READ = {"kafka.bootstrap.servers": "127.0.0.1:9876", "subscribe": "t"}
WRITE = {"kafka.bootstrap.servers": "127.0.0.1:9876", "topic": "t"}


class Option(NamedTuple):
    """An option that the guide of Spark's connector documents, with a value it allows.

    `reading`, `writing`: "taken", a part of the warning, of the error (with "!"), or "" where the
    connector does not have it.
    """

    name: str
    value: str
    reading: str = ""
    writing: str = ""


CONNECTOR = [
    Option("kafka.bootstrap.servers", "127.0.0.1:9876", "taken", "taken"),
    Option("subscribe", "t", "taken"),
    Option("subscribePattern", "t.*", "taken"),
    Option("assign", '{"t": [0, 1]}', "taken"),
    Option("startingTimestamp", "1", "taken"),
    Option("startingOffsetsByTimestamp", '{"t": {"0": 1}}', "taken"),
    Option("startingOffsets", "earliest", "taken"),
    Option("endingTimestamp", "1", "taken"),
    Option("endingOffsetsByTimestamp", '{"t": {"0": 1}}', "taken"),
    Option("endingOffsets", "latest", "taken"),
    Option("failOnDataLoss", "false", "taken"),
    Option("kafkaConsumer.pollTimeoutMs", "512", "see fetchTimeoutMs"),
    Option("fetchOffset.numRetries", "3", "see numRetries"),
    Option("fetchOffset.retryIntervalMs", "10", "see retryIntervalMs"),
    Option("maxOffsetsPerTrigger", "1", "taken"),
    Option("minOffsetsPerTrigger", "1", "taken"),
    Option("maxTriggerDelay", "15m", "taken"),
    Option("minPartitions", "1", "taken"),
    Option("maxRecordsPerPartition", "1", "taken"),
    Option("groupIdPrefix", "p", "taken"),
    Option("includeHeaders", "true", "taken", "column headers"),
    Option("startingOffsetsByTimestampStrategy", "latest", "taken"),
    Option("kafka.group.id", "g", "taken"),
    Option("topic", "t", "", "taken"),
    # what the guide says of Kafka's own parameters: refused there, too
    Option("kafka.auto.offset.reset", "latest", "!use startingOffsets"),
    Option("kafka.key.deserializer", "x", "!keys and values are bytes"),
    Option("kafka.value.deserializer", "x", "!keys and values are bytes"),
    Option("kafka.key.serializer", "x", "", "!keys and values are bytes"),
    Option("kafka.value.serializer", "x", "", "!keys and values are bytes"),
    Option("kafka.enable.auto.commit", "true", "!commitOffsetsToGroup"),
    Option("kafka.interceptor.classes", "x", "!no class of a user"),
    # security, which must never be left out in silence
    Option("kafka.security.protocol", "SASL_SSL", "!client.accessKey", "!client.accessKey"),
    Option("kafka.security.protocol", "PLAINTEXT", "it is the default", "it is the default"),
    Option("kafka.sasl.mechanism", "PLAIN", "!client.accessKey", "!client.accessKey"),
    Option("kafka.sasl.jaas.config", "x", "!client.accessKey", "!client.accessKey"),
    Option("kafka.ssl.truststore.location", "x", "!client.tls", "!client.tls"),
    # tuning
    Option("kafka.partitioner.class", "x", "", "!column partition"),
    Option("kafka.acks", "all", "", "a majority has it on disk"),
    Option("kafka.enable.idempotence", "true", "", "each row once"),
    Option("kafka.transactional.id", "x", "", "each row once"),
    Option("kafka.isolation.level", "read_committed", "committed offset"),
    Option("kafka.max.poll.records", "1", "tunes Kafka's own clients"),
    Option("kafka.session.timeout.ms", "1", "tunes Kafka's own clients"),
    Option("kafka.compression.type", "lz4", "", "tunes Kafka's own clients"),
    Option("kafka.linger.ms", "5", "", "tunes Kafka's own clients"),
    Option("kafka.batch.size", "5", "", "tunes Kafka's own clients"),
    Option("kafka.max.request.size", "5", "", "tunes Kafka's own clients"),
]
ROWS = [
    (option, writing, said)
    for option in CONNECTOR
    for writing, said in ((False, option.reading), (True, option.writing))
    if said
]


@pytest.mark.parametrize(
    ("option", "writing", "said"),
    ROWS,
    ids=[f"{o.name}={o.value} {'writing' if w else 'reading'}" for o, w, _ in ROWS],
)
def test_every_option_of_kafkas_connector(
    option: Option, writing: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    base = dict(WRITE if writing else READ)
    if option.name in ("subscribePattern", "assign"):
        del base["subscribe"]

    def take() -> None:
        given = {**base, option.name: option.value}
        if writing:
            sink_options(given)
        else:
            source_options(given, streaming=not option.name.startswith("ending"))

    if said.startswith("!"):
        with pytest.raises(OptionError, match=f"{option.name} cannot be.*{said[1:]}"):
            take()
        return
    take()
    if said == "taken":
        assert not caplog.messages
    else:
        assert [m for m in caplog.messages if m.startswith(option.name) and said in m]


def test_a_group_is_named_by_its_id_before_its_prefix() -> None:
    both = {"groupIdPrefix": "p", "KAFKA.group.id": "g"}
    assert source_options({**READ, "groupIdPrefix": "p"}, streaming=True).group == "p"
    assert source_options({**READ, **both}, streaming=True).group == "g"
    assert source_options({**READ, **both, "groupId": "own"}, streaming=True).group == "own"
    assert "groupId" not in translate(both, writing=True).options


def test_what_is_not_of_kafka_passes_through() -> None:
    given = {"subscribe": "t", "Colour": "red"}
    assert translate(given, writing=False) == (given, ())


def test_a_misspelt_option_names_the_likeliest_one() -> None:
    for wrong, meant in (("startingOfsets", "startingOffsets"), ("kafkaGroup", "groupId")):
        with pytest.raises(OptionError, match="unknown option") as raised:
            source_options({**READ, wrong: "x"}, streaming=True)
        assert (f"did you mean {meant}?" in str(raised.value)) == (wrong != "kafkaGroup")
