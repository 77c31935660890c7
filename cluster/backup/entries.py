"""Bytes of the log → pieces of a backup, and back: each record is verified on both ways."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from cluster.backup.errors import BackupDamaged
from cluster.backup.manifest import LogIdentity, Piece
from commitlog.records.message_layout import (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    STORE_TIMESTAMP_AT,
    STORE_TIMESTAMP_AT_V6,
    SYS_FLAG_LOW_AT,
)
from commitlog.records.record import HEADER_SIZE
from dledger.core.types import Term, TermRun
from dledger.log.check import SLOT, Checked, Tail, check_records
from dledger.log.port import ReceivedRange, VerifiedRange

_SIZE_MAGIC = struct.Struct(">ii")
_I64 = struct.Struct(">q")
_BORN_V6 = 0x10  # bit of sysFlag: the host before the store time takes 12 bytes more


def store_ms_of(data: memoryview, at: int, size: int) -> int:
    """When the message in the record of `size` bytes at offset `at` was stored, ms since 1970.

    0 for an entry that is no message.
    """
    body = at + HEADER_SIZE
    if size - HEADER_SIZE < RECORD_SIZE_MIN:
        return 0
    total, magic = _SIZE_MAGIC.unpack_from(data, body)
    if total != size - HEADER_SIZE or magic not in (MAGIC_V1, MAGIC_V2):
        return 0
    is_v6 = data[body + SYS_FLAG_LOW_AT] & _BORN_V6
    offset = STORE_TIMESTAMP_AT_V6 if is_v6 else STORE_TIMESTAMP_AT
    return int(_I64.unpack_from(data, body + offset)[0])


def piece_of(
    data: memoryview, before: Tail, checked: Checked, last_max: int
) -> tuple[Piece, memoryview] | None:
    """The verified records of `data` up to index `last_max`, as a piece and its bytes.

    `data` begins at address `before.end`. None when no record is so low.
    """
    first = before.id.index + 1
    count = min(len(checked.slots), last_max - first + 1)
    if count <= 0:
        return None
    newest_ms = 0
    position = size = index = term = 0
    for slot in checked.slots[:count]:
        _, position, size, index, term = SLOT.unpack(slot)
        newest_ms = max(newest_ms, store_ms_of(data, position - before.end, size))
    end = position + size
    part = data[: end - before.end]
    (chain_crc,) = struct.unpack_from(">I", data, position - before.end + 36)
    piece = Piece(
        first=first,
        last=index,
        position=before.end,
        end=end,
        term=term,
        chain_crc=chain_crc,
        runs=tuple(_runs_up_to(checked.runs, Term(term), index)),
        last_ms=newest_ms,
        sha256=hashlib.sha256(part).hexdigest(),
    )
    return piece, part


def _runs_up_to(runs: Iterable[TermRun], term: Term, last: int) -> Iterable[tuple[int, int]]:
    for run in runs:
        if run.last >= last:
            break
        yield int(run.term), int(run.last)
    yield int(term), last


def verified(data: bytes, piece: Piece, before: Tail, log: LogIdentity) -> VerifiedRange:
    """The records of a piece, ready to be appended. Raises BackupDamaged, which names the piece.

    `before`: what the piece must continue.
    """
    if len(data) != piece.end - piece.position:
        raise BackupDamaged(
            f"{piece.name} has {len(data)} bytes and should have {piece.end - piece.position}"
        )
    if hashlib.sha256(data).hexdigest() != piece.sha256:
        raise BackupDamaged(f"{piece.name} does not have the bytes that were written")
    if piece.position != before.end or piece.first != before.id.index + 1:
        raise BackupDamaged(f"{piece.name} does not follow entry {before.id.index}")
    view = memoryview(data)
    checked = check_records(view, before, log.data_file_size, log.upgrade_index)
    if checked.reason:
        raise BackupDamaged(f"{piece.name}: {checked.reason}")
    if checked.tail != piece.tail or tuple(checked.runs) != piece.term_runs:
        raise BackupDamaged(f"{piece.name} does not end with entry {piece.last} as it says")
    source = ReceivedRange(
        before.id,
        before.chain_crc or 0,
        checked.tail.id.index,
        piece.term_runs,
        piece.position,
        len(data),
        (view,),
    )
    return VerifiedRange(source, view, checked.slots, piece.chain_crc, piece.end)


def shortened(
    data: bytes,
    piece: Piece,
    before: Tail,
    log: LogIdentity,
    *,
    last: int | None,
    until_ms: int | None,
) -> tuple[bytes, Piece] | None:
    """The piece up to entry `last`, and before the first message that is newer than `until_ms`.

    None when nothing of it is left. Raises BackupDamaged.
    """
    whole = verified(data, piece, before, log)
    end = piece.last if last is None else min(piece.last, last)
    if until_ms is not None:
        for slot in whole.slots:
            _, position, size, index, _ = SLOT.unpack(slot)
            if store_ms_of(whole.data, position - piece.position, size) > until_ms:
                end = min(end, index - 1)
                break
    runs = list(piece.term_runs)
    checked = Checked(whole.slots, runs, piece.tail, "", False)
    found = piece_of(whole.data, before, checked, end)
    return None if found is None else (bytes(found[1]), found[0])
