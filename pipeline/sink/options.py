"""Options of the sink: names, defaults, and checks of values.

Source: docs/spec/pipeline.md 3.2, 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.client import ClientConfig, ClientConfigError
from cluster.client.discovery import resolve
from pipeline.options import OptionError
from pipeline.source.client_options import client_config, client_options

COLUMNS = ("value", "key", "topic", "queue", "tags", "headers", "properties")
DELIVERIES = ("exactly-once", "at-least-once")
_SERVERS = ("bootstrap.servers", "servers", "nameserver")
_SPARKS_OWN = ("checkpointlocation", "queryname", "path")  # Spark hands these to every sink
_CLIENT = "client."
_TEXTS = {"stagingtopic": "staging", "txnappid": "app"}
STAGING = "DLEDGER_SPARK_STAGING"
MARKS = "DLEDGER_SPARK_SINK_"  # groups whose offsets are marks of queries (cluster_store.py)
TXN_VERSION_MAX = (1 << 31) - 1
OPTION_NAMES = (
    *("bootstrap.servers", "topic", "delivery", "deliveryTimeoutMs", "stagingTopic"),
    *("txnAppId", "txnVersion", "takeOver"),
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
        app, version: identity of a batch write, "" and -1 when it has none: a version of an app is
            published once.
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

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery == DELIVERIES[0]


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Raises OptionError."""
    values: dict[str, Any] = {}
    client: dict[str, str] = {}
    for key, text in given.items():
        name = key.lower()
        if name in _SERVERS:
            if values.get("servers", text) != text:
                raise OptionError(f"{key} is given twice, as {values['servers']} and {text}")
            values["servers"] = text
        elif name == "topic":
            values["topic"] = text
        elif name == "delivery":
            values["delivery"] = text.lower()
        elif name == "deliverytimeoutms":
            values["seconds_max"] = _milliseconds(key, text)
        elif name in _TEXTS and text:
            values[_TEXTS[name]] = text
        elif name == "takeover":
            values["take_over"] = _switch(key, text)
        elif name == "txnversion":
            values["version"] = _version(key, text)
        elif name.startswith(_CLIENT):
            client[key] = text
        elif name not in _SPARKS_OWN:
            raise OptionError(
                f"unknown option {key!r} for writing; use {', '.join(OPTION_NAMES)} and client.…"
            )
    if not values.get("servers"):
        raise OptionError('no cluster is named; give option("bootstrap.servers", "host:port")')
    if values.get("delivery", DELIVERIES[0]) not in DELIVERIES:
        raise OptionError(f"delivery is {values['delivery']!r}; give one of {DELIVERIES}")
    if ("app" in values) != ("version" in values):
        raise OptionError("txnAppId and txnVersion go together; give both, or neither")
    try:
        resolve(values["servers"])
        config = client_config(client_options(client))
    except ClientConfigError as error:
        raise OptionError(str(error)) from None
    return SinkOptions(client=config, **values)


def check_columns(names: Sequence[str], options: SinkOptions) -> None:
    """Raises OptionError for a frame that the sink cannot write."""
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise OptionError(
            f"column {unknown[0]!r} cannot be written; use {', '.join(COLUMNS)}; "
            "select what is wanted"
        )
    if "value" not in names:
        raise OptionError("there is no column value, the message's body; select one as value")
    if not options.topic and "topic" not in names:
        raise OptionError('there is no topic; give option("topic", …), or a column topic')


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
