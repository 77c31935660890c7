"""Options of the sink: names, defaults, and checks of values.

Source: docs/spec/pipeline.md 3.2, 3.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from cluster.client import ClientConfig, ClientConfigError
from cluster.client.discovery import resolve
from pipeline.kafka.options import SAME, translate
from pipeline.options import OptionError, unknown_option
from pipeline.source.client_options import client_config, client_options

_log = logging.getLogger(__name__)
COLUMNS = ("value", "key", "topic", "queue", "tags", "headers", "properties")
#: … and of Kafka's connector, with schemaStyle=kafka.
KAFKA_COLUMNS = ("value", "key", "topic", "partition", "headers")
DELIVERIES = ("exactly-once", "at-least-once")
_SERVERS = ("bootstrap.servers", "servers", "nameserver")
_SPARKS_OWN = ("checkpointlocation", "queryname", "path")  # Spark hands these to every sink
_CLIENT = "client."
_TEXTS = {"stagingtopic": "staging", "txnappid": "app"}
_SWITCHES = {"takeover": "take_over", "createtopic": "create_topic"}
_STYLES = ("dledger", "kafka")
_EXTRA = ("refuse", "ignore")
STAGING = "DLEDGER_SPARK_STAGING"
MARKS = "DLEDGER_SPARK_SINK_"  # groups whose offsets are marks of queries (cluster_store.py)
TXN_VERSION_MAX = (1 << 31) - 1
OPTION_NAMES = (
    *("bootstrap.servers", "topic", "delivery", "deliveryTimeoutMs", "stagingTopic"),
    *("txnAppId", "txnVersion", "takeOver", "createTopic", "schemaStyle", "extraColumns"),
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`write` and `writeStream` of `format("dledger")`.

    Attributes:
        servers: name servers, "host:port", several joined by ";" or ",".
        topic: all rows go there; "" takes the column `topic`.
        delivery: "exactly-once": rows are staged, and the batch's commit publishes one attempt of
            each task; "at-least-once": rows are sent as they come, and again by what is tried
            again.
        seconds_max: how long a queue may take nothing before the task fails.
        client: settings of connections.
        staging: the topic in which rows and manifests wait.
        take_over: the query went on under another account before: its producer ids are taken over
            from that one, which the account must be allowed to (`takeOverProducers`).
        create_topic: a topic that is not there is made; else the write is refused.
        kafka_style: columns are called as Kafka's connector calls them, and rows that no message
            can hold as they are carry marks (pipeline/kafka/carriage.py).
        extra_columns: what happens with a column that has no meaning: "refuse" or "ignore".
        app, version: identity of a batch write, "" and -1 when it has none: a version of an app is
            published once in each `topic`.
    """

    servers: str
    topic: str = ""
    delivery: str = DELIVERIES[0]
    seconds_max: float = 120.0
    client: ClientConfig = field(default_factory=ClientConfig)
    staging: str = STAGING
    app: str = ""
    version: int = -1
    take_over: bool = False
    create_topic: bool = False
    kafka_style: bool = False
    extra_columns: str = _EXTRA[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of columns that mean something."""
        return KAFKA_COLUMNS if self.kafka_style else COLUMNS

    @property
    def is_exactly_once(self) -> bool:
        """True if each row is stored once, also when Spark repeats a task."""
        return self.delivery == DELIVERIES[0]

    @property
    def identity(self) -> str:
        """The id of all versions of `app` in `topic`, 32 hex digits; "" for a write without one.

        The topic belongs to it, as the table does in Delta: one batch may go to several topics
        under the same two options.
        """
        if not self.app:
            return ""
        name = f"{self.app}\0{self.topic}" if self.topic else self.app
        return blake2b(name.encode(), digest_size=16).hexdigest()


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises OptionError."""
    values: dict[str, Any] = {}
    client: dict[str, str] = {}
    ported = translate(given, writing=True)
    for sentence in ported.warnings:
        _log.warning("%s", sentence)
    for key, text in ported.options.items():
        name = key.lower()
        if name in _SERVERS or name in SAME:
            if values.get("servers", text) != text:
                raise OptionError(f"{key} is given twice, as {values['servers']} and {text}")
            values["servers"] = text
        elif name == "topic":
            values["topic"] = text
        elif name == "delivery":
            values["delivery"] = text.lower()
        elif name == "deliverytimeoutms":
            values["seconds_max"] = _milliseconds(key, text)
        elif name in _TEXTS:
            values[_TEXTS[name]] = _text(key, text)
        elif name in _SWITCHES:
            values[_SWITCHES[name]] = _switch(key, text)
        elif name == "schemastyle":
            values["kafka_style"] = _word(key, text, _STYLES) == "kafka"
        elif name == "extracolumns":
            values["extra_columns"] = _word(key, text, _EXTRA)
        elif name == "txnversion":
            values["version"] = _version(key, text)
        elif name.startswith(_CLIENT):
            client[key] = text
        elif name not in _SPARKS_OWN:
            raise unknown_option(key, (*OPTION_NAMES, "client.…"), "writing dledger")
    if values.get("kafka_style"):
        values.setdefault("extra_columns", "ignore")  # as Kafka's connector does
    if not values.get("servers"):
        raise OptionError('no cluster is named; give option("bootstrap.servers", "host:port")')
    if values.get("delivery", DELIVERIES[0]) not in DELIVERIES:
        raise OptionError(f"delivery is {values['delivery']!r}; give one of {DELIVERIES}")
    if values.get("topic") == values.get("staging", STAGING):
        raise OptionError(
            f"topic and stagingTopic are both {values['topic']}, so staged rows would be among the "
            "others; name another topic"
        )
    if ("app" in values) != ("version" in values):
        raise OptionError("txnAppId and txnVersion go together; give both, or neither")
    if "app" in values and values.get("delivery") == DELIVERIES[1]:
        raise OptionError(
            "txnAppId and txnVersion make a write exactly once, and delivery is at-least-once; "
            "leave one of the two out"
        )
    try:
        resolve(values["servers"])
        config = client_config(client_options(client))
    except ClientConfigError as error:
        raise OptionError(str(error)) from None
    return SinkOptions(client=config, **values)


def check_columns(types: Mapping[str, str], options: SinkOptions) -> None:
    """Checks a frame before it is written.

    Args:
        types: column → its type, as Spark spells it (`simpleString`).

    Raises OptionError for a frame that the sink cannot write.
    """
    known = options.columns
    for name in types:
        if name not in known and options.extra_columns == "refuse":
            raise OptionError(
                f"column {name!r} cannot be written; use {', '.join(known)}, select what is "
                'wanted, or give option("extraColumns", "ignore")'
            )
    if "value" not in types:
        raise OptionError("there is no column value, the message's body; select one as value")
    if not options.topic and "topic" not in types:
        raise OptionError('there is no topic; give option("topic", …), or a column topic')
    for name, kind in types.items():
        wanted = _TYPES.get(name) if name in known else None
        if wanted is not None and kind not in wanted:
            raise OptionError(f"column {name} is of type {kind}; cast it to {' or '.join(wanted)}")
        if name == "key" and kind.startswith(_NESTED):
            raise OptionError(
                f"column key is of type {kind}; use to_json(key), or cast it to string"
            )


#: Types without a text of their own.
_NESTED = ("array<", "map<", "struct<")
_PAIRS = "array<struct<key:string,value:binary>>"
#: column → the types that it may have; a key may have any whose text is wanted
_TYPES: Mapping[str, tuple[str, ...]] = {
    "value": ("string", "binary"),
    "topic": ("string",),
    "queue": ("int", "bigint", "smallint", "tinyint"),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "tags": ("string",),
    "headers": (_PAIRS, "array<struct<key:string,value:string>>"),
    "properties": ("map<string,string>",),
}


def _text(key: str, text: str) -> str:
    if not text:
        raise OptionError(f"{key} is empty; give a name, or leave it out")
    return text


def _word(key: str, text: str, choices: tuple[str, ...]) -> str:
    if text.lower() not in choices:
        raise OptionError(f"{key} is {text!r}; give {' or '.join(choices)}")
    return text.lower()


def _version(key: str, text: str) -> int:
    if not text.isdecimal() or int(text) > TXN_VERSION_MAX:
        raise OptionError(
            f"{key} is {text!r}; a whole number is wanted, from 0 to {TXN_VERSION_MAX}, that grows "
            "with each write of its txnAppId"
        )
    return int(text)


def _switch(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{key} is {text!r}; give true or false")
    return text.lower() == "true"


def _milliseconds(key: str, text: str) -> float:
    if not text.isdecimal() or not int(text):
        raise OptionError(f"{key} is {text!r}; give a number of milliseconds")
    return int(text) / 1000
