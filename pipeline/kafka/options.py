"""Translates options of Spark's Kafka connector, so that a job for Kafka needs few changes.

    same       another name for an option of this connector
    ignored    tunes Kafka's own clients, or asks for less than a cluster gives: gives a warning
    refused    changes which rows are read or written, or the access to them: an error that names
               the option to use instead

Every documented option of the connector of Spark 4 is in one of the tables, or is called the same
here. A further `kafka.…` setting belongs to Kafka's clients and is ignored with a warning, as those
clients do with settings that they do not know.

Source: Spark's "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.options import OptionError

PREFIX = "kafka."

#: Options that are called otherwise here, for reading and for writing.
SAME = {"kafka.bootstrap.servers": "bootstrap.servers"}
#: The first of them that is given counts, as with Kafka's connector.
GROUPS = ("kafka.group.id", "groupidprefix")

#: option → the reason why leaving it out changes no row
IGNORED = {
    "kafka.acks": "a send is acknowledged when a majority has it on disk (see durability)",
    "kafka.isolation.level": "nothing above the committed offset is ever read",
    "kafka.enable.idempotence": "the sink stores each row once (see delivery)",
    "kafka.transactional.id": "the sink stores each row once (see delivery)",
    "kafkaconsumer.polltimeoutms": "see fetchTimeoutMs",
    "fetchoffset.numretries": "see numRetries",
    "fetchoffset.retryintervalms": "see retryIntervalMs",
}
_SERIALIZERS = "keys and values are bytes here, as with Kafka's connector; use Spark's functions"
_ACCOUNTS = (
    "accounts and TLS are client.accessKey and client.secretKey, client.accountFile, client.tls "
    "and client.tls.authority"
)
#: option → its counterpart
REFUSED = {
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.enable.auto.commit": "use groupId and commitOffsetsToGroup",
    "kafka.interceptor.classes": "no class of a user runs in a request; leave it out",
    "kafka.partitioner.class": "write a column partition (schemaStyle=kafka) or queue",
    "kafka.key.serializer": _SERIALIZERS,
    "kafka.value.serializer": _SERIALIZERS,
    "kafka.key.deserializer": _SERIALIZERS,
    "kafka.value.deserializer": _SERIALIZERS,
}
_REFUSED_PREFIXES = ("kafka.sasl.", "kafka.ssl.")
_PROTOCOL = "kafka.security.protocol"
#: Options for reading only; Kafka's connector accepts them for writing, too, without effect.
_READERS_ONLY = ("kafkaconsumer.polltimeoutms", "groupidprefix", "kafka.group.id")


class Translated(NamedTuple):
    """`options`: under dledger's names; `warnings`: a sentence for each that was left out."""

    options: dict[str, str]
    warnings: tuple[str, ...]


def translate(given: Mapping[str, str], *, writing: bool) -> Translated:
    """Options under dledger's names, in any case of letters. OptionError for a refused one."""
    options: dict[str, str] = {}
    warnings: list[str] = []
    groups: dict[str, str] = {}
    for key, text in given.items():
        name = key.lower()
        if name in SAME:
            options[key] = text  # not translated: the reader of options knows both spellings
        elif name in GROUPS and not writing:
            groups[name] = text
        elif _is_refused(name, text):
            raise OptionError(f"{key} cannot be taken over from a job for Kafka; {_advice(name)}")
        elif reason := _ignored(name, writing):
            warnings.append(f"{key} is ignored: {reason}")
        else:
            options[key] = text
    for name in GROUPS:
        if name in groups:
            options.setdefault("groupId", groups[name])
            break
    return Translated(options, tuple(warnings))


def _is_refused(name: str, text: str) -> bool:
    if name == _PROTOCOL:
        return text.strip().upper() != "PLAINTEXT"
    return name in REFUSED or name.startswith(_REFUSED_PREFIXES)


def _advice(name: str) -> str:
    return REFUSED.get(name, _ACCOUNTS)


def _ignored(name: str, writing: bool) -> str:
    """Why the option is left out; "" if it is not."""
    if name == "includeheaders" and writing:
        return "headers are written when there is a column headers"
    if name in IGNORED:
        return IGNORED[name]
    if name in _READERS_ONLY:
        return "it is an option for reading"
    if name == _PROTOCOL:
        return "it is the default"
    if name.startswith(PREFIX) and name not in SAME:
        return "it tunes Kafka's own clients"
    return ""
