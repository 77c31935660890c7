"""The bitmap of one message at dispatch; cluster.core.filter_bits decides.

Source: docs/spec/store.md 7.5.
"""

from __future__ import annotations

from cluster.core.filter_bits import FilterBits
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.properties import decode_properties


def bitmap_of(filters: FilterBits, record: ScannedRecord) -> bytes:
    """Bitmap of the groups that a message matches. Properties are only read for topics with SQL92
    subscriptions.
    """
    topic = record.topic.decode("utf-8", "replace")
    if not filters.wants(topic):
        return b""
    properties = decode_properties(record.properties)
    return filters.bitmap(topic, properties, record.store_timestamp_ms)
