"""Units of RocketMQ's timer files, and the body of op messages (docs/spec/store.md 7.2, 7.3).

    timerlog unit, 52 bytes:  size 52 (4) | previous position (8, -1 none) | magic (4)
                              | write time (8) | delay ms (4) | physical offset (8) | size (4)
                              | hash of the real topic (4) | reserved 0 (8)
    timerlog end filler, 16:  bytes left (4) | 0 (8) | CBD43194 (4)
    timerwheel slot, 32:      time / precision (8) | first position (8) | last position (8)
                              | count (4) | magic (4)

All of it can be rebuilt from the queue of the timer topic; this project writes these files only
when a store is exported.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer
from commitlog.records.java import string_hash
from commitlog.records.message_layout import MAGIC_BLANK

UNIT_SIZE: Final = 52
SLOT_SIZE: Final = 32
END_FILLER_SIZE: Final = 16
NO_POSITION: Final = -1
MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
MAGIC_DELETE: Final = 4
PRECISION_MS: Final = 1000
SLOTS: Final = 2 * 604_800  # two weeks of seconds

OP_BODY_SIZE_MAX: Final = 4096  # RocketMQ sends an op message once its body is longer

_UNIT = struct.Struct(">iqiqiqiiq")
_SLOT = struct.Struct(">qqqii")
_FILLER = struct.Struct(">iqi")

assert _UNIT.size == UNIT_SIZE
assert _SLOT.size == SLOT_SIZE


class TimerUnit(NamedTuple):
    """One delayed message in the timer log, linked to the previous one of its slot."""

    previous_position: int
    magic: int
    write_timestamp_ms: int
    delay_ms: int
    physical_offset: int
    record_size: int
    topic_hash: int
    reserved: int = 0


class TimerSlot(NamedTuple):
    """One tick of the wheel: the units that are due in it."""

    time_ms: int
    first_position: int
    last_position: int
    message_count: int
    magic: int = 0


def topic_hash(real_topic: str) -> int:
    """The hash of its message's topic that a unit holds."""
    return string_hash(real_topic)


def pack_timer_unit(unit: TimerUnit) -> bytes:
    """The unit's bytes, as they are in the timer log."""
    return _UNIT.pack(UNIT_SIZE, *unit)


def unpack_timer_unit(data: Buffer, offset: int = 0) -> TimerUnit:
    """Raises StoreDamaged when no unit stands at `offset`."""
    if len(data) - offset < UNIT_SIZE:
        raise StoreDamaged("the timer log unit is cut off", position=offset)
    size, *fields = _UNIT.unpack_from(data, offset)
    if size != UNIT_SIZE:
        raise StoreDamaged(
            f"a timer log unit states {size} bytes, not {UNIT_SIZE}", position=offset
        )
    return TimerUnit._make(fields)


def pack_end_filler(left: int) -> bytes:
    """The filler that closes a timer log file `left` bytes before its end."""
    assert left >= END_FILLER_SIZE, "units are placed so that a filler still fits"
    return _FILLER.pack(left, 0, MAGIC_BLANK)


def pack_timer_slot(slot: TimerSlot, precision_ms: int = PRECISION_MS) -> bytes:
    """The slot's bytes; its time is in units of `precision_ms` in the file."""
    return _SLOT.pack(slot.time_ms // precision_ms, *slot[1:])


def unpack_timer_slot(data: Buffer, offset: int = 0, precision_ms: int = PRECISION_MS) -> TimerSlot:
    """Raises StoreDamaged when the bytes end before the slot does."""
    if len(data) - offset < SLOT_SIZE:
        raise StoreDamaged("the timer wheel slot is cut off", position=offset)
    ticks, *rest = _SLOT.unpack_from(data, offset)
    return TimerSlot(ticks * precision_ms, *rest)


def slot_of(time_ms: int, precision_ms: int = PRECISION_MS, slots: int = SLOTS) -> int:
    """Number of the slot that holds a due time."""
    return time_ms // precision_ms % slots


def encode_op_body(half_queue_offsets: Iterable[int]) -> bytes:
    """Body of an op message: half messages that are done, each number followed by a comma."""
    return "".join(f"{offset}," for offset in half_queue_offsets).encode("ascii")


def decode_op_body(body: Buffer) -> list[int]:
    """The half queue offsets; also of 4.x, a bare number. Raises StoreDamaged for anything else."""
    offsets: list[int] = []
    for word in bytes(body).split(b","):
        text = word.strip()
        if not text:
            continue
        if not text.isdigit() or len(text) > 19:
            raise StoreDamaged(f"an op message names {text[:40]!r}, which is no queue offset")
        offsets.append(int(text))
    return offsets
