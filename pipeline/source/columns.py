"""Which columns a read gives, under which names (docs/spec/pipeline.md 3.3).

    dledger    key, value, topic, queue, offset, timestamp, born_timestamp, tags, keys, properties,
               term, log_index, physical_offset (+ headers)
    kafka      key, value, topic, partition, offset, timestamp, timestampType (+ headers)

`headers` come with `includeHeaders`, as with Kafka's connector, or when `columns` names them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipeline.frames.batch import COLUMNS, HEADERS
from pipeline.options import OptionError

HEADERS_NAME = "headers"
KAFKA_NAMES = {"partition": "queue"}
TIMESTAMP_TYPE = "timestampType"
LOG_APPEND_TIME = 1  # Kafka's number: the time at which the broker stored the message

_DEFAULT = (
    *("key", "value", "topic", "queue", "offset", "timestamp", "born_timestamp", "tags", "keys"),
    *("properties", "term", "log_index", "physical_offset"),
)
_KAFKA = ("key", "value", "topic", "partition", "offset", "timestamp", TIMESTAMP_TYPE)
_TYPES: dict[str, pa.DataType] = {
    **COLUMNS,
    HEADERS_NAME: HEADERS,
    "partition": COLUMNS["queue"],
    TIMESTAMP_TYPE: pa.int32(),
}


def columns_of(wanted: Sequence[str], *, kafka: bool, headers: bool) -> pa.Schema:
    """The schema of a read. Raises OptionError for a column that the style does not have."""
    everything = (*(_KAFKA if kafka else COLUMNS), HEADERS_NAME)
    usual = (*(_KAFKA if kafka else _DEFAULT), *((HEADERS_NAME,) if headers else ()))
    for name in wanted:
        if name not in everything:
            style = "kafka" if kafka else "dledger"
            raise OptionError(
                f"columns: there is no column {name!r} with schemaStyle={style}; use one of "
                f"{', '.join(everything)}"
            )
    if headers and wanted and HEADERS_NAME not in wanted:
        raise OptionError("includeHeaders is true and columns does not name headers; add it")
    return pa.schema([(name, _TYPES[name]) for name in wanted or usual])
