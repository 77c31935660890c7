"""One record of a log as a flat object for JSON.

`position`, `size` and `magic` are the record's own: of the entry (size with its 48-byte header,
magic 1) in a dledger log, of the message in a plain one. All message fields are null for an entry
that holds no message; then body_size, body_crc and body_sha256 are those of the entry's body.
"""

from __future__ import annotations

from hashlib import sha256

from commitlog.records.ids import encode_offset_id
from commitlog.store.reader import Item

MESSAGE_FIELDS = (
    "topic",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "flag",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "born_host",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "properties",
    "message_size",
    "message_magic",
    "message_id",
)


def item_fields(item: Item) -> dict[str, object]:
    """The object of one record; keys are the same for every record of a store."""
    header, message = item.header, item.message
    fields: dict[str, object] = {
        "position": item.position,
        "size": item.size,
        "magic": message.magic if header is None and message is not None else 1,
        "index": None if header is None else header.sequence,
        "term": None if header is None else header.epoch,
    }
    fields |= dict.fromkeys(MESSAGE_FIELDS)
    if message is not None:
        fields |= {
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "physical_offset": message.physical_offset,
            "sys_flag": message.sys_flag,
            "flag": message.flag,
            "born_timestamp_ms": message.born_timestamp_ms,
            "store_timestamp_ms": message.store_timestamp_ms,
            "born_host": str(message.born_host),
            "store_host": str(message.store_host),
            "reconsume_times": message.reconsume_times,
            "prepared_transaction_offset": message.prepared_transaction_offset,
            "properties": dict(message.properties),
            "message_size": message.record_size,
            "message_magic": message.magic,
            "message_id": encode_offset_id(message.store_host, message.physical_offset),
        }
    body = item.body if message is None else message.body
    fields["body_size"] = len(body)
    if message is not None:
        fields["body_crc"] = message.body_crc
    else:
        fields["body_crc"] = None if header is None else header.body_crc
    fields["body_sha256"] = sha256(body).hexdigest()
    if header is not None:
        fields |= {
            "channel": header.channel,
            "chain_crc": header.chain_crc,
            "entry_body_crc": header.body_crc,
            "entry_body_size": header.body_size,
            "entry_body_sha256": sha256(item.body).hexdigest(),
        }
    return fields
