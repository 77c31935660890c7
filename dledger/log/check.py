"""Bytes of the log → verified records. One loop, for the wire, for cold reads and for recovery.

A range begins where a record, or a blank before one, begins. Checked for each record: every header
field against its place, that it was placed by the rule of docs/spec/raft_log.md 1.4 (so that
replicas stay byte-identical, S10), body_crc, and chain_crc from the one before it. For a blank: its
size, that it was needed, and that it is zeros. The caller says what a stop means: a bad peer,
damage, or a torn tail.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from commitlog.files.system import Buffer
from commitlog.records import accel
from commitlog.records.accel_entries import verify_entries
from commitlog.records.checksum import crc32
from commitlog.records.record import (
    BLANK,
    BLANK_SIZE,
    HEADER,
    HEADER_SIZE,
    MAGIC_BLANK,
    MAGIC_ENTRY,
    record_fits,
)
from dledger.core.types import EntryId, Index, Term, TermRun
from dledger.errors import RangeRejected
from dledger.log.port import LogRange, ReceivedRange, VerifiedRange

CHAIN_INPUT = struct.Struct(">IiiqqqiI")  # previous chain_crc, header bytes 0-35, body_crc
SLOT = struct.Struct(">iqiqq")  # magic, position, size, index, term (docs/spec/raft_log.md 1.5)
ALL_ZERO_CRCS = 1 << 62  # as `zero_below`: a log that is written without checksums
_ZEROS = bytes(1 << 16)
_MANY_BYTES = 16384  # so many may be a run that is checked faster all at once

assert CHAIN_INPUT.size == 44
assert SLOT.size == 32


class Tail(NamedTuple):
    """The end of the record before: its id, chain checksum and end address.

    `chain_crc` None: unknown, because what came before was deleted; the next record's counts.
    """

    id: EntryId
    chain_crc: int | None
    end: int


class Checked(NamedTuple):
    """Valid records in a row from the start of the bytes.

    `slots`: the index slot of each. `tail`: of the last valid one. `reason`: why the check stopped
    before the end of the bytes, "" if it did not; `cut_short`: only because the bytes ended inside
    a record or a blank.
    """

    slots: list[bytes]
    runs: list[TermRun]
    tail: Tail
    reason: str
    cut_short: bool


def check_records(data: memoryview, start: Tail, file_size: int, zero_below: int) -> Checked:
    """Verify `data`, the bytes from address `start.end` on.

    Records below index `zero_below` may have two zero checksums (imported stores).
    """
    base, total, runs = start.end, len(data), list[TermRun]()
    slots, ((last_term, last_index), chain_crc, end) = _many(data, start, file_size, zero_below)
    offset = end_of_record = end - base
    unpack, pack_chain, pack_slot = HEADER.unpack_from, CHAIN_INPUT.pack, SLOT.pack
    header_max = total - HEADER_SIZE  # no header fits behind it
    file_end = file_size - base % file_size  # as an offset into data
    record_end_max = file_end - BLANK_SIZE
    reason, cut_short = "", False
    while offset < total:
        if offset > header_max or data[offset] == 0xFF:
            reason, cut_short = _blank(data, offset, file_end)
            if reason:
                break
            offset, file_end = file_end, file_end + file_size
            record_end_max = file_end - BLANK_SIZE
            if offset >= total:
                reason, cut_short = "the range ends with a blank", True
            continue
        magic, size, index, term, position, channel, found_chain, found_body, body_size = unpack(
            data, offset
        )
        end = offset + size
        if (
            magic != MAGIC_ENTRY
            or index != last_index + 1
            or size != body_size + HEADER_SIZE
            or position != base + offset
            or term < last_term
            or channel
            or body_size < 0
            or end > record_end_max
        ):
            reason = _what_is_wrong(data, offset, base, last_index, last_term, file_end)
            break
        if offset != end_of_record and record_fits(size, offset - end_of_record):
            reason = f"a blank stands where record {index} fits"
            break
        if end > total:
            reason, cut_short = "the bytes end inside a record", True
            break
        body_crc = crc32(data[offset + HEADER_SIZE : end])
        if (
            found_body != body_crc
            or chain_crc is None
            or found_chain
            != crc32(pack_chain(chain_crc, magic, size, index, term, position, channel, body_crc))
        ):
            reason = _crc_verdict(found_chain, found_body, body_crc, chain_crc, index, zero_below)
            if reason:
                break
        chain_crc = found_chain
        if term != last_term:
            if slots:
                runs.append(TermRun(Term(last_term), Index(last_index)))
            last_term = term
        last_index = index
        slots.append(pack_slot(magic, position, size, index, term))
        offset = end_of_record = end
    last = EntryId(Term(last_term), Index(last_index))
    if slots:
        runs.append(TermRun(last.term, last.index))
    return Checked(slots, runs, Tail(last, chain_crc, base + end_of_record), reason, cut_short)


def _many(
    data: memoryview, start: Tail, file_size: int, zero_below: int
) -> tuple[list[bytes], Tail]:
    """Slots of the valid records at the start of `data`, checked all at once, and their tail.

    No slots where numpy is not loaded, the records are few or the first differs.
    """
    (term, index), chain_crc, base = start
    numpy = accel.numpy()
    if numpy is None or len(data) < _MANY_BYTES or chain_crc is None or index < zero_below:
        return [], start
    found = verify_entries(
        numpy,
        data,
        base=base,
        index=index + 1,
        term=term,
        chain_crc=chain_crc,
        end_max=file_size - base % file_size - BLANK_SIZE,
    )
    if found is None:
        return [], start
    last = EntryId(term, Index(index + len(found.slots)))
    return found.slots, Tail(last, found.chain_crc, base + found.end)


def _blank(data: memoryview, offset: int, file_end: int) -> tuple[str, bool]:
    """Why no whole blank is at `offset` ("" when one is), and whether only bytes are missing."""
    total, left = len(data), file_end - offset
    if total - offset < BLANK_SIZE:
        return "the bytes end inside a record", True
    magic, size = BLANK.unpack_from(data, offset)
    if magic != MAGIC_BLANK:
        if total >= file_end:
            return f"no record begins where {left} bytes are left in the file", False
        return "the bytes end inside a record", True
    if size != left:
        return f"a blank claims {size} bytes and {left} are left in the file", False
    if total < file_end:
        return "the bytes end inside a blank", True
    if not is_zero(data[offset + BLANK_SIZE : file_end]):
        return "a blank holds bytes that are not zero", False
    return "", False


def is_zero(data: Buffer) -> bool:
    """Are all bytes zero?"""
    view = memoryview(data)
    step = len(_ZEROS)
    for start in range(0, len(view), step):
        part = bytes(view[start : start + step])
        if part != (_ZEROS if len(part) == step else _ZEROS[: len(part)]):
            return False
    return True


def _what_is_wrong(
    data: memoryview, offset: int, base: int, last_index: int, last_term: int, file_end: int
) -> str:
    """One sentence for a header that does not fit its place."""
    magic, size, index, term, position, channel, _, _, body_size = HEADER.unpack_from(data, offset)
    if magic == 0 and size == 0:
        return "there is no record"
    if magic != MAGIC_ENTRY:
        return f"magic {magic} is not that of an entry (1) or a blank (-1)"
    if size != body_size + HEADER_SIZE or body_size < 0:
        return f"size {size} does not fit a body of {body_size} bytes"
    if index != last_index + 1:
        return f"index {index} stands where {last_index + 1} belongs"
    if position != base + offset:
        return f"the record names position {position}"
    if term < last_term:
        return f"term {term} follows term {last_term}"
    if channel:
        return f"channel is {channel} and must be 0"
    return f"a record of {size} bytes stands where {file_end - offset} bytes are left in the file"


def _crc_verdict(
    found_chain: int,
    found_body: int,
    body_crc: int,
    chain_crc: int | None,
    index: int,
    zero_below: int,
) -> str:
    """The slow side of the checksum test; "" when the record is to be accepted all the same."""
    if index < zero_below and found_chain == 0 and found_body == 0:
        return ""
    if found_body != body_crc:
        return f"the body of record {index} has crc {body_crc:08x} and should have {found_body:08x}"
    if chain_crc is None:  # nothing to compare with: the first kept record is the anchor
        return ""
    return f"the chain checksum of record {index} does not follow from the record before it"


def verify_range(
    source: LogRange | ReceivedRange, file_size: int, zero_below: int
) -> VerifiedRange:
    """`LogStore.check_range` for every store with DLedger's records. Raises RangeRejected."""
    parts: Sequence[Buffer] = source.parts
    if len(parts) != 1:
        parts = [part for part in parts if len(part)] or [b""]
    data = one_view(parts)
    if len(data) != source.size:
        raise RangeRejected(f"the range claims {source.size} bytes and has {len(data)}")
    before = Tail(source.prev, source.prev_chain_crc, source.position if source.size else 0)
    checked = check_records(data, before, file_size, zero_below)
    if checked.reason:
        raise RangeRejected(checked.reason)
    if checked.tail.id.index != source.last:
        raise RangeRejected(
            f"the range claims to end with {source.last} and ends with {checked.tail.id.index}"
        )
    if tuple(checked.runs) != tuple(source.runs):
        raise RangeRejected("the range's terms are not the ones that it claims")
    return VerifiedRange(source, data, checked.slots, checked.tail.chain_crc or 0, checked.tail.end)


def one_view(parts: Sequence[Buffer]) -> memoryview:
    """The bytes of all parts in one read-only view; copied unless they are that already."""
    if len(parts) == 1:
        view = memoryview(parts[0])
        return view if view.readonly else memoryview(bytes(view))
    return memoryview(b"".join(parts))
