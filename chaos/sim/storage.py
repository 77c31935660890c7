"""The shipping storage on a virtual disk, and a look at the disk that does not go through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from chaos.sim.disk import SimDisk
from chaos.sim.swarm import LogOptions as SimLogOptions
from commitlog.errors import StoreDamaged
from commitlog.records.record import HEADER, HEADER_SIZE
from dledger.core.types import HardState, Index, Term
from dledger.durable import double_slot, flush_mark, hard_state, truncate_intent
from dledger.durable.flush_mark import NO_MARK, MarkFile
from dledger.durable.hard_state import HardStateFile
from dledger.durable.mirrors import Mirrors
from dledger.durable.truncate_intent import IntentFile
from dledger.log.file_log import FileLog
from dledger.log.node_storage import begin_anew_if_lost
from dledger.log.options import LogOptions
from dledger.log.slots import SLOT_SIZE

FOLDER = Path("/n")
STAGING = FOLDER / "staging"
DOUBLE_SLOT_FILES = tuple(
    f"{FOLDER}/{name}"
    for name in (hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME)
)

INTENT_FILE = f"{FOLDER}/{truncate_intent.FILE_NAME}"
MARK_FILE = f"{FOLDER}/{flush_mark.FILE_NAME}"


@dataclass(slots=True)
class Storage:
    """The open files of one process."""

    log: FileLog
    hard: HardStateFile

    def close(self) -> None:
        """Syncs and closes the log, then closes the hard state. Raises OSError."""
        self.log.close()
        self.hard.close()


def log_options(options: SimLogOptions) -> LogOptions:
    """Options of the shipping log with a seed's sizes of files and cache, in bytes."""
    return LogOptions(
        data_file_size=options.file_size,
        index_file_size=options.slots_per_file * SLOT_SIZE,
        cache_size_max=options.cache_size_max,
    )


def format_storage(disk: SimDisk, incarnation: int) -> None:
    """An empty log and a hard state of term 0, as formatting a node makes them."""
    disk.make_dirs(STAGING)
    state = HardState(Term(0), None, incarnation)
    HardStateFile.create(disk, FOLDER, state, staging=STAGING).close()
    IntentFile.create(disk, FOLDER, staging=STAGING).close()
    MarkFile.create(disk, FOLDER, NO_MARK, staging=STAGING).close()


def open_storage(
    disk: SimDisk,
    options: SimLogOptions,
    clock: Callable[[], float],
    draw_incarnation: Callable[[], int] | None = None,
    *,
    repairs: bool = False,
) -> Storage:
    """Opens and recovers the files. Raises every error of the shipping code unchanged.

    `draw_incarnation`: gives the incarnation as which a folder goes on that lost a small file.
    """
    mirrors = Mirrors(disk, FOLDER, staging=STAGING)
    if draw_incarnation is not None:
        begin_anew_if_lost(disk, FOLDER, draw_incarnation)
    hard = HardStateFile.open(disk, FOLDER, mirrors)
    forgets = draw_incarnation is not None and hard.state.forgot
    settings = replace(log_options(options), repairable=repairs, forgets=forgets)
    log = FileLog.open(disk, FOLDER, settings, clock=clock, mirrors=mirrors)
    return Storage(log, hard)


def durable_hard_states(disk: SimDisk) -> list[HardState | None]:
    """Returns the hard state in each slot as a power cut now would leave it; None: the slot is not
    valid."""
    inode = disk.names.durable.get(f"{FOLDER}/{hard_state.FILE_NAME}")
    if inode is None:
        return [None]
    return [
        None if slot is None else hard_state.decode(slot[1])
        for slot in _slots(bytes(inode.durable))
    ]


def slots_of(disk: SimDisk, name: str) -> list[tuple[int, bytes] | None]:
    """The two slots of a small file as the next process will see them; None for an invalid one."""
    return _slots(bytes(disk.names.seen[name].data))


def durable_mark(disk: SimDisk) -> int:
    """Index in the flush mark after a power cut now, -1 without one."""
    inode = disk.names.durable.get(f"{FOLDER}/{flush_mark.FILE_NAME}")
    slots = [] if inode is None else _slots(bytes(inode.durable))
    newest = max((slot for slot in slots if slot is not None), default=None)
    return -1 if newest is None else flush_mark.decode(newest[1]).index


def _slots(content: bytes) -> list[tuple[int, bytes] | None]:
    """(sequence, payload) of both slots of a double-slot file."""
    size = double_slot.SLOT_SIZE
    return [double_slot.decode_slot(content[at : at + size]) for at in (0, size)]


class DiskView:
    """Log bytes by address, straight from the virtual disk, whether the node is up or not."""

    def __init__(self, disk: SimDisk, file_size: int) -> None:
        self._disk, self._file_size = disk, file_size
        self._names: dict[int, str] = {}

    def _place(self, position: int) -> tuple[str, int]:
        number, offset = divmod(position, self._file_size)
        name = self._names.get(number)
        if name is None:
            name = self._names[number] = f"{FOLDER}/data/{number * self._file_size:020d}"
        return name, offset

    def raw(self, position: int, size: int) -> bytes:
        """Bytes as a process would see them, rot set right; short where there is no file."""
        name, offset = self._place(position)
        inode = self._disk.names.seen.get(name)
        if inode is None:
            return b""
        flips = self._disk.flips.get(name)
        if not flips:
            return bytes(inode.data[offset : offset + size])
        data = inode.data[offset : offset + size]
        for place, mask in flips.items():
            if offset <= place < offset + len(data):
                data[place - offset] ^= mask
        return bytes(data)

    def header(self, position: int) -> tuple[int, ...]:
        """The nine header fields at `position`, () where there is no file."""
        name, offset = self._place(position)
        inode = self._disk.names.seen.get(name)
        if inode is None or offset + HEADER_SIZE > self._file_size:
            return ()
        if name in self._disk.flips:
            return HEADER.unpack(self.raw(position, HEADER_SIZE))
        return HEADER.unpack_from(inode.data, offset)

    def next_file(self, position: int) -> int:
        """First address of the file after the one that holds `position`."""
        return position - position % self._file_size + self._file_size

    def chain_crc(self, position: int) -> int:
        """Chain checksum in the header at this address; -1 without a file, or at its very end."""
        header = self.header(position)
        return header[6] if header else -1

    def is_durable(self, position: int, end: int) -> bool:
        """Would these bytes be here after the worst power cut?"""
        while position < end:
            name, offset = self._place(position)
            step = min(end - position, self._file_size - offset)
            if not self._disk.is_durable(name, offset, step):
                return False
            position += step
        return True

    def place(self, position: int) -> tuple[str, int]:
        """File and offset of an address."""
        return self._place(position)

    def copy(self, begin: int, end: int) -> bytes:
        """All bytes from `begin` on, where a file begins, to `end`."""
        parts = []
        for position in range(begin, end, self._file_size):
            parts.append(self.raw(position, min(self._file_size, end - position)))
        return b"".join(parts)


def marked_byte(
    disk: SimDisk, storage: Storage, view: DiskView, random: Random, wanted: Index | None = None
) -> tuple[str, int] | None:
    """A random byte of a record at or below the flush mark and the commit point, None without.

    Of the entry `wanted`, if it is among them.
    """
    found = marked_bytes(disk, storage, view, random, wanted)
    return None if found is None else found[:2]


def marked_bytes(
    disk: SimDisk, storage: Storage, view: DiskView, random: Random, wanted: Index | None = None
) -> tuple[str, int, int] | None:
    """As `marked_byte`, and how many bytes of that record there are from it on."""
    last = min(durable_mark(disk), storage.log.commit_hint)
    if last < storage.log.first_index:
        return None
    index = Index(random.randint(storage.log.first_index, last))
    if wanted is not None and storage.log.first_index <= wanted <= last:
        index = wanted
    try:
        position = storage.log.position_of(index)
    except StoreDamaged:
        return None  # it is rotten already
    size = view.header(position)[1]
    before = random.randrange(size)
    name, offset = view.place(position + before)
    if name not in disk.names.seen:
        return None  # it is being deleted
    return name, offset, size - before
