"""Layout of one message record, the unit of the commit log (docs/spec/store.md 1.1, 1.4, 1.5).

    off size field                          off  size field
      0   4  total size                      56  8/20 store timestamp (8), then
      4   4  magic V1 or V2                  64  8/20 store host
      8   4  body CRC                        72     4 reconsume times
     12   4  queue id                        76     8 prepared transaction offset
     16   4  flag, the producer's own        84     4 body length, then the body (n)
     20   8  queue offset, in messages    88+n   1/2 topic length (V1: 1, V2: 2), topic (t)
     28   8  physical offset                        2 properties length, properties (p)
     36   4  sysFlag
     40   8  born timestamp
     48 8/20 born host: IP, port (4)      offsets for two IPv4 hosts; each IPv6 host adds 12

Records stand back to back in a plain commit log; none crosses a file's end. Where a record does
not fit, 8 bytes close the file:  bytes left, these included (4) | blank magic (4).
(In the replicated log a record is the body of a log entry and `record.py` closes the file.)

A crash may leave a record whose sizes do not add up or whose body does not match its CRC.
All integers are big-endian and signed.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final

from commitlog.files.system import Buffer
from commitlog.records.checksum import crc32

MAGIC_V1: Final = -626843481  # DAA320A7
MAGIC_V2: Final = -626843477  # DAA320AB
MAGIC_BLANK: Final = -875286124  # CBD43194
BLANK_SIZE: Final = 8

# What is patched just before a record enters the log.
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_LOW_AT: Final = 39  # the byte with the transaction and IPv6 bits
STORE_TIMESTAMP_AT: Final = 56  # with an IPv4 born host
STORE_TIMESTAMP_AT_V6: Final = 68

HEAD_SIZE: Final = 88  # bytes before the body, with two IPv4 hosts
RECORD_SIZE_MIN: Final = HEAD_SIZE + 3
RECORD_EXTRA_SIZE_MAX: Final = (
    65_536  # record - body: RocketMQ's bound, at least topic + properties
)
BODY_SIZE_MAX: Final = 4_194_304  # RocketMQ's maxMessageSize; Kafka and NATS allow 1 MiB
TOPIC_V1_SIZE_MAX: Final = 127  # a signed byte
TOPIC_SIZE_MAX: Final = 255  # %RETRY% and %DLQ% topics; others: 127

# Everything before the body, by bits 4 and 5 of sysFlag: hosts are bytes of 8 or 20.
HEADS = tuple(
    struct.Struct(f">iiiiiqqiq{born}sq{store}siqi")
    for born, store in ((8, 8), (20, 8), (8, 20), (20, 20))
)
FRONT = struct.Struct(">iiiiiqqiq")  # up to the born timestamp
BACK = struct.Struct(">iqi")  # after the store host
I64 = struct.Struct(">q")
I64_PAIR = struct.Struct(">qq")
BLANK = struct.Struct(">ii")

assert HEADS[0].size == HEAD_SIZE == FRONT.size + 8 + 8 + 8 + BACK.size


def body_crc(body: Buffer) -> int:
    """CRC-32 of the stored body with the top bit cleared; 0 for an empty one."""
    return crc32(body) & 0x7FFFFFFF


def store_timestamp_at(record_sys_flag: int) -> int:
    """Offset of the store timestamp in a record with that sysFlag."""
    return STORE_TIMESTAMP_AT_V6 if record_sys_flag & 0x10 else STORE_TIMESTAMP_AT


def patch_record(
    record: bytearray | memoryview,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
) -> None:
    """Fill the three fields that are known only under the append lock (docs/spec/store.md 1.7)."""
    I64_PAIR.pack_into(record, QUEUE_OFFSET_AT, queue_offset, physical_offset)
    at = STORE_TIMESTAMP_AT_V6 if record[SYS_FLAG_LOW_AT] & 0x10 else STORE_TIMESTAMP_AT
    I64.pack_into(record, at, store_timestamp_ms)


def encode_blank(left: int) -> bytes:
    """The 8 bytes that close a plain commit log file `left` bytes before its end."""
    assert left >= BLANK_SIZE, "a record is placed only if a blank still fits behind it"
    return BLANK.pack(left, MAGIC_BLANK)


class RecordKind(Enum):
    """The kind of the bytes that begin at an address of a plain commit log.

    Source: docs/spec/store.md 1.5.
    """

    MESSAGE = "message"
    BLANK = "blank"  # go on in the next file
    END = "end"  # of the data: zeros, rubbish or too few bytes


def kind_at(data: Buffer, offset: int = 0) -> tuple[RecordKind, int]:
    """The kind of the record at `offset` and its stated size, from size and magic code alone."""
    if len(data) - offset < BLANK_SIZE:
        return RecordKind.END, 0
    size, magic = BLANK.unpack_from(data, offset)
    if size < BLANK_SIZE:
        return RecordKind.END, 0
    if magic in (MAGIC_V1, MAGIC_V2):
        return RecordKind.MESSAGE, size
    return (RecordKind.BLANK, size) if magic == MAGIC_BLANK else (RecordKind.END, 0)
